//! When requests are due.
//!
//! Poisson arrivals are those of a Poisson process *given their number*: that many times, uniform
//! and independent over the duration, in order (the order statistics property, for example in
//! Ross, "Stochastic processes", section 2.3). Gaps are exponential and independent as ever. But
//! the number of requests does not vary from run to run, by 1 % for 10,000 of them, so a difference
//! from the rate that was asked for is the generator's. The times are sums of exponential gaps,
//! which are drawn once for their total and once more for the times, so that none are stored.

use core::time::Duration;
use std::sync::Arc;

use petasos_base::Rng;

use crate::trace::Trace;

/// The most requests of a schedule.
pub const REQUESTS_MAX: u64 = 100_000_000;
/// The longest schedule.
const DURATION_MAX: Duration = Duration::from_secs(86_400);
const NANOS_PER_S: f64 = 1e9;

/// How requests arrive.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// At random: gaps are exponential and independent.
    Poisson {
        /// Determines all times.
        seed: u64,
    },
    /// In equal intervals.
    Fixed,
    /// As recorded.
    Trace(Arc<Trace>),
}

/// Why there is no such schedule. The caller's fault.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The rate is not a positive number.
    #[error("{0} requests per second cannot be sent")]
    Rate(f64),
    /// The duration is too short for one request, or longer than a day.
    #[error("a load of {rate} requests per second for {duration:?} has no request, or never ends")]
    Duration {
        /// In requests per second.
        rate: f64,
        /// As it was given.
        duration: Duration,
    },
    /// More than [`REQUESTS_MAX`].
    #[error("these are {0} requests, and {REQUESTS_MAX} are the most")]
    TooMany(u64),
    /// All of the trace's timestamps are equal.
    #[error("no time passes in the trace, so it has no rate")]
    NoTime,
}

/// The times at which requests are due, in nanoseconds from the start, ascending.
#[derive(Clone, Debug)]
pub struct Schedule {
    times: Times,
    next: u64,
    count: u64,
    rate: f64,
    span_ns: u64,
}

#[derive(Clone, Debug)]
enum Times {
    Poisson { rng: Rng, sum: f64, ns_per_sum: f64 },
    Fixed { gap_ns: f64 },
    Trace { trace: Arc<Trace>, scale: f64 },
}

impl Schedule {
    /// Requests at `rate` per second for `duration`. A trace is stretched or compressed to have
    /// this rate.
    ///
    /// # Errors
    /// See [`ScheduleError`].
    pub fn new(
        arrivals: &Arrivals,
        rate: f64,
        duration: Duration,
    ) -> Result<Schedule, ScheduleError> {
        if !(rate.is_finite() && rate > 0.0) {
            return Err(ScheduleError::Rate(rate));
        }
        if let Arrivals::Trace(trace) = arrivals {
            let own = trace.rate().ok_or(ScheduleError::NoTime)?;
            return Ok(Schedule::of_trace(trace, own / rate, duration));
        }
        let expected = (rate * duration.as_secs_f64()).round();
        if expected < 1.0 || duration > DURATION_MAX {
            return Err(ScheduleError::Duration { rate, duration });
        }
        // Numbers beyond those of u64 become its largest.
        let count = expected as u64;
        if count > REQUESTS_MAX {
            return Err(ScheduleError::TooMany(count));
        }
        let span_ns = duration.as_nanos() as u64;
        let times = match arrivals {
            Arrivals::Poisson { seed } => Times::poisson(*seed, count, span_ns),
            _ => Times::Fixed { gap_ns: NANOS_PER_S / rate },
        };
        Ok(Schedule { times, next: 0, count, rate, span_ns })
    }

    /// A trace as it was recorded, up to `duration`.
    pub fn recorded(trace: &Arc<Trace>, duration: Duration) -> Schedule {
        Schedule::of_trace(trace, 1.0, duration)
    }

    fn of_trace(trace: &Arc<Trace>, scale: f64, duration: Duration) -> Schedule {
        let end_ns = duration.min(DURATION_MAX).as_nanos() as u64;
        let count = trace.times().partition_point(|time| scaled(*time, scale) < end_ns);
        // The first time is 0, so there is a last one before any end but 0.
        let last = trace.times()[..count].last().map_or(0, |time| scaled(*time, scale));
        let rate = count.saturating_sub(1) as f64 * NANOS_PER_S / last.max(1) as f64;
        let times = Times::Trace { trace: trace.clone(), scale };
        Schedule { times, next: 0, count: count as u64, rate, span_ns: last }
    }

