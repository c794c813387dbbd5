//! Checks that a type matches its plan (M9).

use petasos_schema::{OBJECT_ALIGN, Part};

use super::{Plan, Plans};

/// What a generated type says of itself, taken from the compiler.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    /// The type's size in bytes.
    pub bytes: usize,
    /// The type's alignment in bytes.
    pub align: usize,
    /// Each part's offset and kind, in any order.
    pub parts: &'static [(usize, Part)],
}

impl Plans {
    /// The plan of the message with an index (`MessageId::index`), for a type that has its parts
    /// where `slots` says.
    ///
    /// # Panics
    /// If there is no such message, or if the type is not laid out as it is: the program was built
    /// from pieces that do not belong together (M9).
    pub fn bind(&self, index: u32, slots: &Slots) -> Plan<'_> {
        let tables = self.messages.get(index as usize);
        let tables = tables.expect("generated code belongs to another schema");
        let parts = &self.layouts.all()[index as usize].parts;
        let mut stated: Vec<_> =
            slots.parts.iter().map(|(offset, part)| (*offset as u64, *part)).collect();
        stated.sort_by_key(|(offset, _)| *offset);
        let is_same = slots.bytes as u64 == u64::from(tables.bytes)
            && slots.align == OBJECT_ALIGN as usize
            && stated.len() == parts.len()
            && stated.iter().zip(parts).all(|(a, b)| *a == (u64::from(b.0), b.1));
        assert!(is_same, "generated type {slots:?} should have the parts {parts:?}");
        Plan { plans: self, tables }
    }
}
