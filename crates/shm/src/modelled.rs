//! A ring's memory under the model checker: every word, even of contents, is one of the checker's
//! atomics.

use petasos_base::sync::{AtomicU64, Ordering};

use crate::shape::INLINE_BYTES_MAX;

const WORD_BYTES: usize = size_of::<u64>();

/// Words that stand for a part of a region.
#[derive(Debug)]
pub(crate) struct Memory {
    words: loom::sync::Arc<Vec<AtomicU64>>,
}

impl Memory {
    /// Two views of the same `len` bytes.
    pub(crate) fn pair(len: usize) -> [Memory; 2] {
        let words: Vec<_> = (0..len / WORD_BYTES).map(|_| AtomicU64::new(0)).collect();
        let words = loom::sync::Arc::new(words);
        [Memory { words: words.clone() }, Memory { words }]
    }

    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        &self.words[at / WORD_BYTES]
    }

    pub(crate) fn copy_in(&self, at: usize, bytes: &[u8]) {
        for (index, chunk) in bytes.chunks(WORD_BYTES).enumerate() {
            let mut word = [0; WORD_BYTES];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(at + index * WORD_BYTES).store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
    }

    pub(crate) fn copy_out(&self, at: usize, out: &mut [u8]) {
        for (index, chunk) in out.chunks_mut(WORD_BYTES).enumerate() {
            let word = self.word(at + index * WORD_BYTES).load(Ordering::Relaxed);
            chunk.copy_from_slice(&word.to_ne_bytes()[..chunk.len()]);
        }
    }

    pub(crate) fn copy_inline_out(&self, at: usize, out: &mut [u8; INLINE_BYTES_MAX]) {
        self.copy_out(at, out);
    }
}
