//! Messages read without their types: fields by number or name, through a plan.
//!
//! A [`Reflect`] is a message with its schema and its plans. Services that learn schemas at run
//! time have no other way to read one. Its values are [`Value`]s, borrowed from the message.

use std::ptr::NonNull;

use petasos_schema::{EnumId, Field, Kind, MessageId, Schema};

use crate::arena::Object;
use crate::part::Message;
use crate::plan::{EntryPlan, Op, Plan, Plans, Shape};

/// A message, read by number or name.
#[derive(Clone, Copy)]
pub struct Reflect<'a> {
    schema: &'a Schema,
    plans: &'a Plans,
    id: MessageId,
    object: Object<'a>,
}

/// One value.
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "named as the types that hold them")]
pub enum Value<'a> {
    Bool(bool),
    I32(i32),
    I64(i64),
    U32(u32),
    U64(u64),
    F32(f32),
    F64(f64),
    String(&'a str),
    Bytes(&'a [u8]),
    /// A number of this enum, with or without a name.
    Enum(EnumId, i32),
    Message(Reflect<'a>),
    List(ListRef<'a>),
    Map(MapRef<'a>),
}

/// The elements of a repeated field.
#[derive(Clone, Copy)]
pub struct ListRef<'a> {
    of: Elements<'a>,
    kind: Kind,
}

/// The entries of a map, ascending by key.
#[derive(Clone, Copy)]
pub struct MapRef<'a> {
    of: Elements<'a>,
    entry: &'a EntryPlan,
    key: Kind,
    value: Kind,
}

/// An array of elements or entries.
#[derive(Clone, Copy)]
struct Elements<'a> {
    schema: &'a Schema,
    plans: &'a Plans,
    /// `None` if there are none.
    array: Option<Object<'a>>,
    element_bytes: u32,
}

impl<'a> Reflect<'a> {
    /// A message of a generated type.
    pub fn of<T: Message>(message: &'a T) -> Reflect<'a> {
        let plan = T::plan();
        let object = Object::new(NonNull::from(message).cast(), plan.bytes());
        let (id, _) = T::TYPE.module.message(T::TYPE.index);
        Reflect::of_object(T::TYPE.module.schema(), T::TYPE.module.plans(), id, object)
    }

    /// `object` is a message with this `id` in the schema, for which the plans were made.
    pub(crate) fn of_object(
        schema: &'a Schema,
        plans: &'a Plans,
        id: MessageId,
        object: Object<'a>,
    ) -> Reflect<'a> {
        Reflect { schema, plans, id, object }
    }

    /// The message's declaration in its schema.
    pub fn message(self) -> &'a petasos_schema::Message {
        self.schema.message(self.id)
    }

    /// The message's schema.
    pub fn schema(self) -> &'a Schema {
        self.schema
    }

    /// The fields that are present, by number: those that an encoding would contain (M6).
    pub fn fields(self) -> impl Iterator<Item = (&'a Field, Value<'a>)> {
        let fields = self.message().fields().iter().zip(self.plan().ops());
        fields
            .filter(move |(_, op)| self.has(op))
            .map(move |(field, op)| (field, self.value(field, op)))
    }

    /// The value of the field with this number. A field without presence is zero or empty if it is
    /// not set. `None` if there is no such field, or if it has presence and is absent.
    pub fn field(self, number: u32) -> Option<Value<'a>> {
        let at = self.plan().find(number)?;
        let (op, field) = (&self.plan().ops()[at], &self.message().fields()[at]);
        is_shown(self.object, op).then(|| self.value(field, op))
    }

    /// The value of the field with a number, if it is present (M6).
    pub(crate) fn present(self, number: u32) -> Option<Value<'a>> {
        let at = self.plan().find(number)?;
        let (op, field) = (&self.plan().ops()[at], &self.message().fields()[at]);
        self.has(op).then(|| self.value(field, op))
    }

    /// The value of the field with a name as in the .proto file; see [`Reflect::field`].
    pub fn field_by_name(self, name: &str) -> Option<Value<'a>> {
        self.field(self.message().field_by_name(name)?.number())
    }

    /// Unknown fields, as they were encoded (M10).
    pub fn unknown(self) -> &'a [u8] {
        self.object.follow(0, 16).map_or(&[], |blob| bytes(blob, 0))
    }

    /// Where its struct is.
    pub(crate) fn address(self) -> usize {
        self.object.at().addr().get()
    }

    /// What is done for the field with a number.
    pub(crate) fn op(self, number: u32) -> Option<Op> {
        self.plan().find(number).map(|at| self.plan().ops()[at])
    }

    pub(crate) fn plans(self) -> &'a Plans {
        self.plans
    }

    fn plan(self) -> Plan<'a> {
        self.plans.message(self.id)
    }

    fn has(self, op: &Op) -> bool {
        has(self.object, op)
    }

    fn value(self, field: &'a Field, op: &'a Op) -> Value<'a> {
        let Reflect { schema, plans, .. } = self;
        let elements = |element_bytes| {
            let array = self.object.target(op.offset, element_bytes).map(|(array, _)| array);
            Elements { schema, plans, array, element_bytes }
        };
        match field.cardinality() {
            petasos_schema::Cardinality::Repeated { .. } => {
                let bytes = || plans.message(field_message(field.kind())).bytes();
                let of = elements(op.kind.bytes().unwrap_or_else(bytes));
                Value::List(ListRef { of, kind: field.kind() })
            }
            petasos_schema::Cardinality::Map { key } => {
                let entry = self.plan().entry_of(op);
                let of = elements(entry.bytes);
                Value::Map(MapRef { of, entry, key, value: field.kind() })
            }
            _ => match field.kind() {
                Kind::Message(id) => {
                    let bytes = plans.message(id).bytes();
                    let object = self.object.follow(op.offset, bytes);
                    let object = object.expect("only present messages are asked for");
                    Value::Message(Reflect { schema, plans, id, object })
                }
                kind => leaf(kind, self.object, op.offset),
            },
        }
    }
}

