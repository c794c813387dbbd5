//! A fast path through M26 for messages without lists, oneofs, presence or other messages, as most
//! small ones are: their types check their own parts, in code that is compiled for each type.
//!
//! It only accepts what [`validate`](super::validate()) accepts, and leaves everything else to it.

use std::marker::PhantomData;

use petasos_schema::{LAYOUT_VERSION, Part};

use super::HEADER_BYTES;
use super::validate::validate;
use crate::part::{InPlace, Shape, Slot, ValueShape};
use crate::utf8;
use crate::{DecodeError, MESSAGE_BYTES_MAX, Message};

/// What [`Message::validate`] comes to when the short way does not accept: most often an error.
#[doc(hidden)]
#[cold]
#[inline(never)]
pub fn validate_by_plan<T: Message>(image: &[u8]) -> Result<(), DecodeError> {
    validate(T::plan(), image)
}

/// More strings and `bytes` than this are left to the plan, which is less code.
const LEAVES_MAX: u32 = 4;

/// Whether a struct's parts are numbers, and few strings and `bytes`, all of them without presence.
#[doc(hidden)]
pub const fn is_flat(fields: &[Slot], parts: &[(usize, Part)]) -> bool {
    let (mut at, mut leaves) = (0, 0);
    while at < fields.len() {
        match fields[at].shape {
            Shape::Value(ValueShape::Text | ValueShape::Blob) => leaves += 1,
            Shape::Value(ValueShape::Word1 | ValueShape::Word4 | ValueShape::Word8) => {}
            _ => return false,
        }
        at += 1;
    }
    at = 0;
    while at < parts.len() {
        if matches!(parts[at].1, Part::Presence) {
            return false;
        }
        at += 1;
    }
    leaves <= LEAVES_MAX
}

/// An image of a flat `T` on its way through M26.
#[doc(hidden)]
pub struct Flat<'i, T> {
    image: &'i [u8],
    /// Bytes of objects that may still be pointed to.
    left: usize,
    is_valid: bool,
    message: PhantomData<T>,
}

impl<'i, T: Message> Flat<'i, T> {
    /// Judges header and root, and gives the rest to `parts`.
    #[inline(always)]
    pub fn accepts(image: &'i [u8], parts: impl FnOnce(Flat<'i, T>) -> Flat<'i, T>) -> bool {
        let root_end = HEADER_BYTES + size_of::<T>();
        let Some(header) = image.first_chunk::<HEADER_BYTES>() else { return false };
        let header = u64::from_le_bytes(*header);
        let bytes = header as u32 as usize;
        let is_framed = header >> 32 == u64::from(LAYOUT_VERSION)
            && bytes.is_multiple_of(8)
            && (root_end..=MESSAGE_BYTES_MAX).contains(&bytes)
            && bytes <= image.len();
        if !is_framed {
            return false;
        }
        let image = &image[..bytes];
        let flat = Flat { image, left: bytes - HEADER_BYTES, is_valid: true, message: PhantomData };
        flat.load::<8>(0) == [0; 8] && parts(flat).is_valid
    }

    /// Judges the field that a projection leads to.
    #[inline(always)]
    #[must_use]
    pub fn part<F: InPlace>(mut self, offset: usize, _: fn(&T) -> &F) -> Self {
        self.is_valid &= match F::SHAPE {
            Shape::Value(ValueShape::Word4 | ValueShape::Word8) => true,
            Shape::Value(ValueShape::Word1) => self.load::<1>(offset)[0] < 2,
            Shape::Value(ValueShape::Blob) => self.leaf(offset).is_some(),
            Shape::Value(ValueShape::Text) => {
                self.leaf(offset).is_some_and(|text| utf8::check(text).is_ok())
            }
            _ => false,
        };
        self
    }

    #[inline(always)]
    fn load<const N: usize>(&self, offset: usize) -> [u8; N] {
        let root = &self.image[HEADER_BYTES..HEADER_BYTES + size_of::<T>()];
        *root[offset..].first_chunk().expect("a part lies within its struct")
    }

    /// The bytes that the part at `offset` points to, if they lie within the image and what is left
    /// of it.
    #[inline(always)]
    fn leaf(&mut self, offset: usize) -> Option<&'i [u8]> {
        let len = u32::from_le_bytes(self.load(offset + 8)) as usize;
        if len == 0 {
            return Some(&[]);
        }
        let distance = u64::from_le_bytes(self.load(offset)) as usize;
        let start = (HEADER_BYTES + offset).wrapping_add(distance);
        let rounded = len.next_multiple_of(8);
        if distance == 0 || start < HEADER_BYTES || !start.is_multiple_of(8) || rounded > self.left
        {
            return None;
        }
        self.left -= rounded;
        self.image.get(start..)?.get(..rounded)?.get(..len)
    }
}
