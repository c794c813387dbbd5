//! Members, and places of the log.

use std::fmt;

/// A member's number. It is never given twice in a group (QR8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u64);

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A place of the log, with the term of the entry there. 0 of term 0 is before the first entry.
///
/// Positions are ordered as Raft compares logs: by term, then by index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The entry's term.
    pub term: u64,
    /// The entry's place, counted from 1.
    pub index: u64,
}

impl Position {
    /// Before the first entry.
    pub const ZERO: Position = Position { term: 0, index: 0 };
}

/// The largest term and index that is believed. Counting up from here takes longer than anybody
/// waits, so that a message cannot make a sum overflow.
pub(crate) const NUMBER_MAX: u64 = 1 << 62;
