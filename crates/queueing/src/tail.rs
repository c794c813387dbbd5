//! The distribution of latencies: of the sum of a wait and a service time.
//!
//! No policy looks at a request's service time before it begins. Its wait and its service time are
//! therefore independent, and what is observed of waits suffices: the rest is the known
//! distribution of service times. That takes away the randomness of the latter, which is most of
//! it at low load (conditional Monte Carlo).

use crate::histogram::Histogram;
use crate::service::Service;

/// Halvings of an interval until its ends are as near as numbers can be.
const HALVINGS: u32 = 60;
/// No exponential service time of any run is longer.
const EXPONENTIAL_MAX: f64 = 60.0;

/// Latencies in mean service times, prepared for questions.
#[derive(Clone, Debug)]
pub(crate) struct Latencies {
    service: Service,
    buckets: Vec<Bucket>,
    total: f64,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    low: f64,
    high: f64,
    /// How many waits are in this bucket or below it.
    through: f64,
    /// Of these, each counts with `exp(wait - middle)`, middle being that of this bucket.
    discounted: f64,
}

impl Bucket {
    fn middle(&self) -> f64 {
        f64::midpoint(self.low, self.high)
    }
}

impl Latencies {
    /// Of such waits in ticks, of which a mean service time has so many.
    pub(crate) fn new(waits: &Histogram, ticks: f64, service: Service) -> Latencies {
        let mut buckets: Vec<Bucket> = Vec::new();
        for (low, next, count) in waits.buckets() {
            // Whole numbers stand for all that are rounded to them; those who wait 0 do not wait.
            let (low, high) = match low {
                0 => (0.0, 0.0),
                low => ((low as f64 - 0.5) / ticks, (next as f64 - 0.5) / ticks),
            };
            let last = buckets.last();
            let through = last.map_or(0.0, |last| last.through) + count as f64;
            let mut bucket = Bucket { low, high, through, discounted: count as f64 };
            let before = last.map(|last| last.discounted * (last.middle() - bucket.middle()).exp());
            bucket.discounted += before.unwrap_or(0.0);
            buckets.push(bucket);
        }
        let total = buckets.last().map_or(0.0, |last| last.through);
        Latencies { service, buckets, total }
    }

    /// The part of latencies above `time`.
    pub(crate) fn above(&self, time: f64) -> f64 {
        match self.service {
            Service::Exponential => self.above_exponential(time),
            service => {
                let values = service.values().iter();
                values.map(|(value, part)| part * self.waits_above(time - value)).sum()
            }
        }
    }

    fn waits_above(&self, time: f64) -> f64 {
        if time < 0.0 {
            return 1.0;
        }
        let at = self.buckets.partition_point(|bucket| bucket.high <= time);
        let through = at.checked_sub(1).map_or(0.0, |before| self.buckets[before].through);
        let partly =
            self.buckets.get(at).filter(|bucket| bucket.low < time).map_or(0.0, |bucket| {
                (bucket.through - through) * (time - bucket.low) / (bucket.high - bucket.low)
            });
        1.0 - (through + partly) / self.total
    }

    fn above_exponential(&self, time: f64) -> f64 {
        let at = self.buckets.partition_point(|bucket| bucket.middle() <= time);
        let Some(last) = at.checked_sub(1).map(|last| self.buckets[last]) else { return 1.0 };
        let served_later = last.discounted * (last.middle() - time).exp();
        (served_later + self.total - last.through) / self.total
    }

    /// The least time that at most this part of latencies exceeds.
    pub(crate) fn quantile(&self, above: f64) -> f64 {
        let longest_wait = self.buckets.last().map_or(0.0, |last| last.high);
        let longest = self.service.values().iter().map(|(value, _)| *value);
        let (mut low, mut high) = (0.0, longest_wait + longest.fold(EXPONENTIAL_MAX, f64::max));
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            if self.above(middle) <= above {
                high = middle;
            } else {
                low = middle;
            }
        }
        high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(left: f64, right: f64) -> bool {
        (left - right).abs() <= 1e-9 * right.abs().max(1.0)
    }

    #[test]
    fn without_waits_latencies_are_service_times() {
        let mut waits = Histogram::default();
        waits.record(0);
        let latencies = |service| Latencies::new(&waits, 1000.0, service);
        let exponential = latencies(Service::Exponential);
        assert!(near(exponential.above(2.0), (-2f64).exp()));
        assert!(near(exponential.quantile(0.01), 100f64.ln()));
        assert!(near(latencies(Service::Deterministic).quantile(0.01), 1.0));
        let bimodal = latencies(Service::Bimodal1);
        assert!(near(bimodal.quantile(0.2), 0.5) && near(bimodal.quantile(0.01), 5.5));
        assert!(near(bimodal.above(1.0), 0.1));
    }

    #[test]
    fn waits_are_added() {
        let mut waits = Histogram::default();
        // Below 512 ticks, buckets are as wide as a tick.
        [0, 100, 300, 300].into_iter().for_each(|ticks| waits.record(ticks));
        let fixed = Latencies::new(&waits, 100.0, Service::Deterministic);
        for (time, part) in [(0.9, 1.0), (1.5, 0.75), (2.0, 0.625), (3.9, 0.5), (4.1, 0.0)] {
            assert!(near(fixed.above(time), part), "{time}: {}", fixed.above(time));
        }
        let exponential = Latencies::new(&waits, 100.0, Service::Exponential);
        let expected = |time: f64| {
            let of = |wait: f64| (-(time - wait).max(0.0)).exp();
            (of(0.0) + of(1.0) + 2.0 * of(3.0)) / 4.0
        };
        for time in [0.0, 0.5, 1.0, 2.9, 3.1, 7.0] {
            assert!(near(exponential.above(time), expected(time)), "{time}");
        }
        let quantile = exponential.quantile(0.01);
        assert!(near(expected(quantile), 0.01), "{quantile}");
    }
}
