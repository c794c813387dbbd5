//! Latencies of a run, with the precision of their quantiles.
//!
//! Latencies of requests that follow each other are alike, since they wait in the same queue, so
//! intervals for independent observations would be too short. The run is therefore divided into 20
//! batches of requests in a row, whose quantiles are nearly independent. The deviations are taken
//! from the quantile of the whole run, not from the batches' mean: quantiles of few values are
//! biased (sectioning; Asmussen and Glynn, "Stochastic simulation", section III.5).

use petasos_report::Histogram;

/// How many batches a run has.
const BATCHES: u64 = 20;
/// The 97.5th percentile of Student's distribution with one degree of freedom less than batches.
const STUDENT: f64 = 2.093;

/// Latencies, in batches of requests that follow each other.
#[derive(Debug)]
pub struct Latencies {
    batches: Vec<Histogram>,
    all: Histogram,
    /// How many requests will come.
    expected: u64,
}

/// A quantile of the latency, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantile {
    /// The quantile of the whole run.
    pub value_us: f64,
    /// Its standard error; `None` if batches have too few requests to have this quantile.
    pub stderr_us: Option<f64>,
}

impl Latencies {
    pub(crate) fn new(expected: u64) -> Latencies {
        let batches = (0..BATCHES).map(|_| Histogram::new()).collect();
        Latencies { batches, all: Histogram::new(), expected: expected.max(1) }
    }

    /// Adds the latency of a request, by its number.
    #[inline]
    pub(crate) fn record(&mut self, number: u64, latency_ns: u64) {
        let batch = number * BATCHES / self.expected;
        self.batches[batch as usize].record_ns(latency_ns);
        self.all.record_ns(latency_ns);
    }

    /// All latencies.
    pub fn histogram(&self) -> &Histogram {
        &self.all
    }

    /// A quantile (0 to 1); `None` while nothing is recorded.
    pub fn quantile(&self, quantile: f64) -> Option<Quantile> {
        let value_us = self.all.quantile_us(quantile)?;
        Some(Quantile { value_us, stderr_us: self.stderr_us(quantile, value_us) })
    }

    fn stderr_us(&self, quantile: f64, value_us: f64) -> Option<f64> {
        let mut squares = 0.0;
        for batch in &self.batches {
            // At least one request of each batch must be beyond the quantile.
            let beyond = (batch.count() as f64) * (1.0 - quantile).min(quantile);
            if beyond < 1.0 - 1e-9 {
                return None;
            }
            squares += (batch.quantile_us(quantile)? - value_us).powi(2);
        }
        let batches = BATCHES as f64;
        Some((squares / (batches - 1.0) / batches).sqrt())
    }
}

impl Quantile {
    /// The 95 % confidence interval, in microseconds.
    pub fn interval_us(&self) -> Option<(f64, f64)> {
        let half = self.stderr_us? * STUDENT;
        Some(((self.value_us - half).max(0.0), self.value_us + half))
    }
}

#[cfg(test)]
mod tests {
    use petasos_base::Rng;

    use super::*;

    /// Times in a system with one queue, a load of `load` and exponential service times of 1 ms
    /// (M/M/1); they are exponential with a mean of 1 ms / (1 - load).
    fn queue(seed: u64, load: f64, count: u64) -> Latencies {
        let mut rng = Rng::new(seed);
        let mut latencies = Latencies::new(count);
        // Empty at first, and so for long enough that this does not matter.
        let mut wait = 0.0f64;
        for number in 0..count + 2000 {
            let service = rng.exponential();
            if let Some(counted) = number.checked_sub(2000) {
                latencies.record(counted, ((wait + service) * 1e6) as u64);
            }
            wait = (wait + service - rng.exponential() / load).max(0.0);
        }
        latencies
    }

    /// How many of 200 intervals contain the right value.
    fn covering(load: f64, quantile: f64) -> usize {
        let mean_us = 1000.0 / (1.0 - load);
        let right = -mean_us * (1.0 - quantile).ln();
        let covers = |seed: &u64| {
            let quantile = queue(*seed, load, 40_000).quantile(quantile).expect("it is filled");
            let (low, high) = quantile.interval_us().expect("there are enough");
            low <= right && right <= high
        };
        (0..200).filter(covers).count()
    }

    #[test]
    fn intervals_contain_the_quantiles_as_often_as_they_should() {
        // 190 are expected, with a deviation of 3.
        for quantile in [0.5, 0.99] {
            let covering = covering(0.5, quantile);
            assert!(covering >= 178, "{quantile}: {covering}");
        }
    }

    #[test]
    fn too_few_requests_have_no_interval() {
        let mut latencies = Latencies::new(1000);
        assert_eq!(latencies.quantile(0.5), None);
        (0..1000).for_each(|number| latencies.record(number, number * 1000));
        assert!(latencies.quantile(0.5).expect("filled").interval_us().is_some());
        let p99 = latencies.quantile(0.99).expect("filled");
        assert_eq!((p99.stderr_us, p99.interval_us()), (None, None), "50 in a batch");
        assert!((p99.value_us / 989.0 - 1.0).abs() < 0.002, "{p99:?}");
    }
}
