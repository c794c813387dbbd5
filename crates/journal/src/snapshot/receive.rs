//! Receives a snapshot in pieces, over as many connections, and starts, as it takes.

use super::UNSYNCED_BYTES_MAX;
use super::check::Checker;
use super::format::{SnapshotHead, SnapshotId, receipt_name, receipt_of};
use super::write::publish;
use crate::error::Doing;
use crate::{Error, File, FileError, Files};

/// A snapshot that is being received. Dropped, it can be gone on with ([`Receipt::begin`]).
///
/// Invariant: everything that was received is checked; nothing but its own file has changed before
/// all of it is.
pub struct Receipt<F: Files> {
    files: F,
    file: F::File,
    name: String,
    group: u128,
    id: SnapshotId,
    checker: Checker,
    synced: u64,
}

impl<F: Files> Receipt<F> {
    /// Begins to receive the snapshot `id` of `group`, or goes on with it: the parts that are
    /// whole are kept. What was received of other ones is removed.
    ///
    /// # Errors
    /// [`Error::Full`], errors of files.
    pub fn begin(files: F, group: u128, id: SnapshotId) -> Result<Receipt<F>, Error> {
        let own = receipt_name(&id);
        for name in files.list().doing("listing", ".")? {
            if name != own && receipt_of(&name).is_some() {
                files.remove(&name).doing("removing", &name)?;
            }
        }
        let file = match files.open(&own) {
            Err(FileError::NotFound) => files.create(&own).doing("making", &own)?,
            file => file.doing("opening", &own)?,
        };
        let mut checker = Checker::default();
        if read_again(&file, group, &id, &mut checker).doing("reading", &own)?.is_err() {
            // What follows a part that is not good is overwritten.
            checker.drop_partial();
        }
        if checker.head().is_some_and(|head| !is_of(head, group, &id)) {
            checker = Checker::default();
        }
        checker.drop_partial();
        // It is synced when it is finished, all that was kept included.
        let synced = checker.bytes();
        Ok(Receipt { files, file, name: own, group, id, checker, synced })
    }

    /// Where the next piece begins.
    pub fn received(&self) -> u64 {
        self.checker.bytes()
    }

    /// Takes a piece that begins at `at` in the snapshot's file.
    ///
    /// # Errors
    /// [`Error::BadPiece`] if it is not the next one, or not as it was written: what is whole so
    /// far is kept, and [`Receipt::received`] says where to go on. [`Error::Full`]: the same piece
    /// may be given again. [`Error::Failed`] is final.
    pub fn piece(&mut self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        if at != self.received() {
            return Err(Error::BadPiece { what: "it is not the next one" });
        }
        if bytes.len() as u64 > self.id.bytes - at {
            return Err(Error::BadPiece { what: "it goes beyond the snapshot's end" });
        }
        // Written first: if there is no space, nothing is taken.
        self.file.write_at(bytes, at).doing("writing", &self.name)?;
        if let Err(what) = self.checker.push(bytes, |_| {}) {
            self.checker.drop_partial();
            return Err(Error::BadPiece { what });
        }
        if self.checker.head().is_some_and(|head| !is_of(head, self.group, &self.id)) {
            self.checker = Checker::default();
            return Err(Error::BadPiece { what: "it is of another snapshot" });
        }
        if self.received() - self.synced > UNSYNCED_BYTES_MAX {
            self.sync()?;
        }
        Ok(())
    }

    /// Whether all of it has come, and is good.
    pub fn is_whole(&self) -> bool {
        self.checker.done() == Some(self.id.sum) && self.received() == self.id.bytes
    }

    /// Gives up: what was received is removed.
    ///
    /// # Errors
    /// Errors of files.
    pub fn discard(self) -> Result<(), Error> {
        self.files.remove(&self.name).doing("removing", &self.name)
    }

    /// Makes the snapshot durable, and gives it its name: it is one of this member's now.
    ///
    /// # Errors
    /// [`Error::BadPiece`] if it is not whole; [`Error::Failed`] is final.
    pub fn finish(mut self) -> Result<SnapshotId, Error> {
        if !self.is_whole() {
            return Err(Error::BadPiece { what: "it is not whole" });
        }
        if self.file.bytes().doing("reading", &self.name)? != self.id.bytes {
            // Nobody has received that: it is begun anew.
            self.files.remove(&self.name).doing("removing", &self.name)?;
            return Err(Error::BadPiece { what: "its file is longer than the snapshot" });
        }
        self.sync()?;
        publish(&self.files, &self.name, self.id.index)?;
        Ok(self.id)
    }

    /// After a sync that has failed, the system may show what the disk does not have: so nothing
    /// is gone on with.
    fn sync(&mut self) -> Result<(), Error> {
        let synced = self.file.sync().or_failed("syncing", &self.name);
        if synced.is_err() {
            let _ = self.files.remove(&self.name);
        }
        self.synced = self.received();
        synced
    }
}

/// Checks what an earlier receipt has left. The outer error is the file's.
fn read_again(
    file: &impl File,
    group: u128,
    id: &SnapshotId,
    checker: &mut Checker,
) -> Result<Result<(), &'static str>, FileError> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = 0;
    loop {
        let left = usize::try_from(id.bytes - at).unwrap_or(usize::MAX);
        let part = left.min(PIECE_BYTES);
        let read = file.read_at(&mut piece[..part], at)?;
        if read == 0 {
            return Ok(Ok(()));
        }
        if let Err(what) = checker.push(&piece[..read], |_| {}) {
            return Ok(Err(what));
        }
        if checker.head().is_some_and(|head| !is_of(head, group, id)) {
            return Ok(Err("it is of another snapshot"));
        }
        at += read as u64;
    }
}

fn is_of(head: &SnapshotHead, group: u128, id: &SnapshotId) -> bool {
    (head.group, head.index, head.term) == (group, id.index, id.term)
}

/// Read at a time.
const PIECE_BYTES: usize = 64 << 10;
