//! The rules for one pair of messages and for one pair of fields.

use std::collections::HashMap;

use super::Difference;
use crate::ids::{MessageId, OneofIndex};
use crate::model::{Cardinality, Field, Kind, Message};
use crate::schema::Schema;

/// The first of the common fields that shares a oneof with others in one message only.
pub(super) fn oneofs(
    first: &Message,
    second: &Message,
    pairs: &[(&Field, &Field)],
) -> Option<(u32, Difference)> {
    if first.oneofs().is_empty() && second.oneofs().is_empty() {
        return None;
    }
    // For each oneof, its first common field: fields share a oneof if they agree in that.
    let mut leaders = [HashMap::new(), HashMap::new()];
    let mut leader = |side: usize, field: &Field| -> u32 {
        let of = |index: OneofIndex| *leaders[side].entry(index).or_insert(field.number());
        field.oneof().map_or(field.number(), of)
    };
    pairs.iter().find_map(|(here, there)| {
        let (with_here, with_there) = (leader(0, here), leader(1, there));
        let is_first = with_here != here.number();
        let other = if is_first { with_here } else { with_there };
        (with_here != with_there).then_some((here.number(), Difference::Oneof { other, is_first }))
    })
}

/// Compares two fields; messages in them that must be compatible too are returned.
pub(super) fn fields(
    first: &Schema,
    here: &Field,
    second: &Schema,
    there: &Field,
) -> Result<Option<(MessageId, MessageId)>, Difference> {
    let differ = || {
        let (first, second) = (describe(first, here), describe(second, there));
        Err(Difference::Type { first, second })
    };
    let is_fine = match (here.cardinality(), there.cardinality()) {
        (Cardinality::Map { key }, Cardinality::Map { key: other_key }) => {
            is_same_wire(key, other_key)
        }
        (Cardinality::Map { key }, _) => {
            return map(key, here, second, there).or_else(|()| differ());
        }
        (_, Cardinality::Map { key }) => {
            let swapped = map(key, there, first, here).or_else(|()| differ())?;
            return Ok(swapped.map(|(there, here)| (here, there)));
        }
        (Cardinality::Repeated { .. }, Cardinality::Repeated { .. }) => true,
        (Cardinality::Repeated { packed }, _) | (_, Cardinality::Repeated { packed }) => !packed,
        _ => true,
    };
    match (here.kind(), there.kind()) {
        (Kind::Message(here), Kind::Message(there)) if is_fine => Ok(Some((here, there))),
        (here, there) if is_fine && is_same_wire(here, there) => Ok(None),
        _ => differ(),
    }
}

/// Compares a map with what must be its entries, repeated, in `schema`.
fn map(
    key: Kind,
    map: &Field,
    schema: &Schema,
    entries: &Field,
) -> Result<Option<(MessageId, MessageId)>, ()> {
    let (Cardinality::Repeated { .. }, Kind::Message(id)) = (entries.cardinality(), entries.kind())
    else {
        return Err(());
    };
    let entry = schema.message(id);
    let single = |field: &&Field| {
        let many = matches!(
            field.cardinality(),
            Cardinality::Repeated { .. } | Cardinality::Map { .. } | Cardinality::Oneof(_)
        );
        !many
    };
    let (Some(entry_key), Some(value)) =
        (entry.field(1).filter(single), entry.field(2).filter(single))
    else {
        return Err(());
    };
    match (map.kind(), value.kind()) {
        _ if !is_same_wire(key, entry_key.kind()) => Err(()),
        (Kind::Message(value), Kind::Message(of_entry)) => Ok(Some((value, of_entry))),
        (value, of_entry) if is_same_wire(value, of_entry) => Ok(None),
        _ => Err(()),
    }
}

/// Whether two kinds other than messages are read as each other.
fn is_same_wire(first: Kind, second: Kind) -> bool {
    group(first).is_some_and(|group_of_first| group(second) == Some(group_of_first))
}

/// A number for each set of kinds that may change into each other; none for messages.
fn group(kind: Kind) -> Option<u8> {
    Some(match kind {
        Kind::Int32 | Kind::Uint32 | Kind::Int64 | Kind::Uint64 | Kind::Bool | Kind::Enum(_) => 0,
        Kind::Sint32 | Kind::Sint64 => 1,
        Kind::Fixed32 | Kind::Sfixed32 => 2,
        Kind::Fixed64 | Kind::Sfixed64 => 3,
        Kind::Float => 4,
        Kind::Double => 5,
        Kind::String | Kind::Bytes => 6,
        Kind::Message(_) => return None,
    })
}

/// A field's type as a .proto file would have it.
fn describe(schema: &Schema, field: &Field) -> String {
    let kind = name(schema, field.kind());
    match field.cardinality() {
        Cardinality::Repeated { packed: true } => format!("packed {kind}"),
        Cardinality::Repeated { packed: false } => format!("repeated {kind}"),
        Cardinality::Map { key } => format!("map<{}, {kind}>", name(schema, key)),
        _ => kind,
    }
}

fn name(schema: &Schema, kind: Kind) -> String {
    match kind {
        Kind::Enum(id) => format!("enum {}", schema.enumeration(id).full_name()),
        Kind::Message(id) => format!("message {}", schema.message(id).full_name()),
        scalar => format!("{scalar:?}").to_lowercase(),
    }
}
