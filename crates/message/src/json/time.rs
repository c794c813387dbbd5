//! Times and durations as text: RFC 3339, and seconds with an `s`.

/// The range of both types: the years 1 to 9999, and as many in either direction.
const TIMESTAMP_SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
const DURATION_SECONDS: std::ops::RangeInclusive<i64> = -315_576_000_000..=315_576_000_000;

const DAY_SECONDS: i64 = 86_400;

/// `None` if the time is out of range.
pub(super) fn print_timestamp(seconds: i64, nanos: i32) -> Option<String> {
    if !TIMESTAMP_SECONDS.contains(&seconds) || !(0..1_000_000_000).contains(&nanos) {
        return None;
    }
    let (year, month, day) = date(seconds.div_euclid(DAY_SECONDS));
    let second = seconds.rem_euclid(DAY_SECONDS);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let fraction = fraction(nanos as u32);
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z"))
}

/// `None` if the text is no time in range.
pub(super) fn parse_timestamp(text: &str) -> Option<(i64, i32)> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| digits(text.get(from..to)?);
    let is_at = |at: usize, byte: u8| bytes.get(at) == Some(&byte);
    let is_formed = is_at(4, b'-') && is_at(7, b'-') && is_at(10, b'T');
    if !is_formed || !is_at(13, b':') || !is_at(16, b':') {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let days = days(year, month, day)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let rest = text.get(19..)?;
    let zone = rest.find(['Z', '+', '-'])?;
    let nanos = parse_fraction(&rest[..zone])?;
    let offset = parse_zone(&rest[zone..])?;
    let seconds = days * DAY_SECONDS + hour * 3600 + minute * 60 + second - offset;
    TIMESTAMP_SECONDS.contains(&seconds).then_some((seconds, nanos))
}

/// Seconds that a zone is ahead of UTC.
fn parse_zone(zone: &str) -> Option<i64> {
    let sign = match zone.as_bytes() {
        b"Z" => return Some(0),
        [b'+', _, _, b':', _, _] => 1,
        [b'-', _, _, b':', _, _] => -1,
        _ => return None,
    };
    let (hours, minutes) = (digits(zone.get(1..3)?)?, digits(zone.get(4..6)?)?);
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3600 + minutes * 60))
}

/// `None` if the duration is out of range, or its parts have different signs.
pub(super) fn print_duration(seconds: i64, nanos: i32) -> Option<String> {
    let is_in_range =
        DURATION_SECONDS.contains(&seconds) && (-999_999_999..=999_999_999).contains(&nanos);
    if !is_in_range || (seconds < 0 && nanos > 0) || (seconds > 0 && nanos < 0) {
        return None;
    }
    let sign = if seconds < 0 || nanos < 0 { "-" } else { "" };
    Some(format!("{sign}{}{}s", seconds.unsigned_abs(), fraction(nanos.unsigned_abs())))
}

/// `None` if the text is no duration in range.
pub(super) fn parse_duration(text: &str) -> Option<(i64, i32)> {
    let text = text.strip_suffix('s')?;
    let (sign, text) = match text.strip_prefix('-') {
        Some(text) => (-1, text),
        None => (1, text),
    };
    let whole = text.find('.').unwrap_or(text.len());
    let seconds = sign * digits(&text[..whole])?;
    let nanos = parse_fraction(&text[whole..])?;
    DURATION_SECONDS.contains(&seconds).then_some((seconds, sign as i32 * nanos))
}

/// A point and 3, 6 or 9 digits, or nothing.
fn fraction(nanos: u32) -> String {
    match nanos {
        0 => String::new(),
        nanos if nanos.is_multiple_of(1_000_000) => format!(".{:03}", nanos / 1_000_000),
        nanos if nanos.is_multiple_of(1_000) => format!(".{:06}", nanos / 1_000),
        nanos => format!(".{nanos:09}"),
    }
}

