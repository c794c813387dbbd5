//! Fields by number.

use std::ops::Range;

use petasos_schema::{Cardinality, Kind};

/// What is done for one field.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Op {
    /// The record's tag as it is encoded, 1 to 5 bytes, the first one lowest. A list is packed if
    /// the tag says so.
    pub(crate) tag: u64,
    /// The bits of a word that hold the tag, if the word was read where a tag may be. A tag of four
    /// or five bytes takes more than a look: it has none.
    pub(crate) tag_mask: u64,
    /// The tag for who writes backwards: its last byte highest.
    pub(crate) tag_end: u64,
    /// The length of the encoded tag, 1 to 5.
    pub(crate) tag_bytes: u8,
    /// What shape and kind ask for, so that a codec branches once.
    pub(crate) code: OpCode,
    /// The kind of one value; of a list's elements, of a map's values.
    pub(crate) kind: ValueKind,
    pub(crate) shape: Shape,
    /// Where the field's part is; of a member of a oneof, where its value is.
    pub(crate) offset: u32,
    pub(crate) number: u32,
    /// The plan of the field's message; of a map, its entry.
    pub(crate) message: u32,
    /// Of a member of a oneof: where the `OneOf` is. Of a field with a presence bit: where the word
    /// is that has it.
    pub(crate) oneof_offset: u32,
    /// Of [`Shape::Present`], messages apart: the bit that says whether there is a value (M6).
    pub(crate) presence_bit: u16,
    /// `tag_bytes` in bits.
    pub(crate) tag_bits: u8,
    pub(crate) reserved: u8,
}

const _: () = assert!(size_of::<Op>() == 48);

/// Tags of so many bytes are recognised at a look.
pub(super) const SHORT_TAG_BYTES: u8 = 3;

impl Op {
    /// What stands before the first field of a message and, twice, behind the last: no tag matches.
    pub(super) const END: Op = Op {
        tag: 1,
        tag_mask: 0,
        tag_end: 0,
        tag_bytes: 0,
        code: OpCode::End,
        kind: ValueKind::Bool,
        shape: Shape::Implicit,
        offset: 0,
        number: 0,
        message: 0,
        oneof_offset: 0,
        presence_bit: 0,
        tag_bits: 0,
        reserved: 0,
    };

    /// Whether a word that was read at a tag begins with this field's, of at most
    /// [`SHORT_TAG_BYTES`]. What follows in the word is a varint of up to five bytes.
    #[inline(always)]
    pub(crate) fn begins(&self, word: u64) -> bool {
        word & self.tag_mask == self.tag
    }

    /// The length of the encoded tag.
    #[inline(always)]
    pub(crate) fn tag_len(&self) -> usize {
        self.tag_bytes.into()
    }

    /// The wire type in the tag.
    #[inline(always)]
    pub(crate) fn wire_type(&self) -> u32 {
        self.tag as u32 & 7
    }
}

/// How many values a field has, and how their absence shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Shape {
    /// One value; zero or empty is none. Never a message.
    Implicit,
    /// One value or none: by a bit, or by the link of a message.
    Present,
    /// A member of a oneof.
    Oneof,
    List,
    Map,
}

impl Shape {
    pub(crate) fn of(cardinality: Cardinality) -> Shape {
        match cardinality {
            Cardinality::Implicit => Shape::Implicit,
            Cardinality::Optional => Shape::Present,
            Cardinality::Oneof(_) => Shape::Oneof,
            Cardinality::Repeated { .. } => Shape::List,
            Cardinality::Map { .. } => Shape::Map,
        }
    }
}

/// What a codec does for one field. What is not frequent shares a code and asks further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum OpCode {
    /// An implicit number, by how it lies in memory and on the wire; an enum is an `Int32`.
    Int32,
    Uint32,
    Sint32,
    /// Also a `uint64`, since varints have 64 bits.
    Int64,
    Sint64,
    Bool,
    Fixed32,
    Fixed64,
    /// An implicit string.
    String,
    /// Implicit bytes.
    Bytes,
    /// A message behind a link of its own.
    Link,
    /// A value with a presence bit; no message.
    Flagged,
    /// A member of a oneof.
    Member,
    /// A list of messages.
    Messages,
    /// A list of strings or bytes.
    Leaves,
    /// A list of numbers.
    Numbers,
    Map,
    /// A message as it lies: the value of a map's entry, never a field.
    Struct,
    /// There are no more fields on this side ([`Op::END`]).
    End,
}

