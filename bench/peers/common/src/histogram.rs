//! Latencies as counts, in buckets an eighth of a percent wide.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Bits that a value keeps.
const BITS: u32 = 10;

/// Counts of rounded values in nanoseconds.
#[derive(Debug, Default)]
pub struct Histogram {
    counts: BTreeMap<u64, u64>,
}

impl Histogram {
    pub fn record_ns(&mut self, nanos: u64) {
        *self.counts.entry(rounded(nanos)).or_default() += 1;
    }

    /// `[[nanoseconds, count], …]`
    pub fn json(&self) -> String {
        let mut json = String::from("[");
        for (nanos, count) in &self.counts {
            let comma = if json.len() > 1 { "," } else { "" };
            // Writing to a string does not fail.
            let _ = write!(json, "{comma}[{nanos},{count}]");
        }
        json + "]"
    }
}

fn rounded(nanos: u64) -> u64 {
    let shift = (u64::BITS - nanos.leading_zeros()).saturating_sub(BITS);
    nanos >> shift << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_rounded_by_less_than_a_percent() {
        for nanos in [0, 1, 999, 1023, 1024, 1_234_567, u64::MAX] {
            let off = nanos - rounded(nanos);
            assert!(off as f64 <= nanos as f64 * 0.002, "{nanos}");
        }
    }

    #[test]
    fn counts_are_told() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.json(), "[]");
        [5, 7, 5].map(|nanos| histogram.record_ns(nanos));
        assert_eq!(histogram.json(), "[[5,2],[7,1]]");
    }
}
