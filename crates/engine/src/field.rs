//! Fields of messages, as engines see them (E3).

use thiserror::Error;

use crate::{MethodId, Peer};

/// A field of a method's messages that some engine of a datapath has declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldId(pub(crate) u16);

impl FieldId {
    /// The place of its declaration in [`Schema`]'s terms: counted from 0 in each datapath.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// What a field holds. Enums are integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A bool.
    Bool,
    /// Any signed integer, or an enum.
    Signed,
    /// Any unsigned integer.
    Unsigned,
    /// A float or double.
    Float,
    /// A string.
    Text,
    /// Bytes.
    Bytes,
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// Of a bool.
    Bool(bool),
    /// Of a signed integer or an enum.
    Signed(i64),
    /// Of an unsigned integer.
    Unsigned(u64),
    /// Of a float or double.
    Float(f64),
    /// Of a string.
    Text(&'a str),
    /// Of bytes.
    Bytes(&'a [u8]),
}

impl Value<'_> {
    /// What kind of field has such a value.
    pub fn kind(&self) -> FieldKind {
        match self {
            Value::Bool(_) => FieldKind::Bool,
            Value::Signed(_) => FieldKind::Signed,
            Value::Unsigned(_) => FieldKind::Unsigned,
            Value::Float(_) => FieldKind::Float,
            Value::Text(_) => FieldKind::Text,
            Value::Bytes(_) => FieldKind::Bytes,
        }
    }
}

/// A field that cannot be declared. The fault of a policy's configuration; a retry fails again.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FieldError {
    /// The method's messages have no such field.
    #[error("{method} has no field `{path}`")]
    Unknown {
        /// The method's full name.
        method: String,
        /// The path: names with dots between them.
        path: String,
    },
    /// It is a message, a list or a map, or inside of one of the latter two.
    #[error("`{path}` of {method} is not a single value")]
    NotSingle {
        /// The method's full name.
        method: String,
        /// The path.
        path: String,
    },
    /// It has another kind.
    #[error("`{path}` of {method} is not {expected:?} but {found:?}")]
    Kind {
        /// The method's full name.
        method: String,
        /// The path.
        path: String,
        /// What the policy needs.
        expected: FieldKind,
        /// What it is.
        found: FieldKind,
    },
    /// The datapath has 65,536 declarations.
    #[error("a datapath has at most 65,536 declared fields")]
    TooMany,
}

/// What the service knows of messages.
pub trait Schema {
    /// The kind of the field at `path` of a method's request (or of a stream's messages from the
    /// caller). Called for each declaration: the service then gives the field's value with each
    /// request of the method, as `id`.
    ///
    /// # Errors
    /// See [`FieldError`].
    fn field(
        &mut self,
        method: MethodId,
        path: &str,
        id: FieldId,
        is_written: bool,
    ) -> Result<FieldKind, FieldError>;

    /// No engine wants the field any more.
    fn forget(&mut self, id: FieldId);

    /// The name of the application of which the datapath is.
    fn application(&self) -> &str {
        ""
    }

    /// The number by which calls to a name have their peer, from now on.
    fn peer(&mut self, _name: &str) -> Peer {
        Peer::NONE
    }
}

/// Values of an item's declared fields. A message without one of them lacks it.
///
/// The memory is used again for the next item, so that values allocate nothing in the long run.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    entries: Vec<Entry>,
    /// All strings: known to be text, so that reading one checks nothing.
    text: String,
    bytes: Vec<u8>,
    /// Some entry is what an engine has written.
    is_written: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    id: FieldId,
    value: Stored,
    is_written: bool,
}

#[derive(Clone, Copy, Debug)]
enum Stored {
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    /// In [`Fields::text`].
    Text {
        start: u32,
        end: u32,
    },
    /// In [`Fields::bytes`].
    Bytes {
        start: u32,
        end: u32,
    },
}

impl Fields {
    /// The value of a field.
    #[inline]
    pub fn get(&self, id: FieldId) -> Option<Value<'_>> {
        self.entries.iter().find(|entry| entry.id == id).map(|entry| self.value(entry.value))
    }

    /// Puts in a value that the message has, once for each field.
    ///
    /// # Panics
    /// If the values of one message exceed 4 GiB, which no message does.
    #[inline]
    pub fn insert(&mut self, id: FieldId, value: Value<'_>) {
        debug_assert!(self.get(id).is_none(), "a field of a message has one value");
        let value = self.stored(value);
        self.entries.push(Entry { id, value, is_written: false });
    }

    /// Whether an engine has written a field.
    #[inline]
    pub fn is_written(&self) -> bool {
        self.is_written
    }

    /// Fields that an engine has written, each once.
    #[inline]
    pub fn written(&self) -> impl Iterator<Item = (FieldId, Value<'_>)> {
        let written = self.entries.iter().filter(|entry| entry.is_written);
        written.map(|entry| (entry.id, self.value(entry.value)))
    }

    pub(crate) fn put(&mut self, id: FieldId, value: Value<'_>, is_written: bool) {
        let value = self.stored(value);
        self.is_written |= is_written;
        match self.entries.iter_mut().find(|entry| entry.id == id) {
            Some(entry) => *entry = Entry { id, value, is_written },
            None => self.entries.push(Entry { id, value, is_written }),
        }
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.text.clear();
        self.bytes.clear();
        self.is_written = false;
    }

    fn stored(&mut self, value: Value<'_>) -> Stored {
        match value {
            Value::Bool(value) => Stored::Bool(value),
            Value::Signed(value) => Stored::Signed(value),
            Value::Unsigned(value) => Stored::Unsigned(value),
            Value::Float(value) => Stored::Float(value),
            Value::Text(text) => {
                let start = place(self.text.len());
                self.text.push_str(text);
                Stored::Text { start, end: place(self.text.len()) }
            }
            Value::Bytes(bytes) => {
                let start = place(self.bytes.len());
                self.bytes.extend_from_slice(bytes);
                Stored::Bytes { start, end: place(self.bytes.len()) }
            }
        }
    }

    #[inline]
    fn value(&self, stored: Stored) -> Value<'_> {
        match stored {
            Stored::Bool(value) => Value::Bool(value),
            Stored::Signed(value) => Value::Signed(value),
            Stored::Unsigned(value) => Value::Unsigned(value),
            Stored::Float(value) => Value::Float(value),
            Stored::Text { start, end } => Value::Text(&self.text[start as usize..end as usize]),
            Stored::Bytes { start, end } => Value::Bytes(&self.bytes[start as usize..end as usize]),
        }
    }
}

fn place(at: usize) -> u32 {
    u32::try_from(at).expect("values of one message are shorter than 4 GiB")
}
