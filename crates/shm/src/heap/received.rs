//! A place of a receive heap, read where it lies.

use core::ptr::NonNull;
use std::sync::Arc;

use super::holds::Hold;

/// Bytes that the service has handed to this application, in a receive heap.
///
/// They can be read for as long as the slice lives, also after the heap was dropped or the service
/// has taken their extent away. Nobody writes them meanwhile: the service alone could, and does not
/// before it has got the place back (D9). An application trusts its service with that, as it
/// trusts the system.
#[derive(Debug)]
pub struct ReceivedSlice {
    /// Keeps the place mapped, and from being used for another extent.
    _hold: Arc<Hold>,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it is a range of addresses that stays mapped on any thread, and that nobody writes.
unsafe impl Send for ReceivedSlice {}
// SAFETY: as above.
unsafe impl Sync for ReceivedSlice {}

impl ReceivedSlice {
    /// # Safety
    /// So many bytes at `start` can be read while there is the hold, and nobody writes them before
    /// the slice is dropped.
    #[inline]
    pub(super) unsafe fn new(hold: Arc<Hold>, start: NonNull<u8>, bytes: usize) -> ReceivedSlice {
        ReceivedSlice { _hold: hold, start, bytes }
    }
}

impl AsRef<[u8]> for ReceivedSlice {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: what `new` was promised; shared memory is initialised.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}