impl OpCode {
    pub(crate) fn of(shape: Shape, kind: ValueKind) -> OpCode {
        match (shape, kind) {
            (Shape::Implicit, ValueKind::Message) => OpCode::Struct,
            (Shape::Implicit, kind) => OpCode::implicit(kind),
            (Shape::Present, ValueKind::Message) => OpCode::Link,
            (Shape::Present, _) => OpCode::Flagged,
            (Shape::Oneof, _) => OpCode::Member,
            (Shape::List, ValueKind::Message) => OpCode::Messages,
            (Shape::List, ValueKind::String | ValueKind::Bytes) => OpCode::Leaves,
            (Shape::List, _) => OpCode::Numbers,
            (Shape::Map, _) => OpCode::Map,
        }
    }

    fn implicit(kind: ValueKind) -> OpCode {
        match kind {
            ValueKind::Int32 | ValueKind::Enum => OpCode::Int32,
            ValueKind::Uint32 => OpCode::Uint32,
            ValueKind::Sint32 => OpCode::Sint32,
            ValueKind::Int64 | ValueKind::Uint64 => OpCode::Int64,
            ValueKind::Sint64 => OpCode::Sint64,
            ValueKind::Bool => OpCode::Bool,
            ValueKind::Float | ValueKind::Fixed32 | ValueKind::Sfixed32 => OpCode::Fixed32,
            ValueKind::Double | ValueKind::Fixed64 | ValueKind::Sfixed64 => OpCode::Fixed64,
            ValueKind::String => OpCode::String,
            ValueKind::Bytes => OpCode::Bytes,
            ValueKind::Message => OpCode::Struct,
        }
    }
}

/// The type of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ValueKind {
    Double,
    Float,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Sint32,
    Sint64,
    Fixed32,
    Fixed64,
    Sfixed32,
    Sfixed64,
    Bool,
    String,
    Bytes,
    Enum,
    Message,
}

impl ValueKind {
    pub(crate) fn of(kind: Kind) -> ValueKind {
        match kind {
            Kind::Double => ValueKind::Double,
            Kind::Float => ValueKind::Float,
            Kind::Int32 => ValueKind::Int32,
            Kind::Int64 => ValueKind::Int64,
            Kind::Uint32 => ValueKind::Uint32,
            Kind::Uint64 => ValueKind::Uint64,
            Kind::Sint32 => ValueKind::Sint32,
            Kind::Sint64 => ValueKind::Sint64,
            Kind::Fixed32 => ValueKind::Fixed32,
            Kind::Fixed64 => ValueKind::Fixed64,
            Kind::Sfixed32 => ValueKind::Sfixed32,
            Kind::Sfixed64 => ValueKind::Sfixed64,
            Kind::Bool => ValueKind::Bool,
            Kind::String => ValueKind::String,
            Kind::Bytes => ValueKind::Bytes,
            Kind::Enum(_) => ValueKind::Enum,
            Kind::Message(_) => ValueKind::Message,
        }
    }

    /// The wire type of one value in protobuf, as in the low three bits of a tag.
    pub(crate) const fn wire_type(self) -> u32 {
        match self {
            ValueKind::Double | ValueKind::Fixed64 | ValueKind::Sfixed64 => 1,
            ValueKind::Float | ValueKind::Fixed32 | ValueKind::Sfixed32 => 5,
            ValueKind::String | ValueKind::Bytes | ValueKind::Message => 2,
            _ => 0,
        }
    }

    /// Bytes of one value as an element of a list or in a map's entry; a message's are its plan's.
    pub(crate) const fn bytes(self) -> Option<u32> {
        match self {
            ValueKind::Bool => Some(1),
            ValueKind::Float | ValueKind::Fixed32 | ValueKind::Sfixed32 | ValueKind::Enum => {
                Some(4)
            }
            ValueKind::Int32 | ValueKind::Uint32 | ValueKind::Sint32 => Some(4),
            ValueKind::String | ValueKind::Bytes => Some(16),
            ValueKind::Message => None,
            _ => Some(8),
        }
    }
}

/// How the entries of a map lie (M8), and what is done for key and value. As fields of an entry
/// both are [`Shape::Implicit`], with the numbers 1 and 2; a message lies at the value's offset.
#[derive(Clone, Debug)]
pub(crate) struct EntryPlan {
    pub(crate) bytes: u32,
    pub(crate) key: Op,
    pub(crate) value: Op,
    pub(super) relocate: Range<u32>,
    pub(super) steps: Range<u32>,
}

/// A number as a varint in a word, the first byte lowest, and its length in bytes.
pub(crate) const fn varint(number: u32) -> (u64, u8) {
    let mut rest = number;
    let mut word = 0;
    let mut len = 0;
    while rest > 0x7f {
        word |= ((rest & 0x7f | 0x80) as u64) << (8 * len);
        rest >>= 7;
        len += 1;
    }
    (word | (rest as u64) << (8 * len), len + 1)
}
