//! Checks the bytes of a snapshot as they come, in pieces of any length.
//!
//! Invariant: at most a head or a block is held in memory, whatever the bytes claim.

use super::format::{
    BLOCK_BYTES, BLOCK_HEAD_BYTES, FIXED_BYTES, SnapshotHead, TRAILER, TRAILER_BYTES, block_head,
    trailer,
};
use crate::bytes::{u32_at, u64_at};

/// How far the bytes have been checked.
#[derive(Clone, Debug, Default)]
pub(super) struct Checker {
    /// What is not whole yet.
    partial: Vec<u8>,
    /// Bytes of whole parts: the head and blocks.
    whole_bytes: u64,
    data_bytes: u64,
    head: Option<SnapshotHead>,
    /// The running sum.
    sum: u32,
    /// Whether a block was shorter than the others, so that it is the last.
    is_last: bool,
    is_done: bool,
}

impl Checker {
    /// Takes the next bytes. Gives each block's data to `take`.
    pub(super) fn push(
        &mut self,
        mut bytes: &[u8],
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), &'static str> {
        while !bytes.is_empty() {
            if self.is_done {
                return Err("something follows its end");
            }
            let wanted = self.wanted()?;
            let part = (wanted - self.partial.len()).min(bytes.len());
            self.partial.extend_from_slice(&bytes[..part]);
            bytes = &bytes[part..];
            if self.partial.len() == self.wanted()? {
                self.finish_part(&mut take)?;
            }
        }
        Ok(())
    }

    /// How many bytes the present part lacks, as far as is known.
    pub(super) fn lacks(&self) -> Result<usize, &'static str> {
        Ok(self.wanted()? - self.partial.len())
    }

    /// How many bytes the present part has, as far as is known.
    fn wanted(&self) -> Result<usize, &'static str> {
        if self.head.is_none() {
            return if self.partial.len() < FIXED_BYTES {
                Ok(FIXED_BYTES)
            } else {
                SnapshotHead::bytes(&self.partial)
            };
        }
        if self.partial.len() < BLOCK_HEAD_BYTES {
            return Ok(BLOCK_HEAD_BYTES);
        }
        match u32_at(&self.partial, 0) {
            TRAILER => Ok(TRAILER_BYTES),
            length if self.is_last || !(1..=BLOCK_BYTES as u32).contains(&length) => {
                Err("a block's length is impossible")
            }
            length => Ok(BLOCK_HEAD_BYTES + length as usize),
        }
    }

    fn finish_part(&mut self, take: &mut impl FnMut(&[u8])) -> Result<(), &'static str> {
        if self.head.is_none() {
            let (head, sum) = SnapshotHead::parse(&self.partial)?;
            (self.head, self.sum) = (Some(head), sum);
        } else if u32_at(&self.partial, 0) == TRAILER {
            let (expected, sum) = trailer(self.data_bytes, self.sum);
            if self.partial != expected || u64_at(&self.partial, 8) != self.data_bytes {
                return Err("the sum over all is wrong");
            }
            (self.is_done, self.sum) = (true, sum);
        } else {
            let data = &self.partial[BLOCK_HEAD_BYTES..];
            let (expected, sum) = block_head(data, self.sum);
            if self.partial[..BLOCK_HEAD_BYTES] != expected {
                return Err("a block has a wrong sum");
            }
            take(data);
            self.data_bytes += data.len() as u64;
            (self.is_last, self.sum) = (data.len() < BLOCK_BYTES, sum);
        }
        self.whole_bytes += self.partial.len() as u64;
        self.partial.clear();
        Ok(())
    }

    /// The head, when it has come.
    pub(super) fn head(&self) -> Option<&SnapshotHead> {
        self.head.as_ref()
    }

    /// The bytes of whole, good parts.
    pub(super) fn whole_bytes(&self) -> u64 {
        self.whole_bytes
    }

    /// All bytes that were pushed.
    pub(super) fn bytes(&self) -> u64 {
        self.whole_bytes + self.partial.len() as u64
    }

    /// Forgets the part that is not whole.
    pub(super) fn drop_partial(&mut self) {
        self.partial.clear();
    }

    /// The sum over all, if everything has come.
    pub(super) fn done(&self) -> Option<u32> {
        self.is_done.then_some(self.sum)
    }
}
