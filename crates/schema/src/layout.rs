//! Where the parts of a message are in memory: `docs/spec/message.md`, M1 to M8.
//!
//! This is a pure function of what a message's hash covers and of [`LAYOUT_VERSION`] (M1).
//! Generated types are printed from it and compared with it, and tables for use at run time are
//! made from it, so no other place knows an offset. Nothing here accesses a message.

use crate::ids::MessageId;
use crate::model::{Cardinality, Field, Kind, Message};
use crate::schema::Schema;

/// The version of these rules. Peers compare it in addition to their hashes, which do not cover it
/// (M1).
pub const LAYOUT_VERSION: u32 = 1;

/// Structs, arrays and leaves begin at multiples of this many bytes, and structs' sizes are such
/// multiples (M2).
pub const OBJECT_ALIGN: u32 = 8;

/// The offset of the value in a `OneOf` part: after the case and 4 bytes of zeros (M4).
const ONEOF_VALUE_OFFSET: u32 = 8;

/// The layouts of all messages of a schema.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layouts {
    messages: Box<[MessageLayout]>,
}

impl Layouts {
    /// Computes all layouts, in time proportional to the number of fields.
    pub fn of(schema: &Schema) -> Layouts {
        let messages = schema.messages().map(|(_, message)| MessageLayout::of(message)).collect();
        Layouts { messages }
    }

    /// The layout of a message of the schema. Panics on an id of a larger schema.
    pub fn message(&self, id: MessageId) -> &MessageLayout {
        &self.messages[id.index()]
    }

    /// All layouts, each at its message's [`MessageId::index`].
    pub fn all(&self) -> &[MessageLayout] {
        &self.messages
    }

    /// Bytes and alignment of one value in an array or in an entry of a map: a message lies there
    /// as a struct (M7).
    pub fn element(&self, kind: Kind) -> (u32, u32) {
        match kind {
            Kind::Message(id) => (self.message(id).bytes, OBJECT_ALIGN),
            _ => {
                let part = Part::of_value(kind);
                (part.bytes(), part.align())
            }
        }
    }

    /// The layout of the entries of a map with these kinds.
    pub fn entry(&self, key: Kind, value: Kind) -> EntryLayout {
        let (value_bytes, value_align) = self.element(value);
        entry(key, value_bytes, value_align)
    }
}

/// The layout of one message's struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageLayout {
    /// The struct's size, a multiple of 8 and at least that. Its alignment is 8.
    pub bytes: u32,
    /// Where the presence bits are, if any field has one.
    pub presence: Option<PresenceLayout>,
    /// The fields, in the order of [`Message::fields`]: by number.
    pub fields: Box<[FieldLayout]>,
    /// The offsets of the `OneOf` parts, in the order of [`Message::oneofs`].
    pub oneofs: Box<[u32]>,
    /// All parts in order: each once, with its offset, ascending. After the last there are only
    /// zeros.
    pub parts: Box<[(u32, Part)]>,
}

/// The words that hold presence bits: bit `i` is in word `i / 32` (M6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PresenceLayout {
    /// Where the first word is.
    pub offset: u32,
    /// The number of words, of 4 bytes each.
    pub words: u32,
}

/// The place of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldLayout {
    /// Where the part is; for a member of a oneof, where the value is within the `OneOf`.
    pub offset: u32,
    /// The field's part; for a member of a oneof, the part that it would have outside of one.
    pub part: Part,
    /// The field's presence bit, if it has one (M6).
    pub presence_bit: Option<u32>,
}

/// What one or several fields occupy in a message's struct (M4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// A bool.
    Word1,
    /// A number of 32 bits, or an enum.
    Word4,
    /// A number of 64 bits.
    Word8,
    /// A string: pointer, length and capacity.
    Text,
    /// Bytes: as [`Part::Text`].
    Blob,
    /// A pointer to one message.
    Link,
    /// An array: pointer, length and capacity.
    List,
    /// A list of a map's entries.
    Map,
    /// All fields of one oneof: the case, and one value.
    OneOf,
    /// Words of presence bits: see [`PresenceLayout`].
    Presence,
    /// A pointer to the `Blob` of unknown fields.
    Unknown,
}

impl Part {
    /// The part of a field, or of its value if it is a member of a oneof.
    pub fn of(field: &Field) -> Part {
        match field.cardinality() {
            Cardinality::Repeated { .. } => Part::List,
            Cardinality::Map { .. } => Part::Map,
            _ => Part::of_value(field.kind()),
        }
    }

