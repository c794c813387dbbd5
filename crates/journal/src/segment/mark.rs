//! The durable mark (QR19): up to where a segment was durable when the mark was written.
//!
//! It is written, in turns, to one of two places after each sync, and becomes durable with the next
//! one; so at most one of them is torn, and the other tells of at most one sync less. Invariant: a
//! mark never says more than what is durable.

use crate::bytes::{seal, sealed, u32_at, u64_at};
use crate::error::Damage;
use crate::{File, FileError};

/// What a mark says: records before byte `at` are durable; the last of them has this place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) at: u32,
    pub(crate) place: u64,
}

/// The marks of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MarkFile {
    /// The header's sum, so that marks of other files do not count.
    seed: u32,
    /// Counts the marks that were written: the next one's place and number.
    written: u64,
    /// What the file has in both places, as far as was written.
    marks: [Option<Mark>; 2],
    /// Whether everything that was written to the file is durable.
    is_durable: bool,
}

const BLOCK_BYTES: usize = 512;
const AT: [u64; 2] = [512, 1024];
const MAGIC: u64 = u64::from_le_bytes(*b"petasosM");

impl MarkFile {
    /// No marks yet, in a file whose header has that sum.
    pub(crate) fn new(seed: u32) -> MarkFile {
        MarkFile { seed, written: 0, marks: [None; 2], is_durable: true }
    }

    /// The marks of a file.
    ///
    /// # Errors
    /// Damage, if none can be read though one must have been durable.
    pub(crate) fn read(
        file: &impl File,
        name: &str,
        seed: u32,
    ) -> Result<Result<MarkFile, Damage>, FileError> {
        let mut read = MarkFile { is_durable: false, ..MarkFile::new(seed) };
        let mut bad = 0;
        for (index, at) in AT.into_iter().enumerate() {
            let mut block = [0; BLOCK_BYTES];
            file.read_at(&mut block, at)?;
            match parse(&block, seed) {
                Some((number, mark)) => {
                    read.written = read.written.max(number);
                    read.marks[index] = Some(mark);
                }
                None if block == [0; BLOCK_BYTES] => {}
                None => bad += 1,
            }
        }
        let newest = (read.written.wrapping_sub(1) % 2) as usize;
        if bad == 2 {
            return Ok(Err(Damage::new(name, AT[0], "both durable marks have a wrong sum")));
        }
        if read.written > 0 && read.marks[newest].is_none() {
            return Ok(Err(Damage::new(name, AT[newest], "the durable mark is in a wrong place")));
        }
        Ok(Ok(read))
    }

    /// The mark that was written last.
    pub(crate) fn newest(&self) -> Option<Mark> {
        self.written.checked_sub(1).and_then(|last| self.marks[(last % 2) as usize])
    }

    /// Writes a mark, which is not durable yet; the one before it is.
    pub(crate) fn write(&mut self, file: &impl File, mark: Mark) -> Result<(), FileError> {
        assert!(self.is_durable, "a mark could say too much, or two of them be torn at once");
        let index = (self.written % 2) as usize;
        self.written += 1;
        file.write_at(&block(self.seed, self.written, mark), AT[index])?;
        self.marks[index] = Some(mark);
        self.is_durable = false;
        Ok(())
    }

    /// Something was written to the file.
    pub(crate) fn touched(&mut self) {
        self.is_durable = false;
    }

    /// Everything that was written has become durable.
    pub(crate) fn synced(&mut self) {
        self.is_durable = true;
    }

    /// Whether all that was written is durable.
    pub(crate) fn are_durable(&self) -> bool {
        self.is_durable
    }

    /// Whether both marks are durable and say this.
    pub(crate) fn are_settled(&self, mark: Mark) -> bool {
        self.marks == [Some(mark); 2] && self.is_durable
    }

    /// What was read may not be on the disk: both are to be written again.
    pub(crate) fn doubt(&mut self) {
        self.marks = [None; 2];
    }
}

fn block(seed: u32, number: u64, mark: Mark) -> [u8; BLOCK_BYTES] {
    let mut block = [0; BLOCK_BYTES];
    block[..8].copy_from_slice(&MAGIC.to_le_bytes());
    block[8..16].copy_from_slice(&number.to_le_bytes());
    block[16..24].copy_from_slice(&mark.place.to_le_bytes());
    block[24..28].copy_from_slice(&mark.at.to_le_bytes());
    seal(&mut block, seed);
    block
}

/// A mark and its number.
fn parse(block: &[u8; BLOCK_BYTES], seed: u32) -> Option<(u64, Mark)> {
    sealed(block, seed)?;
    let mark = Mark { at: u32_at(block, 24), place: u64_at(block, 16) };
    let number = u64_at(block, 8);
    (u64_at(block, 0) == MAGIC && number > 0).then_some((number, mark))
}
