//! The protobuf encoding (M28 to M31) against prost-reflect, and on input that nobody meant well.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "../../../schema/tests/common/random.rs"]
mod schemas;

mod bounds;
mod gather;
mod merge;
mod oracle;
mod random;
mod support;
