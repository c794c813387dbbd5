//! Policies of a channel: timeouts, retries, hedging, a budget for both, and waiting for a
//! connection.
//!
//! A channel gets its [`Policies`] when it is made, from gRPC's service-config JSON
//! ([`Policies::from_json`]) or a [`PoliciesBuilder`]. A [`CallPlan`] applies a [`MethodPolicy`] to
//! one call: the driver asks it what to send, and reports how each attempt ended. Time, randomness
//! and the channel's [`RetryBudget`] are arguments.
//!
//! The rules are those of gRPC's gRFC A6 (with the definition of backoff of August 2024). R12 of
//! `spec/call.md` adds rules for requests that have certainly not run, and for idempotent methods.
//!
//! Invariants: a call never has more attempts than its policy allows, not counting those that have
//! certainly not run. The budget stays between 0 and its maximum. Nothing is sent after the
//! deadline.

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

/// The settings for calls of a method.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MethodPolicy {
    /// Timeout of the whole call, including all attempts. A request's own timeout applies if it is
    /// shorter.
    pub timeout: Option<Duration>,
    /// While no server is reachable, calls wait instead of failing with `UNAVAILABLE`.
    pub wait_for_ready: bool,
    /// The longest request, in bytes of protobuf's encoding before compression; for streams, of
    /// each message. A longer one is not sent, and its call fails with `RESOURCE_EXHAUSTED`.
    pub request_bytes_max: Option<u32>,
    /// The longest response, measured in the same way after decompression. A longer one is not
    /// passed to the caller, although the method has run.
    pub response_bytes_max: Option<u32>,
    /// Whether a request may be sent more than once.
    pub attempts: Attempts,
}

impl MethodPolicy {
    /// The timeout for a call whose request asks for `asked`: the shorter one.
    pub fn timeout(&self, asked: Option<Duration>) -> Option<Duration> {
        match (self.timeout, asked) {
            (Some(policy), Some(asked)) => Some(policy.min(asked)),
            (policy, asked) => policy.or(asked),
        }
    }
}

/// Whether a request may be sent more than once. A request that has certainly not run is always
/// sent again (R12, "transparent retries" of A6).
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Attempts {
    /// Once.
    #[default]
    Once,
    /// Again, after it has failed.
    Retry(RetryPolicy),
    /// Again, while there is no answer. Only for idempotent methods; others are sent once.
    Hedge(HedgePolicy),
}

/// How a failed call is retried (A6, "Retry Policy Capabilities").
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    /// The most attempts, including the first; less than 2 means no retry.
    pub attempts_max: u32,
    /// The wait before the first retry. Jitter changes it by up to 20 %.
    pub backoff_initial: Duration,
    /// The longest wait, before jitter.
    pub backoff_max: Duration,
    /// The factor by which each wait grows; above 0.
    pub backoff_multiplier: f64,
    /// Statuses after which a call is retried. A call of an idempotent method is also retried after
    /// failures below the application (R12: "by policy"), whatever their status.
    pub statuses: CodeSet,
}

impl RetryPolicy {
    /// The wait before retry number `retry`, which counts from 0, without jitter.
    pub fn backoff(&self, retry: u32) -> Duration {
        let longest = self.backoff_max.as_secs_f64();
        let exponent = i32::try_from(retry).unwrap_or(i32::MAX);
        let grown = self.backoff_initial.as_secs_f64() * self.backoff_multiplier.powi(exponent);
        // `f64::min` would hide the NaN of 0 × ∞.
        let bounded = if grown < longest { grown } else { longest };
        Duration::try_from_secs_f64(bounded).unwrap_or(self.backoff_max)
    }
}

/// How further attempts are sent while there is no answer (A6, "Hedging Policy").
#[derive(Clone, Debug, PartialEq)]
pub struct HedgePolicy {
    /// The most attempts, including the first; less than 2 means no hedging.
    pub attempts_max: u32,
    /// The time between attempts; zero sends all at once.
    pub delay: Duration,
    /// Statuses that do not end the call, but start the next attempt early.
    pub non_fatal: CodeSet,
}
