//! Prefetching memory.
//!
//! An endpoint with thousands of sessions finds hardly any of them in the processor's caches. A
//! dozen cache misses one after the other would cost more than the call. Code that knows early
//! which memory it needs prefetches it here, so that the misses overlap with each other and with
//! other work.

/// Bytes of a cache line, the unit in which the processor moves memory.
pub const LINE_BYTES: usize = 64;

/// Asks the processor to load `value` into its caches, without waiting for it. This never changes
/// what a program computes. It does nothing on processors whose prefetch instruction Rust does not
/// offer.
#[inline(always)]
pub fn prefetch<T: ?Sized>(value: &T) {
    prefetch_head(value, size_of_val(value));
}

/// Like [`prefetch`], for at most the first `bytes` of `value`.
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
    // SAFETY: every x86-64 processor has the instruction. It is only a hint: it has no effect that
    // the program can observe, and no address makes it fault.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn prefetch_line(_: *const u8) {}
