//! A seeded simulation of groups: clients, routers and workers, which all are the real state
//! machines, and a network that loses, copies and reorders their packets.
//!
//! It exists because at most once has to be true of three parties together, whatever crashes: a
//! client's pairs and sessions, the router's core, and a worker's taken requests each keep their
//! own promises, and only here meet. The world owns virtual time; one seed gives one run.
//!
//! What it judges, of calls that claim and of calls that go whole:
//! - each call ends once, with its own response, unless its client has crashed;
//! - the handler of a claim's request runs once at most, in all workers together (RT15);
//! - what is said not to have run has not, and never does;
//! - when all is quiet, no worker holds a number or a session, and routers' slots are all back.
//!
//! Packets have the bytes that they have on a wire. Who has attached and joined is told by the
//! world, with a delay, and not by the control protocol. Nothing is sealed.

#![forbid(unsafe_code)]

mod claimer;
mod client;
mod forger;
mod judge;
mod network;
mod router;
mod run;
mod sabotage;
mod scenario;
mod sessions;
mod worker;
mod world;

pub use judge::Verdict;
pub use run::{Failure, simulate, simulate_sabotaged};
pub use sabotage::Sabotage;
pub use scenario::Scenario;
