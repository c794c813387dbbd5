//! Counts of values in buckets whose widths grow with the values, as in HdrHistogram.
//!
//! Each doubling is divided into 8 buckets, so that a value is known to 12.5 %. The memory is
//! fixed: values of 2^40 and more, which are 18 minutes in nanoseconds, count as the highest.
//! [`SharedHistogram`] is for several threads, [`LogLinear`] for one.

use crate::sync::{AtomicU64, Ordering};

/// Buckets per doubling, as a power of two.
const SUB_BITS: u32 = 3;
const SUB: usize = 1 << SUB_BITS;
const VALUE_BITS: u32 = 40;
/// As many buckets a histogram has.
pub const LOG_LINEAR_BUCKETS: usize = (VALUE_BITS - SUB_BITS + 1) as usize * SUB;
const BUCKETS: usize = LOG_LINEAR_BUCKETS;

/// A histogram that one thread writes.
#[derive(Clone, Debug)]
pub struct LogLinear {
    buckets: Box<[u64; BUCKETS]>,
}

impl Default for LogLinear {
    fn default() -> LogLinear {
        LogLinear { buckets: Box::new([0; BUCKETS]) }
    }
}

impl LogLinear {
    /// Counts what another one has counted.
    pub fn add(&mut self, other: &LogLinear) {
        self.buckets.iter_mut().zip(other.buckets.iter()).for_each(|(sum, count)| *sum += count);
    }

    /// Counts a value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.buckets[index(value)] += 1;
    }

    /// The buckets that are not empty: index and count.
    pub fn counts(&self) -> Vec<(usize, u64)> {
        let all = self.buckets.iter().copied().enumerate();
        all.filter(|(_, count)| *count > 0).collect()
    }
}

/// A histogram that several threads write. Its numbers say nothing about other memory, so that no
/// ordering is needed.
pub struct SharedHistogram {
    buckets: [AtomicU64; BUCKETS],
}

impl Default for SharedHistogram {
    fn default() -> SharedHistogram {
        SharedHistogram { buckets: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl SharedHistogram {
    /// Counts a value.
    pub fn record(&self, value: u64) {
        self.buckets[index(value)].fetch_add(1, Ordering::Relaxed);
    }

    /// The buckets that are not empty: index and count.
    pub fn counts(&self) -> Vec<(usize, u64)> {
        let all = self.buckets.iter().map(|count| count.load(Ordering::Relaxed)).enumerate();
        all.filter(|(_, count)| *count > 0).collect()
    }

    /// Adds what [`SharedHistogram::counts`] of another one has given.
    pub fn add(&self, counts: &[(usize, u64)]) {
        for (index, count) in counts {
            let index = (*index).min(BUCKETS - 1);
            self.buckets[index].fetch_add(*count, Ordering::Relaxed);
        }
    }
}

/// The least value that at least this part of the values does not exceed, to the width of a bucket.
pub fn log_linear_quantile(counts: &[(usize, u64)], part: f64) -> u64 {
    quantile_of_counts(counts, part).map_or(0, log_linear_highest)
}

/// Of ascending values and how often each has come, the least that at least this part does not
/// exceed; none without any.
pub fn quantile_of_counts<K: Copy>(counts: &[(K, u64)], part: f64) -> Option<K> {
    let total: u64 = counts.iter().map(|(_, count)| count).sum();
    let rank = ((total as f64 * part).ceil() as u64).max(1);
    let mut seen = 0;
    let reaches = |(_, count): &&(K, u64)| {
        seen += count;
        seen >= rank
    };
    counts.iter().find(reaches).map(|(value, _)| *value)
}

#[inline]
fn index(value: u64) -> usize {
    let value = value.min((1 << VALUE_BITS) - 1);
    if value < SUB as u64 {
        return value as usize;
    }
    let exponent = value.ilog2();
    let part = (value >> (exponent - SUB_BITS)) as usize & (SUB - 1);
    (exponent - SUB_BITS + 1) as usize * SUB + part
}

/// The highest value of a bucket.
pub fn log_linear_highest(index: usize) -> u64 {
    if index < SUB {
        return index as u64;
    }
    let shift = index / SUB - 1;
    (((SUB + index % SUB + 1) as u64) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_counts() {
        let counts = [(100, 98), (1000, 1), (9000, 1)];
        for (part, value) in [(0.5, 100), (0.99, 1000), (1.0, 9000)] {
            assert_eq!(quantile_of_counts(&counts, part), Some(value));
        }
        assert_eq!(quantile_of_counts::<u64>(&[], 0.5), None);
    }

    #[test]
    fn buckets_are_next_to_each_other_and_narrow() {
        for at in 0..BUCKETS {
            assert_eq!(index(log_linear_highest(at)), at);
            assert_eq!(index(log_linear_highest(at) + 1), (at + 1).min(BUCKETS - 1));
            let width =
                if at == 0 { 1 } else { log_linear_highest(at) - log_linear_highest(at - 1) };
            assert!(width == 1 || width * 8 <= log_linear_highest(at) + 1, "{at}");
        }
        assert_eq!(index(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_near() {
        let histogram = SharedHistogram::default();
        (1..=1000).for_each(|value| histogram.record(value * 1000));
        let counts = histogram.counts();
        for (part, expected) in [(0.5, 500_000.0), (0.99, 990_000.0), (1.0, 1_000_000.0)] {
            let found = log_linear_quantile(&counts, part) as f64;
            assert!((1.0..1.13).contains(&(found / expected)), "{part}: {found}");
        }
        assert_eq!(log_linear_quantile(&[], 0.5), 0);
        let other = SharedHistogram::default();
        other.add(&counts);
        assert_eq!(other.counts(), counts);
        let mut own = LogLinear::default();
        (1..=1000).for_each(|value| own.record(value * 1000));
        assert_eq!(own.counts(), counts);
    }
}
