//! A place of a send heap, checked once and read later.

use core::ptr::NonNull;
use std::sync::Arc;

use super::Outside;
use super::holds::Hold;
use crate::copy;

/// Bytes of a send heap, as they are at the time when they are copied.
///
/// They can be read for as long as the slice lives, also after the heap was dropped. The
/// application may change them at any time; after their extent was removed they are zeros.
#[derive(Clone, Debug)]
pub struct HeapSlice {
    /// Keeps the place mapped, and from being used again.
    _hold: Arc<Hold>,
    start: NonNull<u8>,
    /// At least one.
    bytes: usize,
}

// SAFETY: it is a range of addresses that stays mapped on any thread, and that this program only
// reads.
unsafe impl Send for HeapSlice {}
// SAFETY: as above.
unsafe impl Sync for HeapSlice {}

impl HeapSlice {
    /// # Safety
    /// So many bytes at `start` can be read while there is the hold, up to the end of the last
    /// word, and this program does not write them.
    #[inline]
    pub(super) unsafe fn new(hold: Arc<Hold>, start: NonNull<u8>, bytes: usize) -> HeapSlice {
        HeapSlice { _hold: hold, start, bytes }
    }

    /// How many bytes there are: at least one.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Fills `out` with the bytes at `at`, as they are during the copy.
    ///
    /// # Errors
    /// [`Outside`] if they do not all lie in this slice; `out` is unchanged.
    #[inline]
    pub fn copy_to(&self, at: usize, out: &mut [u8]) -> Result<(), Outside> {
        if at > self.bytes || out.len() > self.bytes - at {
            return Err(Outside { offset: at as u64, bytes: out.len() as u64 });
        }
        // SAFETY: the bytes lie in this slice, which can be read up to the end of its last word.
        // Private memory does not overlap with a heap.
        unsafe { copy::copy_out(self.start.add(at).as_ptr(), out) }
        Ok(())
    }
}
