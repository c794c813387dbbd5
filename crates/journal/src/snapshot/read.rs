//! Reads a snapshot, and checks it.

use super::check::Checker;
use super::format::{SnapshotHead, SnapshotId, TRAILER_BYTES, name};
use crate::bytes::u32_at;
use crate::error::{Damage, Doing};
use crate::{Error, File, Files};

/// A snapshot that is being read.
pub struct SnapshotReader<F: Files> {
    file: F::File,
    name: String,
    bytes: u64,
    checker: Checker,
}

impl<F: Files> SnapshotReader<F> {
    /// Opens the snapshot at `index`, and checks its head: that it is of this group.
    ///
    /// # Errors
    /// [`Error::File`] if there is none, damage, errors of files.
    pub fn open(files: &F, group: u128, index: u64) -> Result<SnapshotReader<F>, Error> {
        let name = name(index);
        let file = files.open_read_only(&name).doing("opening", &name)?;
        let bytes = file.bytes().doing("opening", &name)?;
        let mut reader = SnapshotReader { file, name, bytes, checker: Checker::default() };
        while reader.checker.head().is_none() {
            // No more than the head: what follows is the caller's.
            let lacks = reader.checker.lacks().map_err(|what| reader.damage(0, what))?;
            reader.step(lacks, &mut |_| {})?;
        }
        let head = reader.head();
        if head.group != group {
            return Err(reader.damage(0, "it is of another group").into());
        }
        if head.index != index {
            return Err(reader.damage(0, "it is of another place").into());
        }
        Ok(reader)
    }

    /// What the snapshot is of.
    pub fn head(&self) -> &SnapshotHead {
        self.checker.head().expect("it is read when the snapshot is opened")
    }

    /// Reads the next part of the state into `data`, replacing what was there. Gives whether there
    /// was one. The state is good only if all parts were read without an error.
    ///
    /// # Errors
    /// Damage, errors of files.
    pub fn next(&mut self, data: &mut Vec<u8>) -> Result<bool, Error> {
        data.clear();
        while data.is_empty() {
            if self.checker.done().is_some() {
                return Ok(false);
            }
            self.step(PIECE_BYTES, &mut |block| data.extend_from_slice(block))?;
        }
        Ok(true)
    }

    /// Reads all that is left, and checks it.
    ///
    /// # Errors
    /// Damage, errors of files.
    pub fn verify(&mut self) -> Result<SnapshotId, Error> {
        while self.checker.done().is_none() {
            self.step(PIECE_BYTES, &mut |_| {})?;
        }
        let id = self.id()?;
        match self.checker.done() {
            Some(sum) if sum == id.sum => Ok(id),
            _ => Err(self.damage(self.bytes, "the sum over all is wrong").into()),
        }
    }

    /// Which file it is, for who is to receive it.
    ///
    /// # Errors
    /// Errors of files.
    pub fn id(&self) -> Result<SnapshotId, Error> {
        let mut trailer = [0; TRAILER_BYTES];
        let at = self.bytes.saturating_sub(TRAILER_BYTES as u64);
        self.file.read_at(&mut trailer, at).doing("reading", &self.name)?;
        let (index, term) = (self.head().index, self.head().term);
        Ok(SnapshotId { index, term, bytes: self.bytes, sum: u32_at(&trailer, 4) })
    }

    /// A piece of the file for a [`super::Receipt`], of at most `bytes_max` bytes; empty at the
    /// end. Who receives it checks it.
    ///
    /// # Errors
    /// Errors of files.
    pub fn piece(&self, at: u64, bytes_max: usize) -> Result<Vec<u8>, Error> {
        let left = self.bytes.saturating_sub(at);
        let mut piece =
            vec![0; usize::try_from(left).map_or(bytes_max, |left| left.min(bytes_max))];
        let read = self.file.read_at(&mut piece, at).doing("reading", &self.name)?;
        piece.truncate(read);
        Ok(piece)
    }

    fn step(&mut self, bytes_max: usize, take: &mut impl FnMut(&[u8])) -> Result<(), Error> {
        let at = self.checker.bytes();
        let piece = self.piece(at, bytes_max)?;
        if piece.is_empty() {
            return Err(self.damage(at, "it is not whole").into());
        }
        let pushed = self.checker.push(&piece, take);
        pushed.map_err(|what| self.damage(self.checker.whole_bytes(), what).into())
    }

    fn damage(&self, at: u64, what: &str) -> Damage {
        Damage::new(&self.name, at, what)
    }
}

/// Read at a time.
const PIECE_BYTES: usize = 64 << 10;
