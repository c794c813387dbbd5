//! The image that compaction writes, one object after the other (M22).

use petasos_buf::{MsgBuf, Segment};

use super::segment::padding;
use super::{HEADER_BYTES, Image, SEGMENTS_MAX, header};
use crate::{ROOM_BYTES, heap};

/// An image under construction.
pub(super) struct Sink {
    /// Room, header, objects.
    head: MsgBuf,
    tail: Vec<Segment>,
    /// Where in `head` the pointers to gathered leaves are, and the leaves' offsets in the tail.
    pending: Vec<(usize, usize)>,
    tail_bytes: usize,
}

/// A piece of the head.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    start: usize,
    bytes: usize,
}

impl Sink {
    /// An image with nothing in it. `bytes_hint` is about what it will have.
    pub(super) fn new(bytes_hint: usize) -> Sink {
        let empty = ROOM_BYTES + HEADER_BYTES;
        let mut head = heap::buffer(empty + bytes_hint);
        head.set_len(empty);
        Sink { head, tail: Vec::new(), pending: Vec::new(), tail_bytes: 0 }
    }

    /// Sets what only the whole image decides: pointers into the tail, and the header.
    pub(super) fn finish(mut self) -> Image {
        let head_bytes = self.head.len();
        for (at, offset) in &self.pending {
            let distance = (head_bytes + offset - at) as u64;
            self.head.as_mut_slice()[*at..at + 8].copy_from_slice(&distance.to_le_bytes());
        }
        let image_bytes = head_bytes - ROOM_BYTES + self.tail_bytes;
        let header = header(u32::try_from(image_bytes).expect("compaction bounds an image"));
        self.head.as_mut_slice()[ROOM_BYTES..ROOM_BYTES + HEADER_BYTES].copy_from_slice(&header);
        Image { head: self.head, tail: self.tail }
    }

    /// Room for an object, with zeros up to the next multiple of 8 behind it: its own bytes are the
    /// caller's to write, all of them (M13).
    #[inline]
    pub(super) fn object(&mut self, bytes: u32) -> Piece {
        let (start, bytes) = (self.head.len(), bytes as usize);
        let end = start + bytes.next_multiple_of(8);
        if end > self.head.capacity() {
            let capacity = end.max(2 * self.head.capacity());
            grow(&mut self.head, capacity);
        }
        self.head.set_len(end);
        self.head.as_mut_slice()[start + bytes..].fill(0);
        Piece { start, bytes }
    }

    /// The bytes of an object.
    #[inline(always)]
    pub(super) fn bytes(&self, object: Piece) -> &[u8] {
        &self.head.as_slice()[object.start..object.start + object.bytes]
    }

    /// The bytes of an object, to be written.
    #[inline(always)]
    pub(super) fn bytes_mut(&mut self, object: Piece) -> &mut [u8] {
        &mut self.head.as_mut_slice()[object.start..object.start + object.bytes]
    }

    /// Makes the pointer at `offset` of `from` lead to `to`.
    #[inline(always)]
    pub(super) fn point(&mut self, from: Piece, offset: u32, to: Piece) {
        let distance = to.start as i64 - (from.start + offset as usize) as i64;
        let at = offset as usize;
        self.bytes_mut(from)[at..at + 8].copy_from_slice(&distance.to_le_bytes());
    }

    /// Whether one more leaf can be kept where it is: it may need a second segment, for the zeros
    /// behind it.
    pub(super) fn gathers(&self) -> bool {
        self.tail.len() + 2 <= SEGMENTS_MAX
    }

    /// Makes the pointer at `offset` of `from` lead to a leaf that is not copied.
    pub(super) fn gather(&mut self, from: Piece, offset: u32, segment: Segment) {
        let bytes = segment.len();
        self.pending.push((from.start + offset as usize, self.tail_bytes));
        self.tail_bytes += bytes.next_multiple_of(8);
        self.tail.push(segment);
        self.tail.extend(padding(bytes));
    }
}

/// Moves the contents to a buffer with room for more.
#[cold]
#[inline(never)]
pub(crate) fn grow(buf: &mut MsgBuf, capacity: usize) {
    let mut larger = heap::buffer(capacity);
    larger.copy_from(buf);
    heap::recycle(std::mem::replace(buf, larger));
}
