//! Clusters of whole endpoints under a generated workload, watched by checkers.
//!
//! A [`Scenario`] says what the cluster is, what is asked of it and what goes wrong; with a seed
//! it is one exact run ([`simulate`]). The hosts run `petasos_endpoint::Endpoint`, unchanged.
//!
//! Separate on purpose: the workload (`plan`, `app`) reports events and judges nothing, the
//! checkers (`check`) see events and drive nothing.

mod app;
mod check;
mod control;
mod message;
mod node;
mod plan;
mod run;
mod scenario;
mod scenarios;
mod sessions;

pub use app::Tally;
pub use check::{Life, Violation};
pub use control::ControlTally;
pub use plan::{Method, Plan, Workload};
pub use run::{Failure, Summary, simulate};
pub use scenario::{Scenario, Shape, Step, Who};
pub use scenarios::{by_name, names};
