//! A seeded simulation of groups: clients, routers and workers, which all are the real state
//! machines, and a network that loses, copies and reorders their packets.
//!
//! It exists because at most once has to be true of three parties together, whatever crashes: a
//! client's pairs and sessions, the router's core, and a worker's taken requests each keep their
//! own promises, and only here meet. A [`World`] owns virtual time; one seed gives one run.
//!
//! What it judges ([`Judge`]), of calls that claim and of calls that go whole:
//! - each call ends once, with its own response, unless its client has crashed;
//! - the handler of a claim's request runs once at most, in all workers together (RT15);
//! - what is said not to have run has not, and never does;
//! - when all is quiet, no worker holds a number or a session, and routers' slots are all back.
//!
//! Packets have the bytes that they have on a wire. Who has attached and joined is told by the
//! world, with a delay, and not by the control protocol. Nothing is sealed.

#![forbid(unsafe_code)]

mod client;
mod judge;
mod network;
mod router;
mod scenario;
mod sessions;
mod worker;
mod world;

pub use judge::{Judge, Outcome, Verdict};
pub use scenario::Scenario;
pub use world::World;

/// Runs a scenario, and judges it.
///
/// # Errors
/// What was not as it should be, with the seed.
pub fn simulate(scenario: &Scenario, seed: u64) -> Result<Verdict, String> {
    let mut world = World::new(scenario, seed);
    world.run();
    world.verdict().map_err(|wrong| format!("seed {seed}: {wrong}"))
}