    /// The part of a single value.
    pub fn of_value(kind: Kind) -> Part {
        match kind {
            Kind::Bool => Part::Word1,
            Kind::Float | Kind::Int32 | Kind::Uint32 | Kind::Sint32 => Part::Word4,
            Kind::Fixed32 | Kind::Sfixed32 | Kind::Enum(_) => Part::Word4,
            Kind::Double | Kind::Int64 | Kind::Uint64 | Kind::Sint64 => Part::Word8,
            Kind::Fixed64 | Kind::Sfixed64 => Part::Word8,
            Kind::String => Part::Text,
            Kind::Bytes => Part::Blob,
            Kind::Message(_) => Part::Link,
        }
    }

    /// The part's size in bytes; that of one word for [`Part::Presence`].
    pub fn bytes(self) -> u32 {
        match self {
            Part::Word1 => 1,
            Part::Word4 | Part::Presence => 4,
            Part::Word8 | Part::Link | Part::Unknown => 8,
            Part::Text | Part::Blob | Part::List | Part::Map => 16,
            Part::OneOf => 24,
        }
    }

    /// The part's alignment in bytes.
    pub fn align(self) -> u32 {
        self.bytes().min(OBJECT_ALIGN)
    }
}

impl MessageLayout {
    /// Lays out the groups of M5, one after the other.
    fn of(message: &Message) -> MessageLayout {
        let mut parts = Parts::default();
        parts.place(Part::Unknown);
        let (mut fields, bits) = fields(message);
        let mut oneofs = vec![0; message.oneofs().len()];
        let mut presence = None;
        for align in [8, 4, 1] {
            let words = bits.div_ceil(u32::BITS);
            if align == 4 && words > 0 {
                let offset = parts.place(Part::Presence);
                parts.end += (words - 1) * Part::Presence.bytes();
                presence = Some(PresenceLayout { offset, words });
            }
            for (place, field) in fields.iter_mut().zip(message.fields()) {
                match field.oneof() {
                    None if place.part.align() == align => place.offset = parts.place(place.part),
                    Some(index) if align == Part::OneOf.align() => {
                        let oneof = &mut oneofs[index.index()];
                        if *oneof == 0 {
                            *oneof = parts.place(Part::OneOf);
                        }
                        place.offset = *oneof + ONEOF_VALUE_OFFSET;
                    }
                    _ => {}
                }
            }
        }
        MessageLayout {
            bytes: parts.end.next_multiple_of(OBJECT_ALIGN),
            presence,
            fields: fields.into(),
            oneofs: oneofs.into(),
            parts: parts.placed.into(),
        }
    }
}

/// The fields' parts and presence bits, their offsets still to come, and the number of bits.
fn fields(message: &Message) -> (Vec<FieldLayout>, u32) {
    let mut bits = 0;
    let layouts = message.fields().iter().map(|field| {
        let is_optional = field.cardinality() == Cardinality::Optional;
        let presence_bit = (is_optional && field.kind().message().is_none()).then_some(bits);
        bits += u32::from(presence_bit.is_some());
        FieldLayout { offset: 0, part: Part::of(field), presence_bit }
    });
    (layouts.collect(), bits)
}

/// Parts without gaps.
#[derive(Default)]
struct Parts {
    end: u32,
    placed: Vec<(u32, Part)>,
}

impl Parts {
    /// Places a part. `end` cannot overflow: every field takes at least two bytes of a schema's
    /// input, which would have to be a gigabyte to make a struct of 4 GiB.
    fn place(&mut self, part: Part) -> u32 {
        let offset = self.end;
        self.placed.push((offset, part));
        self.end = offset.checked_add(part.bytes()).expect("limits bound a message's fields");
        offset
    }
}

/// How the entries of a map lie (M8). The key is at offset 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryLayout {
    /// The entry's size, a multiple of 8.
    pub bytes: u32,
    /// Where the value is.
    pub value_offset: u32,
}

/// The layout of a map's entries, by its key and by its value's size and alignment in bytes; these
/// are a struct's for a message.
pub fn entry(key: Kind, value_bytes: u32, value_align: u32) -> EntryLayout {
    let value_offset = Part::of_value(key).bytes().next_multiple_of(value_align);
    let bytes = (value_offset + value_bytes).next_multiple_of(OBJECT_ALIGN);
    EntryLayout { bytes, value_offset }
}
