//! What a channel does about calls that fail, are slow, or find no server: timeouts, retries,
//! hedging, a budget for both, and waiting for a connection.
//!
//! A [`Policies`] is fixed when a channel is made, from gRPC's service-config JSON
//! ([`Policies::from_json`]) or by a [`PoliciesBuilder`]. A [`CallPlan`] is one call's way through
//! its [`MethodPolicy`]: the driver asks it what to send and tells it how each attempt ended. Time,
//! randomness and the channel's [`RetryBudget`] are arguments.
//!
//! The rules are gRPC's gRFC A6 (its definition of backoff of August 2024), with R12 of
//! `spec/call.md` for what certainly has not run and for idempotent methods.
//!
//! Invariants: a call never has more attempts than its policy allows, those aside that certainly
//! did not run; the budget stays within 0 and its maximum; nothing is sent after the deadline.

mod budget;
mod codes;
mod config;
mod duration;
mod error;
mod json;
mod plan;

use core::time::Duration;

pub use crate::session_index::ATTEMPTS_MAX;
pub use budget::{RetryBudget, Throttling};
pub use codes::CodeSet;
pub use config::{Policies, PoliciesBuilder};
pub use error::{ConfigError, Problem};
pub(crate) use plan::jittered;
pub use plan::{AttemptEnd, CallPlan, Fate, Pushback, Step, TRANSPARENT_MAX, Verdict};

/// How calls of a method are made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MethodPolicy {
    /// Time for the whole call, all attempts together; a request's own timeout applies if shorter.
    pub timeout: Option<Duration>,
    /// Calls wait while no server can be reached, instead of failing with `UNAVAILABLE`.
    pub wait_for_ready: bool,
    /// The longest request in bytes of protobuf's encoding, before compression; of a stream, each
    /// message. A longer one is not sent, and its call is `RESOURCE_EXHAUSTED`.
    pub request_bytes_max: Option<u32>,
    /// The longest response likewise, after decompression. A longer one is not given to the
    /// caller, though the method has run.
    pub response_bytes_max: Option<u32>,
    /// Whether a request is sent more than once.
    pub attempts: Attempts,
}

impl MethodPolicy {
    /// The timeout that applies to a call for which the caller asked `asked`: the shorter one.
    pub fn timeout(&self, asked: Option<Duration>) -> Option<Duration> {
        match (self.timeout, asked) {
            (Some(policy), Some(asked)) => Some(policy.min(asked)),
            (policy, asked) => policy.or(asked),
        }
    }
}

/// Whether a request is sent more than once. What certainly has not run is sent again in any case
/// (R12, "transparent retries" of A6).
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Attempts {
    /// Once.
    #[default]
    Once,
    /// Again, after it has failed.
    Retry(RetryPolicy),
    /// Again, while there is no answer. Only of idempotent methods; others are sent once.
    Hedge(HedgePolicy),
}

/// How a failed call is tried again (A6, "Retry Policy Capabilities").
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Attempts at most, the first included; fewer than 2 mean no retry.
    pub attempts_max: u32,
    /// Wait before the first retry, before jitter of a fifth either way.
    pub backoff_initial: Duration,
    /// The longest wait, before jitter.
    pub backoff_max: Duration,
    /// By what each wait is longer than the one before; above 0.
    pub backoff_multiplier: f64,
    /// Statuses after which a call is tried again. An idempotent method's call is also tried again
    /// after failures below the application (R12: "by policy"), whatever their status.
    pub statuses: CodeSet,
}

impl RetryPolicy {
    /// The wait before retry number `retry`, counted from 0, without jitter.
    pub fn backoff(&self, retry: u32) -> Duration {
        let longest = self.backoff_max.as_secs_f64();
        let exponent = i32::try_from(retry).unwrap_or(i32::MAX);
        let grown = self.backoff_initial.as_secs_f64() * self.backoff_multiplier.powi(exponent);
        // Not `f64::min`, which would let a NaN pass that 0 × ∞ gives.
        let bounded = if grown < longest { grown } else { longest };
        Duration::try_from_secs_f64(bounded).unwrap_or(self.backoff_max)
    }
}

/// How a call is sent again while there is no answer (A6, "Hedging Policy").
#[derive(Clone, Debug, PartialEq)]
pub struct HedgePolicy {
    /// Attempts at most, the first included; fewer than 2 mean no hedging.
    pub attempts_max: u32,
    /// Time between attempts; zero sends all at once.
    pub delay: Duration,
    /// Statuses that do not end the call, but bring the next attempt forward.
    pub non_fatal: CodeSet,
}
