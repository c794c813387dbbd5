//! Where a member's log is kept: on a disk, or by the majority's memory alone.
//!
//! A replica says what is to be written ([`Write`]), in order, and hears what has been. A [`Log`]
//! does that on a thread of its own, or at once.

mod disk;
mod memory;

use petasos_journal::{Error, OwnedRecord};
use petasos_raft::{MemberId, Replica, Write};

pub use disk::{DiskLog, OpenError, Opened};
pub use memory::MemoryLog;

/// What has come of writes, in their order.
#[derive(Debug)]
pub enum Ended {
    /// [`Replica::done`].
    Done(u64),
    /// [`Replica::appended`].
    Appended(u64),
    /// Whether there is no space for more: new commands are refused until there is (QR20).
    Full(bool),
    /// Entries for a follower ([`Replica::fetched`]); none if the log has them no longer.
    Fetched(MemberId, Vec<OwnedRecord>),
    /// Nothing is written any more: the member ends (QR20).
    Failed(Error),
}

/// Keeps a log.
pub trait Log {
    /// Begins a write. Entries are the replica's, as they are now.
    fn write(&mut self, write: Write, replica: &Replica);

    /// Whether entries can be read again. If not, the replica keeps all that its log has.
    fn can_fetch(&self) -> bool;

    /// Begins to read entries from `index` on, for a follower.
    fn fetch(&mut self, to: MemberId, index: u64);

    /// A durable snapshot has everything up to `index`.
    fn compact(&mut self, index: u64);

    /// What has ended, if anything has. Writes that could not be done are tried again here.
    fn next(&mut self, replica: &Replica) -> Option<Ended>;
}
