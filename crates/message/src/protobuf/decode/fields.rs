//! The loop over the records of one message, and of nested messages. A nested message is not a
//! call: the loop pushes its position on a stack and continues inside.

use super::Decoder;
use super::growth::Element;
use super::list::run;
use super::record::Record;
use super::value::{bool, word4, zigzag4, zigzag8};
use crate::DecodeError;
use crate::arena::Object;
use crate::plan::{Op, OpCode, OpPlace, Plan, Shape, ValueKind};
use crate::protobuf::cursor::{Cursor, WireType};
use crate::protobuf::struct_at::StructAt;
use crate::protobuf::words::Words;
use crate::utf8;

/// Where the loop is.
#[derive(Clone, Copy)]
struct Here<'a, 'p> {
    /// The next record.
    at: usize,
    /// Where the records of the message end, whose struct lies at `root`.
    end: usize,
    root: StructAt<'a>,
    /// The field behind the last one that came.
    expected: OpPlace<'p>,
}

/// What the loop comes back to when all records of a nested message are taken.
#[derive(Clone, Copy)]
pub(super) struct Frame<'a, 'p> {
    /// The field that has the message, in the struct at `outer`, which is one of `plan`'s and whose
    /// records end at `end`.
    field: OpPlace<'p>,
    outer: StructAt<'a>,
    plan: Plan<'p>,
    end: usize,
    /// How many elements of a list, which has room for them, are behind the message.
    left: u32,
    /// Maps beyond so many are sorted when an element of a list ends: no later record reaches
    /// them, and the array may move.
    unsorted: u32,
}

/// A link may be reached again: maps in it are sorted with those around it.
const KEEP_UNSORTED: u32 = u32::MAX;

