//! Token buckets in one atomic number each.
//!
//! The number is the time at which the bucket will be full again: the *theoretical arrival time* of
//! the generic cell rate algorithm (ITU-T I.371, annex A). Taking a token advances this time by the
//! interval between tokens. A token is available as long as the time is at most the burst away. So
//! a bucket needs no timer, and several threads share it without a lock.

use petasos_engine::Time;
use petasos_engine::sync::{AtomicU64, Ordering};

/// Times are counted in parts of a nanosecond, so that high rates are exact to 1 %.
const PARTS: u64 = 16;
const SECOND: u64 = 1_000_000_000 * PARTS;
/// The highest rate of tokens that is exact enough.
pub(crate) const RATE_MAX: u64 = 100_000_000;

/// How fast buckets are filled, and how much they contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    per_second: u64,
    /// The time that a token takes to come, in parts.
    token: u64,
    /// The time that a whole bucket takes to fill, in parts.
    burst: u64,
}

impl Rate {
    /// # Panics
    /// If `per_second` is 0.
    pub(crate) fn new(per_second: u64, burst: u64) -> Rate {
        let rate = Rate { per_second, token: 0, burst: 0 };
        Rate { token: rate.time_of(1), burst: rate.time_of(burst), ..rate }
    }

    /// The time that so many tokens take to come, in parts.
    fn time_of(&self, tokens: u64) -> u64 {
        let time = u128::from(tokens) * u128::from(SECOND) / u128::from(self.per_second);
        u64::try_from(time).unwrap_or(u64::MAX).max(1)
    }

    /// Takes a token.
    ///
    /// # Errors
    /// There is none; one is expected at the time given.
    #[inline]
    pub(crate) fn take(&self, bucket: &Bucket, now: Time) -> Result<(), Time> {
        // A state from another configuration or clock must not block for longer than ours.
        let parts = now.as_nanos().saturating_mul(PARTS);
        let latest = parts.saturating_add(self.burst);
        let mut full_at = bucket.full_at.load(Ordering::Relaxed);
        if full_at > latest {
            full_at = bucket.full_at.fetch_min(latest, Ordering::Relaxed).min(latest);
        }
        loop {
            let base = full_at.max(parts);
            let earliest = self.earliest(base, self.token);
            if earliest > parts {
                return Err(Time::from_nanos(earliest.div_ceil(PARTS)));
            }
            let next = base.saturating_add(self.token);
            let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            match bucket.full_at.compare_exchange_weak(full_at, next, success, failure) {
                Ok(_) => return Ok(()),
                Err(found) => full_at = found,
            }
        }
    }

    /// Until when so many tokens are not there, if they are not: or as many as the bucket can have,
    /// if they are more.
    pub(crate) fn wait_for(&self, bucket: &Bucket, now: Time, tokens: u64) -> Option<Time> {
        let parts = now.as_nanos().saturating_mul(PARTS);
        let base = bucket.full_at.load(Ordering::Relaxed).max(parts);
        let earliest = self.earliest(base, self.time_of(tokens));
        (earliest > parts).then(|| Time::from_nanos(earliest.div_ceil(PARTS)))
    }

    /// Takes so many tokens although they may not be there: others wait for longer then, but no
    /// longer than a second for what was taken before this.
    pub(crate) fn charge(&self, bucket: &Bucket, now: Time, tokens: u64) {
        let parts = now.as_nanos().saturating_mul(PARTS);
        let cost = self.time_of(tokens);
        let latest = parts.saturating_add(self.burst).saturating_add(SECOND).saturating_add(cost);
        let more = |full_at: u64| Some(full_at.max(parts).saturating_add(cost).min(latest));
        let _ = bucket.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    /// When tokens that take so long to come are there, of a bucket that is full at `full_at`.
    fn earliest(&self, full_at: u64, cost: u64) -> u64 {
        full_at.saturating_add(cost.min(self.burst)).saturating_sub(self.burst)
    }
}

/// A bucket; a new one is full. The number says nothing about other memory, so that no ordering is
/// needed.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    /// In parts of a nanosecond of the clock.
    full_at: AtomicU64,
}

impl Bucket {
    /// Whether the bucket is full, as a new one is.
    pub(crate) fn is_full(&self, now: Time) -> bool {
        self.full_at.load(Ordering::Relaxed) <= now.as_nanos().saturating_mul(PARTS)
    }

    /// When the bucket is full again, for a state.
    pub(crate) fn full_at_ns(&self) -> u64 {
        self.full_at.load(Ordering::Relaxed).div_ceil(PARTS)
    }

    /// Goes on from a state.
    pub(crate) fn set_full_at_ns(&self, nanos: u64) {
        self.full_at.store(nanos.saturating_mul(PARTS), Ordering::Relaxed);
    }

    /// Goes on from the state of one of several that used the bucket: from the latest.
    pub(crate) fn advance_full_at_ns(&self, nanos: u64) {
        self.full_at.fetch_max(nanos.saturating_mul(PARTS), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(us: u64) -> Time {
        Time::from_nanos(us * 1000)
    }

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let (rate, bucket) = (Rate::new(1000, 5), Bucket::default());
        let taken = (0..20).filter(|_| rate.take(&bucket, at(0)).is_ok()).count();
        assert_eq!(taken, 5);
        assert_eq!(rate.take(&bucket, at(0)), Err(at(1000)));
        assert_eq!(rate.take(&bucket, at(1000)), Ok(()));
        assert!(!bucket.is_full(at(5999)) && bucket.is_full(at(6000)));
    }

    #[test]
    fn high_rates_are_exact() {
        for per_second in [1, 3, 999, 7_000_000, RATE_MAX] {
            let (rate, bucket) = (Rate::new(per_second, 1), Bucket::default());
            let mut now = Time::ZERO;
            for _ in 0..1000 {
                while let Err(later) = rate.take(&bucket, now) {
                    now = later;
                }
            }
            let expected = 999.0e9 / per_second as f64;
            let ratio = now.as_nanos() as f64 / expected;
            assert!((0.99..1.01).contains(&ratio), "{per_second}: {ratio}");
        }
    }

    #[test]
    fn what_exceeds_the_bucket_passes_when_it_is_full_and_is_paid_for_later() {
        let (rate, bucket) = (Rate::new(1000, 5), Bucket::default());
        assert_eq!(rate.wait_for(&bucket, at(0), 50), None);
        rate.charge(&bucket, at(0), 50);
        assert_eq!(rate.wait_for(&bucket, at(0), 50), Some(at(50_000)));
        assert_eq!(rate.wait_for(&bucket, at(0), 1), Some(at(46_000)));
    }

    #[test]
    fn what_is_taken_in_advance_has_a_limit() {
        let (rate, bucket) = (Rate::new(1, 5), Bucket::default());
        (0..1000).for_each(|_| rate.charge(&bucket, at(0), 1));
        assert_eq!(rate.wait_for(&bucket, at(0), 1), Some(at(3_000_000)));
        (0..1000).for_each(|_| rate.charge(&bucket, at(0), u64::MAX));
        assert!(rate.wait_for(&bucket, at(0), 1).is_some());
    }

    #[test]
    fn a_time_far_in_the_future_does_not_block() {
        let (rate, bucket) = (Rate::new(1000, 5), Bucket::default());
        bucket.set_full_at_ns(u64::MAX);
        assert_eq!(rate.take(&bucket, at(0)), Err(at(1000)));
        assert_eq!(rate.take(&bucket, at(1000)), Ok(()));
    }
}
