//! The JSON mapping, with prost-reflect as the oracle.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod known;
mod oracle;
#[path = "../protobuf/random.rs"]
mod random;
mod refused;
#[path = "../../../schema/tests/common/random.rs"]
mod schemas;
mod support;
mod template;
