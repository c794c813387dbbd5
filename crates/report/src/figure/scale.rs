//! From values to positions, and the round values worth marking.

/// A mapping of values onto 0 (start) to 1 (end), with its ticks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    log: bool,
    ticks: Vec<f64>,
}

impl Scale {
    /// A linear scale that covers `values` and `from`, ending at a round value.
    pub(super) fn linear(values: impl IntoIterator<Item = f64>, from: Option<f64>) -> Scale {
        let (low, high) = bounds(values.into_iter().chain(from)).unwrap_or((0.0, 1.0));
        let high = if high > low { high } else { low + low.abs().max(1.0) };
        let step = round_step((high - low) / TICKS_WANTED);
        let first = (low / step).floor();
        let steps = ((high / step).ceil() - first).max(1.0);
        let ticks = (0..=steps as u32).map(|index| (first + f64::from(index)) * step).collect();
        Scale { low: first * step, high: (first + steps) * step, log: false, ticks }
    }

    /// A logarithmic scale that covers the positive ones of `values`, from round value to round
    /// value.
    pub(super) fn log(values: impl IntoIterator<Item = f64>) -> Scale {
        let positive = values.into_iter().filter(|value| *value >= f64::MIN_POSITIVE);
        let (low, high) = bounds(positive).unwrap_or((1.0, 10.0));
        let mut ticks = log_ticks(low, high, &[1.0, 2.0, 5.0]);
        if ticks.len() > LOG_TICKS_MAX {
            ticks = log_ticks(low, high, &[1.0]);
        }
        let stride = ticks.len().div_ceil(LOG_TICKS_MAX);
        let (low, high) = (ticks[0], ticks[ticks.len() - 1]);
        Scale { low, high, log: true, ticks: ticks.into_iter().step_by(stride).collect() }
    }

    /// A linear scale from `low` to `high` exactly, with the given ticks.
    pub(super) fn with_ticks(low: f64, high: f64, ticks: Vec<f64>) -> Scale {
        assert!(low < high, "a scale has an extent");
        Scale { low, high, log: false, ticks }
    }

    /// The scale cut down to the range of `values`, if at least two ticks remain.
    pub(super) fn trimmed(self, values: impl IntoIterator<Item = f64>) -> Scale {
        let Some((low, high)) = bounds(values) else { return self };
        let inside = |tick: &f64| (low..=high).contains(tick);
        let ticks: Vec<f64> = self.ticks.iter().copied().filter(inside).collect();
        if ticks.len() < 2 { self } else { Scale { low, high, ticks, ..self } }
    }

    /// Where `value` lies between 0 and 1; values beyond the scale at its ends.
    pub(super) fn position(&self, value: f64) -> f64 {
        let position = if self.log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        position.clamp(0.0, 1.0)
    }

    /// The values to mark, ascending.
    pub(super) fn ticks(&self) -> &[f64] {
        &self.ticks
    }
}

fn bounds(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let finite = values.into_iter().filter(|value| value.is_finite());
    finite.fold(None, |bounds, value| {
        let (low, high) = bounds.unwrap_or((value, value));
        Some((f64::min(low, value), f64::max(high, value)))
    })
}

/// The smallest of 1, 2, 2.5 and 5 times a power of ten that is at least `least`.
fn round_step(least: f64) -> f64 {
    let decade = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * decade);
    steps.into_iter().find(|step| *step >= least * (1.0 - 1e-9)).unwrap_or(10.0 * decade)
}

/// All `factors` times powers of ten from the last at most `low` to the first at least `high`.
fn log_ticks(low: f64, high: f64, factors: &[f64]) -> Vec<f64> {
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32 + 1;
    let marks: Vec<f64> = decades
        .flat_map(|decade| factors.iter().map(move |factor| factor * 10f64.powi(decade)))
        .collect();
    let first = marks.iter().rposition(|mark| *mark <= low * (1.0 + 1e-9)).unwrap_or(0);
    let last = marks.iter().position(|mark| *mark >= high * (1.0 - 1e-9) && *mark > marks[first]);
    marks[first..=last.unwrap_or(marks.len() - 1)].to_vec()
}

const TICKS_WANTED: f64 = 5.0;
const LOG_TICKS_MAX: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_ticks_are_round_and_cover_the_values() {
        let scale = Scale::linear([3.0, 10.7e6], Some(0.0));
        assert_eq!(scale.ticks(), [0.0, 2.5e6, 5e6, 7.5e6, 10e6, 12.5e6]);
        assert_eq!((scale.position(0.0), scale.position(12.5e6)), (0.0, 1.0));
    }

    #[test]
    fn narrow_logarithmic_scales_have_ticks_at_two_and_five() {
        assert_eq!(Scale::log([4.1, 6.5]).ticks(), [2.0, 5.0, 10.0]);
        let scale = Scale::log([1.0, 100.0]);
        assert!((scale.position(10.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn wide_logarithmic_scales_have_a_bounded_number_of_ticks() {
        for (low, high) in [(1.0, 1e5), (1e-9, 1e9), (f64::MIN_POSITIVE, 1e300)] {
            let scale = Scale::log([low, high]);
            assert!((2..=LOG_TICKS_MAX).contains(&scale.ticks().len()), "{scale:?}");
        }
    }

    #[test]
    fn degenerate_values_still_give_a_scale() {
        for values in [vec![], vec![5.0], vec![0.0, 0.0], vec![f64::NAN, f64::INFINITY, -3.0]] {
            for scale in [Scale::linear(values.clone(), Some(0.0)), Scale::log(values.clone())] {
                assert!(scale.ticks().len() >= 2, "{values:?} gave {scale:?}");
                assert!(scale.position(5.0).is_finite(), "{values:?} gave {scale:?}");
            }
        }
    }

    #[test]
    fn a_trimmed_scale_ends_with_the_values() {
        let scale = Scale::linear([1.0, 64.0], None).trimmed([1.0, 64.0]);
        assert_eq!((scale.position(1.0), scale.position(64.0)), (0.0, 1.0));
        assert_eq!(scale.ticks(), [20.0, 40.0, 60.0]);
        let narrow = Scale::linear([5.0], None);
        assert_eq!(narrow.clone().trimmed([5.0]), narrow);
    }

    #[test]
    fn positions_never_leave_the_scale() {
        let scale = Scale::log([1.0, 10.0]);
        assert_eq!((scale.position(0.0), scale.position(1e9)), (0.0, 1.0));
    }
}
