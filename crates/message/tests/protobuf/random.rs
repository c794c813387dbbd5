//! Random messages of any schema, as prost-reflect holds them.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use petasos_base::Rng;
use prost_reflect::prost::bytes::Bytes;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value};

/// A message with about half of its fields set. Maps are empty if `is_canonical`: prost-reflect
/// writes entries in any order.
pub fn message(
    of: &MessageDescriptor,
    rng: &mut Rng,
    is_canonical: bool,
    depth: u32,
) -> DynamicMessage {
    let mut message = DynamicMessage::new(of.clone());
    for field in of.fields() {
        let is_message = matches!(field.kind(), Kind::Message(_));
        if rng.below(2) == 0 || (is_message && (depth == 0 || rng.below(3) == 0)) {
            continue;
        }
        let single = |rng: &mut Rng| value(&field, rng, is_canonical, depth);
        let value = if field.is_map() {
            let entry = field.kind().as_message().unwrap().clone();
            let (key, value_field) = (entry.map_entry_key_field(), entry.map_entry_value_field());
            let count = if is_canonical { 0 } else { rng.below(6) };
            let entries = (0..count).map(|_| {
                let key = value(&key, rng, is_canonical, depth);
                (map_key(key), value(&value_field, rng, is_canonical, depth))
            });
            Value::Map(entries.collect())
        } else if field.is_list() {
            Value::List((0..rng.below(5)).map(|_| single(rng)).collect())
        } else {
            single(rng)
        };
        message.set_field(&field, value);
    }
    message
}

fn map_key(value: Value) -> MapKey {
    match value {
        Value::Bool(key) => MapKey::Bool(key),
        Value::I32(key) => MapKey::I32(key),
        Value::I64(key) => MapKey::I64(key),
        Value::U32(key) => MapKey::U32(key),
        Value::U64(key) => MapKey::U64(key),
        Value::String(key) => MapKey::String(key),
        _ => panic!("no key"),
    }
}

/// A number of any size, small ones often.
fn number(rng: &mut Rng) -> u64 {
    let bits = rng.below(65) as u32;
    let value = rng.next_u64().checked_shr(u64::BITS - bits).unwrap_or(0);
    if rng.below(4) == 0 { value.wrapping_neg() } else { value }
}

fn value(field: &FieldDescriptor, rng: &mut Rng, is_canonical: bool, depth: u32) -> Value {
    let number = number(rng);
    match field.kind() {
        // No NaN: the oracle compares by value.
        Kind::Double => Value::F64(f64::from_bits(number & !(1 << 52))),
        Kind::Float => Value::F32(f32::from_bits(number as u32 & !(1 << 23))),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(number as i32),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(number as i64),
        Kind::Uint32 | Kind::Fixed32 => Value::U32(number as u32),
        Kind::Uint64 | Kind::Fixed64 => Value::U64(number),
        Kind::Bool => Value::Bool(number & 1 == 0),
        Kind::String => Value::String(text(rng)),
        Kind::Bytes => Value::Bytes(bytes(rng)),
        Kind::Enum(_) => Value::EnumNumber(number as i32),
        Kind::Message(of) => {
            Value::Message(message(&of, rng, is_canonical, depth.saturating_sub(1)))
        }
    }
}

fn text(rng: &mut Rng) -> String {
    let len = rng.below(40) as usize;
    let letters = ["a", "b", "é", "語", "🦀", "z"];
    let plain = rng.below(2) == 0;
    (0..len).map(|_| if plain { "x" } else { letters[rng.below(6) as usize] }).collect()
}

fn bytes(rng: &mut Rng) -> Bytes {
    // Sometimes long enough to be gathered and adopted.
    let len = if rng.below(30) == 0 { 5000 } else { rng.below(40) };
    (0..len).map(|_| rng.next_u64() as u8).collect()
}
