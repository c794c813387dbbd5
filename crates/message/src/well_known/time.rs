//! `Timestamp` and `Duration` as the standard library's times.

use std::time::SystemTime;

use super::{Duration, DurationMut, Timestamp, TimestampMut};

const NANOS_PER_SECOND: i64 = 1_000_000_000;
/// From the year 1 to the end of the year 9999, as protobuf has it.
const TIMESTAMP_SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
/// Ten thousand years, as protobuf has it.
const DURATION_SECONDS_MAX: i64 = 315_576_000_000;

/// A time that the other type cannot express, or a message that protobuf does not allow: its sender
/// is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the time is out of range")]
pub struct OutOfRange;

impl Timestamp {
    /// The point in time.
    ///
    /// # Errors
    /// If it is not between the years 1 and 9999, `nanos` is not below a second, or the system
    /// cannot express it.
    pub fn to_system_time(&self) -> Result<SystemTime, OutOfRange> {
        let nanos = u32::try_from(self.nanos()).map_err(|_| OutOfRange)?;
        if !TIMESTAMP_SECONDS.contains(&self.seconds()) || i64::from(nanos) >= NANOS_PER_SECOND {
            return Err(OutOfRange);
        }
        let whole = std::time::Duration::from_secs(self.seconds().unsigned_abs());
        let begin = match self.seconds() < 0 {
            true => SystemTime::UNIX_EPOCH.checked_sub(whole),
            false => SystemTime::UNIX_EPOCH.checked_add(whole),
        };
        let fraction = std::time::Duration::from_nanos(nanos.into());
        begin.and_then(|begin| begin.checked_add(fraction)).ok_or(OutOfRange)
    }
}

impl TimestampMut<'_> {
    /// Sets both fields.
    ///
    /// # Errors
    /// If the time is not between the years 1 and 9999; nothing is changed then.
    pub fn set_system_time(&mut self, time: SystemTime) -> Result<&mut Self, OutOfRange> {
        let (mut seconds, mut nanos) = match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => parts(after)?,
            Err(before) => {
                let (seconds, nanos) = parts(before.duration())?;
                (-seconds, -nanos)
            }
        };
        // Fractions count forward in time, before 1970 too.
        if nanos < 0 {
            (seconds, nanos) = (seconds - 1, nanos + NANOS_PER_SECOND as i32);
        }
        if !TIMESTAMP_SECONDS.contains(&seconds) {
            return Err(OutOfRange);
        }
        Ok(self.set_seconds(seconds).set_nanos(nanos))
    }
}

impl Duration {
    /// The length of time.
    ///
    /// # Errors
    /// If it is negative, longer than ten thousand years, or if `nanos` is not below a second.
    pub fn to_std(&self) -> Result<std::time::Duration, OutOfRange> {
        let seconds = u64::try_from(self.seconds()).map_err(|_| OutOfRange)?;
        let nanos = u32::try_from(self.nanos()).map_err(|_| OutOfRange)?;
        if self.seconds() > DURATION_SECONDS_MAX || i64::from(nanos) >= NANOS_PER_SECOND {
            return Err(OutOfRange);
        }
        Ok(std::time::Duration::new(seconds, nanos))
    }
}

impl DurationMut<'_> {
    /// Sets both fields.
    ///
    /// # Errors
    /// If the length is more than ten thousand years; nothing is changed then.
    pub fn set_std(&mut self, length: std::time::Duration) -> Result<&mut Self, OutOfRange> {
        let (seconds, nanos) = parts(length)?;
        if seconds > DURATION_SECONDS_MAX {
            return Err(OutOfRange);
        }
        Ok(self.set_seconds(seconds).set_nanos(nanos))
    }
}

fn parts(length: std::time::Duration) -> Result<(i64, i32), OutOfRange> {
    let seconds = i64::try_from(length.as_secs()).map_err(|_| OutOfRange)?;
    let nanos = i32::try_from(length.subsec_nanos()).map_err(|_| OutOfRange)?;
    Ok((seconds, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration as Std;

    #[test]
    fn points_in_time_come_back_from_before_and_after_1970() {
        let epoch = SystemTime::UNIX_EPOCH;
        for (time, seconds, nanos) in [
            (epoch, 0, 0),
            (epoch + Std::new(1, 2), 1, 2),
            (epoch - Std::new(1, 0), -1, 0),
            (epoch - Std::new(0, 1), -1, 999_999_999),
            (epoch - Std::new(1, 999_999_999), -2, 1),
        ] {
            let mut stamp = Timestamp::new();
            stamp.edit().set_system_time(time).unwrap();
            assert_eq!((stamp.seconds(), stamp.nanos()), (seconds, nanos));
            assert_eq!(stamp.to_system_time(), Ok(time));
        }
    }

    #[test]
    fn what_protobuf_does_not_allow_is_refused() {
        for (seconds, nanos) in [
            (-62_135_596_801, 0),
            (253_402_300_800, 0),
            (0, -1),
            (0, 1_000_000_000),
            (i64::MIN, 0),
            (i64::MAX, i32::MAX),
        ] {
            let mut stamp = Timestamp::new();
            stamp.edit().set_seconds(seconds).set_nanos(nanos);
            assert_eq!(stamp.to_system_time(), Err(OutOfRange), "{seconds} {nanos}");
        }
        let mut stamp = Timestamp::new();
        let late = SystemTime::UNIX_EPOCH + Std::from_secs(253_402_300_800);
        assert!(stamp.edit().set_system_time(late).is_err());
        assert_eq!(stamp, Timestamp::new());
    }

    #[test]
    fn lengths_of_time_come_back() {
        let mut length = Duration::new();
        length.edit().set_std(Std::new(3, 4)).unwrap();
        assert_eq!((length.seconds(), length.nanos(), length.to_std()), (3, 4, Ok(Std::new(3, 4))));
        assert!(length.edit().set_std(Std::MAX).is_err());
        for (seconds, nanos) in [(-1, 0), (0, -1), (315_576_000_001, 0), (0, 1_000_000_000)] {
            length.edit().set_seconds(seconds).set_nanos(nanos);
            assert_eq!(length.to_std(), Err(OutOfRange), "{seconds} {nanos}");
        }
    }
}
