//! Round-trip estimate and retransmission timeout (RFC 6298, with exact samples: W6 echoes).

use core::time::Duration;

use petasos_base::Time;

use crate::TimerConfig;

/// Smoothed round trip and its variation, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct RttEstimator {
    smoothed_ns: u32,
    variation_ns: u32,
    rto_ns: u32,
    rto_min_ns: u32,
    rto_max_ns: u32,
    /// Doublings of the timeout for a peer that pauses: 0 to [`PATIENCE_MAX`].
    patience: u8,
    /// When the patience was last needed, or last lowered.
    patience_at: Time,
}

/// Together with the shortest timeout of 4 ms, 32 ms: a process that the scheduler lets wait for
/// several others is back by then.
const PATIENCE_MAX: u8 = 3;
/// After this long without a needless retransmission the timeout is halved again.
const PATIENCE: Duration = Duration::from_secs(1);
/// Samples beyond this are held at it: four seconds in 32 bits of nanoseconds.
const SAMPLE_NS_MAX: u64 = 4_000_000_000;

impl RttEstimator {
    /// An estimator that has seen nothing.
    pub fn new(timers: &TimerConfig) -> RttEstimator {
        RttEstimator {
            smoothed_ns: 0,
            variation_ns: 0,
            rto_ns: nanos(timers.rto_initial),
            rto_min_ns: nanos(timers.rto_min),
            rto_max_ns: nanos(timers.rto_max).max(nanos(timers.rto_min)),
            patience: 0,
            patience_at: Time::ZERO,
        }
    }

    /// Takes one round trip of `rtt_ns` into account.
    #[inline]
    pub fn sample(&mut self, rtt_ns: u64) {
        let rtt = rtt_ns.min(SAMPLE_NS_MAX) as u32;
        if self.smoothed_ns == 0 {
            self.smoothed_ns = rtt.max(1);
            self.variation_ns = rtt / 2;
        } else {
            let error = rtt.abs_diff(self.smoothed_ns);
            self.variation_ns = self.variation_ns - self.variation_ns / 4 + error / 4;
            self.smoothed_ns = (self.smoothed_ns - self.smoothed_ns / 8 + rtt / 8).max(1);
        }
        let rto = self.smoothed_ns.saturating_add(self.variation_ns.saturating_mul(4));
        // Not `clamp`: it checks its bounds each time.
        self.rto_ns = rto.max(self.rto_min_ns).min(self.rto_max_ns);
    }

    /// Learns that a retransmission was needless: the answer to what it repeats came after all. So
    /// the peer pauses, because it does not get the processor. Samples do not tell: between two
    /// pauses lie thousands of short ones. What one pause delayed counts once.
    #[cold]
    pub fn on_spurious(&mut self, now: Time) {
        let another = now.nanos_since(self.patience_at) >= self.rto_ns(0);
        if self.patience == 0 || another {
            self.patience = (self.patience + 1).min(PATIENCE_MAX);
        }
        self.patience_at = now;
    }

    /// Lowers the timeout again if retransmissions have not been needless for some time.
    pub fn forget(&mut self, now: Time) {
        if self.patience > 0 && now >= self.patience_at + PATIENCE {
            self.patience -= 1;
            self.patience_at = now;
        }
    }

    /// The timeout after `backoff` fruitless attempts, in nanoseconds.
    #[inline]
    pub fn rto_ns(&self, backoff: u8) -> u64 {
        let rto = u64::from(self.rto_ns) << (self.patience + backoff.min(16));
        rto.min(u64::from(self.rto_max_ns))
    }

    /// The smoothed round trip in nanoseconds, `None` before the first sample.
    pub fn smoothed_ns(&self) -> Option<u64> {
        (self.smoothed_ns != 0).then_some(u64::from(self.smoothed_ns))
    }
}

#[inline]
fn nanos(duration: core::time::Duration) -> u32 {
    u32::try_from(duration.as_nanos()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_follows_the_round_trip_within_its_bounds() {
        let timers = TimerConfig::default();
        let mut rtt = RttEstimator::new(&timers);
        assert_eq!(rtt.rto_ns(0), 10_000_000);
        for _ in 0..100 {
            rtt.sample(10_000);
        }
        assert_eq!(rtt.rto_ns(0), 4_000_000, "held at the floor");
        for _ in 0..100 {
            rtt.sample(50_000_000);
        }
        let rto = rtt.rto_ns(0);
        assert!((50_000_000..60_000_000).contains(&rto), "{rto}");
        assert_eq!(rtt.rto_ns(1), 2 * rto);
        assert_eq!(rtt.rto_ns(200), 400_000_000, "held at the ceiling");
    }

    #[test]
    fn a_peer_that_pauses_is_given_time_until_it_no_longer_does() {
        let ms = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let mut rtt = RttEstimator::new(&TimerConfig::default());
        rtt.sample(10_000);
        assert_eq!(rtt.rto_ns(0), 4_000_000);
        rtt.on_spurious(ms(5_000));
        rtt.on_spurious(ms(5_001));
        assert_eq!(rtt.rto_ns(0), 8_000_000, "one pause");
        (1..10).for_each(|pause| rtt.on_spurious(ms(5_000 + pause * 100)));
        assert_eq!(rtt.rto_ns(0), 32_000_000, "many");
        assert_eq!(rtt.rto_ns(200), 400_000_000, "held at the ceiling");
        rtt.forget(ms(6_899));
        assert_eq!(rtt.rto_ns(0), 32_000_000);
        for (at, rto_ms) in [(6_900, 16), (7_000, 16), (7_900, 8), (9_000, 4), (19_000, 4)] {
            rtt.forget(ms(at));
            assert_eq!(rtt.rto_ns(0), rto_ms * 1_000_000, "at {at} ms");
        }
    }

    #[test]
    fn extreme_samples_do_not_overflow() {
        let timers = TimerConfig::default();
        let mut rtt = RttEstimator::new(&timers);
        for sample in [u64::MAX, 0, u64::MAX, 0, 0, u64::MAX] {
            rtt.sample(sample);
        }
        assert!(rtt.rto_ns(3) <= 400_000_000);
    }
}
