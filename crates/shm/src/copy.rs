//! Copying out of memory that may change meanwhile.
//!
//! Whoever changes it is not part of this program, and Rust's memory model does not cover it. What
//! must not happen is that *this* program misbehaves because of it:
//!
//! - Short contents at a word's boundary are read by relaxed atomic loads, each word once.
//! - Other contents are read by one `memcpy`, followed by an empty assembler block, which the
//!   optimiser must assume to change all memory. So the optimiser can neither drop the private copy
//!   and use the shared bytes instead, nor read them again: what is checked afterwards is what was
//!   copied.
//!
//! No reference to contents is ever made.

use petasos_base::sync::{AtomicU64, Ordering};

/// Up to this length, copying words is cheaper than calling `memcpy`.
const WORDS_BYTES_MAX: usize = 256;
pub(crate) const WORD_BYTES: usize = size_of::<u64>();

/// Fills `out` with the bytes at `from`, as they are during the copy.
///
/// # Safety
/// The bytes at `from` can be read, up to the end of the word in which the last one lies, and do
/// not overlap with `out`. This program does not write them meanwhile, except as atomic words.
#[inline]
pub(crate) unsafe fn copy_out(from: *const u8, out: &mut [u8]) {
    let words = from.cast::<u64>();
    if out.len() <= WORDS_BYTES_MAX && words.is_aligned() {
        // SAFETY: aligned, and the rest is the caller's promise.
        return unsafe { copy_words_out(words, out) };
    }
    // SAFETY: the caller promises the bytes. The module's documentation says why they may change.
    unsafe { core::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) }
    // SAFETY: the block does nothing, but the optimiser must assume that it has written to memory.
    unsafe { core::arch::asm!("", options(nostack, preserves_flags)) }
}

/// Reads one word, once.
///
/// # Safety
/// It is aligned and can be read. This program does not write it meanwhile, except atomically.
#[inline]
pub(crate) unsafe fn load(from: *const u64) -> u64 {
    // SAFETY: the caller's promise; the atomic is only loaded, so nothing is written through it.
    unsafe { AtomicU64::from_ptr(from.cast_mut()).load(Ordering::Relaxed) }
}

/// # Safety
/// As of [`copy_out`], and `from` is aligned.
#[inline]
unsafe fn copy_words_out(from: *const u64, out: &mut [u8]) {
    let (words, rest) = out.as_chunks_mut::<WORD_BYTES>();
    // SAFETY: aligned, and with the bytes of `out` up to the end of the last word.
    let load = |index| unsafe { load(from.add(index)) };
    for (index, word) in words.iter_mut().enumerate() {
        *word = load(index).to_ne_bytes();
    }
    if !rest.is_empty() {
        rest.copy_from_slice(&load(words.len()).to_ne_bytes()[..rest.len()]);
    }
}
