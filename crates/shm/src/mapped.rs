//! A ring's part of a mapped region. This is the only code that touches it.
//!
//! The other process is not part of this program, and Rust's memory model does not cover it. What
//! must not happen is that *this* program misbehaves because memory changes while it runs:
//!
//! - Control words are accessed only as atomics.
//! - Contents are copied out as `copy` says.
//! - Contents are written by plain copies and never read back.
//!
//! No reference to contents is ever made.

use core::ptr::NonNull;
use std::sync::Arc;

use petasos_base::sync::AtomicU64;

use crate::copy::{self, WORD_BYTES};
use crate::region::Region;
use crate::shape::INLINE_BYTES_MAX;

/// `len` bytes of a region from `start` on. Offsets below are relative to `start`.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Keeps the region mapped.
    _region: Arc<Region>,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: this is a range of addresses that stays mapped on any thread, and that this program
// accesses only through its owner.
unsafe impl Send for Memory {}

impl Memory {
    /// # Panics
    /// If the part does not lie in the region, or does not start at a cache line.
    pub(crate) fn new(region: Arc<Region>, start: usize, len: usize) -> Memory {
        assert!(start.is_multiple_of(crate::shape::LINE_BYTES), "rings start at cache lines");
        let end = start.checked_add(len);
        assert!(end.is_some_and(|end| end <= region.len()), "a ring lies in its region");
        // SAFETY: `start` lies in the mapping.
        let start = unsafe { region.start().add(start) };
        Memory { _region: region, start, len }
    }

    /// A pointer to `len` bytes at `at`.
    ///
    /// # Panics
    /// If they do not lie in this part.
    #[inline]
    fn bytes_at(&self, at: usize, len: usize) -> *mut u8 {
        assert!(at <= self.len && len <= self.len - at, "positions in a ring are checked before");
        // SAFETY: this part lies in the mapping, and the bytes lie in this part.
        unsafe { self.start.as_ptr().add(at) }
    }

    /// The control word at `at`.
    ///
    /// # Panics
    /// If `at` is no multiple of 8 or lies outside.
    #[inline]
    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        let word = self.aligned_at(at, WORD_BYTES);
        // SAFETY: aligned and mapped for as long as `self` lives, and never reached in another way
        // by this program.
        unsafe { AtomicU64::from_ptr(word) }
    }

    /// Copies `bytes` to `at`.
    #[inline]
    pub(crate) fn copy_in(&self, at: usize, bytes: &[u8]) {
        let to = self.bytes_at(at, bytes.len());
        // SAFETY: `to` has room for the bytes; private memory does not overlap with the region.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
    }

    /// Fills `out` with the bytes at `at`, a multiple of 8, as they are during the copy.
    #[inline]
    pub(crate) fn copy_out(&self, at: usize, out: &mut [u8]) {
        let from = self.aligned_at(at, out.len().next_multiple_of(WORD_BYTES));
        // SAFETY: the bytes lie in this part, rounded up to whole words, and private memory does
        // not overlap with the region. What this program writes there is another record's.
        unsafe { copy::copy_out(from.cast(), out) }
    }

    /// Like [`Memory::copy_out`], without loops.
    #[inline]
    pub(crate) fn copy_inline_out(&self, at: usize, out: &mut [u8; INLINE_BYTES_MAX]) {
        let from = self.aligned_at(at, INLINE_BYTES_MAX);
        let words: [u64; INLINE_BYTES_MAX / WORD_BYTES] = core::array::from_fn(|index| {
            // SAFETY: aligned, and with these bytes.
            unsafe { copy::load(from.add(index)) }
        });
        let (chunks, _) = out.as_chunks_mut::<WORD_BYTES>();
        chunks.iter_mut().zip(words).for_each(|(chunk, word)| *chunk = word.to_ne_bytes());
    }

    /// A pointer to `len` bytes of whole words at `at`.
    #[inline]
    fn aligned_at(&self, at: usize, len: usize) -> *mut u64 {
        assert!(at.is_multiple_of(WORD_BYTES), "words are aligned");
        self.bytes_at(at, len).cast::<u64>()
    }
}
