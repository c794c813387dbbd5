//! Parameters out of range.

use core::fmt;

/// A parameter is out of its documented range. The configuration is at fault; a retry fails again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CongestionConfigError {
    /// The parameter.
    pub parameter: &'static str,
}

impl fmt::Display for CongestionConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "congestion control: {} is out of its range", self.parameter)
    }
}

impl core::error::Error for CongestionConfigError {}

/// Returns the error if a parameter is not `valid`.
pub(super) fn check(parameter: &'static str, valid: bool) -> Result<(), CongestionConfigError> {
    if valid { Ok(()) } else { Err(CongestionConfigError { parameter }) }
}

/// Whether `value` is a number above 0 and at most 1. False for NaN.
pub(super) fn is_fraction(value: f64) -> bool {
    value > 0.0 && value <= 1.0
}

/// The longest round trip or delay that a parameter may have: a second.
pub(super) const DELAY_NS_MAX: u64 = 1_000_000_000;
