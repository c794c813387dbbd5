//! The types of `google/protobuf` whose JSON is not an object of their fields.
//!
//! Each is set through its fields by number, as if JSON had these. So the schema's declaration of
//! them is checked there, and nothing is assumed.

use std::borrow::Cow;

use petasos_schema::{Kind, MessageId, Schema};

use super::parse::{Parser, Result, wrong};
use super::print_known::NULL_VALUE;
use super::text::Json;
use super::{FromJsonError, time};
use crate::arena::Arena;
use crate::arena::Object;
use crate::heap::Heap;
use crate::protobuf::encode;

/// Whether `null` is a value of a kind.
pub(super) fn takes_null(schema: &Schema, kind: Kind) -> bool {
    match kind {
        Kind::Enum(id) => schema.enumeration(id).full_name() == NULL_VALUE,
        Kind::Message(id) => schema.message(id).full_name() == "google.protobuf.Value",
        _ => false,
    }
}

/// Fills a message that has a form of its own. `false` if it has none.
pub(super) fn message<'a>(
    parser: &mut Parser<'_, 'a>,
    id: MessageId,
    object: Object<'a>,
    json: &Json<'_>,
    depth: u32,
) -> Result<bool> {
    let full_name = parser.types.schema.message(id).full_name();
    let Some(name) = full_name.strip_prefix("google.protobuf.") else { return Ok(false) };
    let mut set = |number, json: &Json<'_>| parser.set(id, number, object, json, depth);
    match (name, json) {
        ("Timestamp", Json::String(text)) => {
            let time = time::parse_timestamp(text).ok_or_else(|| wrong(full_name))?;
            in_time(set, time)?;
        }
        ("Duration", Json::String(text)) => {
            let time = time::parse_duration(text).ok_or_else(|| wrong(full_name))?;
            in_time(set, time)?;
        }
        ("FieldMask", Json::String(text)) => {
            set(1, &mask(text).ok_or_else(|| wrong(full_name))?)?;
        }
        ("Timestamp" | "Duration" | "FieldMask", _) => return Err(wrong(full_name)),
        ("Value", json) => set(member(json), json)?,
        ("Struct", Json::Object(_)) | ("ListValue", Json::Array(_)) => set(1, json)?,
        ("Struct" | "ListValue", _) => return Err(wrong(full_name)),
        (
            "DoubleValue" | "FloatValue" | "Int64Value" | "UInt64Value" | "Int32Value"
            | "UInt32Value" | "BoolValue" | "StringValue" | "BytesValue",
            json,
        ) => match json {
            Json::Null => return Err(wrong(full_name)),
            json => set(1, json)?,
        },
        ("Any", Json::Object(members)) => any(parser, id, object, members, depth)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn in_time(
    mut set: impl FnMut(u32, &Json<'_>) -> Result<()>,
    (seconds, nanos): (i64, i32),
) -> Result<()> {
    let number = |value: i64| Json::Number(Cow::Owned(value.to_string()));
    set(1, &number(seconds))?;
    set(2, &number(nanos.into()))
}

/// The member of a `Value` that a value is.
fn member(json: &Json<'_>) -> u32 {
    match json {
        Json::Null => 1,
        Json::Number(_) => 2,
        Json::String(_) => 3,
        Json::Bool(_) => 4,
        Json::Object(_) => 5,
        Json::Array(_) => 6,
    }
}

/// Paths in snake case.
fn mask(text: &str) -> Option<Json<'static>> {
    let mut paths = Vec::new();
    for camel in text.split(',').filter(|_| !text.is_empty()) {
        let mut path = String::new();
        for character in camel.chars() {
            match character {
                '_' => return None,
                'A'..='Z' => path.extend(['_', character.to_ascii_lowercase()]),
                character => path.push(character),
            }
        }
        paths.push(Json::String(Cow::Owned(path)));
    }
    Some(Json::Array(paths))
}

/// The message within is encoded as protobuf.
fn any<'a>(
    parser: &mut Parser<'_, 'a>,
    id: MessageId,
    object: Object<'a>,
    members: &[(Cow<'_, str>, Json<'_>)],
    depth: u32,
) -> Result<()> {
    let (schema, plans) = (parser.types.schema, parser.types.plans);
    let full_name = schema.message(id).full_name();
    if members.is_empty() {
        return Ok(());
    }
    let url = members.iter().find(|(name, _)| name == "@type").map(|(_, url)| url);
    let Some(Json::String(text)) = url else { return Err(wrong(full_name)) };
    let name = text.rsplit('/').next().filter(|name| name.len() < text.len());
    let name = name.ok_or_else(|| wrong(full_name))?;
    let found = schema.message_by_name(name);
    let (inner, _) = found.ok_or_else(|| FromJsonError::UnknownType { name: name.into() })?;
    let depth = depth.checked_sub(1).ok_or(FromJsonError::TooDeep)?;

    let arena = Arena::new_in(Heap::process_default());
    let mut within = parser.within(&arena);
    let root = within.object(u64::from(plans.message(inner).bytes()))?;
    let rest = members.iter().filter(|(name, _)| name != "@type").cloned().collect::<Vec<_>>();
    let has_form = is_known(schema, inner);
    let read = match rest.as_slice() {
        [(name, value)] if has_form && name == "value" => {
            within.path.enter_member(name);
            within.message(inner, root, value, depth).map(|()| within.path.leave())
        }
        _ if has_form => Err(wrong(full_name)),
        _ => within.fields(inner, root, &rest, depth),
    };
    parser.path.append(&mut within.path);
    read?;
    // SAFETY: the message was written by this plan, and its arena lives.
    let encoded = unsafe { encode(plans.message(inner), root, 0, None) }?.into_buf();
    parser.left = within.left;
    parser.set(id, 1, object, &Json::String(Cow::Borrowed(text)), depth)?;
    let at = schema.message(id).fields().iter().position(|field| field.number() == 2);
    let op = at.map(|at| &plans.message(id).ops()[at]);
    let op = op.filter(|op| op.kind == crate::plan::ValueKind::Bytes);
    let op = op.filter(|op| op.shape == crate::plan::Shape::Implicit);
    parser.bytes(object, op.ok_or_else(|| wrong(full_name))?.offset, encoded.as_slice())
}

/// Whether a type has a form of its own, which an `Any` then has as its `value`.
fn is_known(schema: &Schema, id: MessageId) -> bool {
    let name = schema.message(id).full_name().strip_prefix("google.protobuf.");
    name.is_some_and(|name| {
        let others = ["Timestamp", "Duration", "FieldMask", "Struct", "Value", "ListValue", "Any"];
        others.contains(&name)
            || name.strip_suffix("Value").is_some_and(|kind| {
                let kinds = ["Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool"];
                kinds.contains(&kind) || kind == "String" || kind == "Bytes"
            })
    })
}
