//! Repeated fields: runs of records, which are counted before memory is allocated for them (M30).

use super::Decoder;
use super::growth::Element;
use super::record::Record;
use crate::DecodeError;
use crate::arena::Object;
use crate::plan::{Op, Plan, ValueKind};
use crate::protobuf::cursor::{Cursor, WireType};
use crate::protobuf::struct_at::StructAt;
use crate::utf8;

/// How the numbers of one kind lie on the wire and in memory.
#[derive(Clone, Copy)]
enum Count {
    /// As varints: as many as there are bytes that end one.
    Varints,
    /// All of one size.
    Fixed,
}

impl<'a, 'p, 'i> Decoder<'a, 'p, 'i> {
    /// A run of records of a repeated field. Answers where it ends.
    #[inline(never)]
    pub(super) fn list(
        &mut self,
        op: &'p Op,
        plan: Plan<'p>,
        object: Object<'a>,
        record: Record,
    ) -> Result<usize, DecodeError> {
        use ValueKind as Kind;
        let at = (object, op.offset);
        match op.kind {
            Kind::Message => self.messages(op, plan.message_of(op), object, record),
            Kind::String => self.leaves::<true>(op, object, record),
            Kind::Bytes => self.leaves::<false>(op, object, record),
            Kind::Int32 | Kind::Uint32 | Kind::Enum => {
                self.numbers(op, at, record, Count::Varints, Cursor::word4)
            }
            Kind::Int64 | Kind::Uint64 => {
                self.numbers(op, at, record, Count::Varints, Cursor::word8)
            }
            Kind::Sint32 => self.numbers(op, at, record, Count::Varints, Cursor::zigzag4),
            Kind::Sint64 => self.numbers(op, at, record, Count::Varints, Cursor::zigzag8),
            Kind::Bool => self.numbers(op, at, record, Count::Varints, Cursor::bool),
            Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => {
                self.numbers(op, at, record, Count::Fixed, Cursor::fixed::<4>)
            }
            Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => {
                self.numbers(op, at, record, Count::Fixed, Cursor::fixed::<8>)
            }
        }
    }

    /// Messages whose first tag is not written as short as it can be; all others are the loop's.
    #[cold]
    fn messages(
        &mut self,
        op: &'p Op,
        inner: Plan<'p>,
        object: Object<'a>,
        record: Record,
    ) -> Result<usize, DecodeError> {
        let Record { at, end, .. } = record;
        let mut cursor = self.cursor(at);
        // One alone: the loop takes those behind it.
        let (array, first) = self.append(object, op.offset, 1, Element::message(inner))?;
        let stop = cursor.delimited(end)?;
        let unsorted = self.unsorted.len();
        self.nested(inner, array.part(first, inner.bytes()), cursor.at, stop)?;
        // No later record reaches it, and the array may move.
        self.sort_maps(unsorted)?;
        Ok(stop)
    }

    /// Strings or bytes.
    fn leaves<const IS_TEXT: bool>(
        &mut self,
        op: &Op,
        object: Object<'a>,
        record: Record,
    ) -> Result<usize, DecodeError> {
        let Record { at, end, .. } = record;
        let mut cursor = self.cursor(at);
        let count = run(op, cursor, end)?;
        let (array, first) = self.append(object, op.offset, count, Element::SPAN)?;
        let mut place = first;
        loop {
            let bytes = cursor.bytes(end)?;
            if IS_TEXT {
                utf8::check(bytes)?;
                self.set_leaf(StructAt::of(array), place, bytes)?;
            } else {
                self.set_blob(StructAt::of(array), place, bytes)?;
            }
            place += Element::SPAN.bytes;
            if place == array.bytes() {
                return Ok(cursor.at);
            }
            cursor.at += usize::from(op.tag_bytes);
        }
    }

    /// Numbers, packed or one by one, whatever the schema says (M29).
    #[inline(always)]
    fn numbers<const N: usize>(
        &mut self,
        op: &Op,
        (object, offset): (Object<'a>, u32),
        record: Record,
        count: Count,
        read: impl Fn(&mut Cursor<'i>) -> Result<[u8; N], DecodeError>,
    ) -> Result<usize, DecodeError> {
        let Record { at, end, wire_type, .. } = record;
        let mut cursor = self.cursor(at);
        if wire_type != WireType::Delimited as u32 {
            return self.unpacked(op, object, record, read);
        }
        let bytes = cursor.bytes(end)?;
        if bytes.is_empty() {
            return Ok(cursor.at);
        }
        let len = match count {
            Count::Varints => bytes.iter().filter(|byte| **byte < 0x80).count(),
            Count::Fixed => bytes.len() / N,
        };
        if matches!(count, Count::Fixed) && bytes.len() % N != 0 || len == 0 {
            return Err(DecodeError::Truncated);
        }
        let (array, first) = self.append(object, offset, len, Element::number(N as u32))?;
        if matches!(count, Count::Fixed) {
            array.copy(first, bytes);
            return Ok(cursor.at);
        }
        let mut numbers = Cursor { input: bytes, at: 0 };
        let mut place = first;
        while place < array.bytes() {
            array.store(place, read(&mut numbers)?);
            place += N as u32;
        }
        if numbers.at == bytes.len() { Ok(cursor.at) } else { Err(DecodeError::Truncated) }
    }

    /// Numbers in records of their own, the tag of the first consumed.
    #[inline(always)]
    fn unpacked<const N: usize>(
        &mut self,
        op: &Op,
        object: Object<'a>,
        record: Record,
        read: impl Fn(&mut Cursor<'i>) -> Result<[u8; N], DecodeError>,
    ) -> Result<usize, DecodeError> {
        let Record { at, end, .. } = record;
        let mut cursor = self.cursor(at);
        let form = Op { tag: op.tag & !7 | u64::from(record.wire_type), ..*op };
        let count = run(&form, cursor, end)?;
        let (array, first) = self.append(object, op.offset, count, Element::number(N as u32))?;
        let mut place = first;
        loop {
            array.store(place, read(&mut cursor)?);
            place += N as u32;
            if place == array.bytes() {
                return Ok(cursor.at);
            }
            cursor.at += usize::from(op.tag_bytes);
        }
    }
}

/// The number of records of `op` that follow each other, the tag of the first consumed.
#[inline(always)]
pub(super) fn run(op: &Op, mut cursor: Cursor<'_>, end: usize) -> Result<usize, DecodeError> {
    let mut count = 1;
    loop {
        match op.wire_type() {
            0 => drop(cursor.varint()?),
            1 => drop(cursor.fixed::<8>()?),
            5 => drop(cursor.fixed::<4>()?),
            _ => cursor.at = cursor.delimited(end)?,
        }
        if cursor.at >= end || !cursor.take_tag(op) {
            return Ok(count);
        }
        count += 1;
    }
}
