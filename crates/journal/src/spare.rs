//! Segments to come: made in full, under another name, beside the work of the journal.

use crate::error::Doing;
use crate::segment::segment_end;
use crate::{Error, File, FileError, Files};

/// A segment that was made and is not used yet.
#[derive(Debug)]
pub struct Spare<F> {
    file: F,
    name: String,
    bytes: u32,
}

/// The work of making a segment. It may be done on any thread, and needs nothing of the journal.
#[derive(Debug)]
pub struct Preparation<F> {
    files: F,
    name: String,
    bytes: u32,
}

const PREFIX: &str = "spare-";

/// Whether a file is a spare. Those of earlier processes are removed at a start.
pub(crate) fn is_spare(name: &str) -> bool {
    name.starts_with(PREFIX)
}

impl<F: Files> Preparation<F> {
    pub(crate) fn new(files: F, number: u64, bytes: u32) -> Preparation<F> {
        Preparation { files, name: format!("{PREFIX}{number:016x}"), bytes }
    }

    /// Makes the segment.
    ///
    /// # Errors
    /// [`Error::Full`], with nothing left behind; [`Error::Failed`] is final.
    pub fn run(self) -> Result<Spare<F::File>, Error> {
        let Preparation { files, name, bytes } = self;
        let made = Self::make(&files, &name, bytes);
        if made.is_err() {
            // It gives its space back, if that goes; the next start tries again.
            let _ = files.remove(&name);
        }
        Ok(Spare { file: made?, name, bytes })
    }

    fn make(files: &F, name: &str, bytes: u32) -> Result<F::File, Error> {
        let file = files.create(name).doing("making", name)?;
        file.preallocate(u64::from(bytes)).doing("making", name)?;
        match file.sync() {
            // Where space is only given when it is written out, and nothing of worth is in it.
            Err(FileError::NoSpace) => Err(Error::Full),
            synced => synced.or_failed("syncing", name).map(|()| file),
        }
    }
}

impl<F> Spare<F> {
    /// The bytes that records can take.
    pub(crate) fn room(&self) -> usize {
        self.bytes as usize - segment_end(0) as usize
    }

    pub(crate) fn bytes(&self) -> u32 {
        self.bytes
    }

    pub(crate) fn into_parts(self) -> (F, String) {
        (self.file, self.name)
    }
}
