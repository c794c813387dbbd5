//! What of a replica's state is durable (QR5).
//!
//! A replica has its writes done in order, by whoever has its files, and hears of them in that
//! order. Until a term and a vote are durable it says nothing that follows from them, and it
//! acknowledges no entry before that is.

use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Durability {
    /// The tokens of writes: those up to `done` are durable.
    given: u64,
    done: u64,
    /// The token of the last write of the hard state.
    hard_state: u64,
    /// Entries up to here are.
    entries: u64,
    /// Cuts that are under way, with the last entry that each leaves: what is told of entries
    /// meanwhile is of the log before.
    cuts: VecDeque<(u64, u64)>,
}

impl Durability {
    /// Of a replica whose log is on disk up to `entries`.
    pub(crate) fn new(entries: u64) -> Durability {
        Durability { given: 0, done: 0, hard_state: 0, entries, cuts: VecDeque::new() }
    }

    fn token(&mut self) -> u64 {
        self.given += 1;
        self.given
    }

    /// The hard state is written: the token of the write.
    pub(crate) fn hard_state(&mut self) -> u64 {
        self.hard_state = self.token();
        self.hard_state
    }

    /// Entries behind `last` go: the token of the write.
    pub(crate) fn cut(&mut self, last: u64) -> u64 {
        let token = self.token();
        self.entries = self.entries.min(last);
        self.cuts.push_back((token, last));
        token
    }

    /// The log is emptied, and begins behind `last`, which a durable snapshot has.
    pub(crate) fn reset(&mut self, last: u64) -> u64 {
        let token = self.token();
        self.entries = last;
        // What is told of the old log from now on is at most this.
        self.cuts.push_back((token, last));
        token
    }

    /// All writes up to `token` are durable.
    pub(crate) fn done(&mut self, token: u64) {
        assert!(token <= self.given, "only what was asked for ends");
        self.done = self.done.max(token);
        while self.cuts.front().is_some_and(|(cut, _)| *cut <= self.done) {
            self.cuts.pop_front();
        }
    }

    /// Entries up to `upto` are durable, in the log as the writer has it.
    pub(crate) fn appended(&mut self, upto: u64) {
        let upto = self.cuts.iter().fold(upto, |upto, (_, last)| upto.min(*last));
        self.entries = self.entries.max(upto);
    }

    /// A durable snapshot has what is up to `index`.
    pub(crate) fn snapshot(&mut self, index: u64) {
        self.entries = self.entries.max(index);
    }

    /// The last entry that is durable.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// What has to be done before what the replica says now may be heard.
    pub(crate) fn barrier(&self) -> u64 {
        self.hard_state
    }

    /// Whether the write of this token, and all before it, are durable.
    pub(crate) fn is_done(&self, token: u64) -> bool {
        token <= self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An old log's entries do not count for the new one's (QR5).
    #[test]
    fn what_was_cut_off_does_not_count() {
        let mut durability = Durability::new(3);
        durability.appended(5);
        assert_eq!(durability.entries(), 5);
        let cut = durability.cut(4);
        assert_eq!(durability.entries(), 4);
        // Entries 6 to 8 were on their way when they were cut off.
        durability.appended(8);
        assert_eq!(durability.entries(), 4);
        durability.done(cut);
        durability.appended(6);
        assert_eq!(durability.entries(), 6);
    }

    #[test]
    fn a_later_hard_state_waits_for_itself() {
        let mut durability = Durability::new(0);
        assert!(durability.is_done(durability.barrier()));
        let first = durability.hard_state();
        let second = durability.hard_state();
        durability.done(first);
        assert!(!durability.is_done(durability.barrier()));
        durability.done(second);
        assert!(durability.is_done(durability.barrier()));
    }
}
