//! Pieces of a message that are sent without a copy.

use bytes::Bytes;
use petasos_buf::Segment;

/// The most pieces behind an image's head (M24).
pub const SEGMENTS_MAX: usize = 16;

/// The zeros that follow a leaf of `bytes`, up to a multiple of 8 (M24).
pub(super) fn padding(bytes: usize) -> Option<Segment> {
    static ZEROS: [u8; 7] = [0; 7];
    let missing = bytes.next_multiple_of(8) - bytes;
    (missing > 0).then(|| Segment::Owned(Bytes::from_static(&ZEROS[..missing])))
}
