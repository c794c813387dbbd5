//! Lists and maps, from their last element to their first.

use super::read::{int32, int64, sint32, sint64, uint32};
use super::walk::Walk;
use crate::arena::Object;
use crate::plan::{Op, Plan, ValueKind};
use crate::protobuf::leaf;
use crate::protobuf::struct_at::StructAt;
use crate::protobuf::writer::{At, Place};

/// Bytes of a `Text` or `Blob`.
const SPAN_BYTES: u32 = 16;

impl<'m, 'p> Walk<'m, 'p, '_> {
    /// Strings and bytes, each in a record; at least one.
    #[inline(always)]
    pub(super) fn leaves(&mut self, op: &Op, root: StructAt<'m>, at: At) -> Place {
        // SAFETY: a list of `Text`s or `Blob`s, which the struct has; the message is borrowed.
        let (array, len) = unsafe { root.target(op.offset) }.expect("elements");
        (0..len).rev().try_fold(at, |at, index| {
            // SAFETY: an element.
            let leaf = unsafe { array.element(index, SPAN_BYTES).leaf(0) };
            self.leaf(op, leaf.unwrap_or_default(), at)
        })
    }

    /// Numbers; at least one.
    pub(super) fn numbers(&mut self, op: &Op, object: Object<'m>, at: At) -> Place {
        let element_bytes = op.kind.bytes().expect("no message");
        if op.wire_type() != ValueKind::Bytes.wire_type() {
            return elements(object, op.offset, element_bytes)
                .try_fold(at, |at, element| self.value(op, element, 0, at));
        }
        // SAFETY: a list of numbers of this size; the message is borrowed.
        let numbers = unsafe { leaf::bytes(object, op.offset, element_bytes) };
        let behind = self.bytes(at);
        let at = self.packed(op.kind, numbers, at)?;
        self.delimit(op, behind, at)
    }

    /// Numbers in one record.
    fn packed(&mut self, kind: ValueKind, numbers: &'m [u8], at: At) -> Place {
        use ValueKind as Kind;
        match kind {
            Kind::Int32 | Kind::Enum => self.varints(numbers, at, int32),
            Kind::Uint32 => self.varints(numbers, at, uint32),
            Kind::Sint32 => self.varints(numbers, at, sint32),
            Kind::Int64 | Kind::Uint64 => self.varints(numbers, at, int64),
            Kind::Sint64 => self.varints(numbers, at, sint64),
            // The same in memory and on the wire: a bool is one byte that is 0 or 1 in both.
            _ => self.raw(at, numbers, true),
        }
    }

    #[inline(always)]
    fn varints<const N: usize>(
        &mut self,
        numbers: &[u8],
        at: At,
        sent: impl Fn([u8; N]) -> u64,
    ) -> Place {
        let (numbers, _) = numbers.as_chunks::<N>();
        numbers.iter().rev().try_fold(at, |at, number| self.writer.varint(at, sent(*number)))
    }

    /// Entries, each in a record: key and value, both always.
    pub(super) fn map(&mut self, op: &Op, plan: Plan<'p>, object: Object<'m>, at: At) -> Place {
        let entry = plan.entry_of(op);
        let value = &entry.value;
        elements(object, op.offset, entry.bytes).try_fold(at, |at, element| {
            let behind = self.bytes(at);
            let at = if value.kind == ValueKind::Message {
                let inner = plan.message_of(value);
                let message = element.part(value.offset, inner.bytes());
                self.nested(value, inner, message, at)?
            } else {
                self.value(value, element, value.offset, at)?
            };
            let at = self.value(&entry.key, element, 0, at)?;
            self.delimit(op, behind, at)
        })
    }
}

/// The elements of the list or map at `offset`, the last one first.
#[inline(always)]
fn elements<'m>(
    object: Object<'m>,
    offset: u32,
    element_bytes: u32,
) -> impl Iterator<Item = Object<'m>> {
    let (array, len) = object.target(offset, element_bytes).unwrap_or((object, 0));
    (0..len).rev().map(move |index| array.part(index * element_bytes, element_bytes))
}
