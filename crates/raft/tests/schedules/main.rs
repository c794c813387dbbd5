//! Schedules, message by message: each would end badly without a rule.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod group;
mod leaders;
mod members;
mod messages;
