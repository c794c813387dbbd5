//! Values of fields.

use std::borrow::Cow;

use petasos_plugin_abi::FieldKind;

/// The value of a field. A shared object borrows texts from the service, a module has copies.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// Of a bool.
    Bool(bool),
    /// Of a signed integer, or an enum.
    Signed(i64),
    /// Of an unsigned integer.
    Unsigned(u64),
    /// Of a float or double.
    Float(f64),
    /// Of a string.
    Text(Cow<'a, str>),
    /// Of bytes.
    Bytes(Cow<'a, [u8]>),
}

impl<'a> Value<'a> {
    /// A text.
    pub fn text(text: impl Into<Cow<'a, str>>) -> Value<'a> {
        Value::Text(text.into())
    }

    /// Its kind.
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

    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The same, with a copy of what is borrowed.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Bool(value) => Value::Bool(value),
            Value::Signed(value) => Value::Signed(value),
            Value::Unsigned(value) => Value::Unsigned(value),
            Value::Float(value) => Value::Float(value),
            Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Value::Bytes(bytes) => Value::Bytes(Cow::Owned(bytes.into_owned())),
        }
    }

    /// The bits of a number; 0 for others.
    pub(crate) fn bits(&self) -> u64 {
        match self {
            Value::Bool(value) => u64::from(*value),
            Value::Signed(value) => value.cast_unsigned(),
            Value::Unsigned(value) => *value,
            Value::Float(value) => value.to_bits(),
            Value::Text(_) | Value::Bytes(_) => 0,
        }
    }

    /// The bytes of a text or of bytes; none for others.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Value::Text(text) => text.as_bytes(),
            Value::Bytes(bytes) => bytes,
            _ => &[],
        }
    }

    /// A value of a kind, with the bits of its number or its bytes. None if a text is not UTF-8.
    pub(crate) fn of(kind: FieldKind, bits: u64, bytes: Cow<'a, [u8]>) -> Option<Value<'a>> {
        Some(match kind {
            FieldKind::Bool => Value::Bool(bits != 0),
            FieldKind::Signed => Value::Signed(bits.cast_signed()),
            FieldKind::Unsigned => Value::Unsigned(bits),
            FieldKind::Float => Value::Float(f64::from_bits(bits)),
            FieldKind::Text => Value::Text(text(bytes)?),
            FieldKind::Bytes => Value::Bytes(bytes),
        })
    }
}

/// Bytes as a text.
fn text(bytes: Cow<'_, [u8]>) -> Option<Cow<'_, str>> {
    match bytes {
        Cow::Borrowed(bytes) => str::from_utf8(bytes).ok().map(Cow::Borrowed),
        Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
    }
}
