//! `Debug` for messages: the type, and fields by name, as `derive` would print them. Absent fields
//! are left out.

use std::fmt;

use crate::part::Message;
use crate::reflect::{ListRef, MapRef, Reflect, Value};

/// Formats a message of a generated type.
#[doc(hidden)]
pub fn debug<T: Message>(message: &T, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    fmt::Debug::fmt(&Reflect::of(message), f)
}

impl fmt::Debug for Reflect<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.message().local_name();
        let mut all = f.debug_struct(name.rsplit('.').next().unwrap_or(name));
        for (field, value) in self.fields() {
            all.field(field.name(), &Named { of: *self, value });
        }
        if !self.unknown().is_empty() {
            all.field("unknown", &format_args!("{} bytes", self.unknown().len()));
        }
        all.finish()
    }
}

/// A value with the schema that names its enums.
struct Named<'a> {
    of: Reflect<'a>,
    value: Value<'a>,
}

impl fmt::Debug for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = self.of;
        let named = |value| Named { of, value };
        match self.value {
            Value::Enum(id, number) => match of.schema().enumeration(id).value(number) {
                Some(value) => f.write_str(value.name()),
                None => write!(f, "{number}"),
            },
            Value::List(list) => f.debug_list().entries(list.iter().map(named)).finish(),
            Value::Map(map) => {
                let entries = map.iter().map(|(key, value)| (named(key), named(value)));
                f.debug_map().entries(entries).finish()
            }
            value => fmt::Debug::fmt(&value, f),
        }
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(value) => value.fmt(f),
            Value::I32(value) => value.fmt(f),
            Value::I64(value) => value.fmt(f),
            Value::U32(value) => value.fmt(f),
            Value::U64(value) => value.fmt(f),
            Value::F32(value) => value.fmt(f),
            Value::F64(value) => value.fmt(f),
            Value::String(value) => value.fmt(f),
            Value::Bytes(value) => write!(f, "b\"{}\"", value.escape_ascii()),
            Value::Enum(_, number) => number.fmt(f),
            Value::Message(value) => value.fmt(f),
            Value::List(value) => value.fmt(f),
            Value::Map(value) => value.fmt(f),
        }
    }
}

impl fmt::Debug for ListRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Debug for MapRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
