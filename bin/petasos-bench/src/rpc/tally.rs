//! What calls that carry numbers tell besides a turn's totals: how many ended in each slice of the
//! turn, the longest time in which none ended, and whether each ran once.

use serde::{Deserialize, Serialize};

/// The length of a slice, in nanoseconds.
pub const SLICE_NS: u64 = 1_000_000;

/// Numbered calls of a turn. A side leaves at 0 what it does not know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tally {
    /// When the turn began, in nanoseconds of the system's monotonic clock.
    pub begun_ns: u64,
    /// Calls that ended in each slice.
    pub per_slice: Vec<u32>,
    /// The longest time between the ends of two calls of which the later ended in the slice, in
    /// nanoseconds.
    pub gap_ns: Vec<u32>,
    /// Calls that were made.
    pub sent: u64,
    /// Of these, those that were answered with their number.
    pub answered: u64,
    /// Why the first of the others was not answered, if it ended.
    pub error: String,
    /// Calls that a server has run so far, each number once.
    pub unique: u64,
    /// Calls that it has run again.
    pub repeated: u64,
}
