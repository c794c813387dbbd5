//! A durable log for consensus: segments, hard state, and snapshots, over a file trait.
//!
//! It keeps one promise, in the rules QR17 to QR21 of `docs/spec/replication.md`: what it has said
//! to be durable is there after a crash of the process or the host, unchanged, or the journal does
//! not open and says what is damaged. The reasons are in ADR 53.
//!
//! - [`Journal`]: the log and the hard state, without a thread.
//! - [`Committer`]: the same with a thread: group commit.
//! - [`SnapshotWriter`], [`SnapshotReader`], [`Receipt`]: snapshots, beside it.
//! - [`verify`]: what a directory has, for operators.
//! - [`Files`]: what it asks of a file system; [`SystemFiles`] is the system's, [`MemoryFiles`]
//!   ends with the process, and `petasos-sim` has one with faults.
//!
//! Boundary rule: it does not know what records, terms and states mean, and not who reads them.

#![forbid(unsafe_code)]

mod bytes;
mod commit;
mod error;
mod files;
mod identity;
mod log;
mod memory;
mod record;
mod segment;
pub mod snapshot;
mod spare;
mod state;
mod survey;
mod system;
mod verify;

pub use commit::{Committer, Event, NotTaken, QueueLimits};
pub use error::{Damage, Error, FileFailure, IdentityError};
pub use files::{File, FileError, Files};
pub use identity::Identity;
pub use log::{Config, Journal};
pub use memory::{MemoryFile, MemoryFiles};
pub use record::{HEADER_BYTES, OwnedRecord, Record};
pub use snapshot::{Receipt, SnapshotHead, SnapshotId, SnapshotReader, SnapshotWriter};
pub use spare::{Preparation, Spare};
pub use state::HardState;
pub use system::{SystemFile, SystemFiles, SystemLock};
pub use verify::{Report, SegmentReport, verify};
