//! Messages, fields and enums.

use crate::hash::Hash;
use crate::ids::{CycleId, EnumId, MessageId, OneofIndex};

/// A full name, and the length of its package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    full: Box<str>,
    package_bytes: usize,
}

impl Name {
    /// The `local` name, with dots where it is nested, in `package`, which may be empty.
    pub(crate) fn new(package: &str, local: &str) -> Name {
        let dot = if package.is_empty() { "" } else { "." };
        Name { full: format!("{package}{dot}{local}").into(), package_bytes: package.len() }
    }

    pub(crate) fn full(&self) -> &str {
        &self.full
    }

    pub(crate) fn package(&self) -> &str {
        &self.full[..self.package_bytes]
    }

    pub(crate) fn local(&self) -> &str {
        let dot = usize::from(self.package_bytes > 0);
        &self.full[self.package_bytes + dot..]
    }
}

/// Comments and sources of a declaration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Docs {
    pub(crate) file: Option<Box<str>>,
    pub(crate) comment: Box<str>,
}

/// The accessors that messages, enums and services share.
macro_rules! named {
    ($type:ty) => {
        impl $type {
            /// The full name, such as `package.Outer.Inner`.
            pub fn full_name(&self) -> &str {
                self.name.full()
            }

            /// The package's name, empty if there is none.
            pub fn package(&self) -> &str {
                self.name.package()
            }

            /// The full name without the package; nested declarations are joined by dots.
            pub fn local_name(&self) -> &str {
                self.name.local()
            }

            /// The file that declares it, as an `import` would name it, where this is known.
            pub fn file(&self) -> Option<&str> {
                self.docs.file.as_deref()
            }

            /// The comment before the declaration, as written between its markers. Empty if there
            /// is none, or if the schema has no sources.
            pub fn comment(&self) -> &str {
                &self.docs.comment
            }
        }
    };
}
pub(crate) use named;

/// A message type. Entries of maps are not messages here: see [`Cardinality::Map`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub(crate) name: Name,
    pub(crate) docs: Docs,
    pub(crate) fields: Vec<Field>,
    pub(crate) oneofs: Vec<Oneof>,
    pub(crate) cycle: Option<CycleId>,
    pub(crate) hash: Hash,
}

named!(Message);

impl Message {
    /// The fields, sorted by number.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The field with a number.
    pub fn field(&self, number: u32) -> Option<&Field> {
        let at = self.fields.binary_search_by_key(&number, Field::number).ok()?;
        Some(&self.fields[at])
    }

    /// The field with a name as in the .proto file. Takes time in proportion to the fields.
    pub fn field_by_name(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name() == name)
    }

    /// The oneofs, sorted by their first field's number; `optional` makes none.
    pub fn oneofs(&self) -> &[Oneof] {
        &self.oneofs
    }

    /// The oneof behind an index of this message's fields. Panics on one of another message.
    pub fn oneof(&self, index: OneofIndex) -> &Oneof {
        &self.oneofs[index.index()]
    }

    /// The fields of a oneof, sorted by number; never none.
    pub fn oneof_fields(&self, index: OneofIndex) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(move |field| field.oneof() == Some(index))
    }

    /// The cycle that the message is part of, if it can contain itself at some depth.
    pub fn cycle(&self) -> Option<CycleId> {
        self.cycle
    }

    /// The hash of the message with all that it contains.
    pub fn hash(&self) -> Hash {
        self.hash
    }
}

/// A field of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub(crate) name: Box<str>,
    pub(crate) json_name: Box<str>,
    pub(crate) comment: Box<str>,
    pub(crate) number: u32,
    pub(crate) kind: Kind,
    pub(crate) cardinality: Cardinality,
}

impl Field {
    /// The name in the .proto file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name in JSON: in lower camel case, unless the .proto file gives another.
    pub fn json_name(&self) -> &str {
        &self.json_name
    }

    /// The comment before the field, empty if there is none.
    pub fn comment(&self) -> &str {
        &self.comment
    }

    /// The number, in 1..=2^29 - 1 and not in 19000..=19999.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The type of a value; of a repeated field's elements; of a map's values.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// How many values there can be, and whether none differs from the default.
    pub fn cardinality(&self) -> Cardinality {
        self.cardinality
    }

    /// The oneof that the field is a member of.
    pub fn oneof(&self) -> Option<OneofIndex> {
        match self.cardinality {
            Cardinality::Oneof(index) => Some(index),
            _ => None,
        }
    }
}

/// The type of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the scalar kinds are named as protobuf names them")]
pub enum Kind {
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
    Enum(EnumId),
    Message(MessageId),
}

impl Kind {
    /// The message type, if it is one.
    pub fn message(self) -> Option<MessageId> {
        match self {
            Kind::Message(id) => Some(id),
            _ => None,
        }
    }

    /// Whether repeated values can be packed into one record: numbers, bools and enums.
    pub fn is_packable(self) -> bool {
        !matches!(self, Kind::String | Kind::Bytes | Kind::Message(_))
    }

    /// Whether the kind can be a map's key: integers, bools and strings.
    pub fn is_map_key(self) -> bool {
        let other = matches!(self, Kind::Double | Kind::Float | Kind::Bytes);
        !other && !matches!(self, Kind::Enum(_) | Kind::Message(_))
    }
}

/// How many values a field has, and how their absence shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cardinality {
    /// One value; the default and no value are the same. Never a message.
    Implicit,
    /// One value or none, and none differs from the default: `optional`, and every single message
    /// outside a oneof, with or without that word.
    Optional,
    /// One value or none, and at most one within the oneof.
    Oneof(OneofIndex),
    /// Any number of values.
    Repeated {
        /// Whether they are sent in one record ([`Kind::is_packable`] holds). Both forms are
        /// always received.
        packed: bool,
    },
    /// Any number of values, each under its own key.
    Map {
        /// The key's type; [`Kind::is_map_key`] holds.
        key: Kind,
    },
}

/// A set of fields of which at most one is present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oneof {
    pub(crate) name: Box<str>,
    pub(crate) comment: Box<str>,
}

impl Oneof {
    /// The name in the .proto file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The comment before the oneof, empty if there is none.
    pub fn comment(&self) -> &str {
        &self.comment
    }
}

/// An enum. All enums are open: any 32-bit number is a value, with or without a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enum {
    pub(crate) name: Name,
    pub(crate) docs: Docs,
    pub(crate) values: Vec<EnumValue>,
}

named!(Enum);

impl Enum {
    /// The values, sorted by number, aliases in the order of declaration. Zero is among them.
    pub fn values(&self) -> &[EnumValue] {
        &self.values
    }

    /// The first declared value with a number.
    pub fn value(&self, number: i32) -> Option<&EnumValue> {
        let at = self.values.partition_point(|value| value.number < number);
        self.values.get(at).filter(|value| value.number == number)
    }

    /// The value with a name. Takes time in proportion to the values.
    pub fn value_by_name(&self, name: &str) -> Option<&EnumValue> {
        self.values.iter().find(|value| value.name() == name)
    }
}

/// A named value of an enum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnumValue {
    pub(crate) name: Box<str>,
    pub(crate) comment: Box<str>,
    pub(crate) number: i32,
}

impl EnumValue {
    /// The name in the .proto file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The comment before the value, empty if there is none.
    pub fn comment(&self) -> &str {
        &self.comment
    }

    /// The number; several names can share one.
    pub fn number(&self) -> i32 {
        self.number
    }
}
