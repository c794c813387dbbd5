//! How often a time was waited for, in fine buckets.
//!
//! Each doubling is divided into 512 buckets, so that a time is known to 0.2 %; within a bucket,
//! times are taken to be spread evenly, which makes quantiles much more precise than that. Zero,
//! which is most frequent, is exact. Buckets are added up to the longest time that has come.

/// Buckets per doubling, as a power of two.
const SUB_BITS: u32 = 9;
const SUB: u64 = 1 << SUB_BITS;

/// Counts of times in ticks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
}

impl Histogram {
    /// Counts a time.
    #[inline]
    pub(crate) fn record(&mut self, ticks: u64) {
        let index = index(ticks);
        if index >= self.counts.len() {
            // Rare: the time is longer than any before by more than what is added here.
            self.counts.resize(index + SUB as usize, 0);
        }
        self.counts[index] += 1;
    }

    /// Counts what another one has counted.
    pub(crate) fn add(&mut self, other: &Histogram) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, count)| *sum += count);
    }

    /// All buckets with times: the lowest and the first higher time, and how many.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let all = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        all.map(|(index, count)| (lowest(index as u64), lowest(index as u64 + 1), *count))
    }
}

#[inline]
fn index(ticks: u64) -> usize {
    if ticks < SUB {
        return ticks as usize;
    }
    let exponent = ticks.ilog2();
    let part = (ticks >> (exponent - SUB_BITS)) & (SUB - 1);
    (u64::from(exponent - SUB_BITS + 1) * SUB + part) as usize
}

/// The lowest time of a bucket.
fn lowest(index: u64) -> u64 {
    match index / SUB {
        0 => index,
        doubling => (SUB + index % SUB) << (doubling - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_next_to_each_other_and_narrow() {
        for at in 0..30 * SUB {
            let (low, next) = (lowest(at), lowest(at + 1));
            assert_eq!((index(low), index(next - 1)), (at as usize, at as usize));
            assert!(next - low == 1 || (next - low) * SUB <= low, "{at}");
        }
    }

    #[test]
    fn what_is_recorded_is_there() {
        let (mut histogram, mut other) = (Histogram::default(), Histogram::default());
        [0, 0, 5].into_iter().for_each(|ticks| histogram.record(ticks));
        [5, 1 << 40].into_iter().for_each(|ticks| other.record(ticks));
        histogram.add(&other);
        let buckets: Vec<_> = histogram.buckets().collect();
        assert_eq!(buckets[..2], [(0, 1, 2), (5, 6, 2)]);
        assert_eq!((buckets.len(), buckets[2].0, buckets[2].2), (3, 1 << 40, 1));
    }
}