impl<'a, 'p> Decoder<'a, 'p, '_> {
    /// Takes the records from `at` to `end` into `object`, the struct of the message of
    /// `self.plan`, which may have values already.
    ///
    /// Inlined where a whole input is decoded, so that short ones pay no call.
    #[inline(always)]
    pub(super) fn message(
        &mut self,
        object: Object<'a>,
        at: usize,
        end: usize,
    ) -> Result<(), DecodeError> {
        let (base, words) = (self.stack.len(), self.words);
        let mut here = Here { at, end, root: StructAt::of(object), expected: self.plan.first() };
        loop {
            if here.at >= here.end {
                match self.leave(&mut here, base)? {
                    true => continue,
                    false => return Ok(()),
                }
            }
            let word = words.at(here.at);
            let mut field = here.expected;
            if !field.op().begins(word) {
                field = self.other_field(field, word);
                if !field.op().begins(word) {
                    here = self.unexpected(here)?;
                    continue;
                }
            }
            let op = field.op();
            // SAFETY: no end begins a word, so it is a field.
            here.expected = unsafe { field.behind() };
            let (rest, at, end) = (word >> op.tag_bits, here.at + op.tag_len(), here.end);
            let to = (here.root, op);
            here.at = match op.code {
                OpCode::Int32 | OpCode::Uint32 => varint(words, rest, at, to, word4)?,
                OpCode::Int64 => varint(words, rest, at, to, u64::to_le_bytes)?,
                OpCode::Sint32 => varint(words, rest, at, to, zigzag4)?,
                OpCode::Sint64 => varint(words, rest, at, to, zigzag8)?,
                OpCode::Bool => varint(words, rest, at, to, bool)?,
                OpCode::Fixed32 => {
                    store(to, word4(words.at(at)));
                    at + 4
                }
                OpCode::Fixed64 => {
                    store(to, words.at(at).to_le_bytes());
                    at + 8
                }
                OpCode::String => {
                    let (start, stop) = delimited(words, rest, at, end)?;
                    let bytes = &self.input[start..stop];
                    utf8::check(bytes)?;
                    self.set_leaf(here.root, op.offset, bytes)?;
                    stop
                }
                OpCode::Bytes => {
                    let (start, stop) = delimited(words, rest, at, end)?;
                    self.set_blob(here.root, op.offset, &self.input[start..stop])?;
                    stop
                }
                OpCode::Link => self.enter_link(&mut here, field, rest, at)?,
                OpCode::Messages => self.enter_list(&mut here, field, rest, at)?,
                OpCode::Flagged
                | OpCode::Member
                | OpCode::Leaves
                | OpCode::Numbers
                | OpCode::Map
                | OpCode::Struct
                | OpCode::End => {
                    let record = Record { at, end, wire_type: op.wire_type() };
                    self.shaped(op, self.plan, here.root.object(self.plan), record)?
                }
            };
        }
    }

    /// The field whose tag `word` begins with, if it is not the expected one; some other if that
    /// takes more than a look.
    ///
    /// Records mostly come in the order of their fields, so that the one behind is looked at first;
    /// then a table leads from the number to the field.
    #[inline(always)]
    fn other_field(&self, expected: OpPlace<'p>, word: u64) -> OpPlace<'p> {
        // SAFETY: a field or the first end.
        let next = unsafe { expected.behind() };
        if next.op().begins(word) { next } else { seek(self.plan, word) }
    }

    /// Goes on behind the end of a message, in what is around it; false if nothing is.
    #[inline(always)]
    fn leave(&mut self, here: &mut Here<'a, 'p>, base: usize) -> Result<bool, DecodeError> {
        if here.at > here.end {
            return Err(DecodeError::Truncated);
        }
        let Some(frame) = self.stack.top(base) else { return Ok(false) };
        let unsorted = frame.unsorted as usize;
        if self.unsorted.len() > unsorted {
            // The loop comes back.
            return self.sort_maps(unsorted).map(|()| true);
        }
        if frame.left == 0 {
            (here.root, here.end, self.plan) = (frame.outer, frame.end, frame.plan);
            // SAFETY: a field.
            here.expected = unsafe { frame.field.behind() };
            self.stack.pop();
            return Ok(true);
        }
        frame.left -= 1;
        let (at, words) = (here.at + frame.field.op().tag_len(), self.words);
        (here.at, here.end) = delimited(words, words.at(at), at, frame.end)?;
        // SAFETY: the array has room for so many more.
        here.root = unsafe { here.root.behind(self.plan.bytes()) };
        here.expected = self.plan.first();
        Ok(true)
    }

    /// Enters the message of a field, whose length is at `at`. Answers where its records begin.
    #[inline(always)]
    fn enter_link(
        &mut self,
        here: &mut Here<'a, 'p>,
        field: OpPlace<'p>,
        rest: u64,
        at: usize,
    ) -> Result<usize, DecodeError> {
        let (op, plan, outer, end) = (field.op(), self.plan, here.root, here.end);
        let (start, stop) = delimited(self.words, rest, at, end)?;
        self.enter(Frame { field, outer, plan, end, left: 0, unsorted: KEEP_UNSORTED })?;
        let inner = plan.message_of(op);
        here.root = self.linked(outer, op.offset, inner.bytes())?;
        (here.end, here.expected, self.plan) = (stop, inner.first(), inner);
        Ok(start)
    }

    /// Enters the first message of a run of records, whose length is at `at`, when there is room
    /// for all (M30). Answers where its records begin.
    #[inline(always)]
    fn enter_list(
        &mut self,
        here: &mut Here<'a, 'p>,
        field: OpPlace<'p>,
        rest: u64,
        at: usize,
    ) -> Result<usize, DecodeError> {
        let (op, plan, outer, end) = (field.op(), self.plan, here.root, here.end);
        let count = run(op, self.cursor(at), end)?;
        let inner = plan.message_of(op);
        let list = outer.object(plan);
        let (array, first) = self.append(list, op.offset, count, Element::message(inner))?;
        let (left, unsorted) = (count as u32 - 1, self.unsorted.len() as u32);
        self.enter(Frame { field, outer, plan, end, left, unsorted })?;
        let (start, stop) = delimited(self.words, rest, at, end)?;
        here.root = StructAt::of(array.part(first, inner.bytes()));
        (here.end, here.expected, self.plan) = (stop, inner.first(), inner);
        Ok(start)
    }

    /// Notes what the loop comes back to.
    #[inline(always)]
    fn enter(&mut self, frame: Frame<'a, 'p>) -> Result<(), DecodeError> {
        self.stack.push(frame).ok_or(DecodeError::TooDeep)
    }

    /// A message in a record that ends at `stop`, as a call.
    #[inline(never)]
    pub(super) fn nested(
        &mut self,
        plan: Plan<'p>,
        object: Object<'a>,
        at: usize,
        stop: usize,
    ) -> Result<(), DecodeError> {
        let (field, outer, around) = (plan.first(), StructAt::of(object), self.plan);
        // Only to be counted.
        self.enter(Frame { field, outer, plan, end: stop, left: 0, unsorted: KEEP_UNSORTED })?;
        self.plan = plan;
        self.message(object, at, stop)?;
        self.plan = around;
        self.stack.pop();
        Ok(())
    }

    /// A record that takes more than a look: its tag is long, or it is no field's usual one.
    #[cold]
    #[inline(never)]
    fn unexpected(&mut self, mut here: Here<'a, 'p>) -> Result<Here<'a, 'p>, DecodeError> {
        let (plan, object, end) = (self.plan, here.root.object(self.plan), here.end);
        match find(plan, self.cursor(here.at))? {
            Found::Field { index, tag, at } => {
                let record = Record { at, end, wire_type: tag & 7 };
                here.at = self.shaped(&plan.ops()[index], plan, object, record)?;
                here.expected = plan.field(index + 1);
            }
            Found::Unknown { tag, at } => {
                here.at = self.unknown(object, here.at, tag, at, end)?;
            }
        }
        Ok(here)
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
        let Record { at, end, .. } = record;
        let mut cursor = self.cursor(at);
        let root = StructAt::of(object);
        match op.kind {
            ValueKind::Message => {
                let stop = cursor.delimited(end)?;
                let inner = plan.message_of(op);
                let message = self.linked(root, op.offset, inner.bytes())?;
                self.nested(inner, message.object(inner), cursor.at, stop)?;
                cursor.at = stop;
            }
            ValueKind::String => {
                let bytes = cursor.bytes(end)?;
                utf8::check(bytes)?;
                self.set_leaf(root, op.offset, bytes)?;
            }
            ValueKind::Bytes => self.set_blob(root, op.offset, cursor.bytes(end)?)?,
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

/// Where the bytes behind the length at `at` begin, which `rest` begins with, and where they end:
/// at most at `end`.
#[inline(always)]
pub(super) fn delimited(
    words: Words<'_>,
    rest: u64,
    at: usize,
    end: usize,
) -> Result<(usize, usize), DecodeError> {
    let (len, at) = words.varint(rest, at)?;
    if at > end || len > (end - at) as u64 {
        return Err(DecodeError::Truncated);
    }
    Ok((at, at + len as usize))
}

/// A field that is a varint at `at`, which `rest` begins with. Answers where it ends.
#[inline(always)]
fn varint<const N: usize>(
    words: Words<'_>,
    rest: u64,
    at: usize,
    to: (StructAt<'_>, &Op),
    form: impl Fn(u64) -> [u8; N],
) -> Result<usize, DecodeError> {
    let (value, end) = words.varint(rest, at)?;
    store(to, form(value));
    Ok(end)
}

/// Sets the bytes of a field that is as long.
#[inline(always)]
fn store<const N: usize>((root, op): (StructAt<'_>, &Op), value: [u8; N]) {
    // SAFETY: the loop has structs of the plan that it has the field from, in the arena that it
    // decodes into.
    unsafe { root.store(op.offset, value) }
}

/// Where the field may be whose tag, of at most two bytes, a word begins with.
#[inline(always)]
fn seek<'p>(plan: Plan<'p>, word: u64) -> OpPlace<'p> {
    let tag = word as u32;
    let long = (tag & 0x7f | tag >> 1 & 0x3f80) >> 3;
    plan.seek(if tag & 0x80 == 0 { tag >> 3 & 0xf } else { long })
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
    if op.wire_type() == tag & 7 || op.shape == Shape::List && is_number && is_form {
        Ok(Found::Field { index, tag, at })
    } else {
        Ok(Found::Unknown { tag, at })
    }
}
