//! The loop over the records of one message.

use super::Decoder;
use crate::DecodeError;
use crate::object::Object;
use crate::plan::{Op, OpCode, Plan, Shape, ValueKind};
use crate::protobuf::cursor::{Cursor, WireType};
use crate::protobuf::utf8;

/// Where a record lies: what its tag said, and where its message ends.
#[derive(Clone, Copy)]
pub(super) struct Record {
    /// Behind the tag.
    pub(super) at: usize,
    /// The end of the message that has the record.
    pub(super) end: usize,
    pub(super) wire_type: u32,
    /// How many levels of messages there may be in this one.
    pub(super) depth: u32,
}

impl<'a, 'p> Decoder<'a, 'p, '_> {
    /// Takes the records from `at` to `end` into `object`, the struct of `plan`'s message, which
    /// may have values already.
    ///
    /// Records mostly come in the order of their fields, so that the tag expected next is compared
    /// first; after a field that did not come, a table leads from the number to the field.
    pub(super) fn message(
        &mut self,
        plan: Plan<'p>,
        object: Object<'a>,
        at: usize,
        end: usize,
        depth: u32,
    ) -> Result<(), DecodeError> {
        let ops = plan.ops();
        let mut cursor = self.cursor(at);
        let mut expected = 0;
        while cursor.at < end {
            let start = cursor.at;
            let Some((index, bytes)) = expect(plan, ops, expected, cursor) else {
                let record = Record { at: start, end, wire_type: 0, depth };
                (cursor.at, expected) = self.unexpected(plan, object, record, expected)?;
                continue;
            };
            cursor.at += bytes;
            expected = index + 1;
            let (op, offset) = (&ops[index], ops[index].offset);
            match op.code {
                OpCode::Int32 | OpCode::Uint32 => object.store(offset, cursor.word4()?),
                OpCode::Int64 => object.store(offset, cursor.word8()?),
                OpCode::Sint32 => object.store(offset, cursor.zigzag4()?),
                OpCode::Sint64 => object.store(offset, cursor.zigzag8()?),
                OpCode::Bool => object.store(offset, cursor.bool()?),
                OpCode::Fixed32 => object.store(offset, cursor.fixed::<4>()?),
                OpCode::Fixed64 => object.store(offset, cursor.fixed::<8>()?),
                OpCode::String => {
                    let bytes = cursor.bytes(end)?;
                    utf8::check(bytes)?;
                    self.set_leaf(object, offset, bytes)?;
                }
                OpCode::Link => {
                    let stop = cursor.delimited(end)?;
                    let inner = plan.message_of(op);
                    let depth = depth.checked_sub(1).ok_or(DecodeError::TooDeep)?;
                    let message = self.linked(object, offset, inner.bytes())?;
                    self.message(inner, message, cursor.at, stop, depth)?;
                    cursor.at = stop;
                }
                _ => {
                    let record = Record { at: cursor.at, end, wire_type: op.tag & 7, depth };
                    cursor.at = self.shaped(op, plan, object, record)?;
                }
            }
        }
        if cursor.at == end { Ok(()) } else { Err(DecodeError::Truncated) }
    }

    /// A record that takes more than a look: its tag is long, or it is no field's usual one.
    /// Answers where it ends, and which field is expected next.
    #[cold]
    #[inline(never)]
    fn unexpected(
        &mut self,
        plan: Plan<'p>,
        object: Object<'a>,
        record: Record,
        expected: usize,
    ) -> Result<(usize, usize), DecodeError> {
        let Record { at: start, end, depth, .. } = record;
        match find(plan, self.cursor(start))? {
            Found::Field { index, tag, at } => {
                let record = Record { at, wire_type: tag & 7, ..record };
                Ok((self.shaped(&plan.ops()[index], plan, object, record)?, index + 1))
            }
            Found::Unknown { tag, at } => {
                Ok((self.unknown(object, start, tag, at, end, depth)?, expected))
            }
        }
    }

    /// A record of any field. Answers where it ends.
    #[inline(never)]
    fn shaped(
        &mut self,
        op: &'p Op,
        plan: Plan<'p>,
        object: Object<'a>,
        record: Record,
    ) -> Result<usize, DecodeError> {
        match op.shape {
            Shape::Present if op.kind != ValueKind::Message => {
                let word = u32::from_le_bytes(object.load(op.oneof_offset));
                let word = word | 1 << (op.presence_bit % 32);
                object.store(op.oneof_offset, word.to_le_bytes());
            }
            Shape::Implicit | Shape::Present => {}
            Shape::Oneof => self.select(object, op),
            Shape::List => return self.list(op, plan, object, record),
            Shape::Map => return self.map(op, plan, object, record),
        }
        self.single(op, plan, object, record)
    }

    /// One value of a field that is there now.
    #[inline]
    pub(super) fn single(
        &mut self,
        op: &'p Op,
        plan: Plan<'p>,
        object: Object<'a>,
        record: Record,
    ) -> Result<usize, DecodeError> {
        let Record { at, end, depth, .. } = record;
        let mut cursor = self.cursor(at);
        match op.kind {
            ValueKind::Message => {
                let stop = cursor.delimited(end)?;
                let inner = plan.message_of(op);
                let depth = depth.checked_sub(1).ok_or(DecodeError::TooDeep)?;
                let message = self.linked(object, op.offset, inner.bytes())?;
                self.message(inner, message, cursor.at, stop, depth)?;
                cursor.at = stop;
            }
            ValueKind::String => {
                let bytes = cursor.bytes(end)?;
                utf8::check(bytes)?;
                self.set_leaf(object, op.offset, bytes)?;
            }
            ValueKind::Bytes => self.set_blob(object, op.offset, cursor.bytes(end)?)?,
            kind => cursor.number(kind, object, op.offset)?,
        }
        Ok(cursor.at)
    }

    /// Makes `op` the member of its oneof that is present, empty if it was not.
    fn select(&mut self, object: Object<'a>, op: &Op) {
        let case = op.number.to_le_bytes();
        let old: [u8; 4] = object.load(op.oneof_offset);
        if old != case {
            if old != [0; 4] {
                // Whatever the other member pointed to is garbage now: the image is compacted.
                self.arena.abandon(1);
                object.store(op.offset, [0; 16]);
            }
            object.store(op.oneof_offset, case);
        }
    }
}

