//! Tables made from a schema at run time. They drive everything that is done with a message without
//! its type: decoding, encoding, validation, compaction, reflection.
//!
//! A plan has a message's fields as [`Op`]s by number (for encodings that go by number), the same
//! fields as [`Step`]s by offset (for walks over memory, in the order of M5), and the words in its
//! struct that are pointers ([`Relocation`]). The tables of all messages of a schema are stored
//! together, and messages refer to each other by index, so a plan is two words.
//!
//! Before and after the fields of each message there is an [`Op::END`] (`place`).
//!
//! Invariants: offsets are those of `petasos_schema::Layouts` and lie within `bytes`; indices are
//! valid in the same [`Plans`], whose tables never change. Nothing here accesses a message.

mod bind;
mod build;
mod op;
mod place;
mod step;
#[cfg(test)]
mod tests;

use std::ops::Range;

use petasos_schema::{Layouts, MessageId, Schema};
use thiserror::Error;

pub use bind::Slots;
pub(crate) use op::{EntryPlan, Op, OpCode, Shape, ValueKind};
pub(crate) use place::OpPlace;
pub(crate) use step::{Member, Relocation, Step};

/// The most fields that a message with a plan can have.
pub const FIELDS_MAX: usize = u16::MAX as usize;

/// A message of the schema has too many fields for a plan. The schema's fault, once and for all.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{message}` has more than {FIELDS_MAX} fields: split it")]
pub struct TooManyFields {
    /// The message's full name.
    pub message: Box<str>,
}

/// The plans of all messages of a schema.
#[derive(Debug)]
pub struct Plans {
    layouts: Layouts,
    messages: Box<[MessagePlan]>,
    ops: Box<[Op]>,
    dense: Box<[u16]>,
    entries: Box<[EntryPlan]>,
    relocations: Box<[Relocation]>,
    steps: Box<[Step]>,
    members: Box<[Member]>,
}

/// Where one message has its pieces of the tables.
#[derive(Clone, Debug)]
struct MessagePlan {
    bytes: u32,
    ops: Range<u32>,
    dense: Range<u32>,
    relocate: Range<u32>,
    steps: Range<u32>,
}

impl Plans {
    /// Makes them, in time proportional to the number of fields.
    ///
    /// # Errors
    /// If a message has more than [`FIELDS_MAX`] fields.
    pub fn of(schema: &Schema) -> Result<Plans, TooManyFields> {
        build::plans(schema)
    }

    /// The plan of a message of the schema.
    ///
    /// # Panics
    /// On an id of a larger schema.
    pub fn message(&self, id: MessageId) -> Plan<'_> {
        let tables = self.messages.get(id.index()).expect("an id of this schema");
        Plan { plans: self, tables }
    }

    /// Bytes of memory that the tables take, layouts apart.
    pub fn footprint_bytes(&self) -> usize {
        size_of_val(&*self.messages)
            + size_of_val(&*self.ops)
            + size_of_val(&*self.dense)
            + size_of_val(&*self.entries)
            + size_of_val(&*self.relocations)
            + size_of_val(&*self.steps)
            + size_of_val(&*self.members)
    }
}

/// The plan of one message.
#[derive(Clone, Copy)]
pub struct Plan<'a> {
    plans: &'a Plans,
    /// One of `plans.messages`.
    tables: &'a MessagePlan,
}

impl<'a> Plan<'a> {
    /// The size of the message's struct in bytes.
    #[inline(always)]
    pub fn bytes(self) -> u32 {
        self.tables.bytes
    }

    /// The fields, by number.
    #[inline(always)]
    pub(crate) fn ops(self) -> &'a [Op] {
        slice(&self.plans.ops, &self.tables.ops)
    }

    /// Where in [`Plan::ops`] the field with a number is.
    #[inline(always)]
    pub(crate) fn find(self, number: u32) -> Option<usize> {
        match self.dense().get(number as usize) {
            Some(place) => usize::from(*place).checked_sub(1),
            None => self.search(number),
        }
    }

    #[inline(always)]
    fn dense(self) -> &'a [u16] {
        slice(&self.plans.dense, &self.tables.dense)
    }

    #[cold]
    fn search(self, number: u32) -> Option<usize> {
        self.ops().binary_search_by_key(&number, |op| op.number).ok()
    }

    /// The plan of a field's message. Only of fields that have one, not of maps.
    #[inline(always)]
    pub(crate) fn message_of(self, op: &Op) -> Plan<'a> {
        self.other(op.message)
    }

    /// The plan with an index, of another message of the same schema.
    #[inline(always)]
    pub(crate) fn other(self, message: u32) -> Plan<'a> {
        Plan { plans: self.plans, tables: &self.plans.messages[message as usize] }
    }

    /// How the entries of a map lie. Only of maps.
    #[inline(always)]
    pub(crate) fn entry_of(self, op: &Op) -> &'a EntryPlan {
        self.entry(op.message)
    }

    /// The entry with an index.
    #[inline(always)]
    pub(crate) fn entry(self, entry: u32) -> &'a EntryPlan {
        &self.plans.entries[entry as usize]
    }

    /// The pointers in the message's struct (M15).
    #[inline(always)]
    pub(crate) fn relocations(self) -> &'a [Relocation] {
        slice(&self.plans.relocations, &self.tables.relocate)
    }

    /// The pointers in an entry of a map, those of a message in it included.
    pub(crate) fn entry_relocations(
        self,
        entry: &EntryPlan,
    ) -> impl Iterator<Item = Relocation> + 'a {
        let within = match entry.value.kind {
            ValueKind::Message => self.message_of(&entry.value).relocations(),
            _ => &[],
        };
        let offset = entry.value.offset;
        let within = within.iter().map(move |at| Relocation { offset: at.offset + offset, ..*at });
        slice(&self.plans.relocations, &entry.relocate).iter().copied().chain(within)
    }

    /// What a walk over the message's struct looks at, by offset: `Unknown` first.
    #[inline(always)]
    pub(crate) fn steps(self) -> &'a [Step] {
        slice(&self.plans.steps, &self.tables.steps)
    }

    /// What a walk over an entry looks at: key, then value.
    #[inline(always)]
    pub(crate) fn entry_steps(self, entry: &EntryPlan) -> &'a [Step] {
        slice(&self.plans.steps, &entry.steps)
    }

    /// The member of a oneof that a case names.
    #[inline]
    pub(crate) fn member(self, members: Range<u32>, case: u32) -> Option<&'a Member> {
        let members = slice(&self.plans.members, &members);
        let at = members.binary_search_by_key(&case, |member| member.number).ok()?;
        Some(&members[at])
    }
}

#[inline(always)]
fn slice<'a, T>(table: &'a [T], range: &Range<u32>) -> &'a [T] {
    let range = range.start as usize..range.end as usize;
    debug_assert!(range.start <= range.end && range.end <= table.len(), "a piece of a table");
    // SAFETY: ranges are made together with the table that they are of, and neither ever changes.
    unsafe { table.get_unchecked(range) }
}
