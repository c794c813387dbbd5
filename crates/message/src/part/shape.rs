//! The compiler's layout of a generated struct, to be compared with the schema's (M9).

use petasos_schema::Part;

use super::{Blob, Element, Key, Link, List, Map, Scalar, Text};
use crate::module::Module;
use crate::part::Message;
use crate::plan::Slots;

/// A generated type.
pub struct MessageType {
    /// The schema that the type was generated from.
    pub module: &'static Module,
    /// Its place among the messages of that schema.
    pub index: u32,
    /// Size, and where the parts are.
    pub slots: Slots,
    /// What the parts are that fields have, in no order.
    pub fields: &'static [Slot],
}

/// One part of a generated struct.
#[derive(Clone, Copy)]
pub struct Slot {
    /// The field's number; 0 for a oneof.
    pub number: u32,
    /// Where the part is, in bytes from the struct's begin.
    pub offset: u32,
    /// What the part is.
    pub shape: Shape,
}

/// What kind of part a field's type is.
#[derive(Clone, Copy)]
pub enum Shape {
    /// A number, a bool or an enum; `Text` or `Blob`.
    Value(ValueShape),
    /// A `Link` to a message of this type.
    Link(fn() -> &'static MessageType),
    /// A `List` of such elements.
    List(ValueShape),
    /// A `Map`; its entries have this size and keep the value at this offset.
    #[expect(missing_docs, reason = "named as the layout's rule M8 names them")]
    Map { key: ValueShape, value: ValueShape, bytes: u32, value_offset: u32 },
    /// A `OneOf` of these members.
    OneOf(&'static [Member]),
}

/// What one value is: of a field, of a list's element, of an entry's key or value.
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "named as the parts of M4 are")]
pub enum ValueShape {
    Word1,
    Word4,
    Word8,
    Text,
    Blob,
    /// A whole struct of this type.
    Message(fn() -> &'static MessageType),
}

/// A member of a oneof; a message is behind a pointer there.
#[derive(Clone, Copy)]
pub struct Member {
    /// The field's number.
    pub number: u32,
    /// Its value.
    pub shape: ValueShape,
}

/// A type that can be a field of a generated struct.
///
/// # Safety
/// The shape is the truth about the type's memory, and zeros are a valid value of it.
pub unsafe trait InPlace: Sized {
    #[doc(hidden)]
    const SHAPE: Shape;
}

/// The shape of the field that a projection leads to.
#[doc(hidden)]
pub const fn shape_of<T, F: InPlace>(_: fn(&T) -> &F) -> Shape {
    F::SHAPE
}

// SAFETY: a scalar's shape is that of its size, and zeros are a valid value of it.
unsafe impl<S: Scalar> InPlace for S {
    const SHAPE: Shape = Shape::Value(S::VALUE);
}

// SAFETY: 16 bytes, of which zeros are the empty string.
unsafe impl InPlace for Text {
    const SHAPE: Shape = Shape::Value(ValueShape::Text);
}

// SAFETY: 16 bytes, of which zeros are no bytes.
unsafe impl InPlace for Blob {
    const SHAPE: Shape = Shape::Value(ValueShape::Blob);
}

// SAFETY: 8 bytes, of which zeros are no message.
unsafe impl<T: Message> InPlace for Link<T> {
    const SHAPE: Shape = Shape::Link(type_of::<T>);
}

// SAFETY: 16 bytes, of which zeros are an empty list.
unsafe impl<T: Element> InPlace for List<T> {
    const SHAPE: Shape = Shape::List(T::VALUE);
}

// SAFETY: 16 bytes, of which zeros are an empty map; what is said of the entries is the compiler's.
unsafe impl<K: Key, V: Element> InPlace for Map<K, V> {
    const SHAPE: Shape = Shape::Map {
        key: K::VALUE,
        value: V::VALUE,
        bytes: size_of::<super::Entry<K, V>>() as u32,
        value_offset: std::mem::offset_of!(super::Entry<K, V>, value) as u32,
    };
}

pub(super) fn type_of<T: Message>() -> &'static MessageType {
    T::TYPE
}

#[doc(hidden)]
impl ValueShape {
    /// The shape of a oneof's member that is a message.
    pub const fn of_message<T: Message>() -> ValueShape {
        ValueShape::Message(type_of::<T>)
    }

    /// The shape of a oneof's member that is a number, a bool or an enum.
    pub const fn of_scalar<S: Scalar>() -> ValueShape {
        S::VALUE
    }

    /// Whether such a value has pointers in it, or, in a oneof, is one.
    pub(super) const fn is_part(self) -> bool {
        !matches!(self, ValueShape::Word1 | ValueShape::Word4 | ValueShape::Word8)
    }
}

/// Size and parts of a struct with these fields: with `Unknown` at its begin, and with `Presence`
/// where the parts leave room for it, which M5 does nowhere else (zeros at the end apart, which
/// are less than 8 bytes and never stand alone).
#[doc(hidden)]
pub const fn slots<const N: usize>(fields: &[Slot], bytes: usize) -> ([(usize, Part); N], usize) {
    let mut parts = [(0, Part::Unknown); N];
    let (mut end, mut small) = (8, bytes);
    let mut at = 0;
    while at < fields.len() {
        let (offset, part) = (fields[at].offset as usize, fields[at].shape.part());
        parts[at + 1] = (offset, part);
        match part {
            Part::Word1 | Part::Word4 if offset < small => small = offset,
            Part::Word1 | Part::Word4 => {}
            Part::OneOf if offset + 24 > end => end = offset + 24,
            Part::Word8 | Part::Link if offset + 8 > end => end = offset + 8,
            Part::Text | Part::Blob | Part::List | Part::Map if offset + 16 > end => {
                end = offset + 16;
            }
            _ => {}
        }
        at += 1;
    }
    if end < small {
        parts[at + 1] = (end, Part::Presence);
        at += 1;
    }
    (parts, at + 1)
}

impl Shape {
    /// The part, as layouts name it.
    pub(crate) const fn part(self) -> Part {
        match self {
            Shape::Value(ValueShape::Word1) => Part::Word1,
            Shape::Value(ValueShape::Word4) => Part::Word4,
            Shape::Value(ValueShape::Word8) => Part::Word8,
            Shape::Value(ValueShape::Text) => Part::Text,
            Shape::Value(ValueShape::Blob) => Part::Blob,
            Shape::Link(_) | Shape::Value(ValueShape::Message(_)) => Part::Link,
            Shape::List(_) => Part::List,
            Shape::Map { .. } => Part::Map,
            Shape::OneOf(_) => Part::OneOf,
        }
    }
}