/// Nanoseconds of a point and 1 to 9 digits, or of nothing.
fn parse_fraction(text: &str) -> Option<i32> {
    if text.is_empty() {
        return Some(0);
    }
    let text = text.strip_prefix('.').filter(|text| text.len() <= 9)?;
    let value = i32::try_from(digits(text)?).ok()?;
    Some(value * 10_i32.pow(9 - text.len() as u32))
}

/// A number of 1 to 18 digits without a sign.
fn digits(text: &str) -> Option<i64> {
    let is_number = (1..=18).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// The date of a day, counted from 1970-01-01. Years begin in March, so that leap days are last;
/// 400 years have 146097 days.
fn date(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468;
    let (era, day) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = (year + era * 400, if month < 10 { month + 3 } else { month - 9 });
    (year + i64::from(month <= 2), month, day)
}

/// The day of a date, counted from 1970-01-01; `None` if there is no such date.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (from_march, march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year_of_era) = (from_march.div_euclid(400), from_march.rem_euclid(400));
    let day_of_year = (153 * march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let count = era * 146_097 + day_of_era - 719_468;
    (date(count) == (year, month, day)).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_are_inverse() {
        assert_eq!((date(0), date(-719_162)), ((1970, 1, 1), (1, 1, 1)));
        assert_eq!((date(59), date(11_016)), ((1970, 3, 1), (2000, 2, 29)));
        for day in (-719_162..2_932_897).step_by(17) {
            let (year, month, of_month) = date(day);
            assert_eq!(days(year, month, of_month), Some(day));
        }
        assert_eq!((days(2001, 2, 29), days(2000, 4, 31), days(2000, 13, 1)), (None, None, None));
    }

    #[test]
    fn times_are_read_and_written() {
        let cases = [
            ("0001-01-01T00:00:00Z", (-62_135_596_800, 0)),
            ("9999-12-31T23:59:59.999999999Z", (253_402_300_799, 999_999_999)),
            ("1969-12-31T23:59:59.500Z", (-1, 500_000_000)),
            ("2000-02-29T12:34:56.000001Z", (951_827_696, 1_000)),
        ];
        for (text, (seconds, nanos)) in cases {
            assert_eq!(parse_timestamp(text), Some((seconds, nanos)));
            assert_eq!(print_timestamp(seconds, nanos).as_deref(), Some(text));
        }
        assert_eq!(parse_timestamp("1970-01-01T01:30:00+01:30"), Some((0, 0)));
        for text in [
            "1970-01-01",
            "1970-01-01t00:00:00Z",
            "1970-01-01T00:00:00",
            "",
            "T",
            "0000-01-01T00:00:00Z",
            "1970-01-01T24:00:00Z",
            "1970-01-01T00:00:00.Z",
            "1970-01-01T00:00:00.1234567890Z",
            "0001-01-01T00:00:00+00:01",
            "1970-01-01T00:00:00Zé",
            "197é-1-01T00:00:00Z",
        ] {
            assert_eq!(parse_timestamp(text), None, "{text}");
        }
        assert_eq!(print_timestamp(253_402_300_800, 0), None);
    }

    #[test]
    fn durations_are_read_and_written() {
        let cases = [
            ("0s", (0, 0)),
            ("1.500s", (1, 500_000_000)),
            ("-0.000000001s", (0, -1)),
            ("-3.000001s", (-3, -1_000)),
            ("315576000000s", (315_576_000_000, 0)),
        ];
        for (text, (seconds, nanos)) in cases {
            assert_eq!(parse_duration(text), Some((seconds, nanos)));
            assert_eq!(print_duration(seconds, nanos).as_deref(), Some(text));
        }
        for text in ["1", "s", "-s", ".5s", "1.s", "+1s", "315576000001s", "1.0000000000s"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
        assert_eq!((print_duration(1, -1), print_duration(-1, 1)), (None, None));
    }
}
