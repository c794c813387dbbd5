//! Simulates workers behind a router, to say which latencies a policy has at which load.
//!
//! Decisions are those of `petasos-router`: the same code that a router runs. Around them are
//! workers, delays and random requests, as discrete events (R2P2, section 2.3). [`simulate`] gives
//! a mean and a 99th percentile with their standard errors; [`theory`] says what is known in closed
//! form; [`simulate_all`] runs many models on several threads.
//!
//! How the errors stay small: what is random about service times is integrated out (`tail`), what
//! is random about the input corrects the result (`regression`, `drift`), and runs go on until they
//! are precise. A seed determines all results, whatever the number of threads.
//!
//! Boundary rule: knows the router's core, and no packets, clocks or files.

#![forbid(unsafe_code)]

mod all;
mod batch;
mod drift;
mod due;
mod histogram;
mod model;
mod regression;
mod service;
mod simulate;
mod tail;
mod theory;
mod world;

pub use all::simulate_all;
pub use model::{Discipline, Model, ModelError, UnknownDiscipline};
pub use regression::Estimate;
pub use service::{Service, UnknownService};
pub use simulate::{Effort, Latency, simulate};
pub use theory::{ManyServers, Theory, single_server_wait_mean, theory};
