//! Asking for memory before it is needed.
//!
//! An endpoint with thousands of sessions finds hardly any of them in its caches, and a dozen lines
//! missed one after the other cost more than the call. Whoever knows early what comes asks for it
//! here, and the misses overlap with each other and with the work in between.

/// Bytes that the processor moves at once.
pub const LINE_BYTES: usize = 64;

/// Asks the processor to bring `value` into its caches, without waiting for it. It never changes
/// what a program computes. Without effect where the processor has no such instruction that Rust
/// knows of.
#[inline(always)]
pub fn prefetch<T: ?Sized>(value: &T) {
    prefetch_head(value, size_of_val(value));
}

/// [`prefetch`] of at most the first `bytes` of `value`.
#[inline(always)]
pub fn prefetch_head<T: ?Sized>(value: &T, bytes: usize) {
    let start = core::ptr::from_ref(value).cast::<u8>();
    for offset in (0..bytes.min(size_of_val(value))).step_by(LINE_BYTES) {
        prefetch_line(start.wrapping_add(offset));
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch_line(line: *const u8) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: every x86-64 processor has the instruction, and it is a hint: it neither reads nor
    // writes as far as the program can tell, and faults at no address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn prefetch_line(_: *const u8) {}
