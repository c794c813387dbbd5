//! The hard state (QR17): a few numbers of the caller's, durable before they are told to anybody.
//!
//! It is written in place, so that a full disk does not stop an election, and twice, each copy
//! synced before the next is begun. So what was said to be durable is in both copies, and a copy
//! that is torn, or damaged later, is made good from the other. Invariant: while the journal is
//! open, both copies are alike, but for the write that is under way.

use crate::bytes::{seal, sealed, u64_at};
use crate::error::{Damage, Doing};
use crate::{Error, File, FileError, Files};

/// The numbers that must not be forgotten. The journal does not know what they mean: a consensus
/// keeps its term, its vote, and since when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardState {
    /// Any numbers.
    pub fields: [u64; 4],
    /// Since when they are so, in whatever the caller counts.
    pub since: u64,
}

/// What the file says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) hard: HardState,
    /// The last segment that holds records: one that is missing is damage.
    pub(crate) last_segment: u64,
    /// Counts writes.
    version: u64,
}

/// The open file.
pub(crate) struct StateFile<F> {
    file: F,
    pub(crate) stored: Stored,
    /// The copy that is written first: the one that is bad or older, if there is one.
    first: usize,
}

pub(crate) const STATE: &str = "state";

const COPY_BYTES: usize = 512;
/// Copies are on pages, and blocks of disks, of their own.
const COPY_AT: [u64; 2] = [0, 4096];

impl<F: File> StateFile<F> {
    /// A new file, which becomes durable when the directory is synced.
    pub(crate) fn create<S: Files<File = F>>(files: &S) -> Result<StateFile<F>, Error> {
        let file = files.create(STATE).doing("making", STATE)?;
        file.preallocate(COPY_AT[1] + COPY_BYTES as u64).doing("making", STATE)?;
        let mut state = StateFile { file, stored: Stored::default(), first: 0 };
        state.write(Stored::default())?;
        Ok(state)
    }

    /// Opens the file and makes both copies alike and durable. They are written anew in any case:
    /// if a sync has failed, the system may show what the disk does not have.
    pub(crate) fn open<S: Files<File = F>>(files: &S) -> Result<StateFile<F>, Error> {
        let file = match files.open(STATE) {
            Err(FileError::NotFound) => return Err(missing().into()),
            file => file.doing("opening", STATE)?,
        };
        let copies = [copy(&file, 0)?, copy(&file, 1)?];
        let version = |index: usize| copies[index].map_or(0, |stored: Stored| stored.version);
        let first = usize::from(version(1) < version(0));
        let stored = newest(copies)?;
        let mut state = StateFile { file, stored, first };
        state.write(stored)?;
        Ok(state)
    }

    /// Makes `hard` durable.
    pub(crate) fn set_hard(&mut self, hard: HardState) -> Result<(), Error> {
        self.write(Stored { hard, ..self.stored })
    }

    /// Makes durable which segment is the last.
    pub(crate) fn set_last_segment(&mut self, last_segment: u64) -> Result<(), Error> {
        self.write(Stored { last_segment, ..self.stored })
    }

    fn write(&mut self, stored: Stored) -> Result<(), Error> {
        let stored = Stored { version: self.stored.version + 1, ..stored };
        let block = block(&stored);
        for at in [COPY_AT[self.first], COPY_AT[1 - self.first]] {
            self.file.write_at(&block, at).or_failed("writing", STATE)?;
            self.file.sync().or_failed("syncing", STATE)?;
        }
        self.stored = stored;
        Ok(())
    }
}

/// What the file says, without changing it.
pub(crate) fn read_only(files: &impl Files) -> Result<Stored, Error> {
    let file = match files.open_read_only(STATE) {
        Err(FileError::NotFound) => return Err(missing().into()),
        file => file.doing("opening", STATE)?,
    };
    Ok(newest([copy(&file, 0)?, copy(&file, 1)?])?)
}

fn missing() -> Damage {
    Damage::new(STATE, 0, "the file is missing")
}

fn newest(copies: [Option<Stored>; 2]) -> Result<Stored, Damage> {
    let newest = copies.into_iter().flatten().max_by_key(|stored| stored.version);
    newest.ok_or_else(|| Damage::new(STATE, 0, "both copies have a wrong sum"))
}

fn copy(file: &impl File, index: usize) -> Result<Option<Stored>, Error> {
    let mut block = [0; COPY_BYTES];
    file.read_at(&mut block, COPY_AT[index]).doing("reading", STATE)?;
    Ok(parse(&block))
}

fn block(stored: &Stored) -> [u8; COPY_BYTES] {
    let mut block = [0; COPY_BYTES];
    let HardState { fields: [a, b, c, d], since } = stored.hard;
    let numbers = [MAGIC, stored.version, stored.last_segment, since, a, b, c, d];
    for (bytes, number) in block.chunks_exact_mut(8).zip(numbers) {
        bytes.copy_from_slice(&number.to_le_bytes());
    }
    seal(&mut block, 0);
    block
}

fn parse(block: &[u8; COPY_BYTES]) -> Option<Stored> {
    sealed(block, 0)?;
    let number = |index: usize| u64_at(block, index * 8);
    let fields = [number(4), number(5), number(6), number(7)];
    let hard = HardState { fields, since: number(3) };
    let stored = Stored { hard, last_segment: number(2), version: number(1) };
    (number(0) == MAGIC).then_some(stored)
}

const MAGIC: u64 = u64::from_le_bytes(*b"petasosH");
