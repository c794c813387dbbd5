//! Sets fields of an image.
//!
//! A number is written where it lies. A string or bytes are put behind the image, and their part
//! points there; what they replace stays as a gap, which M20 allows.

use thiserror::Error;

use super::{FieldPath, NativeMsg};
use crate::image::{HEADER_BYTES, header};
use crate::plan::{Op, Shape, ValueKind};
use crate::{CompactError, MESSAGE_BYTES_MAX};

/// A value to be set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Leaf<'a> {
    /// Of a bool.
    Bool(bool),
    /// Of any signed integer that can have it, or of an enum.
    Signed(i64),
    /// Of any unsigned integer that can have it.
    Unsigned(u64),
    /// Of a float or double.
    Float(f64),
    /// Of a string.
    Text(&'a str),
    /// Of bytes.
    Bytes(&'a [u8]),
}

/// A field that was not set. The message is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SetError {
    /// A message on the path is absent.
    #[error("a message on the path is absent")]
    Absent,
    /// The field has another type, or a range that does not contain the value.
    #[error("the field cannot have this value")]
    Kind,
    /// The message would be larger than an image may be, or is one that cannot be copied.
    #[error(transparent)]
    Compact(#[from] CompactError),
}

impl NativeMsg {
    /// Sets a field. A message on the path has to be there.
    ///
    /// # Errors
    /// See [`SetError`].
    ///
    /// # Panics
    /// If the path is of another type.
    pub fn set(&mut self, path: &FieldPath, value: Leaf<'_>) -> Result<(), SetError> {
        self.make_whole();
        self.make_unique()?;
        let (object, op) = self.place_of(path).ok_or(SetError::Absent)?;
        let bytes = match value {
            Leaf::Text(text) => Some(text.as_bytes()),
            Leaf::Bytes(bytes) => Some(bytes),
            _ => None,
        };
        match bytes {
            Some(bytes) => {
                let is_text = matches!(value, Leaf::Text(_));
                if op.kind != if is_text { ValueKind::String } else { ValueKind::Bytes } {
                    return Err(SetError::Kind);
                }
                self.set_bytes(object, &op, bytes)
            }
            None => {
                let number = number(&op, value).ok_or(SetError::Kind)?;
                self.make_present(object, &op);
                let at = object + op.offset as usize;
                let bytes = op.kind.bytes().expect("it is a number") as usize;
                self.bytes_mut()[at..at + bytes].copy_from_slice(&number[..bytes]);
                Ok(())
            }
        }
    }

    /// Where in the image the struct is that has the field at the end of the path, and the field.
    fn place_of(&self, path: &FieldPath) -> Option<(usize, Op)> {
        let (message, number) = self.innermost(path)?;
        let object = message.address().checked_sub(self.image().as_ptr().addr());
        let op = message.op(number).expect("a path of this type");
        Some((object.expect("messages lie in the image"), op))
    }

    fn set_bytes(&mut self, object: usize, op: &Op, bytes: &[u8]) -> Result<(), SetError> {
        let (old, padded) = (self.image().len(), bytes.len().next_multiple_of(8));
        if old + padded > MESSAGE_BYTES_MAX & !7 {
            return Err(CompactError::TooLarge.into());
        }
        self.0.resize(old + padded);
        self.make_present(object, op);
        let image = self.bytes_mut();
        image[old..old + bytes.len()].copy_from_slice(bytes);
        image[old + bytes.len()..].fill(0);
        let at = object + op.offset as usize;
        let len = (bytes.len() as u32).to_le_bytes();
        let distance = if bytes.is_empty() { 0 } else { (old - at) as u64 };
        image[at..at + 8].copy_from_slice(&distance.to_le_bytes());
        image[at + 8..at + 12].copy_from_slice(&len);
        image[at + 12..at + 16].copy_from_slice(&len);
        let header = header((old + padded) as u32);
        image[..HEADER_BYTES].copy_from_slice(&header);
        Ok(())
    }

    /// M6: makes the field present; of a oneof, the only one, with a value of zero.
    fn make_present(&mut self, object: usize, op: &Op) {
        const VALUE_BYTES: usize = 16;
        let at = object + op.oneof_offset as usize;
        let (start, image) = (object + op.offset as usize, self.bytes_mut());
        match op.shape {
            Shape::Present => {
                let bit = op.presence_bit % 32;
                image[at + usize::from(bit / 8)] |= 1 << (bit % 8);
            }
            Shape::Oneof => {
                image[at..at + 4].copy_from_slice(&op.number.to_le_bytes());
                image[start..start + VALUE_BYTES].fill(0);
            }
            Shape::Implicit => {}
            Shape::List | Shape::Map => unreachable!("a path leads to a single value"),
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.image_mut()
    }
}

/// A number as the field has it in memory, at the front of eight bytes; none if it cannot have it.
fn number(op: &Op, value: Leaf<'_>) -> Option<[u8; 8]> {
    use ValueKind::*;
    let word = |word: u32| u64::from(word).to_le_bytes();
    Some(match (op.kind, value) {
        (Bool, Leaf::Bool(value)) => u64::from(value).to_le_bytes(),
        (Int32 | Sint32 | Sfixed32 | Enum, Leaf::Signed(value)) => {
            word(i32::try_from(value).ok()? as u32)
        }
        (Int64 | Sint64 | Sfixed64, Leaf::Signed(value)) => value.to_le_bytes(),
        (Uint32 | Fixed32, Leaf::Unsigned(value)) => word(u32::try_from(value).ok()?),
        (Uint64 | Fixed64, Leaf::Unsigned(value)) => value.to_le_bytes(),
        (Float, Leaf::Float(value)) => word((value as f32).to_bits()),
        (Double, Leaf::Float(value)) => value.to_le_bytes(),
        _ => return None,
    })
}
