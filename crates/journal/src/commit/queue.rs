//! What waits for the journal's thread.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{NotTaken, QueueLimits};
use crate::record::{OwnedRecord, Record};
use crate::spare::Spare;
use crate::{Error, Files, HardState};

/// See the functions of [`super::Committer`].
pub(super) enum Command {
    Append(Batch),
    HardState(u64, HardState),
    Truncate(u64, u64),
    Compact(u64, u64),
    Reset(u64, u64),
    Read(u64, u64, usize),
}

/// The records of one append, in two pieces of memory.
pub(super) struct Batch {
    /// Without data, and how long that is.
    heads: Vec<(OwnedRecord, usize)>,
    data: Vec<u8>,
}

impl Batch {
    pub(super) fn new(records: &[Record<'_>]) -> Batch {
        let mut data = Vec::with_capacity(records.iter().map(|record| record.data.len()).sum());
        let heads = records.iter().map(|record| {
            data.extend_from_slice(record.data);
            let Record { place, term, kind, data } = *record;
            (OwnedRecord { place, term, kind, data: Vec::new() }, data.len())
        });
        Batch { heads: heads.collect(), data }
    }

    /// The records.
    pub(super) fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let mut rest = &self.data[..];
        self.heads.iter().map(move |(head, bytes)| {
            let (data, behind) = rest.split_at(*bytes);
            rest = behind;
            Record { data, ..head.borrow() }
        })
    }
}

/// What the thread finds.
pub(super) struct Taken<F: Files> {
    pub(super) commands: Vec<Command>,
    /// A segment that was made.
    pub(super) made: Option<Made<F>>,
    /// No command will follow these.
    pub(super) is_closed: bool,
}

/// How the making of a segment has ended.
pub(super) type Made<F> = Result<Spare<<F as Files>::File>, Error>;

/// Shared by callers, the journal's thread, and the one that makes segments. The lock is held for
/// a few instructions at a time.
pub(super) struct Queue<F: Files> {
    limits: QueueLimits,
    waiting: Mutex<Waiting<F>>,
    changed: Condvar,
}

struct Waiting<F: Files> {
    commands: Vec<Command>,
    bytes: usize,
    made: Option<Made<F>>,
    is_closed: bool,
}

impl<F: Files> Queue<F> {
    pub(super) fn new(limits: QueueLimits) -> Queue<F> {
        let waiting = Waiting { commands: Vec::new(), bytes: 0, made: None, is_closed: false };
        Queue { limits, waiting: Mutex::new(waiting), changed: Condvar::new() }
    }

    /// Puts a command into the queue, if there is room for it. It is made outside of the lock, for
    /// which the journal's thread must not wait, and only if there is room.
    pub(super) fn push(
        &self,
        bytes: usize,
        command: impl FnOnce() -> Command,
    ) -> Result<(), NotTaken> {
        self.limits.check(&self.lock(), bytes)?;
        let command = command();
        let mut waiting = self.lock();
        self.limits.check(&waiting, bytes)?;
        waiting.bytes += bytes;
        waiting.commands.push(command);
        drop(waiting);
        self.changed.notify_all();
        Ok(())
    }

    /// No command is taken any more.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    pub(super) fn made(&self, made: Made<F>) {
        self.lock().made = Some(made);
        self.changed.notify_all();
    }

    /// Waits, for `timeout` if there is one, until something has come; takes everything.
    pub(super) fn take(&self, timeout: Option<Duration>) -> Taken<F> {
        let is_idle = |waiting: &mut Waiting<F>| {
            waiting.commands.is_empty() && waiting.made.is_none() && !waiting.is_closed
        };
        let waiting = self.lock();
        let mut waiting = match timeout {
            None => self.changed.wait_while(waiting, is_idle).unwrap_or_else(unpoisoned),
            Some(timeout) => {
                let waited = self.changed.wait_timeout_while(waiting, timeout, is_idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        waiting.bytes = 0;
        Taken {
            commands: std::mem::take(&mut waiting.commands),
            made: waiting.made.take(),
            is_closed: waiting.is_closed,
        }
    }

    /// Waits until the segment is made that is being made.
    pub(super) fn await_made(&self) -> Made<F> {
        let waiting = self.lock();
        let waited = self.changed.wait_while(waiting, |waiting| waiting.made.is_none());
        let mut waiting = waited.unwrap_or_else(unpoisoned);
        waiting.made.take().expect("it was waited for")
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<F>> {
        self.waiting.lock().unwrap_or_else(unpoisoned)
    }
}

impl QueueLimits {
    /// Whether a command with records of so many bytes is taken.
    fn check<F: Files>(&self, waiting: &Waiting<F>, bytes: usize) -> Result<(), NotTaken> {
        if waiting.is_closed {
            return Err(NotTaken::Closed);
        }
        // What has no data only counts as a command: a vote does not wait for room for records.
        let has_both = waiting.bytes > 0 && bytes > 0;
        let is_long = has_both && waiting.bytes + bytes > self.bytes_max;
        let is_many = waiting.commands.len() >= self.commands_max;
        if is_long || is_many { Err(NotTaken::Busy) } else { Ok(()) }
    }
}

/// Whoever has panicked has left the queue whole: each change of it is one step.
fn unpoisoned<T>(poisoned: PoisonError<T>) -> T {
    poisoned.into_inner()
}
