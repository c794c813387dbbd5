//! What a run has measured, and whether it may be reported.

use core::time::Duration;

use crate::checks::{Checks, P_MIN, RATE_ERROR_MAX};
use crate::latencies::Latencies;
use crate::refusal::Refusal;

/// How late requests were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Half of them were at most this late.
    pub p50: Duration,
    /// 99 % of them were at most this late.
    pub p99: Duration,
    /// The latest.
    pub max: Duration,
}

/// What a run has measured.
#[derive(Debug)]
pub struct Outcome {
    /// The scheduled load, in requests per second.
    pub load: f64,
    /// How many requests were answered per second.
    pub ops_per_s: f64,
    /// From the scheduled times, of requests that did not fail.
    pub latencies: Latencies,
    /// What the times were like at which requests were sent.
    pub checks: Checks,
    /// How late these were.
    pub lag: Lag,
    /// How many requests were answered.
    pub answered: u64,
    /// How many failed.
    pub failed: u64,
    /// Why the first of these failed.
    pub reason: Option<String>,
}

/// A run that is over. Its outcome is there if it may be reported, or with the reasons why not.
#[derive(Debug)]
#[must_use = "it has the outcome"]
pub struct Run {
    outcome: Outcome,
    lag_max: Duration,
}

impl Run {
    pub(crate) fn new(outcome: Outcome, lag_max: Duration) -> Run {
        Run { outcome, lag_max }
    }

    /// The outcome, if requests were sent as they should be.
    ///
    /// # Errors
    /// The first reason why not.
    pub fn report(self) -> Result<Outcome, Refusal> {
        match self.refusals().into_iter().next() {
            Some(refusal) => Err(refusal),
            None => Ok(self.outcome),
        }
    }

    /// The outcome, and all reasons not to believe it.
    pub fn report_anyway(self) -> (Outcome, Vec<Refusal>) {
        let refusals = self.refusals();
        (self.outcome, refusals)
    }

    fn refusals(&self) -> Vec<Refusal> {
        let Outcome { checks, lag, .. } = &self.outcome;
        let mut refusals = Vec::new();
        if lag.p99 > self.lag_max {
            refusals.push(Refusal::Late { p99: lag.p99, bound: self.lag_max });
        }
        if checks.rate_error.abs() > RATE_ERROR_MAX {
            refusals.push(Refusal::Rate(checks.rate_error));
        }
        let small = |p: &f64| *p < P_MIN;
        refusals.extend(checks.p_exponential.filter(small).map(Refusal::NotExponential));
        refusals.extend(checks.p_independent.filter(small).map(Refusal::NotIndependent));
        refusals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusals(checks: Checks, p99: Duration) -> Vec<Refusal> {
        let outcome = Outcome {
            load: 1.0,
            ops_per_s: 1.0,
            latencies: Latencies::new(1),
            checks,
            lag: Lag { p99, ..Lag::default() },
            answered: 1,
            failed: 0,
            reason: None,
        };
        Run::new(outcome, Duration::from_millis(1)).report_anyway().1
    }

    #[test]
    fn each_check_has_its_bound() {
        let late = Duration::from_micros(1001);
        let good =
            Checks { rate_error: 0.01, p_exponential: Some(0.001), p_independent: Some(0.001) };
        assert_eq!(refusals(good, Duration::from_millis(1)), []);
        assert!(matches!(refusals(good, late)[..], [Refusal::Late { .. }]));
        let slow = Checks { rate_error: -0.0101, ..good };
        assert_eq!(refusals(slow, Duration::ZERO), [Refusal::Rate(-0.0101)]);
        let regular = Checks { p_exponential: Some(0.0009), ..good };
        assert_eq!(refusals(regular, Duration::ZERO), [Refusal::NotExponential(0.0009)]);
        let correlated = Checks { p_independent: Some(0.0009), ..good };
        assert_eq!(refusals(correlated, Duration::ZERO), [Refusal::NotIndependent(0.0009)]);
        assert_eq!(refusals(Checks { rate_error: 0.02, ..correlated }, late).len(), 3);
    }
}
