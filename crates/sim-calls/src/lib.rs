//! Typed calls and streams on simulated hosts, watched by checkers.
//!
//! Each host runs a whole [`petasos::Loop`] with virtual time, on a port of `petasos-sim`'s
//! network: channels, retries, hedging, deadlines, cancellation and streams are those of programs.
//! A [`Scenario`] says what goes wrong; with a seed it is one exact run ([`simulate`]).
//!
//! Separate on purpose, as in `petasos_sim::cluster`: clients and handlers write down what they see
//! (`journal`) and judge nothing, the judge (`check`) reads and drives nothing. What they write is
//! what the application was told; so a message that the runtime loses, repeats or invents shows as
//! a history that no correct runtime gives.
//!
//! Sessions are set up by the harness (`wiring`): `petasos_sim::cluster` has the control protocol.
//!
//! Boundary rule: uses the public API and what `petasos-runtime` has for loops that are turned by
//! hand; nothing may depend on it.

mod body;
mod check;
mod client;
mod dials;
mod event;
mod host;
mod journal;
mod plan;
mod run;
mod sabotage;
mod scenario;
mod service;
mod streams;
mod wiring;

/// The service, generated.
#[allow(missing_docs, clippy::all, reason = "generated")]
mod work {
    petasos::include_proto!("sim");
}

pub use check::Violation;
pub use plan::Tally;
pub use run::{Failure, Summary, simulate, simulate_sabotaged};
pub use sabotage::Sabotage;
pub use scenario::{Scenario, Step, by_name, names};
