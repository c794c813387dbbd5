//! Pieces of a message that are sent without a copy.

use bytes::Bytes;

/// The most pieces behind an image's head (M24).
pub const SEGMENTS_MAX: usize = 16;

/// Bytes that a message is sent with but that are not copied into it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Segment {
    /// Bytes with their owner, in memory of this process that nobody writes.
    Owned(Bytes),
}

impl Segment {
    /// The length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "there is no empty segment")]
    pub fn len(&self) -> usize {
        match self {
            Segment::Owned(bytes) => bytes.len(),
        }
    }

    /// Copies all of it.
    ///
    /// # Panics
    /// If `to` has another length.
    pub fn copy_to(&self, to: &mut [u8]) {
        match self {
            Segment::Owned(bytes) => to.copy_from_slice(bytes),
        }
    }

    /// The bytes with their owner.
    pub fn into_bytes(self) -> Bytes {
        match self {
            Segment::Owned(bytes) => bytes,
        }
    }

    /// The zeros that follow a leaf of `bytes`, up to a multiple of 8 (M24).
    pub(super) fn padding(bytes: usize) -> Option<Segment> {
        static ZEROS: [u8; 7] = [0; 7];
        let missing = bytes.next_multiple_of(8) - bytes;
        (missing > 0).then(|| Segment::Owned(Bytes::from_static(&ZEROS[..missing])))
    }
}
