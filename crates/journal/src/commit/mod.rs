//! Group commit (QR18): a thread that writes what has come, syncs, says so, and takes what has come
//! meanwhile.
//!
//! Nobody waits for it. Calls put a command into a bounded queue, and are refused if it is full;
//! outcomes come as [`Event`]s, on the thread, by a function that the caller gives, which must not
//! wait. A batch is what has come since the last sync was begun: with one caller that waits for
//! each answer it is one append, and it grows with the load.
//!
//! Segments are made beforehand by a second thread that ends when it has made one. If there is no
//! space for one, commands for it are refused before they are written, and it is looked for again
//! each second (QR20).
//!
//! Invariants: commands are done in the order in which they came. The last event is
//! [`Event::Ended`]; after a failure everything that is still queued has no event but that.

mod queue;
mod work;

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use thiserror::Error;

use self::queue::{Batch, Command, Queue};
use self::work::Worker;
use crate::record::{OwnedRecord, Record};
use crate::{Error, Files, HardState, Journal};

/// Bounds of a [`Committer`]'s queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Commands that wait at most.
    pub commands_max: usize,
    /// The bytes of the records that wait at most, with headers. One append may have more if
    /// nothing else waits.
    pub bytes_max: usize,
}

impl Default for QueueLimits {
    /// 4096 commands, 16 MiB.
    fn default() -> QueueLimits {
        QueueLimits { commands_max: 4096, bytes_max: 16 << 20 }
    }
}

/// What has come of a command. `token` is the command's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// All records up to this place are durable.
    Durable {
        /// The place.
        upto: u64,
    },
    /// Records from `place` on, of one append or several, were not written.
    Refused {
        /// The first one's place.
        place: u64,
        /// Why.
        error: Error,
    },
    /// A change is durable, or was refused and has changed nothing.
    Done {
        /// Which.
        token: u64,
        /// How it ended.
        result: Result<(), Error>,
    },
    /// Records that were asked for.
    Read {
        /// Which.
        token: u64,
        /// The records.
        result: Result<Vec<OwnedRecord>, Error>,
    },
    /// Whether there is no space for another segment: what is in the log goes on, but no new
    /// commands should be begun.
    Space {
        /// Whether it is so.
        is_full: bool,
    },
    /// The thread ends: because it was told to, or since something has failed for good.
    Ended {
        /// How.
        result: Result<(), Error>,
    },
}

/// Why a command was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotTaken {
    /// The queue is full: to be tried again after the next event.
    #[error("the journal's queue is full")]
    Busy,
    /// The thread has ended.
    #[error("the journal is closed")]
    Closed,
}

/// A journal with a thread. Dropped, it does what is queued, and closes the journal.
pub struct Committer<F: Files> {
    queue: Arc<Queue<F>>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl<F: Files> Committer<F> {
    /// Starts the thread. `tell` gets what happens.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(
        journal: Journal<F>,
        limits: QueueLimits,
        tell: impl FnMut(Event) + Send + 'static,
    ) -> std::io::Result<Committer<F>> {
        let queue = Arc::new(Queue::new(limits));
        let worker = Worker::new(journal, queue.clone(), Box::new(tell));
        let thread = thread::Builder::new().name("journal".to_owned()).spawn(|| worker.run())?;
        Ok(Committer { queue, thread: Some(thread) })
    }

    /// Appends records: [`Event::Durable`] or [`Event::Refused`] follows.
    ///
    /// # Errors
    /// If the queue is full, or closed.
    pub fn append(&self, records: &[Record<'_>]) -> Result<(), NotTaken> {
        let bytes = records.iter().map(Record::bytes).sum();
        self.queue.push(bytes, || Command::Append(Batch::new(records)))
    }

    /// See [`Journal::set_hard_state`].
    ///
    /// # Errors
    /// If the queue is full, or closed.
    pub fn set_hard_state(&self, token: u64, hard: HardState) -> Result<(), NotTaken> {
        self.queue.push(0, || Command::HardState(token, hard))
    }

    /// See [`Journal::truncate`].
    ///
    /// # Errors
    /// If the queue is full, or closed.
    pub fn truncate(&self, token: u64, place: u64) -> Result<(), NotTaken> {
        self.queue.push(0, || Command::Truncate(token, place))
    }

    /// See [`Journal::compact`].
    ///
    /// # Errors
    /// If the queue is full, or closed.
    pub fn compact(&self, token: u64, upto: u64) -> Result<(), NotTaken> {
        self.queue.push(0, || Command::Compact(token, upto))
    }

    /// See [`Journal::reset`].
    ///
    /// # Errors
    /// If the queue is full, or closed.
    pub fn reset(&self, token: u64, place: u64) -> Result<(), NotTaken> {
        self.queue.push(0, || Command::Reset(token, place))
    }

    /// See [`Journal::read`].
    ///
    /// # Errors
    /// If the queue is full, or closed.
    pub fn read(&self, token: u64, place: u64, bytes_max: usize) -> Result<(), NotTaken> {
        self.queue.push(0, || Command::Read(token, place, bytes_max))
    }

    /// Does what is queued, and closes the journal.
    ///
    /// # Errors
    /// Why the journal has failed.
    ///
    /// # Panics
    /// If the function that gets events has.
    pub fn close(mut self) -> Result<(), Error> {
        self.end().expect("the journal's thread has not panicked")
    }

    fn end(&mut self) -> thread::Result<Result<(), Error>> {
        self.queue.close();
        self.thread.take().map_or(Ok(Ok(())), JoinHandle::join)
    }
}

impl<F: Files> Drop for Committer<F> {
    fn drop(&mut self) {
        // Whoever wants to know closes it.
        let _ = self.end();
    }
}
