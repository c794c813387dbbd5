//! Clusters of whole endpoints with a generated workload and checkers.
//!
//! A [`Scenario`] defines the cluster, its workload and its faults. With a seed it is one exact run
//! ([`simulate`]). The hosts run an unchanged `petasos_endpoint::Endpoint`.
//!
//! Two parts are separate on purpose: the workload (`plan`, `app`) reports events and checks
//! nothing, and the checkers (`check`) only read events.

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
pub use sessions::security;
