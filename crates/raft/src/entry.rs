//! Entries of the log.

use crate::position::NUMBER_MAX;
use crate::{Membership, Position};

/// What an entry is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A command, which is the caller's.
    Command = 0,
    /// The first entry of a leader. Its data is the term, 8 bytes.
    Term = 1,
    /// A configuration ([`Membership::encode`]).
    Configuration = 2,
}

impl Kind {
    /// The kind with this number.
    pub fn of(number: u8) -> Option<Kind> {
        [Kind::Command, Kind::Term, Kind::Configuration].get(usize::from(number)).copied()
    }
}

/// An entry, as it is kept in the log, the journal and messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its place, and its term.
    pub position: Position,
    /// What it is for.
    pub kind: Kind,
    /// Its data.
    pub data: &'a [u8],
}

/// What an entry's data says to the algorithm.
pub(crate) enum Meaning {
    Command,
    Term(u64),
    Configuration(Membership),
}

/// Reads an entry's data. [`None`] if that is not what its kind needs.
pub(crate) fn meaning(kind: Kind, data: &[u8]) -> Option<Meaning> {
    match kind {
        Kind::Command => Some(Meaning::Command),
        Kind::Term => {
            let term = u64::from_le_bytes(data.try_into().ok()?);
            (1..NUMBER_MAX).contains(&term).then_some(Meaning::Term(term))
        }
        Kind::Configuration => Membership::decode(data).map(Meaning::Configuration),
    }
}
