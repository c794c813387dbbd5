//! The configurations that a log has.

use std::collections::VecDeque;

use crate::Membership;

/// The configuration where the log begins, and those of its entries. The latest counts, committed
/// or not (Raft, section 6).
#[derive(Debug)]
pub(crate) struct Configurations {
    /// Its index, 0 if there is none yet.
    begin: (u64, Membership),
    entries: VecDeque<(u64, Membership)>,
}

impl Configurations {
    pub(crate) fn new(index: u64, membership: Membership) -> Configurations {
        Configurations { begin: (index, membership), entries: VecDeque::new() }
    }

    pub(crate) fn push(&mut self, index: u64, membership: Membership) {
        debug_assert!(self.latest_index() < index);
        self.entries.push_back((index, membership));
    }

    /// The one that counts.
    pub(crate) fn latest(&self) -> &Membership {
        self.entries.back().map_or(&self.begin.1, |(_, membership)| membership)
    }

    /// The entry of the one that counts.
    pub(crate) fn latest_index(&self) -> u64 {
        self.entries.back().map_or(self.begin.0, |(index, _)| *index)
    }

    /// The one that counted when the log ended with `index`.
    pub(crate) fn at(&self, index: u64) -> &Membership {
        let until = self.entries.partition_point(|(at, _)| *at <= index);
        until.checked_sub(1).map_or(&self.begin.1, |last| &self.entries[last].1)
    }

    /// Entries from `index` on are gone.
    pub(crate) fn truncate(&mut self, index: u64) {
        self.entries.truncate(self.entries.partition_point(|(at, _)| *at < index));
    }

    /// The log begins behind `index` now.
    pub(crate) fn compact(&mut self, index: u64) {
        while self.entries.front().is_some_and(|(at, _)| *at <= index) {
            self.begin = self.entries.pop_front().expect("there is one");
        }
    }
}
