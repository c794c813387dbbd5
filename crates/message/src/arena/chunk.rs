//! Further chunks of an arena.

use std::alloc::Layout;
use std::ptr::NonNull;

/// A further chunk. Not a `Box`, whose moves would claim the memory for themselves.
pub(super) struct Chunk {
    at: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the chunk is owned, and bytes may be freed by any thread.
unsafe impl Send for Chunk {}

impl Chunk {
    /// `bytes` of memory, exposed, contents unspecified.
    pub(super) fn new(bytes: usize) -> Chunk {
        let layout = Layout::from_size_align(bytes.max(8), 8).expect("below isize::MAX");
        // SAFETY: the size is not 0.
        let at = unsafe { std::alloc::alloc(layout) };
        let Some(at) = NonNull::new(at) else { std::alloc::handle_alloc_error(layout) };
        at.as_ptr().expose_provenance();
        Chunk { at, layout }
    }

    pub(super) fn at(&self) -> NonNull<u8> {
        self.at
    }

    pub(super) fn bytes(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { std::alloc::dealloc(self.at.as_ptr(), self.layout) };
    }
}
