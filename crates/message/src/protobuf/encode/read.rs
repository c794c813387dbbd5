//! Values in a message's memory.

use crate::arena::Object;
use crate::plan::{Op, ValueKind};
use crate::protobuf::varint::zigzag;

/// How a number is sent.
#[derive(Clone, Copy)]
pub(super) enum Number {
    Varint(u64),
    Fixed32([u8; 4]),
    Fixed64([u8; 8]),
}

#[inline(always)]
pub(super) fn int32(bytes: [u8; 4]) -> u64 {
    i64::from(i32::from_le_bytes(bytes)) as u64
}

#[inline(always)]
pub(super) fn uint32(bytes: [u8; 4]) -> u64 {
    u32::from_le_bytes(bytes).into()
}

#[inline(always)]
pub(super) fn sint32(bytes: [u8; 4]) -> u64 {
    zigzag(i32::from_le_bytes(bytes).into())
}

#[inline(always)]
pub(super) fn int64(bytes: [u8; 8]) -> u64 {
    u64::from_le_bytes(bytes)
}

#[inline(always)]
pub(super) fn sint64(bytes: [u8; 8]) -> u64 {
    zigzag(i64::from_le_bytes(bytes))
}

#[inline(always)]
pub(super) fn bool(bytes: [u8; 1]) -> u64 {
    bytes[0].into()
}

/// The number of `kind` at `offset`. Inlined into what looks at the result, so that each kind has
/// one branch.
///
/// # Panics
/// If `kind` is no number: callers have looked.
#[inline(always)]
pub(super) fn number(kind: ValueKind, object: Object<'_>, offset: u32) -> Number {
    use ValueKind as Kind;
    match kind {
        Kind::Int32 | Kind::Enum => Number::Varint(int32(object.load(offset))),
        Kind::Uint32 => Number::Varint(uint32(object.load(offset))),
        Kind::Sint32 => Number::Varint(sint32(object.load(offset))),
        Kind::Int64 | Kind::Uint64 => Number::Varint(int64(object.load(offset))),
        Kind::Sint64 => Number::Varint(sint64(object.load(offset))),
        Kind::Bool => Number::Varint(bool(object.load(offset))),
        Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => Number::Fixed32(object.load(offset)),
        Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => Number::Fixed64(object.load(offset)),
        Kind::String | Kind::Bytes | Kind::Message => unreachable!("no kind of number"),
    }
}

/// Whether a member of a oneof is the one that is present (M11).
#[inline(always)]
pub(super) fn is_selected(op: &Op, object: Object<'_>) -> bool {
    word(object, op.oneof_offset) == op.number
}

#[inline(always)]
fn word(object: Object<'_>, offset: u32) -> u32 {
    u32::from_le_bytes(object.load(offset))
}