    /// How many requests there are in all.
    pub fn requests(&self) -> u64 {
        self.count
    }

    /// The rate that was asked for, or that of the trace, per second.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The duration, or the time of a trace's last request, in nanoseconds.
    pub fn span_ns(&self) -> u64 {
        self.span_ns
    }

    /// Whether gaps should be exponential and independent.
    pub fn is_poisson(&self) -> bool {
        matches!(self.times, Times::Poisson { .. })
    }
}

impl Iterator for Schedule {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        if self.next == self.count {
            return None;
        }
        let index = self.next;
        self.next += 1;
        Some(self.times.at(index))
    }
}

impl Times {
    fn poisson(seed: u64, count: u64, span_ns: u64) -> Times {
        let mut rng = Rng::new(seed);
        // The gap after the last request counts, too.
        let total: f64 = (0..=count).map(|_| rng.exponential()).sum();
        Times::Poisson { rng: Rng::new(seed), sum: 0.0, ns_per_sum: span_ns as f64 / total }
    }

    /// The time of request `index`; called once for each, in order.
    #[inline]
    fn at(&mut self, index: u64) -> u64 {
        match self {
            Times::Poisson { rng, sum, ns_per_sum } => {
                *sum += rng.exponential();
                (*sum * *ns_per_sum) as u64
            }
            Times::Fixed { gap_ns } => (index as f64 * *gap_ns).round() as u64,
            Times::Trace { trace, scale } => scaled(trace.times()[index as usize], *scale),
        }
    }
}

fn scaled(time_ns: u64, scale: f64) -> u64 {
    // Exact where nothing is to be scaled: large times are not all numbers of f64.
    if scale.total_cmp(&1.0).is_eq() { time_ns } else { (time_ns as f64 * scale).round() as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn times(arrivals: &Arrivals, rate: f64, duration: Duration) -> Vec<u64> {
        Schedule::new(arrivals, rate, duration).expect("it is possible").collect()
    }

    #[test]
    fn fixed_times_are_exact() {
        let duration = 3000 * SECOND;
        let schedule = Schedule::new(&Arrivals::Fixed, 3.0, duration).expect("it is possible");
        assert_eq!((schedule.requests(), schedule.span_ns()), (9000, 3_000_000_000_000));
        for (index, time) in schedule.enumerate() {
            let thirds = (index as u64 * 1_000_000_000 + 1) / 3;
            assert_eq!(time, thirds, "{index}");
        }
    }

    #[test]
    fn poisson_times_ascend_within_the_duration_and_a_seed_determines_them() {
        let of = |seed| times(&Arrivals::Poisson { seed }, 5000.0, SECOND);
        for seed in 0..100 {
            let times = of(seed);
            assert_eq!(times.len(), 5000);
            assert!(times.is_sorted() && times[4999] <= 1_000_000_000);
            assert_eq!(times, of(seed));
        }
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn a_trace_keeps_its_times_or_is_stretched() {
        let text = "1700000000.5\n1700000000.500000007\n1700000001.5\n1700000002.5\n";
        let trace = Arc::new(Trace::read(text.as_bytes()).expect("it is a trace"));
        let recorded: Vec<u64> = Schedule::recorded(&trace, 2 * SECOND).collect();
        assert_eq!(recorded, [0, 7, 1_000_000_000], "what is not before the end is cut");
        let arrivals = Arrivals::Trace(trace);
        assert_eq!(times(&arrivals, 3.0, 9 * SECOND), [0, 4, 500_000_000, 1_000_000_000]);
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        let refused = |rate, duration| Schedule::new(&Arrivals::Fixed, rate, duration).unwrap_err();
        for rate in [0.0, -1.0, f64::INFINITY] {
            assert_eq!(refused(rate, SECOND), ScheduleError::Rate(rate));
        }
        assert!(matches!(refused(f64::NAN, SECOND), ScheduleError::Rate(_)));
        assert!(matches!(refused(0.1, SECOND), ScheduleError::Duration { .. }));
        assert!(matches!(refused(1.0, Duration::MAX), ScheduleError::Duration { .. }));
        assert_eq!(refused(1e300, SECOND), ScheduleError::TooMany(u64::MAX));
        let still = Arc::new(Trace::read(&b"5\n5\n"[..]).expect("it is a trace"));
        let still = Schedule::new(&Arrivals::Trace(still), 1.0, SECOND);
        assert_eq!(still.unwrap_err(), ScheduleError::NoTime);
    }
}
