//! Maps: entries in the order of arrival, sorted at the end if they were not ascending (M8, M29).

use std::cmp::Ordering;

use super::Decoder;
use super::growth::{Element, UNSORTED, permute};
use super::list::run;
use super::record::Record;
use crate::DecodeError;
use crate::arena::Object;
use crate::plan::{EntryPlan, Op, Plan, ValueKind};
use crate::protobuf::leaf;

/// A map that has to be sorted: a field of a struct.
pub(super) struct Unsorted<'a, 'p> {
    object: Object<'a>,
    plan: Plan<'p>,
    op: &'p Op,
}

impl<'a, 'p> Decoder<'a, 'p, '_> {
    /// A run of entries. Answers where it ends.
    #[inline(never)]
    pub(super) fn map(
        &mut self,
        op: &'p Op,
        plan: Plan<'p>,
        object: Object<'a>,
        record: Record,
    ) -> Result<usize, DecodeError> {
        let Record { at, end, .. } = record;
        let mut cursor = self.cursor(at);
        let entry = plan.entry_of(op);
        let count = run(op, cursor, end)?;
        let element = Element::entry(plan, entry);
        let (array, first) = self.append(object, op.offset, count, element)?;
        let mut place = first;
        loop {
            let stop = cursor.delimited(end)?;
            let unsorted = self.unsorted.len();
            let new = array.part(place, entry.bytes);
            let record = Record { at: cursor.at, end: stop, wire_type: 0 };
            self.entry(entry, plan, new, record)?;
            // No later record reaches it, and the array may move.
            self.sort_maps(unsorted)?;
            if place > 0 {
                let last = array.part(place - entry.bytes, entry.bytes);
                if compare(entry.key.kind, last, new) != Ordering::Less {
                    self.note_unsorted(Unsorted { object, plan, op });
                }
            }
            cursor.at = stop;
            place += entry.bytes;
            if place == array.bytes() {
                return Ok(cursor.at);
            }
            cursor.at += usize::from(op.tag_bytes);
        }
    }

    /// The records of one entry. Those that are neither key nor value go.
    fn entry(
        &mut self,
        entry: &'p EntryPlan,
        plan: Plan<'p>,
        object: Object<'a>,
        record: Record,
    ) -> Result<(), DecodeError> {
        let Record { at, end, .. } = record;
        let mut cursor = self.cursor(at);
        while cursor.at < end {
            let tag = cursor.tag()?;
            let op = match tag {
                _ if u64::from(tag) == entry.key.tag => &entry.key,
                _ if u64::from(tag) == entry.value.tag => &entry.value,
                _ => {
                    cursor.skip(tag, end, self.stack.left())?;
                    continue;
                }
            };
            if op.kind == ValueKind::Message {
                let stop = cursor.delimited(end)?;
                let inner = plan.message_of(op);
                let value = object.part(op.offset, inner.bytes());
                self.nested(inner, value, cursor.at, stop)?;
                cursor.at = stop;
            } else {
                cursor.at = self.single(op, plan, object, Record { at: cursor.at, ..record })?;
            }
        }
        if cursor.at == end { Ok(()) } else { Err(DecodeError::Truncated) }
    }

    #[cold]
    fn note_unsorted(&mut self, map: Unsorted<'a, 'p>) {
        let at = map.op.offset + 12;
        let cap = u32::from_le_bytes(map.object.load(at));
        if cap & UNSORTED == 0 {
            map.object.store(at, (cap | UNSORTED).to_le_bytes());
            self.unsorted.push(map);
        }
    }

    /// Sorts the maps that were noted since there were `from` of them.
    #[inline(always)]
    pub(super) fn sort_maps(&mut self, from: usize) -> Result<(), DecodeError> {
        while self.unsorted.len() > from {
            self.sort_last_map()?;
        }
        Ok(())
    }

    #[cold]
    fn sort_last_map(&mut self) -> Result<(), DecodeError> {
        let Some(Unsorted { object, plan, op }) = self.unsorted.pop() else { return Ok(()) };
        let entry = plan.entry_of(op);
        let map = object.target(op.offset, entry.bytes);
        let (array, len) = map.expect("a map that is not ascending has entries");
        // Beside the numbers of the entries, a copy of them.
        self.charge_outside(u64::from(len) * u64::from(entry.bytes + 4))?;
        let at = |index: u32| array.part(index * entry.bytes, entry.bytes);
        let mut order: Vec<u32> = (0..len).collect();
        order.sort_unstable_by(|a, b| compare(entry.key.kind, at(*a), at(*b)).then(a.cmp(b)));
        // Of equal keys the last entry wins, whole.
        let mut kept = 0;
        for index in 0..order.len() {
            let next = order.get(index + 1);
            let is_last = next.is_none_or(|next| {
                compare(entry.key.kind, at(order[index]), at(*next)) != Ordering::Equal
            });
            if is_last {
                order[kept] = order[index];
                kept += 1;
            }
        }
        order.truncate(kept);
        if kept < len as usize {
            self.arena.abandon((len - kept as u32) * entry.bytes);
        }
        permute(array, &order, Element::entry(plan, entry));
        let cap = u32::from_le_bytes(object.load(op.offset + 12)) & !UNSORTED;
        object.store(op.offset + 8, (kept as u32).to_le_bytes());
        object.store(op.offset + 12, cap.to_le_bytes());
        Ok(())
    }
}

/// The order of two entries' keys (M8).
fn compare(kind: ValueKind, a: Object<'_>, b: Object<'_>) -> Ordering {
    use ValueKind as Kind;
    match kind {
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
            i32::from_le_bytes(a.load(0)).cmp(&i32::from_le_bytes(b.load(0)))
        }
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
            i64::from_le_bytes(a.load(0)).cmp(&i64::from_le_bytes(b.load(0)))
        }
        Kind::Uint32 | Kind::Fixed32 => {
            u32::from_le_bytes(a.load(0)).cmp(&u32::from_le_bytes(b.load(0)))
        }
        Kind::Uint64 | Kind::Fixed64 => {
            u64::from_le_bytes(a.load(0)).cmp(&u64::from_le_bytes(b.load(0)))
        }
        Kind::Bool => a.load::<1>(0).cmp(&b.load::<1>(0)),
        // SAFETY: a string is a `Text`, and leaves are not written once they are made.
        Kind::String => unsafe { leaf::bytes(a, 0, 1).cmp(leaf::bytes(b, 0, 1)) },
        Kind::Double | Kind::Float | Kind::Bytes | Kind::Enum | Kind::Message => {
            unreachable!("no kind of key")
        }
    }
}