impl<'a> Elements<'a> {
    fn len(self) -> usize {
        self.array.map_or(0, |array| (array.bytes() / self.element_bytes) as usize)
    }

    fn object(self, index: usize) -> Option<Object<'a>> {
        let array = self.array.filter(|_| index < self.len())?;
        Some(array.part(index as u32 * self.element_bytes, self.element_bytes))
    }

    /// A value that lies at `offset` of an element: messages lie there whole (M7).
    fn value(self, kind: Kind, element: Object<'a>, offset: u32) -> Value<'a> {
        match kind {
            Kind::Message(id) => {
                let object = element.part(offset, self.plans.message(id).bytes());
                Value::Message(Reflect { schema: self.schema, plans: self.plans, id, object })
            }
            kind => leaf(kind, element, offset),
        }
    }
}

impl<'a> ListRef<'a> {
    /// The number of elements.
    pub fn len(self) -> usize {
        self.of.len()
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The element at `index`.
    pub fn get(self, index: usize) -> Option<Value<'a>> {
        Some(self.of.value(self.kind, self.of.object(index)?, 0))
    }

    /// All elements.
    pub fn iter(self) -> impl Iterator<Item = Value<'a>> {
        (0..self.len()).filter_map(move |index| self.get(index))
    }
}

impl<'a> MapRef<'a> {
    /// The number of entries.
    pub fn len(self) -> usize {
        self.of.len()
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// All entries.
    pub fn iter(self) -> impl Iterator<Item = (Value<'a>, Value<'a>)> {
        let entries = (0..self.len()).filter_map(move |index| self.of.object(index));
        entries.map(move |entry| {
            let key = leaf(self.key, entry, self.entry.key.offset);
            (key, self.of.value(self.value, entry, self.entry.value.offset))
        })
    }
}

fn field_message(kind: Kind) -> MessageId {
    kind.message().expect("only messages have no fixed size")
}

fn bytes(object: Object<'_>, offset: u32) -> &[u8] {
    object.target(offset, 1).map_or(&[], |(bytes, _)| bytes.as_slice())
}

/// Whether a field of a struct is present (M6).
fn has(object: Object<'_>, op: &Op) -> bool {
    let word = |offset| u32::from_le_bytes(object.load(offset));
    match (op.shape, op.kind.bytes()) {
        (Shape::Oneof, _) => word(op.oneof_offset) == op.number,
        (Shape::Present, Some(_)) => word(op.oneof_offset) >> (op.presence_bit % 32) & 1 != 0,
        (Shape::List | Shape::Map, _) => word(op.offset + 8) != 0,
        (_, Some(1)) => object.load(op.offset) != [0; 1],
        (_, Some(4)) => object.load(op.offset) != [0; 4],
        (_, Some(16)) => word(op.offset + 8) != 0,
        _ => object.load(op.offset) != [0; 8],
    }
}

/// Whether a field of a struct has a value: one without presence has one in any case.
#[inline]
pub(crate) fn is_shown(object: Object<'_>, op: &Op) -> bool {
    matches!(op.shape, Shape::Implicit | Shape::List | Shape::Map) || has(object, op)
}

/// A value that is no message.
#[inline]
pub(crate) fn leaf(kind: Kind, object: Object<'_>, offset: u32) -> Value<'_> {
    match kind {
        Kind::Double => Value::F64(f64::from_le_bytes(object.load(offset))),
        Kind::Float => Value::F32(f32::from_le_bytes(object.load(offset))),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
            Value::I32(i32::from_le_bytes(object.load(offset)))
        }
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
            Value::I64(i64::from_le_bytes(object.load(offset)))
        }
        Kind::Uint32 | Kind::Fixed32 => Value::U32(u32::from_le_bytes(object.load(offset))),
        Kind::Uint64 | Kind::Fixed64 => Value::U64(u64::from_le_bytes(object.load(offset))),
        Kind::Bool => Value::Bool(object.load(offset) != [0]),
        Kind::Bytes => Value::Bytes(bytes(object, offset)),
        Kind::Enum(id) => Value::Enum(id, i32::from_le_bytes(object.load(offset))),
        Kind::String => {
            // SAFETY: a message's strings were set from a `str`, or found to be UTF-8 (M26, M29).
            Value::String(unsafe { std::str::from_utf8_unchecked(bytes(object, offset)) })
        }
        Kind::Message(_) => unreachable!("messages are read as such"),
    }
}
