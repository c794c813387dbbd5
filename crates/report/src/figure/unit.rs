//! How an axis labels its values: times in the unit that suits them, numbers with an SI prefix
//! unless the unit has one.

use super::Axis;
use super::scale::Scale;
use crate::format;

/// How the values of one drawn axis are labelled.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Labels {
    /// The axis' name, with the unit of its ticks if they have one in common.
    pub(super) title: String,
    ticks: Ticks,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Ticks {
    /// Numbers in the axis' unit.
    Plain,
    /// Numbers in a larger or smaller unit: each value is so many of it.
    Scaled(f64),
    /// Times, each in its own unit; a unit of the axis is so many µs.
    Times(f64),
}

impl Labels {
    /// The labels of an axis that is drawn with this scale.
    pub(super) fn of(axis: &Axis, scale: &Scale) -> Labels {
        let plain = || Labels { title: titled(&axis.label, &axis.unit), ticks: Ticks::Plain };
        let Some(us) = unit_us(&axis.unit) else { return plain() };
        let shown = scale.ticks().iter().map(|tick| tick.abs() * us).filter(|us| *us > 0.0);
        let (low, high) = shown
            .fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), us| (low.min(us), high.max(us)));
        if high == 0.0 {
            return plain();
        }
        let (name, unit) = format::time_unit(high);
        if axis.log && format::time_unit(low).0 != name {
            return Labels { title: axis.label.clone(), ticks: Ticks::Times(us) };
        }
        Labels { title: titled(&axis.label, name), ticks: Ticks::Scaled(us / unit) }
    }

    /// The label of a tick.
    pub(super) fn tick(&self, value: f64) -> String {
        match self.ticks {
            Ticks::Plain => format::tick(value),
            Ticks::Scaled(factor) => format::tick(value * factor),
            Ticks::Times(us) => format::tick_us(value * us),
        }
    }
}

/// A value with its unit.
pub(super) fn with_unit(axis: &Axis, value: f64) -> String {
    match (unit_us(&axis.unit), &*axis.unit) {
        (Some(us), _) => format::duration_us(value * us),
        (None, "") => number(axis, value),
        (None, unit) => format!("{} {unit}", number(axis, value)),
    }
}

/// A value, without its unit but for times.
pub(super) fn short(axis: &Axis, value: f64) -> String {
    match unit_us(&axis.unit) {
        Some(us) => format::duration_us(value * us),
        None => number(axis, value),
    }
}

fn number(axis: &Axis, value: f64) -> String {
    match has_prefix(&axis.unit) {
        true => format::significant(value),
        false => format::with_si_prefix(value),
    }
}

/// A name with its unit.
fn titled(label: &str, unit: &str) -> String {
    if unit.is_empty() { label.to_owned() } else { format!("{label} [{unit}]") }
}

/// How many µs a unit of time is.
fn unit_us(unit: &str) -> Option<f64> {
    match unit {
        "ns" => Some(1e-3),
        "µs" => Some(1.0),
        "ms" => Some(1e3),
        "s" => Some(1e6),
        _ => None,
    }
}

/// Whether a unit of data or rate has a prefix: `MiB`, `Gbit/s`.
fn has_prefix(unit: &str) -> bool {
    let base = unit.strip_prefix(['k', 'K', 'M', 'G', 'T']);
    base.is_some_and(|base| ["B", "iB", "bit"].iter().any(|name| base.starts_with(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(axis: &Axis, values: [f64; 2]) -> (String, Vec<String>) {
        let scale = match axis.log {
            true => Scale::log(values),
            false => Scale::linear(values, Some(0.0)),
        };
        let labels = Labels::of(axis, &scale);
        let ticks = scale.ticks().iter().map(|tick| labels.tick(*tick)).collect();
        (labels.title, ticks)
    }

    #[test]
    fn a_linear_axis_of_times_has_the_unit_of_its_largest_tick() {
        let (title, ticks) = labelled(&Axis::linear("Gap", "µs"), [300.0, 1760.0]);
        assert_eq!(title, "Gap [ms]");
        assert_eq!(ticks, ["0", "0.5", "1", "1.5", "2"]);
        let (title, ticks) = labelled(&Axis::linear("Gap", "µs"), [1.0, 9.0]);
        assert_eq!((&*title, &*ticks[1]), ("Gap [µs]", "2"));
        let (title, ticks) = labelled(&Axis::linear("Time", "s"), [0.1, 0.4]);
        assert_eq!((&*title, &*ticks[1]), ("Time [ms]", "100"));
    }

    #[test]
    fn a_logarithmic_axis_of_times_over_several_units_has_them_at_its_ticks() {
        let (title, ticks) = labelled(&Axis::log("Latency", "µs"), [5.0, 90_000.0]);
        assert_eq!(title, "Latency");
        assert_eq!(ticks, ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms"]);
        assert_eq!(labelled(&Axis::log("Latency", "µs"), [5.0, 90.0]).0, "Latency [µs]");
    }

    #[test]
    fn no_prefix_stands_before_a_unit_that_has_one() {
        let of = |unit, value| with_unit(&Axis::linear("", unit), value);
        assert_eq!(of("µs", 1760.0), "1.76 ms");
        assert_eq!(of("ms", 90_000.0), "90.0 s");
        assert_eq!(of("MiB", 12_345.0), "12,345 MiB");
        assert_eq!(of("Gbit/s", 0.0004), "0.000400 Gbit/s");
        assert_eq!(of("calls/s", 1.22e6), "1.22 M calls/s");
        assert_eq!((of("", 1.5e3), of("B", 65_536.0)), ("1.50 k".into(), "65.5 k B".into()));
        assert_eq!(short(&Axis::linear("", "µs"), 1760.0), "1.76 ms");
        assert_eq!(short(&Axis::linear("", "calls/s"), 1760.0), "1.76 k");
    }

    #[test]
    fn an_axis_without_values_keeps_its_unit() {
        let scale = Scale::with_ticks(0.0, 1.0, vec![0.0]);
        assert_eq!(Labels::of(&Axis::linear("Gap", "µs"), &scale).title, "Gap [µs]");
    }
}
