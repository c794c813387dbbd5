//! Durations in protobuf's JSON mapping: decimal seconds with an "s".

use core::time::Duration;

/// Protobuf's limit for a `Duration`: about 10,000 years.
const SECONDS_MAX: u64 = 315_576_000_000;

/// Parses "1.5s", "3s" or ".1s". Rejects signs, exponents, more than nine decimal places, and
/// values above protobuf's limit.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let decimal = text.strip_suffix('s')?;
    let (whole, fraction) = decimal.split_once('.').unwrap_or((decimal, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() && fraction.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    let seconds = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let nanos = nanos(fraction)?;
    (seconds < SECONDS_MAX || seconds == SECONDS_MAX && nanos == 0)
        .then(|| Duration::new(seconds, nanos))
}

fn nanos(fraction: &str) -> Option<u32> {
    let missing = 9u32.checked_sub(u32::try_from(fraction.len()).ok()?)?;
    let number: u32 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    Some(number * 10u32.pow(missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_seconds_are_read_exactly() {
        for (text, nanos) in [
            ("0s", 0),
            ("1s", 1_000_000_000),
            ("1.5s", 1_500_000_000),
            (".1s", 100_000_000),
            ("3.s", 3_000_000_000),
            ("0.000000001s", 1),
            ("2.999999999s", 2_999_999_999),
        ] {
            assert_eq!(parse(text), Some(Duration::from_nanos(nanos)), "{text}");
        }
        assert_eq!(parse("315576000000s"), Some(Duration::from_secs(SECONDS_MAX)));
    }

    #[test]
    fn all_else_is_refused() {
        for text in [
            "",
            "s",
            ".s",
            "1",
            "1m",
            "1 s",
            "-1s",
            "+1s",
            "1e3s",
            "1.2.3s",
            "0.0000000001s",
            "1ss",
            "٣s",
            "315576000000.1s",
            "99999999999999999999999s",
            "infs",
            "NaNs",
            "1,5s",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
