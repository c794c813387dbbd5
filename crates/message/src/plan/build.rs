//! Makes plans from a schema and its layouts.

use std::ops::Range;

use petasos_schema::{
    Cardinality, EntryLayout, Field, FieldLayout, Kind, Layouts, Message, MessageLayout, Part,
    Schema,
};

use super::op::{EntryPlan, Op, OpCode, SHORT_TAG_BYTES, Shape, ValueKind, varint};
use super::step::{Member, Relocation, Step};
use super::{FIELDS_MAX, MessagePlan, Plans, TooManyFields};

/// Where a struct has its `Unknown` part (M5).
const UNKNOWN_OFFSET: u32 = 0;

pub(super) fn plans(schema: &Schema) -> Result<Plans, TooManyFields> {
    let (layouts, ops) = (Layouts::of(schema), vec![Op::END]);
    let mut builder = Builder { layouts, ops, ..Builder::default() };
    for (id, message) in schema.messages() {
        if message.fields().len() > FIELDS_MAX {
            return Err(TooManyFields { message: message.full_name().into() });
        }
        let layout = builder.layouts.message(id).clone();
        let plan = MessagePlan {
            bytes: layout.bytes,
            ops: builder.ops(message, &layout),
            dense: builder.dense(message),
            relocate: builder.relocate(message, &layout),
            steps: builder.steps(message, &layout),
        };
        builder.messages.push(plan);
    }
    Ok(Plans {
        layouts: builder.layouts,
        messages: builder.messages.into(),
        ops: builder.ops.into(),
        dense: builder.dense.into(),
        entries: builder.entries.into(),
        relocations: builder.relocations.into(),
        steps: builder.steps.into(),
        members: builder.members.into(),
    })
}

#[derive(Default)]
struct Builder {
    layouts: Layouts,
    messages: Vec<MessagePlan>,
    ops: Vec<Op>,
    dense: Vec<u16>,
    entries: Vec<EntryPlan>,
    relocations: Vec<Relocation>,
    steps: Vec<Step>,
    members: Vec<Member>,
}

/// The end of a table, as an index into it.
fn end<T>(table: &[T]) -> u32 {
    u32::try_from(table.len()).expect("limits bound a schema's fields")
}

impl Builder {
    fn ops(&mut self, message: &Message, layout: &MessageLayout) -> Range<u32> {
        let start = end(&self.ops);
        for (field, place) in message.fields().iter().zip(&layout.fields) {
            let mut op = op(field.number(), field.kind(), place.offset);
            op.shape = Shape::of(field.cardinality());
            op.code = OpCode::of(op.shape, op.kind);
            op.presence_bit = place.presence_bit.unwrap_or(0) as u16;
            if let (Some(presence), Some(bit)) = (layout.presence, place.presence_bit) {
                op.oneof_offset = presence.offset + bit / u32::BITS * 4;
            }
            if let Some(index) = field.oneof() {
                op.oneof_offset = layout.oneofs[index.index()];
            }
            match field.cardinality() {
                Cardinality::Map { key } => {
                    op.message = self.entry(key, field.kind());
                    set_tag(&mut op, ValueKind::Message.wire_type());
                }
                Cardinality::Repeated { packed: true } => {
                    set_tag(&mut op, ValueKind::Bytes.wire_type());
                }
                _ => {}
            }
            self.ops.push(op);
        }
        let fields = start..end(&self.ops);
        self.ops.extend([Op::END; 2]);
        fields
    }

    /// A map's entry, of which each map has its own.
    fn entry(&mut self, key: Kind, value: Kind) -> u32 {
        let EntryLayout { bytes, value_offset } = self.layouts.entry(key, value);
        let at = end(&self.entries);
        let (relocate, steps) = (end(&self.relocations), end(&self.steps));
        for (kind, offset) in [(key, 0), (value, value_offset)] {
            match kind {
                Kind::Message(id) => {
                    self.steps.push(Step::Struct { offset, message: id.index() as u32 });
                }
                _ => self.steps.extend(single(kind, offset)),
            }
            if matches!(kind, Kind::String | Kind::Bytes) {
                self.relocations.push(Relocation { offset, case: 0 });
            }
        }
        self.entries.push(EntryPlan {
            bytes,
            key: op(1, key, 0),
            value: op(2, value, value_offset),
            relocate: relocate..end(&self.relocations),
            steps: steps..end(&self.steps),
        });
        at
    }

    /// From numbers to places, for small numbers and where few are unused. 0 is none.
    fn dense(&mut self, message: &Message) -> Range<u32> {
        let start = self.dense.len();
        let fields = message.fields();
        let last = fields.last().map_or(0, |field| field.number() as usize);
        self.dense.resize(start + (last + 1).min(8 * fields.len() + 64), 0);
        for (place, field) in fields.iter().enumerate() {
            if let Some(dense) = self.dense[start..].get_mut(field.number() as usize) {
                *dense = place as u16 + 1;
            }
        }
        start as u32..end(&self.dense)
    }

