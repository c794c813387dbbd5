//! The value of `grpc-timeout`: up to eight digits and a unit.

use std::time::Duration;

const NS_PER_S: u128 = 1_000_000_000;

/// Units, finest first, with their lengths in nanoseconds.
const UNITS: [(u8, u128); 6] = [
    (b'n', 1),
    (b'u', 1_000),
    (b'm', 1_000_000),
    (b'S', NS_PER_S),
    (b'M', 60 * NS_PER_S),
    (b'H', 3600 * NS_PER_S),
];

/// One more than eight digits can express.
const AMOUNT_END: u128 = 100_000_000;

/// The timeout in the finest unit that fits. Longer timeouts become the longest possible, 11 400
/// years.
pub(crate) fn format(timeout: Duration) -> String {
    let ns = timeout.as_nanos();
    let fits = UNITS.iter().find(|(_, unit_ns)| ns / unit_ns < AMOUNT_END);
    let (unit, unit_ns) = fits.copied().unwrap_or(UNITS[UNITS.len() - 1]);
    format!("{}{}", (ns / unit_ns).min(AMOUNT_END - 1), char::from(unit))
}

/// Parses the value; `None` if it is invalid.
pub(crate) fn parse(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let (_, unit_ns) = UNITS.iter().find(|(name, _)| name == unit)?;
    let amount = digits.iter().fold(0, |sum, digit| sum * 10 + u128::from(digit - b'0'));
    let ns = amount * unit_ns;
    Some(Duration::new((ns / NS_PER_S) as u64, (ns % NS_PER_S) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_finest_unit_that_fits_is_taken() {
        let cases = [
            (Duration::ZERO, "0n"),
            (Duration::from_nanos(99_999_999), "99999999n"),
            (Duration::from_nanos(100_000_001), "100000u"),
            (Duration::from_secs(1), "1000000u"),
            (Duration::from_secs(100), "100000m"),
            (Duration::from_secs(99_999_999), "99999999S"),
            (Duration::from_secs(100_000_000), "1666666M"),
            (Duration::MAX, "99999999H"),
        ];
        for (timeout, value) in cases {
            assert_eq!(format(timeout), value);
        }
    }

    #[test]
    fn all_units_are_understood_and_nothing_else() {
        for (value, seconds) in [("2H", 7200), ("3M", 180), ("4S", 4), ("5000m", 5)] {
            assert_eq!(parse(value.as_bytes()), Some(Duration::from_secs(seconds)));
        }
        assert_eq!(parse(b"7u"), Some(Duration::from_micros(7)));
        assert_eq!(parse(b"00000007n"), Some(Duration::from_nanos(7)));
        for value in ["", "S", "5", "5s", "-5S", "+5S", "123456789n", "5 S", "5.0S", "\u{b2}S"] {
            assert_eq!(parse(value.as_bytes()), None, "{value}");
        }
    }

    /// A unit is given up for one at most 1000 times as long where eight digits end, so at least
    /// six digits are left, and less than one part in 100 000 is lost.
    fn loses_little(timeout: Duration) -> bool {
        let parsed = parse(format(timeout).as_bytes()).expect("a value is understood");
        parsed <= timeout && (timeout - parsed).as_nanos() <= timeout.as_nanos() / 100_000
    }

    #[test]
    fn little_is_lost_beside_each_change_of_unit() {
        for (_, unit_ns) in &UNITS[..UNITS.len() - 1] {
            let first = AMOUNT_END * unit_ns;
            for ns in [first - 1, first, first + unit_ns * 999] {
                let timeout = Duration::from_nanos_u128(ns);
                assert!(loses_little(timeout), "{timeout:?} becomes {}", format(timeout));
            }
        }
    }

    proptest::proptest! {
        /// All magnitudes are as likely, since most plain numbers are close to the largest.
        #[test]
        fn no_time_is_lengthened_and_little_is_lost(ns: u64, shift in 0_u32..64) {
            proptest::prop_assert!(loses_little(Duration::from_nanos(ns >> shift)));
        }
    }
}
