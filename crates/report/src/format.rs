//! Numbers as people read them.

/// `value` with three significant digits and grouped thousands: `0.0123`, `5.80`, `12,300`.
///
/// Whole digits are never rounded away. A value that is not a number reads `–`.
pub fn significant(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = magnitude_after_rounding(value);
    let decimals = usize::try_from(2 - magnitude).unwrap_or(0).min(DECIMALS_MAX);
    group_thousands(&format!("{value:.decimals$}"))
}

/// `value` with three significant digits and, where it helps, an SI prefix: `10.7 M`, `450 k`,
/// `5.80`, `0.0120`, `12.0 µ`.
pub fn with_si_prefix(value: f64) -> String {
    let (scaled, prefix) =
        if (1e-3..1.0).contains(&value.abs()) { (value, "") } else { scale_si(value) };
    if prefix.is_empty() {
        significant(scaled)
    } else {
        format!("{} {prefix}", significant(scaled))
    }
}

/// A time given in microseconds, in the unit that suits it: `870 ns`, `5.80 µs`, `1.25 ms`.
pub fn duration_us(us: f64) -> String {
    let (name, unit) = time_unit(us);
    format!("{} {name}", significant(us / unit))
}

/// The unit that suits a time given in microseconds: its name, and how many µs it is.
pub(crate) fn time_unit(us: f64) -> (&'static str, f64) {
    match us.abs() {
        us_abs if us_abs < 0.9995 => ("ns", 1e-3),
        us_abs if us_abs < 999.5 => ("µs", 1.0),
        us_abs if us_abs < 999_500.0 => ("ms", 1e3),
        _ => ("s", 1e6),
    }
}

/// A tick's label for a time given in microseconds: `5 µs`, `10 ms`.
pub(crate) fn tick_us(us: f64) -> String {
    let (name, unit) = time_unit(us);
    format!("{} {name}", tick(us / unit))
}

/// A tick's label: as short as exactness allows, with an SI prefix from 10,000 on.
pub(crate) fn tick(value: f64) -> String {
    let (scaled, prefix) =
        if value.abs() < 9999.5 && value.abs() >= 1e-3 { (value, "") } else { scale_si(value) };
    let text = format!("{scaled:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    let text = group_thousands(if text.is_empty() || text == "-0" { "0" } else { text });
    if prefix.is_empty() { text } else { format!("{text} {prefix}") }
}

/// Whole numbers with every digit, others with three: for the values that a caller chose.
pub(crate) fn exact(value: f64) -> String {
    let whole = value.fract() == 0.0 && value.abs() < WHOLE_MAX;
    if whole { group_thousands(&format!("{value:.0}")) } else { significant(value) }
}

/// The scaled value and its prefix.
fn scale_si(value: f64) -> (f64, &'static str) {
    if !value.is_finite() || value == 0.0 {
        return (value, "");
    }
    let thousands = magnitude_after_rounding(value).div_euclid(3).clamp(-3, 4);
    let index = usize::try_from(thousands + 3).expect("clamped to -3 at least");
    (value / 1000f64.powi(thousands), SI_PREFIXES[index])
}

/// The power of ten of the first digit, once rounded to three digits: 3 for 999.9.
fn magnitude_after_rounding(value: f64) -> i32 {
    let text = format!("{value:.2e}");
    let exponent = text.rsplit_once('e').and_then(|(_, exponent)| exponent.parse().ok());
    exponent.expect("the scientific form of a finite number ends in its exponent")
}

fn group_thousands(number: &str) -> String {
    let (sign, unsigned) = number.strip_prefix('-').map_or(("", number), |rest| ("-", rest));
    let whole_len = unsigned.find('.').unwrap_or(unsigned.len());
    let mut grouped = String::from(sign);
    for (index, digit) in unsigned.char_indices() {
        if index > 0 && index < whole_len && (whole_len - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Up to here every whole number is exact.
const WHOLE_MAX: f64 = 9e15;
const DECIMALS_MAX: usize = 12;
const SI_PREFIXES: [&str; 8] = ["n", "µ", "m", "", "k", "M", "G", "T"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_count() {
        let cases = [
            (0.0, "0"),
            (0.01234, "0.0123"),
            (5.8, "5.80"),
            (9.999, "10.0"),
            (99.96, "100"),
            (-1.5, "-1.50"),
            (1234.4, "1,234"),
            (12_345_678.0, "12,345,678"),
            (f64::NAN, "–"),
        ];
        for (value, text) in cases {
            assert_eq!(significant(value), text);
        }
    }

    #[test]
    fn prefixes_scale() {
        let cases = [(10.66e6, "10.7 M"), (450e3, "450 k"), (999.9, "1.00 k"), (0.012, "0.0120")];
        for (value, text) in cases {
            assert_eq!(with_si_prefix(value), text);
        }
        assert_eq!(with_si_prefix(1e300).rsplit_once(' ').map(|(_, prefix)| prefix), Some("T"));
    }

    #[test]
    fn durations_choose_their_unit() {
        let cases = [(0.87, "870 ns"), (5.8, "5.80 µs"), (1250.0, "1.25 ms"), (3.2e6, "3.20 s")];
        for (us, text) in cases {
            assert_eq!(duration_us(us), text);
        }
        assert_eq!(duration_us(999.9), "1.00 ms");
    }

    #[test]
    fn chosen_values_keep_their_digits() {
        assert_eq!(exact(1_048_576.0), "1,048,576");
        assert_eq!((exact(0.125), exact(f64::INFINITY)), ("0.125".into(), "–".into()));
    }

    #[test]
    fn ticks_are_short() {
        let cases = [(0.0, "0"), (2.5e6, "2.5 M"), (5000.0, "5,000"), (0.2, "0.2"), (1e4, "10 k")];
        for (value, text) in cases {
            assert_eq!(tick(value), text);
        }
    }
}
