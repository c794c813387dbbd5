//! Simulates typed calls and streams on hosts, and checks them.
//!
//! Each host runs a whole [`petasos::Loop`] with virtual time, on a port of `petasos-sim`'s
//! network. Channels, retries, hedging, deadlines, cancellation and streams are the same as in
//! programs. A [`Scenario`] defines the faults. With a seed it is one exact run ([`simulate`]).
//!
//! As in `petasos_sim::cluster`, two parts are separate on purpose: clients and handlers record
//! what they observe (`journal`) and check nothing; the judge (`check`) reads the records and has
//! no influence on the run. The records contain what the application was told. So if the runtime
//! loses, repeats or invents a message, the recorded history is one that no correct runtime
//! produces.
//!
//! The harness sets sessions up (`wiring`); `petasos_sim::cluster` tests the control protocol.
//!
//! In scenarios with routers, calls go by way of these. The real plane of a router is a host
//! (`router`), and the harness plays its control and the nodes that talk to it (`control`). Tags
//! that routers give are secrets: traces of equal seeds differ in these bytes, and in nothing else.
//!
//! Boundary rule: uses the public API, and the part of `petasos-runtime` that lets a caller run a
//! loop step by step. Nothing may depend on this crate.

mod body;
mod check;
mod client;
mod control;
mod dials;
mod event;
mod host;
mod journal;
mod plan;
mod program;
mod router;
mod run;
mod sabotage;
mod scenario;
mod service;
mod streams;
mod wiring;

/// The generated service.
#[allow(missing_docs, clippy::all, reason = "generated")]
mod work {
    petasos::include_proto!("sim");
}

pub use check::Violation;
pub use plan::Tally;
pub use run::{Failure, Summary, simulate, simulate_sabotaged};
pub use sabotage::Sabotage;
pub use scenario::{Scenario, Step, by_name, names};
