//! Latencies in nanoseconds, kept to three significant digits over their whole range.
//!
//! Recording allocates nothing and is cheap enough for every round trip of a spinning ping-pong.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Latencies of one turn or of many.
///
/// Crosses process boundaries as a list of `[nanoseconds, count]` pairs.
#[derive(Clone, Debug)]
pub struct Histogram {
    inner: hdrhistogram::Histogram<u64>,
}

/// The percentiles that every experiment reports, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Half of the round trips took at most this long.
    pub p50_us: f64,
    /// 90 % of the round trips took at most this long.
    pub p90_us: f64,
    /// 99 % of the round trips took at most this long.
    pub p99_us: f64,
    /// 99.9 % of the round trips took at most this long.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
}

impl Histogram {
    /// An empty histogram from 1 ns to 100 s. A value outside is recorded as the nearest bound.
    pub fn new() -> Histogram {
        let inner = hdrhistogram::Histogram::new_with_bounds(1, NANOS_MAX, SIGNIFICANT_DIGITS)
            .expect("the bounds are constants that the library accepts");
        Histogram { inner }
    }

    /// Adds one latency, in nanoseconds.
    #[inline]
    pub fn record_ns(&mut self, nanos: u64) {
        self.inner.saturating_record(nanos);
    }

    /// Adds a latency, in nanoseconds, that `count` calls had.
    pub fn record_many_ns(&mut self, nanos: u64, count: u64) {
        self.inner.saturating_record_n(nanos, count);
    }

    /// Adds all latencies of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        self.inner.add(&other.inner).expect("all histograms share the same bounds");
    }

    /// Latencies recorded.
    pub fn count(&self) -> u64 {
        self.inner.len()
    }

    /// The latency in microseconds that a fraction `quantile` (0 to 1) does not exceed;
    /// `None` while nothing is recorded.
    pub fn quantile_us(&self, quantile: f64) -> Option<f64> {
        (self.count() > 0).then(|| to_us(self.inner.value_at_quantile(quantile)))
    }

    /// The reported percentiles; `None` while nothing is recorded.
    pub fn latency(&self) -> Option<Latency> {
        let at = |quantile| self.quantile_us(quantile);
        Some(Latency {
            p50_us: at(0.5)?,
            p90_us: at(0.9)?,
            p99_us: at(0.99)?,
            p999_us: at(0.999)?,
            max_us: at(1.0)?,
        })
    }

    /// Every recorded value in nanoseconds with its count, ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.inner.iter_recorded().map(|it| (it.value_iterated_to(), it.count_at_value()))
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.buckets())
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Histogram, D::Error> {
        let mut histogram = Histogram::new();
        for (nanos, count) in Vec::<(u64, u64)>::deserialize(deserializer)? {
            histogram.inner.saturating_record_n(nanos, count);
        }
        Ok(histogram)
    }
}

fn to_us(nanos: u64) -> f64 {
    nanos as f64 / 1000.0
}

/// 100 s: longer than any call may take.
const NANOS_MAX: u64 = 100_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(values: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::new();
        values.into_iter().for_each(|nanos| histogram.record_ns(nanos));
        histogram
    }

    fn near(left: f64, right: f64) -> bool {
        (left - right).abs() <= right * 0.002
    }

    #[test]
    fn an_empty_histogram_has_no_percentiles() {
        assert_eq!(Histogram::new().latency(), None);
        assert_eq!(Histogram::new().quantile_us(0.5), None);
    }

    #[test]
    fn percentiles_are_in_microseconds() {
        let latency = filled((1..=10_000).map(|i| i * 1000)).latency().expect("it is filled");
        assert!(near(latency.p50_us, 5000.0), "{latency:?}");
        assert!(near(latency.p90_us, 9000.0), "{latency:?}");
        assert!(near(latency.p99_us, 9900.0), "{latency:?}");
        assert!(near(latency.p999_us, 9990.0), "{latency:?}");
        assert!(near(latency.max_us, 10_000.0), "{latency:?}");
    }

    #[test]
    fn values_outside_the_bounds_are_kept_at_the_bounds() {
        let histogram = filled([0, u64::MAX]);
        assert_eq!(histogram.count(), 2);
        assert!(near(histogram.quantile_us(1.0).expect("it is filled"), 1e8));
    }

    #[test]
    fn merging_adds_every_value() {
        let mut merged = filled([1000, 2000]);
        merged.merge(&filled([3000]));
        assert_eq!(merged.count(), 3);
        assert!(near(merged.quantile_us(1.0).expect("it is filled"), 3.0));
    }

    #[test]
    fn a_histogram_survives_the_way_to_another_process() {
        let sent = filled([5, 5, 4321, 77_000_000]);
        let text = serde_json::to_string(&sent).expect("numbers serialise");
        let received: Histogram = serde_json::from_str(&text).expect("it was just written");
        assert_eq!(received.latency(), sent.latency());
        assert_eq!(received.count(), 4);
    }
}
