//! Equality of messages, by plan.
//!
//! Fields are compared as values, floating-point numbers as in Rust (NaN is not equal to itself),
//! and unknown fields as bytes. The messages' layout in memory does not matter.

use std::ptr::NonNull;

use crate::arena::Object;
use crate::part::Message;
use crate::plan::{EntryPlan, Op, Plan, Shape, ValueKind};

/// Whether two messages of one type are equal.
#[doc(hidden)]
pub fn equal<T: Message>(a: &T, b: &T) -> bool {
    let plan = T::plan();
    let object = |message: &T| Object::new(NonNull::from(message).cast(), plan.bytes());
    messages(plan, object(a), object(b))
}

/// Whether two messages of one plan are equal.
pub(crate) fn messages(plan: Plan<'_>, a: Object<'_>, b: Object<'_>) -> bool {
    plan.ops().iter().all(|op| field(plan, op, a, b)) && unknown(a) == unknown(b)
}

fn unknown(message: Object<'_>) -> &[u8] {
    message.follow(0, 16).map_or(&[], |blob| bytes(blob, 0))
}

fn bytes(object: Object<'_>, offset: u32) -> &[u8] {
    object.target(offset, 1).map_or(&[], |(bytes, _)| bytes.as_slice())
}

fn field(plan: Plan<'_>, op: &Op, a: Object<'_>, b: Object<'_>) -> bool {
    match op.shape {
        Shape::Implicit => value(plan, op, op.offset, a, b),
        Shape::Present => has(op, a) == has(op, b) && value(plan, op, op.offset, a, b),
        Shape::Oneof => {
            let case = |message: Object<'_>| u32::from_le_bytes(message.load(op.oneof_offset));
            let [a_has, b_has] = [a, b].map(|message| case(message) == op.number);
            a_has == b_has && (!a_has || value(plan, op, op.offset, a, b))
        }
        Shape::List => list(plan, op, a, b),
        Shape::Map => map(plan, op, a, b),
    }
}

/// The presence bit of a field that is no message. A link tells itself.
fn has(op: &Op, message: Object<'_>) -> bool {
    let word = u32::from_le_bytes(message.load(op.oneof_offset));
    op.kind == ValueKind::Message || word >> (op.presence_bit % 32) & 1 != 0
}

/// A single value outside of lists and maps: a message is behind a link.
fn value(plan: Plan<'_>, op: &Op, offset: u32, a: Object<'_>, b: Object<'_>) -> bool {
    if op.kind != ValueKind::Message {
        return leaf(op.kind, offset, a, b);
    }
    let plan = plan.message_of(op);
    match (a.follow(offset, plan.bytes()), b.follow(offset, plan.bytes())) {
        (Some(a), Some(b)) => messages(plan, a, b),
        (None, None) => true,
        _ => false,
    }
}

fn leaf(kind: ValueKind, offset: u32, a: Object<'_>, b: Object<'_>) -> bool {
    match kind {
        ValueKind::String | ValueKind::Bytes => bytes(a, offset) == bytes(b, offset),
        ValueKind::Float => {
            f32::from_le_bytes(a.load(offset)) == f32::from_le_bytes(b.load(offset))
        }
        ValueKind::Double => {
            f64::from_le_bytes(a.load(offset)) == f64::from_le_bytes(b.load(offset))
        }
        ValueKind::Bool => a.load::<1>(offset) == b.load(offset),
        kind if kind.bytes() == Some(4) => a.load::<4>(offset) == b.load(offset),
        _ => a.load::<8>(offset) == b.load(offset),
    }
}

fn list(plan: Plan<'_>, op: &Op, a: Object<'_>, b: Object<'_>) -> bool {
    let of = plan.message_of(op);
    let size = op.kind.bytes().unwrap_or_else(|| of.bytes());
    each(op.offset, size, a, b, |a, b| match op.kind {
        ValueKind::Message => messages(of, a, b),
        kind => leaf(kind, 0, a, b),
    })
}

fn map(plan: Plan<'_>, op: &Op, a: Object<'_>, b: Object<'_>) -> bool {
    let entry: &EntryPlan = plan.entry_of(op);
    each(op.offset, entry.bytes, a, b, |a, b| {
        leaf(entry.key.kind, entry.key.offset, a, b)
            && match entry.value.kind {
                ValueKind::Message => {
                    let of = plan.message_of(&entry.value);
                    let [a, b] =
                        [a, b].map(|entry_at| entry_at.part(entry.value.offset, of.bytes()));
                    messages(of, a, b)
                }
                kind => leaf(kind, entry.value.offset, a, b),
            }
    })
}

/// Compares elements one by one.
fn each(
    offset: u32,
    element_bytes: u32,
    a: Object<'_>,
    b: Object<'_>,
    equal: impl Fn(Object<'_>, Object<'_>) -> bool,
) -> bool {
    match (a.target(offset, element_bytes), b.target(offset, element_bytes)) {
        (None, None) => true,
        (Some((a, a_len)), Some((b, b_len))) => {
            let mut offsets = (0..a.bytes()).step_by(element_bytes as usize);
            a_len == b_len
                && offsets.all(|at| equal(a.part(at, element_bytes), b.part(at, element_bytes)))
        }
        _ => false,
    }
}
