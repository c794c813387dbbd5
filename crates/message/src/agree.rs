//! Whether generated types are what their schema says (M9).
//!
//! Offsets and kinds of parts are compared by the plan. Here it is what parts hold: elements,
//! entries, members, and which message types; and the same for all types that can be reached, since
//! a reference to one may come from a message of another.

use std::sync::OnceLock;

use petasos_schema::{Cardinality, Field, Kind, Message, OBJECT_ALIGN};

use crate::part::{Member, MessageType, Shape, Slot, ValueShape};
use crate::plan::Plan;

/// Where `message!` keeps a type's plan.
#[doc(hidden)]
pub struct BoundPlan(OnceLock<Plan<'static>>);

impl BoundPlan {
    #[expect(clippy::new_without_default, reason = "made by a macro, in a static")]
    pub const fn new() -> BoundPlan {
        BoundPlan(OnceLock::new())
    }

    #[inline]
    pub fn get(&'static self, of: &'static MessageType) -> Plan<'static> {
        *self.0.get_or_init(|| bind(of))
    }
}

/// The plan of a type, once all types in it agree with their schemas.
///
/// # Panics
/// If one does not.
fn bind(of: &'static MessageType) -> Plan<'static> {
    let mut seen: Vec<&'static MessageType> = Vec::new();
    let mut next = vec![of];
    while let Some(ty) = next.pop() {
        if !seen.iter().any(|seen| is_same(seen, ty)) {
            seen.push(ty);
            compare(ty, &mut next);
        }
    }
    of.module.plans().bind(of.index, &of.slots)
}

fn is_same(a: &MessageType, b: &MessageType) -> bool {
    std::ptr::eq(a.module, b.module) && a.index == b.index
}

/// Compares one type, and notes the types of its messages.
fn compare(ty: &'static MessageType, next: &mut Vec<&'static MessageType>) {
    ty.module.plans().bind(ty.index, &ty.slots);
    let (_, message) = ty.module.message(ty.index);
    let mut agreement = Agreement { ty, message, next };
    for field in message.fields() {
        let agrees = agreement.field(field);
        assert!(agrees, "`{}` of `{}` has another type", field.name(), message.full_name());
    }
}

struct Agreement<'a> {
    ty: &'static MessageType,
    message: &'a Message,
    next: &'a mut Vec<&'static MessageType>,
}

impl Agreement<'_> {
    fn field(&mut self, field: &Field) -> bool {
        let Some(shape) = self.shape(field) else { return false };
        match (field.cardinality(), shape) {
            (Cardinality::Oneof(_), Shape::OneOf(members)) => self.member(field, members),
            (Cardinality::Repeated { .. }, Shape::List(value)) => self.value(field.kind(), value),
            (
                Cardinality::Map { key },
                Shape::Map { key: key_shape, value, bytes, value_offset },
            ) => {
                let (size, align) = value.size();
                let entry = petasos_schema::entry(key, size, align);
                (entry.bytes, entry.value_offset) == (bytes, value_offset)
                    && self.value(key, key_shape)
                    && self.value(field.kind(), value)
            }
            (_, Shape::Link(of)) => self.value(field.kind(), ValueShape::Message(of)),
            (_, Shape::Value(value)) => self.value(field.kind(), value),
            _ => false,
        }
    }

    /// What the type says of a field. A oneof's members are found through any of them.
    fn shape(&self, field: &Field) -> Option<Shape> {
        let number = field.number();
        let has = |slot: &&Slot| match slot.shape {
            Shape::OneOf(members) => members.iter().any(|member| member.number == number),
            _ => slot.number == number,
        };
        self.ty.fields.iter().find(has).map(|slot| slot.shape)
    }

    /// Members of one oneof are together, and nothing else is with them.
    fn member(&mut self, field: &Field, members: &[Member]) -> bool {
        let oneof = field.oneof();
        let together = members.iter().all(|member| {
            self.message.field(member.number).is_some_and(|other| other.oneof() == oneof)
        });
        let member = members.iter().find(|member| member.number == field.number());
        together && member.is_some_and(|member| self.value(field.kind(), member.shape))
    }

    fn value(&mut self, kind: Kind, shape: ValueShape) -> bool {
        match (kind, shape) {
            (Kind::Message(id), ValueShape::Message(of)) => {
                let of = of();
                self.next.push(of);
                // Equal hashes have equal layouts (M1), wherever the type was generated.
                let wanted = self.ty.module.schema().message(id).hash();
                wanted == of.module.message(of.index).1.hash()
            }
            (Kind::Message(_), _) | (_, ValueShape::Message(_)) => false,
            (kind, shape) => petasos_schema::Part::of_value(kind) == Shape::Value(shape).part(),
        }
    }
}

impl ValueShape {
    /// Bytes and alignment of an element.
    fn size(self) -> (u32, u32) {
        match self {
            ValueShape::Message(of) => (of().slots.bytes as u32, OBJECT_ALIGN),
            value => {
                let part = Shape::Value(value).part();
                (part.bytes(), part.align())
            }
        }
    }
}
