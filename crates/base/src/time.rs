//! Points in time, in nanoseconds since an arbitrary start of the process's clock.

use core::ops::{Add, Sub};
use core::time::Duration;

/// A point in time, in nanoseconds since the clock's start. Only differences mean anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The clock's start.
    pub const ZERO: Time = Time(0);
    /// Later than any time a clock returns: "never".
    pub const NEVER: Time = Time(u64::MAX);

    /// The point `nanos` nanoseconds after the clock's start.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// Nanoseconds since the clock's start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Nanoseconds from `earlier` to `self`, 0 if `earlier` is later.
    pub const fn nanos_since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// `self` plus `nanos`, held at [`Time::NEVER`].
    pub const fn plus_nanos(self, nanos: u64) -> Time {
        Time(self.0.saturating_add(nanos))
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, duration: Duration) -> Time {
        self.plus_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Sub for Time {
    type Output = Duration;
    fn sub(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }
}
