//! Bytes that come in pieces, written as words.

use crate::memory::{Memory, padded};

/// Bytes that are copied at a time from one place of the log to another.
const COPIED: usize = 64;

/// Writes bytes into the log, from a word on.
pub(crate) struct Writer<'m> {
    memory: &'m Memory,
    /// The word that is written next.
    at: usize,
    /// The bytes of it that have come.
    pending: [u8; 8],
    filled: usize,
}

impl<'m> Writer<'m> {
    pub fn new(memory: &'m Memory, at: usize) -> Writer<'m> {
        Writer { memory, at, pending: [0; 8], filled: 0 }
    }

    #[inline]
    pub fn push(&mut self, mut bytes: &[u8]) {
        if self.filled > 0 {
            let (first, rest) = bytes.split_at(bytes.len().min(8 - self.filled));
            self.pending[self.filled..self.filled + first.len()].copy_from_slice(first);
            self.filled += first.len();
            bytes = rest;
            if self.filled < 8 {
                return;
            }
            self.write(u64::from_le_bytes(self.pending));
            self.filled = 0;
        }
        let (whole, rest) = bytes.as_chunks::<8>();
        whole.iter().for_each(|chunk| self.write(u64::from_le_bytes(*chunk)));
        self.pending[..rest.len()].copy_from_slice(rest);
        self.filled = rest.len();
    }

    /// Bytes that lie in the log, behind what is written here or apart from it.
    pub fn push_from_log(&mut self, mut at: usize, bytes: usize) {
        let mut left = bytes;
        while left > 0 {
            let mut copied = [0; COPIED];
            let piece = &mut copied[..left.min(COPIED)];
            self.memory.copy_out(at, piece);
            self.push(piece);
            left -= left.min(COPIED);
            at += COPIED / 8;
        }
    }

    /// Writes what is left, padded with zeros.
    pub fn finish(mut self) {
        if self.filled > 0 {
            self.write(padded(&self.pending[..self.filled]));
        }
    }

    #[inline]
    fn write(&mut self, word: u64) {
        self.memory.set_word(self.at, word);
        self.at += 1;
    }
}
