//! The journal of one member: the log's segments, its hard state, and the lock on all of it.
//!
//! It has no thread: each call does its work and returns, so that it runs in simulation;
//! [`crate::Committer`] has a thread for it. The order of calls:
//!
//! 1. [`Journal::create`] once, and then [`Journal::open`] at each start. What the log has then is
//!    durable.
//! 2. [`Journal::append`] writes records, and [`Journal::sync`] makes durable all that were
//!    appended: it says up to which place. One sync for many appends is the group commit of QR18.
//! 3. Everything else is durable when it returns.
//!
//! Invariants:
//! - Records are written where space was made beforehand. If none can be made, an append is refused
//!   as a whole, and the journal is as it was.
//! - After a write or sync that has failed, every call fails with the same error (QR20): nothing
//!   is tried again, since what the system has dropped would then count as written.

mod append;
mod create;
mod cut;
mod open;

use std::collections::VecDeque;

use crate::record::{DATA_BYTES_MAX, OwnedRecord, record_bytes};
use crate::segment::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, Segment, segment_end};
use crate::spare::{Preparation, Spare};
use crate::state::StateFile;
use crate::{Error, Files, HardState, Identity};

/// Settings of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The length of new segments, from 8 KiB to 1 GiB.
    pub segment_bytes: u32,
    /// Snapshots that are kept, at least one; older ones are removed.
    pub snapshots_kept: usize,
}

impl Default for Config {
    /// Segments of 16 MiB, one of which is written at each start, and two snapshots: the last one,
    /// and one that may be on its way to a learner.
    fn default() -> Config {
        Config { segment_bytes: 16 << 20, snapshots_kept: 2 }
    }
}

impl Config {
    /// The most data that a record can have.
    pub fn data_bytes_max(&self) -> usize {
        let room = self.segment_bytes as usize - segment_end(0) as usize;
        (room - record_bytes(0)).min(DATA_BYTES_MAX)
    }

    /// # Panics
    /// If something is out of its range: the caller's fault.
    fn check(&self) {
        let range = SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX;
        assert!(range.contains(&self.segment_bytes), "segments have 8 KiB to 1 GiB");
        assert!(self.segment_bytes.is_multiple_of(4096), "segments have whole pages");
        assert!(self.snapshots_kept > 0, "the last snapshot is kept");
    }
}

/// See the module.
pub struct Journal<F: Files> {
    files: F,
    identity: Identity,
    config: Config,
    /// By number; never empty. The last one is written.
    segments: VecDeque<Segment<F::File>>,
    /// Segments to come.
    spares: VecDeque<Spare<F::File>>,
    /// Counts spares that were begun, for their names.
    spares_begun: u64,
    state: StateFile<F::File>,
    /// Why nothing is done any more.
    failed: Option<Error>,
    /// Up to this place, records are durable.
    durable: u64,
    /// Kept for its memory.
    buffer: Vec<u8>,
    _lock: F::Lock,
}

impl<F: Files> Journal<F> {
    /// The log's first place.
    pub fn first_place(&self) -> u64 {
        self.segments[0].header.first_place
    }

    /// The place of the next record.
    pub fn next_place(&self) -> u64 {
        self.last().next_place()
    }

    /// Up to this place the log is durable.
    pub fn durable_place(&self) -> u64 {
        self.durable
    }

    /// Whose it is.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Its files, for what is done beside it: snapshots.
    pub fn files(&self) -> &F {
        &self.files
    }

    /// Its settings.
    pub fn config(&self) -> Config {
        self.config
    }

    /// The hard state that is durable.
    pub fn hard_state(&self) -> HardState {
        self.state.stored.hard
    }

    /// Makes `hard` durable. It needs no space.
    ///
    /// # Errors
    /// [`Error::Failed`]: final.
    pub fn set_hard_state(&mut self, hard: HardState) -> Result<(), Error> {
        self.working(|journal| journal.state.set_hard(hard))
    }

    /// Reads records from `place` on: as many as have `bytes_max` bytes with their headers, but at
    /// least one. What was not synced yet is read, too.
    ///
    /// # Errors
    /// [`Error::NotThere`] if the log does not have the place; damage that has come since the
    /// start.
    pub fn read(&self, place: u64, bytes_max: usize) -> Result<Vec<OwnedRecord>, Error> {
        self.is_working()?;
        let (first, next) = (self.first_place(), self.next_place());
        if !(first..next).contains(&place) {
            return Err(Error::NotThere { place, first, last: next - 1 });
        }
        let (mut records, mut bytes) = (Vec::new(), 0);
        for place in place..next {
            let segment = self.segment_of(place);
            bytes += segment.record_bytes(place);
            if bytes > bytes_max && !records.is_empty() {
                break;
            }
            records.push(segment.read(place)?);
        }
        Ok(records)
    }

    /// What is to be done so that the next segment is there when it is needed: on another thread,
    /// since it takes long. Nothing if there is one.
    pub fn prepare(&mut self) -> Option<Preparation<F>> {
        let wanted = self.spares.is_empty() && self.failed.is_none();
        wanted.then(|| self.preparation())
    }

    /// Takes what a [`Preparation`] has made.
    ///
    /// # Errors
    /// [`Error::Full`] if there is no space for it: [`Journal::prepare`] is tried again later.
    /// [`Error::Failed`] is final.
    pub fn prepared(&mut self, made: Result<Spare<F::File>, Error>) -> Result<(), Error> {
        self.working(|journal| {
            journal.spares.push_back(made?);
            Ok(())
        })
    }

    /// The bytes that records, with headers and padding, can take before a segment has to be made.
    pub fn room(&self) -> usize {
        let spares: usize = self.spares.iter().map(Spare::room).sum();
        self.last().room() + spares
    }

    /// Makes all durable, and leaves nothing that the next start would have to judge.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn close(mut self) -> Result<(), Error> {
        self.settle()
    }

    fn preparation(&mut self) -> Preparation<F> {
        self.spares_begun += 1;
        Preparation::new(self.files.clone(), self.spares_begun, self.config.segment_bytes)
    }

    fn segment_of(&self, place: u64) -> &Segment<F::File> {
        let behind = self.segments.partition_point(|one| one.header.first_place <= place);
        &self.segments[behind - 1]
    }

    fn last(&self) -> &Segment<F::File> {
        self.segments.back().expect("there is always a segment")
    }

    fn last_mut(&mut self) -> &mut Segment<F::File> {
        self.segments.back_mut().expect("there is always a segment")
    }

    fn is_working(&self) -> Result<(), Error> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Does `work`, if nothing has failed so far. A failure is remembered.
    fn working<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        self.is_working()?;
        let done = work(self);
        if let Err(error @ Error::Failed(_)) = &done {
            self.failed = Some(error.clone());
        }
        done
    }
}
