//! The native encoding: a message's bytes as in memory, in one piece (M19 to M27).
//!
//! `validate` checks a received image. `compact` makes one from memory that may be anywhere and may
//! belong to another process. Both walk over structs by plan, and know no types. The checks on a
//! struct's own bytes, which they share, are in `check`.
//!
//! Invariants: any accessor of a type can read an image that `validate` has accepted without
//! further checks, as long as nobody writes it (M27). `validate` accepts every image that `compact`
//! makes, with zeros between objects and in empty parts (M13).

mod check;
mod compact;
mod flat;
mod segment;
mod sink;
mod source;
mod validate;

use bytes::Bytes;
use petasos_buf::{MsgBuf, Segment};
use petasos_schema::{Hash, LAYOUT_VERSION};

pub use compact::compact;
pub(crate) use compact::compact_within;
pub use flat::{Flat, is_flat, validate_by_plan};
pub use segment::SEGMENTS_MAX;
pub(crate) use sink::grow;
pub use source::{CompactError, Outside, Source};
pub(crate) use source::{InImage, Private};
pub use validate::validate;

/// A tail of fewer bytes is copied behind its head. It would have few packets, of which those at
/// either end are copied in any case.
pub const GATHER_BYTES_MIN: usize = 128 << 10;

const _: () = assert!(SEGMENTS_MAX < petasos_buf::SEGMENTS_MAX, "and one segment behind them");

/// Bytes of an image's header; the root follows it (M20).
pub(crate) const HEADER_BYTES: usize = 8;

/// Whether messages of a type travel in native encoding: both ends lay messages out by the same
/// rules, and mean the same type (M19).
pub fn is_native(our_hash: Hash, their_layout: u32, their_hash: Hash) -> bool {
    their_layout == LAYOUT_VERSION && our_hash == their_hash
}

/// Whether an image that begins at `at` can be read there (M25).
#[inline(always)]
pub fn is_aligned(at: *const u8) -> bool {
    at.addr().is_multiple_of(8)
}

/// The header of an image of `image_bytes` (M20).
pub(crate) fn header(image_bytes: u32) -> [u8; HEADER_BYTES] {
    (u64::from(image_bytes) | u64::from(LAYOUT_VERSION) << 32).to_le_bytes()
}

/// An encoded message, in native encoding or protobuf's.
#[derive(Debug)]
pub struct Image {
    /// [`ROOM_BYTES`](crate::ROOM_BYTES) or as many as the encoder was asked for, unspecified, and
    /// behind them the first piece of the encoding.
    pub head: MsgBuf,
    /// What follows, piece by piece: bytes that were not copied (M24), and what is between them.
    /// At most [`SEGMENTS_MAX`].
    pub tail: Vec<Segment>,
}

impl Image {
    /// Bytes of head and tail together, the room included.
    #[expect(clippy::len_without_is_empty, reason = "there is always a room or a header")]
    pub fn len(&self) -> usize {
        self.head.len() + self.tail_bytes()
    }

    /// The whole in one piece: the tail is copied behind the head.
    #[inline]
    pub fn into_buf(self) -> MsgBuf {
        match self.tail.is_empty() {
            true => self.head,
            false => self.joined(0),
        }
    }

    /// [`Image::into_buf`] with `tail_bytes` of zeros behind it, to be written.
    #[inline]
    pub fn into_buf_with(self, tail_bytes: usize) -> MsgBuf {
        match self.tail.is_empty() && tail_bytes == 0 {
            true => self.head,
            false => self.joined(tail_bytes),
        }
    }

    /// The whole with `end` behind it, to be sent: long pieces stay where they are, as the buffer's
    /// tail (M24), short ones are copied behind the head.
    #[inline(always)]
    pub fn into_message(self, end: &[u8]) -> MsgBuf {
        match self.tail.is_empty() && end.is_empty() {
            true => self.head,
            false => self.gathered(end),
        }
    }

    /// Bytes of the tail.
    pub fn tail_bytes(&self) -> usize {
        self.tail.iter().map(Segment::len).sum()
    }

    #[cold]
    fn gathered(self, end: &[u8]) -> MsgBuf {
        if self.tail_bytes() < GATHER_BYTES_MIN {
            let mut buf = self.joined(end.len());
            let start = buf.len() - end.len();
            buf.as_mut_slice()[start..].copy_from_slice(end);
            return buf;
        }
        let mut buf = self.head;
        let end = (!end.is_empty()).then(|| Bytes::copy_from_slice(end));
        buf.attach(self.tail.into_iter().chain(end.map(Segment::Owned)).collect());
        buf
    }

    #[cold]
    fn joined(self, tail_bytes: usize) -> MsgBuf {
        let (mut at, len) = (self.head.len(), self.len());
        let mut buf = self.head;
        if buf.capacity() < len + tail_bytes {
            sink::grow(&mut buf, len + tail_bytes);
        }
        buf.set_len(len + tail_bytes);
        for segment in &self.tail {
            let end = at + segment.len();
            segment.copy_to(0, &mut buf.as_mut_slice()[at..end]);
            at = end;
        }
        buf.as_mut_slice()[len..].fill(0);
        buf
    }
}
