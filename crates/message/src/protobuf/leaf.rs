//! The bytes of strings, `bytes` and lists of numbers, as slices.

use std::slice;

use crate::arena::Object;

/// The elements that the part at `offset` points to, of `element_bytes` each, as bytes.
///
/// # Safety
/// A `Text`, `Blob` or `List` of such elements lies at `offset`, and nobody writes what it points
/// to for as long as the slice is used.
#[inline(always)]
pub(super) unsafe fn bytes<'m>(object: Object<'m>, offset: u32, element_bytes: u32) -> &'m [u8] {
    match object.target(offset, element_bytes) {
        // SAFETY: the part's target has this many bytes, which live as long as the message; the
        // caller sees that they are not written.
        Some((leaf, _)) => unsafe {
            slice::from_raw_parts(leaf.at().as_ptr(), leaf.bytes() as usize)
        },
        None => &[],
    }
}
