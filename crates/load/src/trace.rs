//! Timestamps of requests that were recorded elsewhere.

use std::io::{self, BufRead, Read};

/// The most timestamps of a trace: 80 MB.
const TIMES_MAX: usize = 10_000_000;
/// Longer than any line with a timestamp.
const LINE_BYTES_MAX: u64 = 256;
const NANOS_PER_S: u64 = 1_000_000_000;
/// Digits after the point: nanoseconds.
const DIGITS: usize = 9;

/// Times of requests from the first one, in nanoseconds, ascending; at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    times_ns: Vec<u64>,
}

/// Why a file is no trace. Its author's fault, or the system's.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The line is no timestamp.
    #[error("line {0} is no time in seconds, such as 0.000125, with at most nine decimals")]
    NoTime(u64),
    /// The line's time is before that of the line before.
    #[error("line {0} is earlier than the one before")]
    Earlier(u64),
    /// There is no timestamp.
    #[error("there is no timestamp")]
    Empty,
    /// There are more than 10 million.
    #[error("there are more than {TIMES_MAX} timestamps")]
    TooLong,
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Trace {
    /// Reads a trace: one time per line, in seconds with up to nine decimals. The first one is the
    /// start, so Unix times are as good as others. Empty lines and those that begin with `#` do not
    /// count.
    ///
    /// # Errors
    /// See [`TraceError`].
    pub fn read(mut from: impl BufRead) -> Result<Trace, TraceError> {
        let mut times_ns: Vec<u64> = Vec::new();
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let mut bounded = from.by_ref().take(LINE_BYTES_MAX);
            if bounded.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            if line.len() as u64 == LINE_BYTES_MAX && !line.ends_with(b"\n") {
                return Err(TraceError::NoTime(number));
            }
            let text = line.trim_ascii();
            if text.is_empty() || text.starts_with(b"#") {
                continue;
            }
            let time = nanos(text).ok_or(TraceError::NoTime(number))?;
            if times_ns.last().is_some_and(|last| time < *last) {
                return Err(TraceError::Earlier(number));
            }
            if times_ns.len() == TIMES_MAX {
                return Err(TraceError::TooLong);
            }
            times_ns.push(time);
        }
        let first = *times_ns.first().ok_or(TraceError::Empty)?;
        times_ns.iter_mut().for_each(|time| *time -= first);
        Ok(Trace { times_ns })
    }

    /// The times from the first one, in nanoseconds.
    pub fn times(&self) -> &[u64] {
        &self.times_ns
    }

    /// Requests per second; `None` if no time passes.
    pub fn rate(&self) -> Option<f64> {
        let last = *self.times_ns.last()?;
        (last > 0).then(|| (self.times_ns.len() - 1) as f64 * NANOS_PER_S as f64 / last as f64)
    }
}

/// Parses seconds with decimals, exactly.
fn nanos(text: &[u8]) -> Option<u64> {
    let text = core::str::from_utf8(text).ok()?;
    let (seconds, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(seconds) || !is_number(decimals) || decimals.len() > DIGITS {
        return None;
    }
    let seconds: u64 = seconds.parse().ok()?;
    let decimals: u64 = format!("{decimals:0<DIGITS$}").parse().ok()?;
    seconds.checked_mul(NANOS_PER_S)?.checked_add(decimals)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<u64>, String> {
        let trace = Trace::read(text.as_bytes());
        trace.map(|trace| trace.times_ns).map_err(|error| error.to_string())
    }

    #[test]
    fn times_are_exact_from_the_first() {
        let text = "# comment\n\n10.000000001\n 10.5 \r\n11\n11.000000000";
        assert_eq!(read(text), Ok(vec![0, 499_999_999, 999_999_999, 999_999_999]));
        assert_eq!(read("18446744073.709551615\n"), Ok(vec![0]));
    }

    #[test]
    fn errors_name_the_line() {
        let long = format!("1\n{}1\n", " ".repeat(300));
        for (text, what) in [
            ("1\nx\n", "line 2 is no time"),
            ("1e3\n", "line 1 is no time"),
            ("-1\n", "line 1 is no time"),
            (".5\n", "line 1 is no time"),
            ("1.\n", "line 1 is no time"),
            ("1.0000000001\n", "line 1 is no time"),
            ("18446744073.709551616\n", "line 1 is no time"),
            (&long, "line 2 is no time"),
            ("2\n#\n1\n", "line 3 is earlier"),
            ("# nothing\n", "no timestamp"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(what), "{text:?}: {error}");
        }
        let error = Trace::read(&b"1\n\xff\n"[..]).expect_err("that is no text");
        assert!(matches!(error, TraceError::NoTime(2)));
    }
}