    fn relocate(&mut self, message: &Message, layout: &MessageLayout) -> Range<u32> {
        let start = end(&self.relocations);
        self.relocations.push(Relocation { offset: UNKNOWN_OFFSET, case: 0 });
        for (field, place) in message.fields().iter().zip(&layout.fields) {
            if !matches!(place.part, Part::Word1 | Part::Word4 | Part::Word8) {
                let case = field.oneof().map_or(0, |_| field.number());
                self.relocations.push(Relocation { offset: place.offset, case });
            }
        }
        start..end(&self.relocations)
    }

    fn steps(&mut self, message: &Message, layout: &MessageLayout) -> Range<u32> {
        let mut steps = vec![(UNKNOWN_OFFSET, Step::Unknown { offset: UNKNOWN_OFFSET })];
        let ops = &self.ops[self.ops.len() - 2 - message.fields().len()..];
        for ((field, place), op) in message.fields().iter().zip(&layout.fields).zip(ops) {
            if field.oneof().is_none() {
                steps.extend(absent(place, layout).map(|step| (place.offset, step)));
                steps.extend(self.step(field, place, op.message).map(|step| (place.offset, step)));
            }
        }
        let mut counts = vec![0; layout.oneofs.len()];
        for field in message.fields() {
            if let Some(index) = field.oneof() {
                counts[index.index()] += 1;
            }
        }
        let mut first = end(&self.members);
        let mut places = Vec::with_capacity(counts.len());
        for (offset, count) in layout.oneofs.iter().zip(&counts) {
            steps.push((*offset, Step::OneOf { offset: *offset, first, count: *count }));
            places.push(first as usize);
            first += u32::from(*count);
        }
        self.members.resize(first as usize, Member { number: 0, step: None });
        for (field, place) in message.fields().iter().zip(&layout.fields) {
            if let Some(index) = field.oneof() {
                let member = &mut places[index.index()];
                let step = single(field.kind(), place.offset);
                self.members[*member] = Member { number: field.number(), step };
                *member += 1;
            }
        }
        steps.extend(spare(layout));
        steps.sort_by_key(|(offset, _)| *offset);
        let start = end(&self.steps);
        self.steps.extend(steps.into_iter().map(|(_, step)| step));
        start..end(&self.steps)
    }

    /// What there is to do for a field that is not in a oneof.
    fn step(&self, field: &Field, place: &FieldLayout, entry: u32) -> Option<Step> {
        let offset = place.offset;
        match (field.cardinality(), field.kind()) {
            (Cardinality::Map { .. }, _) => Some(Step::Map { offset, entry }),
            (Cardinality::Repeated { .. }, kind) => Some(match kind {
                Kind::Message(id) => Step::Messages { offset, message: id.index() as u32 },
                Kind::String => Step::Texts { offset },
                Kind::Bytes => Step::Blobs { offset },
                Kind::Bool => Step::Bools { offset },
                _ => Step::Numbers { offset, element_bytes: self.layouts.element(kind).0 },
            }),
            (_, kind) => single(kind, offset),
        }
    }
}

/// What there is to do for a single value.
fn single(kind: Kind, offset: u32) -> Option<Step> {
    match kind {
        Kind::Bool => Some(Step::Bool { offset }),
        Kind::String => Some(Step::Text { offset }),
        Kind::Bytes => Some(Step::Blob { offset }),
        Kind::Message(id) => Some(Step::Link { offset, message: id.index() as u32 }),
        _ => None,
    }
}

/// A field with a bit is zero or empty without it (M6).
fn absent(place: &FieldLayout, layout: &MessageLayout) -> Option<Step> {
    let (presence, bit) = (layout.presence?, place.presence_bit?);
    let word = presence.offset + bit / u32::BITS * 4;
    let mask = 1 << (bit % u32::BITS);
    Some(Step::Absent { offset: place.offset, word, mask, bytes: place.part.bytes() as u8 })
}

/// The bits beyond the last (M26).
fn spare(layout: &MessageLayout) -> Option<(u32, Step)> {
    let presence = layout.presence?;
    let bits = layout.fields.iter().filter_map(|field| field.presence_bit).count() as u32;
    let used = bits % u32::BITS;
    let offset = presence.offset + (presence.words - 1) * 4;
    (used > 0).then_some((offset, Step::Spare { offset, mask: u32::MAX << used }))
}

fn op(number: u32, kind: Kind, offset: u32) -> Op {
    let value_kind = ValueKind::of(kind);
    let mut op = Op {
        code: OpCode::of(Shape::Implicit, value_kind),
        kind: value_kind,
        offset,
        number,
        message: kind.message().map_or(0, |id| id.index() as u32),
        ..Op::END
    };
    set_tag(&mut op, value_kind.wire_type());
    op
}

fn set_tag(op: &mut Op, wire_type: u32) {
    let (tag, bytes) = varint(op.number << 3 | wire_type);
    let spare = u64::BITS - 8 * u32::from(bytes);
    op.tag = tag;
    op.tag_mask = if bytes > SHORT_TAG_BYTES { 0 } else { u64::MAX >> spare };
    (op.tag_bytes, op.tag_bits) = (bytes, 8 * bytes);
    op.tag_end = tag << spare;
}
