//! Round-trip estimate and retransmission timeout (RFC 6298, with exact samples: W6 echoes).

use core::time::Duration;

use petasos_base::Time;

use crate::TimerConfig;

/// Smoothed round trip and its variation, in nanoseconds. A round trip updates only these; the
/// timeout is computed when a timer is set.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RoundTrip {
    smoothed_ns: u32,
    variation_ns: u32,
}

/// What a timeout depends on besides the round trip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeout {
    initial_ns: u32,
    min_ns: u32,
    max_ns: u32,
    /// How often the timeout is doubled for a peer that pauses: 0 to [`PATIENCE_MAX`].
    patience: u8,
    /// When `patience` was last needed or lowered.
    patience_at: Time,
}

/// With the shortest timeout of 4 ms this makes 32 ms. A process that waits while the scheduler
/// runs several others is back by then.
const PATIENCE_MAX: u8 = 3;
/// After this long without a needless retransmission, the timeout is halved.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longer samples are cut to this: four seconds in 32 bits of nanoseconds.
const SAMPLE_NS_MAX: u64 = 4_000_000_000;

impl RoundTrip {
    /// Takes one round trip of `rtt_ns` into account. Returns whether it is the first.
    #[inline]
    pub(crate) fn sample(&mut self, rtt_ns: u64) -> bool {
        let rtt = rtt_ns.min(SAMPLE_NS_MAX) as u32;
        let first = self.smoothed_ns == 0;
        if first {
            self.smoothed_ns = rtt.max(1);
            self.variation_ns = rtt / 2;
        } else {
            let error = rtt.abs_diff(self.smoothed_ns);
            self.variation_ns = self.variation_ns - self.variation_ns / 4 + error / 4;
            self.smoothed_ns = (self.smoothed_ns - self.smoothed_ns / 8 + rtt / 8).max(1);
        }
        first
    }

    /// An upper bound that round trips rarely exceed, in nanoseconds; 0 before the first sample.
    #[inline]
    pub(crate) fn bound_ns(&self) -> u32 {
        self.smoothed_ns.saturating_add(self.variation_ns.saturating_mul(4))
    }

    /// The smoothed round trip in nanoseconds, `None` before the first sample.
    pub(crate) fn smoothed_ns(&self) -> Option<u64> {
        (self.smoothed_ns != 0).then_some(u64::from(self.smoothed_ns))
    }
}

impl Timeout {
    pub(crate) fn new(timers: &TimerConfig) -> Timeout {
        Timeout {
            initial_ns: nanos(timers.rto_initial),
            min_ns: nanos(timers.rto_min),
            max_ns: nanos(timers.rto_max).max(nanos(timers.rto_min)),
            patience: 0,
            patience_at: Time::ZERO,
        }
    }

    /// Notes a needless retransmission: the original was answered after all. So the peer pauses,
    /// because its process does not get the processor. Samples cannot show that, since thousands of
    /// short round trips lie between two pauses. All packets that one pause has delayed count once.
    #[cold]
    pub(crate) fn on_spurious(&mut self, round_trip: &RoundTrip, now: Time) {
        let another = now.nanos_since(self.patience_at) >= self.rto_ns(round_trip, 0);
        if self.patience == 0 || another {
            self.patience = (self.patience + 1).min(PATIENCE_MAX);
        }
        self.patience_at = now;
    }

    /// Lowers the timeout if no retransmission has been needless for some time. Returns whether it
    /// did.
    pub(crate) fn forget(&mut self, now: Time) -> bool {
        let lowers = self.patience > 0 && now >= self.patience_at + PATIENCE;
        if lowers {
            self.patience -= 1;
            self.patience_at = now;
        }
        lowers
    }

    /// A lower bound of [`Timeout::rto_ns`], in nanoseconds. Equal to it while round trips are
    /// short.
    pub(crate) fn least_ns(&self, round_trip: &RoundTrip) -> u32 {
        let base_ns = if round_trip.smoothed_ns == 0 { self.initial_ns } else { self.min_ns };
        let least_ns = u64::from(base_ns) << self.patience;
        least_ns.min(u64::from(self.max_ns)) as u32
    }

    /// The timeout after `backoff` timeouts in a row, in nanoseconds.
    #[inline]
    pub(crate) fn rto_ns(&self, round_trip: &RoundTrip, backoff: u8) -> u64 {
        let rto = match round_trip.smoothed_ns {
            0 => self.initial_ns,
            // Not `clamp`, which checks its bounds on every call.
            _ => round_trip.bound_ns().max(self.min_ns).min(self.max_ns),
        };
        let rto = u64::from(rto) << (self.patience + backoff.min(16));
        rto.min(u64::from(self.max_ns))
    }
}

#[inline]
fn nanos(duration: core::time::Duration) -> u32 {
    u32::try_from(duration.as_nanos()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both parts together.
    struct Estimator(RoundTrip, Timeout);

    impl Estimator {
        fn new(timers: &TimerConfig) -> Estimator {
            Estimator(RoundTrip::default(), Timeout::new(timers))
        }

        fn sample(&mut self, rtt_ns: u64) {
            self.0.sample(rtt_ns);
        }

        fn on_spurious(&mut self, now: Time) {
            self.1.on_spurious(&self.0, now);
        }

        fn forget(&mut self, now: Time) {
            self.1.forget(now);
        }

        fn rto_ns(&self, backoff: u8) -> u64 {
            self.1.rto_ns(&self.0, backoff)
        }
    }

    #[test]
    fn the_timeout_follows_the_round_trip_within_its_bounds() {
        let timers = TimerConfig::default();
        let mut rtt = Estimator::new(&timers);
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
        let mut rtt = Estimator::new(&TimerConfig::default());
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
        let mut rtt = Estimator::new(&timers);
        for sample in [u64::MAX, 0, u64::MAX, 0, 0, u64::MAX] {
            rtt.sample(sample);
        }
        assert!(rtt.rto_ns(3) <= 400_000_000);
    }
}
