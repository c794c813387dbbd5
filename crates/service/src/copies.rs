//! Copies of requests that are under way, for servers beside those of the requests (E2).

use std::collections::BTreeSet;

use petasos_base::Time;

use crate::remote_calls::RemoteCall;

/// As many copies are under way.
const COPIES_MAX: usize = 1024;
/// As many bytes they have.
const COPIED_BYTES_MAX: usize = 64 << 20;

/// The copies that are under way.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    /// When they are cancelled, and their names.
    by_end: BTreeSet<(Time, RemoteCall)>,
    bytes: usize,
    /// Those that were made, and those that were not.
    pub(crate) counts: CopyCounts,
}

/// What became of requests of which policies wanted copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyCounts {
    /// Copies that were sent.
    pub sent: u64,
    /// Copies that were not made: too many were under way, or nobody takes them.
    pub dropped: u64,
}

impl Copies {
    pub(crate) fn insert(&mut self, until: Time, bytes: u32, call: RemoteCall) {
        self.by_end.insert((until, call));
        self.bytes += bytes as usize;
    }

    pub(crate) fn remove(&mut self, until: Time, bytes: u32, call: RemoteCall) {
        if self.by_end.remove(&(until, call)) {
            self.bytes -= bytes as usize;
        }
    }

    /// When the next one is cancelled.
    #[inline]
    pub(crate) fn due(&self) -> Time {
        self.by_end.first().map_or(Time::NEVER, |(until, _)| *until)
    }

    /// The one that is cancelled next, and when.
    pub(crate) fn first(&self) -> Option<(Time, RemoteCall)> {
        self.by_end.first().copied()
    }

    /// Whether another one may begin.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.by_end.len() < COPIES_MAX && self.bytes + bytes <= COPIED_BYTES_MAX
    }
}
