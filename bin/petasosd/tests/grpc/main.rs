//! gRPC through the managed service, with tonic at the other end.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "../../../../crates/endpoint/tests/certificates/mod.rs"]
mod certificates;
#[path = "../facade/support.rs"]
#[allow(dead_code, reason = "each folder of tests uses its own part")]
mod facade;
mod incoming;
mod outgoing;
mod secured;
mod spans;
mod support;
mod tonic_work;