/// The field whose tag comes next, and the tag's length: the one at `expected`, or else the one
/// with that number. `None` if it takes more than a look.
#[inline(always)]
fn expect(
    plan: Plan<'_>,
    ops: &[Op],
    expected: usize,
    cursor: Cursor<'_>,
) -> Option<(usize, usize)> {
    let (tag, bytes) = cursor.short_tag()?;
    if ops.get(expected).is_some_and(|op| op.tag == tag) {
        return Some((expected, bytes));
    }
    let index = seek(plan, tag)?;
    ops.get(index).is_some_and(|op| op.tag == tag).then_some((index, bytes))
}

/// The field with the number in a tag of at most two bytes. A call, so that the loop over records
/// has registers for what it needs each time.
#[inline(never)]
fn seek(plan: Plan<'_>, tag: u32) -> Option<usize> {
    plan.find((tag & 0x7f | tag >> 8 << 7) >> 3)
}

/// What a tag that takes more than a look belongs to.
enum Found {
    /// A field, perhaps a list that is packed though the schema says otherwise, or the other way
    /// round.
    Field {
        index: usize,
        tag: u32,
        at: usize,
    },
    Unknown {
        tag: u32,
        at: usize,
    },
}

/// Looks up the tag at `cursor`.
fn find(plan: Plan<'_>, mut cursor: Cursor<'_>) -> Result<Found, DecodeError> {
    let tag = cursor.tag()?;
    let at = cursor.at;
    let Some(index) = plan.find(tag >> 3) else { return Ok(Found::Unknown { tag, at }) };
    let op = &plan.ops()[index];
    let is_number = op.kind.wire_type() != WireType::Delimited as u32;
    let is_form = tag & 7 == WireType::Delimited as u32 || tag & 7 == op.kind.wire_type();
    if op.tag & 7 == tag & 7 || op.shape == Shape::List && is_number && is_form {
        Ok(Found::Field { index, tag, at })
    } else {
        Ok(Found::Unknown { tag, at })
    }
}
