//! What has to be made durable, in which order, and what has come of it.

use super::Replica;
use crate::core::Diverged;
use crate::durability::Durability;
use crate::{Output, Write};

/// Writes that were not handed over yet. Later ones of a kind replace earlier ones.
pub(super) struct Writes {
    /// The next entry that is handed over.
    next: u64,
    hard_state: Option<u64>,
    /// Token and first entry.
    truncate: Option<(u64, u64)>,
    reset: Option<(u64, u64)>,
}

impl Writes {
    pub(super) fn new(next: u64) -> Writes {
        Writes { next, hard_state: None, truncate: None, reset: None }
    }

    pub(super) fn hard_state(&mut self, durability: &mut Durability) {
        if self.hard_state.is_none() {
            self.hard_state = Some(durability.hard_state());
        }
    }

    /// Entries from `index` on go.
    pub(super) fn truncate(&mut self, index: u64, durability: &mut Durability) {
        if index < self.next {
            let first = self.truncate.map_or(index, |(_, first)| first.min(index));
            self.truncate = Some((durability.cut(index - 1), first));
        }
    }

    /// The log is empty and begins with `index`.
    pub(super) fn reset(&mut self, index: u64, durability: &mut Durability) {
        self.truncate = None;
        self.reset = Some((durability.reset(index - 1), index));
    }
}

impl Replica {
    /// The write of this token, and those before it, are durable.
    ///
    /// # Errors
    /// See [`Replica::receive`].
    ///
    /// # Panics
    /// If no such write was asked for.
    pub fn done(&mut self, now_us: u64, token: u64) -> Result<(), Diverged> {
        self.now_us = now_us;
        self.durability.done(token);
        self.durable()
    }

    /// Entries up to `upto` are durable, in the log as its writer has it at this time.
    ///
    /// # Errors
    /// See [`Replica::receive`].
    pub fn appended(&mut self, now_us: u64, upto: u64) -> Result<(), Diverged> {
        self.now_us = now_us;
        self.durability.appended(upto);
        self.durable()
    }

    fn durable(&mut self) -> Result<(), Diverged> {
        self.answer_when_durable();
        self.count_followers()
    }

    pub(super) fn poll_write(&mut self) -> Option<Write> {
        let token = |write: Option<(u64, u64)>| write.map_or(u64::MAX, |(token, _)| token);
        let hard_state = self.writes.hard_state.unwrap_or(u64::MAX);
        let (truncate, reset) = (token(self.writes.truncate), token(self.writes.reset));
        let first = hard_state.min(truncate).min(reset);
        if first == u64::MAX {
            return self.poll_append();
        }
        if first == hard_state {
            self.writes.hard_state = None;
            let (term, vote) = (self.core.term(), self.core.vote());
            return Some(Write::HardState { token: first, term, vote });
        }
        if first == reset {
            let (token, index) = self.writes.reset.take()?;
            self.writes.next = index;
            return Some(Write::Reset { token, index });
        }
        let (token, index) = self.writes.truncate.take()?;
        self.writes.next = index;
        Some(Write::Truncate { token, index })
    }

    fn poll_append(&mut self) -> Option<Write> {
        let (first, next) = (self.writes.next, self.tail.next());
        debug_assert!(self.tail.first() <= first, "what is not durable is in memory");
        // A log that was cut is shorter than what is written, until it goes on.
        if first >= next {
            return None;
        }
        self.writes.next = next;
        Some(Write::Append { first, last: next - 1 })
    }

    /// The next thing to do. If it is a message, its bytes have been written to `bytes`, which is
    /// cleared first.
    ///
    /// What [`Write::Append`] names has to be read before the next input.
    pub fn poll(&mut self, bytes: &mut Vec<u8>) -> Option<Output> {
        bytes.clear();
        if let Some(write) = self.poll_write() {
            return Some(Output::Write(write));
        }
        if let Some(to) = self.poll_message(bytes) {
            return Some(Output::Send { to });
        }
        self.events.pop_front().or_else(|| self.poll_read())
    }
}
