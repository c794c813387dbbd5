//! Snapshots of a state machine's state, in files (QR21).
//!
//! A snapshot is written under another name, synced, renamed, and the directory is synced: a file
//! with a snapshot's name is whole, or damaged. It is read in blocks, each checked, and sent to
//! others in pieces of the file as it is; they have the same file in the end, and nothing before.
//!
//! All of this is beside the [`crate::Journal`] of the same directory, on any thread: the two share
//! the directory only. Whoever makes a snapshot tells the journal to compact.

mod check;
mod format;
mod read;
mod receive;
mod write;

pub use format::{BLOCK_BYTES, CONFIGURATION_BYTES_MAX, SnapshotHead, SnapshotId};
pub use read::SnapshotReader;
pub use receive::Receipt;
pub use write::SnapshotWriter;

use crate::error::Doing;
use crate::{Error, Files};

/// Bytes that are written before they are synced. More at a time would hold up the log's syncs,
/// which on some file systems wait for everything.
const UNSYNCED_BYTES_MAX: u64 = 4 << 20;

/// The indices of all snapshots, the newest first.
///
/// # Errors
/// If the directory cannot be read.
pub fn indices(files: &impl Files) -> Result<Vec<u64>, Error> {
    let names = files.list().doing("listing", ".")?;
    let mut indices: Vec<u64> = names.iter().filter_map(|name| format::index_of(name)).collect();
    indices.sort_unstable_by(|a, b| b.cmp(a));
    Ok(indices)
}

/// The index of the newest snapshot, 0 if there is none.
pub(crate) fn newest_index(files: &impl Files) -> Result<u64, Error> {
    Ok(indices(files)?.first().copied().unwrap_or(0))
}

/// Whether a file is a snapshot.
pub(crate) fn is_snapshot(name: &str) -> bool {
    format::index_of(name).is_some()
}

/// Whether a file is an unfinished snapshot.
pub(crate) fn is_unfinished(name: &str) -> bool {
    format::is_unfinished_write(name) || format::receipt_of(name).is_some()
}

/// Removes all snapshots but the newest `keep`, which are at least one. Who reads one can go on.
///
/// # Errors
/// If the directory cannot be read or written.
pub fn remove_old(files: &impl Files, keep: usize) -> Result<(), Error> {
    for index in indices(files)?.into_iter().skip(keep.max(1)) {
        let name = format::name(index);
        files.remove(&name).doing("removing", &name)?;
    }
    Ok(())
}

/// Removes what was being written, and receipts that a snapshot has overtaken.
pub(crate) fn remove_leftovers(files: &impl Files) -> Result<(), Error> {
    let newest = newest_index(files)?;
    for name in files.list().doing("listing", ".")? {
        let is_old = format::receipt_of(&name).is_some_and(|id| id.index <= newest);
        if is_old || format::is_unfinished_write(&name) {
            files.remove(&name).doing("removing", &name)?;
        }
    }
    Ok(())
}
