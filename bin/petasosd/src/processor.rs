//! How much processor time the service works for an application.
//!
//! An application with a quota has a token bucket of processor time. It fills by its share of the
//! time that passes, up to [`BURST`]. What the service does for it is taken out: hearing what it
//! says, its datapath, copies of its messages, and telling it. While the bucket is empty, nothing
//! that it says is heard: its ring fills, and it waits. What others send to it still reaches it, as
//! far as its other quotas let it.
//!
//! What the transport does for its calls to and from other hosts is not counted, nor what carries
//! calls between runtimes. Time is that of the clock: what another program does with the processor
//! while a runtime works counts as its work.

use std::time::Duration;

use petasos_base::{SystemClock, Time};
use thiserror::Error;

/// What may be used at once by an application that has used nothing for a while.
const BURST: Duration = Duration::from_millis(10);
/// What is used beyond the share counts up to this: a thread that the system has stopped seems to
/// have worked for all that time.
const DEBT_MAX: Duration = Duration::from_millis(100);
/// The least share, in percent.
const LEAST: f64 = 0.1;

/// A share that cannot be. The operator's fault.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("processor_percent is at least {LEAST}, and not {0}: 100 or more is all that there is")]
pub struct WrongShare(f64);

/// A share of a processor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(f64);

impl Share {
    /// So many percent of a processor. None if that is all of it.
    ///
    /// # Errors
    /// [`WrongShare`]: it is less than [`LEAST`], or no number.
    pub fn new(percent: f64) -> Result<Option<Share>, WrongShare> {
        // Not a number compares as neither.
        match percent {
            percent if percent >= 100.0 => Ok(None),
            percent if percent >= LEAST => Ok(Some(Share(percent))),
            percent => Err(WrongShare(percent)),
        }
    }

    /// In percent.
    pub fn percent(self) -> f64 {
        self.0
    }
}

/// What an application may still use.
#[derive(Debug)]
pub struct Allowance {
    share: Share,
    clock: SystemClock,
    credit_ns: f64,
    filled_at: Time,
    /// As of the last look: it had used more than it may.
    is_spent: bool,
}

impl Allowance {
    /// An empty one: who attaches again gains nothing by that.
    pub fn new(share: Share, now: Time) -> Allowance {
        let clock = SystemClock::default();
        Allowance { share, clock, credit_ns: 0.0, filled_at: now, is_spent: false }
    }

    /// The time by which work is measured.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// So much was used.
    pub fn spend(&mut self, used_ns: u64) {
        self.credit_ns = (self.credit_ns - used_ns as f64).max(-(DEBT_MAX.as_nanos() as f64));
    }

    /// How long it takes until more may be used, if nothing may now.
    pub fn ready_in(&self) -> Duration {
        // A little more than none.
        let missing_ns = if self.is_spent { 1000.0 - self.credit_ns } else { 0.0 };
        Duration::from_nanos((missing_ns / self.share.percent() * 100.0) as u64)
    }

    /// Whether more may be used now.
    pub fn look(&mut self, now: Time) -> bool {
        let passed_ns = now.nanos_since(self.filled_at) as f64;
        self.filled_at = now;
        let filled = self.credit_ns + passed_ns * self.share.percent() / 100.0;
        self.credit_ns = filled.min(BURST.as_nanos() as f64);
        self.is_spent = self.credit_ns <= 0.0;
        !self.is_spent
    }

    /// What it fills by.
    pub fn share(&self) -> Share {
        self.share
    }

    /// As of the last look: it had used more than it may.
    pub fn is_spent(&self) -> bool {
        self.is_spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_more_than_none_and_less_than_all() {
        for wrong in [0.0, 0.01, -1.0, f64::NAN, f64::NEG_INFINITY] {
            assert!(Share::new(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Share::new(0.5).expect("it is one").map(Share::percent), Some(0.5));
        assert_eq!(Share::new(100.0), Ok(None));
        assert_eq!(Share::new(f64::INFINITY), Ok(None));
    }

    #[test]
    fn over_time_no_more_is_used_than_the_share() {
        let share = Share::new(20.0).expect("it is one").expect("it is not all");
        let mut now = Time::from_nanos(1_000_000);
        let mut allowance = Allowance::new(share, now);
        let (begin, mut used_ns) = (now, 0);
        while now - begin < Duration::from_secs(1) {
            if allowance.look(now) {
                allowance.spend(50_000);
                used_ns += 50_000;
            }
            now = now + Duration::from_micros(50);
        }
        // A fifth of a second.
        assert!((199_900_000..=200_050_000).contains(&used_ns), "{used_ns}");
        assert!(allowance.is_spent() && allowance.ready_in() <= Duration::from_micros(300));
        allowance.spend(u64::MAX);
        assert!(!allowance.look(now));
        let most = Duration::from_millis(501);
        assert!((Duration::from_millis(499)..most).contains(&allowance.ready_in()));
        // After a pause it has no more than the burst.
        now = now + Duration::from_secs(100);
        let mut burst_ns = 0;
        while allowance.look(now) {
            allowance.spend(50_000);
            burst_ns += 50_000;
        }
        assert_eq!(burst_ns, BURST.as_nanos() as u64);
    }
}
