//! Further chunks of an arena.

use std::alloc::Layout;
use std::ptr::NonNull;

use petasos_buf::{MsgBuf, SPARE_BYTES_MIN, give_spare, take_spare};

/// A further chunk. Not a `Box`, whose moves would claim the memory for themselves.
pub(super) struct Chunk {
    at: NonNull<u8>,
    layout: Layout,
    /// The buffer whose memory a long one is; others are allocated.
    spare: Option<MsgBuf>,
}

// SAFETY: the chunk is owned, and bytes may be freed by any thread.
unsafe impl Send for Chunk {}

impl Chunk {
    /// `bytes` of memory, exposed, contents unspecified.
    pub(super) fn new(bytes: usize) -> Chunk {
        let layout = Layout::from_size_align(bytes.max(8), 8).expect("below isize::MAX");
        let mut spare =
            (bytes >= SPARE_BYTES_MIN && u32::try_from(bytes).is_ok()).then(|| take_spare(bytes));
        let at = match &mut spare {
            Some(buf) => buf.data_ptr(),
            None => allocated(layout),
        };
        at.as_ptr().expose_provenance();
        Chunk { at, layout, spare }
    }

    pub(super) fn at(&self) -> NonNull<u8> {
        self.at
    }

    pub(super) fn bytes(&self) -> usize {
        self.layout.size()
    }
}

fn allocated(layout: Layout) -> NonNull<u8> {
    // SAFETY: the size is not 0.
    let at = unsafe { std::alloc::alloc(layout) };
    NonNull::new(at).unwrap_or_else(|| std::alloc::handle_alloc_error(layout))
}

impl Drop for Chunk {
    fn drop(&mut self) {
        match self.spare.take() {
            Some(buf) => give_spare(buf),
            // SAFETY: allocated with this layout, and freed once.
            None => unsafe { std::alloc::dealloc(self.at.as_ptr(), self.layout) },
        }
    }
}
