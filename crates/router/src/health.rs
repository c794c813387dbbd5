//! Outlier ejection: how much of what a worker got has failed, as in gRPC's A50.
//!
//! What counts as failed is what the router can know. A worker that answers everything at once with
//! an error looks idle, and JBSQ prefers it: only a report of failures ([`Failures::count`]) tells.
//! A slow worker needs no ejection: its slots stay taken.

use core::time::Duration;

use petasos_base::Time;

use crate::config::Ejection;

/// Doublings of an ejection's time are limited by `time_max`, and by this.
const DOUBLINGS_MAX: u32 = 20;

/// What one worker has failed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Failures {
    /// Since when failures are counted, and what was settled then.
    since: Time,
    settled: u64,
    failed: u64,
    /// Ejections in a row, and when the last one ended or will.
    ejections: u32,
    last_end: Time,
}

impl Failures {
    /// Of a worker that has just joined.
    pub(crate) fn new(now: Time) -> Failures {
        Failures { since: now, ..Failures::default() }
    }

    /// Counts failures, which are or will be among what is `settled`. Returns whether the worker is
    /// an outlier now.
    pub(crate) fn count(
        &mut self,
        now: Time,
        failed: u64,
        settled: u64,
        limits: &Ejection,
    ) -> bool {
        if now - self.since >= limits.interval {
            self.begin(now, settled);
        }
        self.failed = self.failed.saturating_add(failed);
        let all = self.failed.max(settled - self.settled);
        let part = |of: u64, percent: u64| u128::from(of) * u128::from(percent);
        let is_over = part(self.failed, 100) >= part(all, limits.failed_percent.into());
        self.failed >= u64::from(limits.failures_min) && is_over
    }

    /// Begins an ejection. Returns when it ends.
    pub(crate) fn eject(&mut self, now: Time, limits: &Ejection) -> Time {
        let is_first = self.ejections == 0 || now - self.last_end >= limits.time_max;
        self.ejections = if is_first { 1 } else { self.ejections + 1 };
        let doublings = (self.ejections - 1).min(DOUBLINGS_MAX);
        let time: Duration = limits.time.saturating_mul(1 << doublings).min(limits.time_max);
        self.last_end = now + time;
        self.last_end
    }

    /// Counts anew.
    pub(crate) fn begin(&mut self, now: Time, settled: u64) {
        (self.since, self.settled, self.failed) = (now, settled, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn only_many_failures_that_are_a_large_part_count() {
        let limits = Ejection { failures_min: 4, failed_percent: 50, ..Ejection::default() };
        let mut failures = Failures::new(at(0));
        assert!(!failures.count(at(1), 3, 0, &limits), "too few");
        assert!(!failures.count(at(1), 1, 9, &limits), "4 of 9");
        assert!(failures.count(at(1), 1, 10, &limits), "5 of 10");
        assert!(!failures.count(at(10), 1, 10, &limits), "the next interval");
        assert!(failures.count(at(11), 3, 18, &limits), "4 of 8: what was settled before is past");
    }

    #[test]
    fn who_fails_everything_is_an_outlier_whatever_the_part() {
        let limits = Ejection { failures_min: 10, failed_percent: 100, ..Ejection::default() };
        let mut failures = Failures::new(at(0));
        // Reports and feedback overtake each other.
        assert!((1..=9).all(|done| !failures.count(at(1), 1, done, &limits)));
        assert!(failures.count(at(1), 1, 9, &limits));
        assert!(failures.count(at(1), u64::MAX, u64::MAX, &limits), "a report of any number");
    }

    #[test]
    fn ejections_in_a_row_take_longer_up_to_a_limit() {
        let limits = Ejection { time_max: Duration::from_secs(5), ..Ejection::default() };
        let mut failures = Failures::new(at(0));
        let mut now = at(0);
        for seconds in [1, 2, 4, 5, 5] {
            let end = failures.eject(now, &limits);
            assert_eq!(end - now, Duration::from_secs(seconds));
            now = end;
        }
        let quiet = now + limits.time_max;
        assert_eq!(failures.eject(quiet, &limits) - quiet, limits.time);
    }
}
