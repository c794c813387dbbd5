//! What calls did around a change.

use crate::managed::live::operator::Done;
use crate::rpc::tally::{SLICE_NS, Tally};

/// From so long before a change was asked for, to as long after the answer.
const BESIDE_NS: u64 = 5_000_000;

/// The time around a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Around {
    /// The longest time without the end of a call of the first application, in µs.
    pub gap_us: f64,
    /// From the question to the answer, in µs.
    pub took_us: f64,
    /// Calls of the second application per second.
    pub second_per_s: f64,
}

impl Around {
    /// What two applications tell; none if one of them was not at work all the time.
    pub fn new([first, second]: [&Tally; 2], done: Done) -> Option<Around> {
        let (from_ns, to_ns) = (done.asked_ns - BESIDE_NS, done.answered_ns + BESIDE_NS);
        let longest = slices(first, &first.gap_ns, from_ns, to_ns)?.iter().max()?;
        let second = slices(second, &second.per_slice, from_ns, to_ns)?;
        let calls: u32 = second.iter().sum();
        Some(Around {
            gap_us: f64::from(*longest) / 1e3,
            took_us: (done.answered_ns - done.asked_ns) as f64 / 1e3,
            second_per_s: f64::from(calls) * 1e9 / (second.len() as u64 * SLICE_NS) as f64,
        })
    }
}

/// Those of the slices that a time has part in.
fn slices<'a>(tally: &Tally, all: &'a [u32], from_ns: u64, to_ns: u64) -> Option<&'a [u32]> {
    let slice = |ns: u64| Some((ns.checked_sub(tally.begun_ns)? / SLICE_NS) as usize);
    all.get(slice(from_ns)?..=slice(to_ns)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gap_around_a_change_counts() {
        let begun_ns = 1_000_000_000;
        let mut gap_ns = vec![10_000; 100];
        (gap_ns[40], gap_ns[44], gap_ns[56], gap_ns[57]) = (90_000, 30_000, 40_000, 80_000);
        let first = Tally { begun_ns, gap_ns, ..Tally::default() };
        let second = Tally { begun_ns, per_slice: vec![3; 100], ..Tally::default() };
        let at = |ms: u64| begun_ns + ms * SLICE_NS;
        let done = Done { asked_ns: at(49), answered_ns: at(51) };
        let around = Around::new([&first, &second], done).expect("both were at work");
        assert_eq!(around, Around { gap_us: 40.0, took_us: 2000.0, second_per_s: 3000.0 });
        for (asked, answered) in [(4, 6), (94, 95)] {
            let done = Done { asked_ns: at(asked), answered_ns: at(answered) };
            assert_eq!(Around::new([&first, &second], done), None);
        }
    }
}
