//! Further chunks of an arena. They are buffers of the heap, so that the next message can reuse
//! them.

use std::alloc::Layout;
use std::ptr::NonNull;

use petasos_buf::{MsgBuf, SPARE_BYTES_MIN};

use crate::heap::{self, Heap, LARGE_BYTES};

/// At the begin of a buffer: the chunk before.
type Link = Option<MsgBuf>;

const LINK_BYTES: usize = size_of::<Link>();
const _: () = assert!(LINK_BYTES == 8 && align_of::<Link>() <= MsgBuf::DATA_ALIGN);

/// The chunks of one arena behind its first, on whatever thread they came from.
#[derive(Default)]
pub(super) struct Chunks {
    /// The latest; those before are linked.
    last: Link,
    /// Chunks that are longer than buffers can be.
    huge: Vec<Huge>,
    bytes: usize,
}

impl Chunks {
    /// Usable bytes of all.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Another chunk of `bytes` or more: where it begins, and how long it is, a multiple of 8. It
    /// is exposed, its contents are unspecified, and it stays there while the chunks live.
    pub(super) fn add(&mut self, bytes: usize) -> (NonNull<u8>, usize) {
        let (at, bytes) = match bytes.checked_add(LINK_BYTES) {
            Some(linked) if u32::try_from(linked).is_ok() => self.add_buffer(linked),
            _ => self.add_huge(bytes),
        };
        at.as_ptr().expose_provenance();
        self.bytes += bytes;
        (at, bytes)
    }

    fn add_buffer(&mut self, bytes: usize) -> (NonNull<u8>, usize) {
        // Nobody keeps buffers between these two sizes for the next message.
        let bytes = if bytes > LARGE_BYTES { bytes.max(SPARE_BYTES_MIN) } else { bytes };
        let mut buf = Heap::PRIVATE.take(bytes);
        let (at, bytes) = (buf.data_ptr(), buf.capacity() & !7);
        // SAFETY: the buffer has more than that, aligned for it. What is overwritten is bytes.
        let begin = unsafe {
            at.cast::<Link>().write(self.last.take());
            at.add(LINK_BYTES)
        };
        self.last = Some(buf);
        (begin, bytes - LINK_BYTES)
    }

    fn add_huge(&mut self, bytes: usize) -> (NonNull<u8>, usize) {
        let huge = Huge::new(bytes);
        let at = huge.at;
        self.huge.push(huge);
        (at, bytes)
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        let mut next = self.last.take();
        while let Some(mut buf) = next {
            // SAFETY: `add_buffer` wrote it there, objects begin behind it, and it is read once.
            next = unsafe { buf.data_ptr().cast::<Link>().read() };
            heap::give(buf);
        }
    }
}

/// Not a `Box`, whose moves would claim the memory for themselves.
struct Huge {
    at: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory is owned, and bytes may be freed by any thread.
unsafe impl Send for Huge {}

impl Huge {
    fn new(bytes: usize) -> Huge {
        let layout = Layout::from_size_align(bytes, 8).expect("below isize::MAX");
        // SAFETY: the size does not fit 32 bits, so it is not 0.
        let at = unsafe { std::alloc::alloc(layout) };
        let at = NonNull::new(at).unwrap_or_else(|| std::alloc::handle_alloc_error(layout));
        Huge { at, layout }
    }
}

impl Drop for Huge {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { std::alloc::dealloc(self.at.as_ptr(), self.layout) }
    }
}
