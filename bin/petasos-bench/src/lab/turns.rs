//! Alternating turns without and with a guideline.

use std::time::Duration;

use petasos_base::Clock;
use petasos_floor::lab::{Switch, rate};
use petasos_report::{Pairs, Quantity, Ratio};

use crate::error::BenchError;

/// The name of the variant against the guideline.
const OFF: &str = "off";
/// The length of a turn, if there is time.
const TURN_S: f64 = 0.02;
/// The fewest pairs of turns. Turns are shortened to fit them in.
const PAIRS_MIN: usize = 5;

/// The result of a pair's turns.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Median operations per second against the guideline.
    pub off_per_s: f64,
    /// Median operations per second with it.
    pub on_per_s: f64,
    /// The ratio of the latter to the former, from neighbouring turns.
    pub ratio: Ratio,
}

/// Measures for about `seconds`.
pub fn measure(
    experiment: &mut dyn Switch,
    seconds: f64,
    clock: &Clock,
) -> Result<Measured, BenchError> {
    let goal = ((seconds / (2.0 * TURN_S)) as usize).max(PAIRS_MIN);
    let turn = Duration::from_secs_f64(seconds / (2 * goal) as f64);
    let mut pairs = Pairs::new(Quantity::OpsPerS, [OFF]);
    // The first turns warm up.
    for index in 0..=goal {
        // The order alternates, because the first variant leaves the caches in a different state.
        let first = index % 2 == 1;
        let first_rate = rate(experiment, first, clock, turn)?;
        let second_rate = rate(experiment, !first, clock, turn)?;
        let (on, off) = if first { (first_rate, second_rate) } else { (second_rate, first_rate) };
        if index > 0 {
            // A pair of turns without operations has no ratio.
            pairs.push(on, &[off]).ok();
        }
    }
    let nothing = "nothing got through in any turn; see `petasos doctor`";
    Ok(Measured {
        off_per_s: pairs.floor_median(OFF).ok_or(nothing)?,
        on_per_s: pairs.petasos_median().ok_or(nothing)?,
        ratio: pairs.ratio(OFF).ok_or(nothing)?,
    })
}

#[cfg(test)]
mod tests {
    use petasos_base::VirtualClock;
    use petasos_floor::FloorError;

    use super::*;

    /// A fake experiment with these operations per microsecond, without and with the guideline.
    struct Steady {
        clock: VirtualClock,
        operations: [u64; 2],
    }

    impl Switch for Steady {
        fn step(&mut self, follow: bool) -> Result<u64, FloorError> {
            self.clock.set(self.clock.now().plus_nanos(1000));
            Ok(self.operations[usize::from(follow)])
        }
    }

    fn measured(operations: [u64; 2], seconds: f64) -> Result<Measured, BenchError> {
        let clock = VirtualClock::default();
        let mut steady = Steady { clock: clock.clone(), operations };
        measure(&mut steady, seconds, &Clock::Virtual(clock))
    }

    #[test]
    fn the_ratio_is_that_of_the_guideline_to_its_absence() {
        let measured = measured([2, 3], 0.4).unwrap();
        let Measured { off_per_s, on_per_s, ratio } = measured;
        assert!((off_per_s - 2e6).abs() < 1.0 && (on_per_s - 3e6).abs() < 1.0, "{measured:?}");
        assert!((ratio.median - 1.5).abs() < 1e-6 && ratio.count == 10, "{measured:?}");
    }

    #[test]
    fn a_short_time_still_has_pairs_to_compare() {
        assert_eq!(measured([1, 1], 0.001).unwrap().ratio.count, PAIRS_MIN);
    }

    #[test]
    fn an_experiment_that_does_nothing_is_an_error_and_no_ratio() {
        let error = measured([0, 0], 0.001).unwrap_err();
        assert!(error.to_string().contains("nothing got through"));
    }
}
