//! The types of `google/protobuf` whose JSON is not an object of their fields.

use petasos_schema::Kind;

use super::print::Printer;
use super::{ToJsonError, time};
use crate::arena::Arena;
use crate::heap::Heap;
use crate::protobuf::decode;
use crate::reflect::{Reflect, Value};
use crate::{DecodeLimits, Input};

pub(super) const NULL_VALUE: &str = "google.protobuf.NullValue";

type Result<T> = std::result::Result<T, ToJsonError>;

/// Writes a message that has a form of its own. `false` if it has none, by name or by its fields.
pub(super) fn message(to: &mut Printer<'_>, message: Reflect<'_>, depth: u32) -> Result<bool> {
    let name = message.message().full_name();
    let Some(name) = name.strip_prefix("google.protobuf.") else { return Ok(false) };
    match name {
        "Timestamp" => in_time(to, message, time::print_timestamp),
        "Duration" => in_time(to, message, time::print_duration),
        "FieldMask" => mask(to, message),
        "Any" => any(to, message, depth),
        "Value" => value(to, message, depth),
        "Struct" => only(to, message, depth, |value| matches!(value, Value::Map(_))),
        "ListValue" => only(to, message, depth, |value| matches!(value, Value::List(_))),
        "DoubleValue" | "FloatValue" | "Int64Value" | "UInt64Value" | "Int32Value"
        | "UInt32Value" | "BoolValue" | "StringValue" | "BytesValue" => {
            only(to, message, depth, |value| {
                !matches!(value, Value::Map(_) | Value::List(_) | Value::Message(_))
            })
        }
        _ => Ok(false),
    }
}

/// The message has a value that cannot be written.
fn unprintable(message: Reflect<'_>) -> ToJsonError {
    ToJsonError::Unprintable { message: message.message().full_name().into() }
}

/// As the one field, of which there is one.
fn only(
    to: &mut Printer<'_>,
    message: Reflect<'_>,
    depth: u32,
    is_right: impl Fn(&Value<'_>) -> bool,
) -> Result<bool> {
    match message.field(1).filter(is_right) {
        Some(value) => to.value(message, value, depth).map(|()| true),
        None => Ok(false),
    }
}

fn in_time(
    to: &mut Printer<'_>,
    message: Reflect<'_>,
    print: fn(i64, i32) -> Option<String>,
) -> Result<bool> {
    let (Some(Value::I64(seconds)), Some(Value::I32(nanos))) = (message.field(1), message.field(2))
    else {
        return Ok(false);
    };
    let text = print(seconds, nanos).ok_or_else(|| unprintable(message))?;
    to.quoted(text);
    Ok(true)
}

/// Paths in lower camel case, between commas.
fn mask(to: &mut Printer<'_>, message: Reflect<'_>) -> Result<bool> {
    let Some(Value::List(paths)) = message.field(1) else { return Ok(false) };
    let mut text = String::new();
    for (index, path) in paths.iter().enumerate() {
        let Value::String(path) = path else { return Ok(false) };
        if index > 0 {
            text.push(',');
        }
        camel(path, &mut text).ok_or_else(|| unprintable(message))?;
    }
    to.string(&text);
    Ok(true)
}

/// `None` if the path would not be read as it is.
fn camel(path: &str, text: &mut String) -> Option<()> {
    let mut characters = path.chars();
    while let Some(character) = characters.next() {
        match character {
            '_' => {
                let next = characters.next().filter(char::is_ascii_lowercase)?;
                text.push(next.to_ascii_uppercase());
            }
            'A'..='Z' | ',' => return None,
            character => text.push(character),
        }
    }
    Some(())
}

/// Whatever member is present, which must be one.
fn value(to: &mut Printer<'_>, message: Reflect<'_>, depth: u32) -> Result<bool> {
    let Some((_, value)) = message.fields().next() else { return Err(unprintable(message)) };
    match value {
        Value::F64(number) if !number.is_finite() => Err(unprintable(message)),
        value => to.value(message, value, depth).map(|()| true),
    }
}

/// The message within, with its type beside its fields, or beside `value` if it has a form of its
/// own.
fn any(to: &mut Printer<'_>, message: Reflect<'_>, depth: u32) -> Result<bool> {
    if !message.is_single(1, Kind::String) || !message.is_single(2, Kind::Bytes) {
        return Ok(false);
    }
    let (Some(Value::String(url)), Some(Value::Bytes(bytes))) =
        (message.field(1), message.field(2))
    else {
        return Ok(false);
    };
    if url.is_empty() && bytes.is_empty() {
        to.text.push_str("{}");
        return Ok(true);
    }
    let (schema, plans) = (message.schema(), message.plans());
    let name = url.rsplit('/').next().unwrap_or(url);
    let found = schema.message_by_name(name);
    let (id, _) = found.ok_or_else(|| ToJsonError::UnknownType { name: name.into() })?;
    let depth = depth.checked_sub(1).ok_or(ToJsonError::TooDeep)?;
    let arena = Arena::new_in(Heap::process_default());
    let limits = DecodeLimits::for_input(bytes.len());
    let object = decode(plans.message(id), &Input::Borrowed(bytes), &limits, &arena)?;
    let inner = Reflect::of_object(schema, plans, id, object);
    to.text.push_str("{\"@type\":");
    to.string(url);
    let start = to.text.len();
    to.text.push_str(",\"value\":");
    if !self::message(to, inner, depth)? {
        to.text.truncate(start);
        let fields = to.text.len();
        to.text.push(',');
        to.fields(inner, true, depth)?;
        if to.text.len() == fields + 1 {
            to.text.truncate(fields);
        }
    }
    to.text.push('}');
    Ok(true)
}
