//! Bytes as words of the log: read, and written in pieces.

use crate::memory::Memory;

/// Bytes that are copied at a time from one place of the log to another.
const COPIED: usize = 64;

/// Up to seven bytes as a word.
pub(crate) fn padded(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// Copies bytes of the log from a word on.
#[inline]
pub(crate) fn copy_out(memory: &Memory, at: usize, to: &mut [u8]) {
    let mut words = memory.words(at, to.len().div_ceil(8));
    let (whole, rest) = to.as_chunks_mut::<8>();
    for (chunk, word) in whole.iter_mut().zip(&mut words) {
        *chunk = word.to_le_bytes();
    }
    if let Some(word) = words.next() {
        rest.copy_from_slice(&word.to_le_bytes()[..rest.len()]);
    }
}

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
            copy_out(self.memory, at, piece);
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
