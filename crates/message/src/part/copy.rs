//! Copies of messages into an arena: `Clone`, and setters that take a message.
//!
//! The walk of M22, from memory that is known to be a message, so nothing is checked and nothing
//! can fail: each object's bytes are copied completely, and then its pointers are replaced by those
//! of copies. Between these steps an object is not a message, but nobody sees that: nothing here
//! can panic, since all sizes come from existing values.

use std::ptr::NonNull;

use bytes::Bytes;

use crate::arena::Object;
use crate::arena::{Arena, rounded};
use crate::part::Message;
use crate::plan::{Plan, Step};

/// Who owns bytes of the original, if they can be shared (M16).
type Owner<'f> = &'f dyn Fn(&[u8]) -> Option<Bytes>;

/// Makes the struct at `at` a copy of `value`. What it held is abandoned.
///
/// # Safety
/// `at` is a message in `arena` that the caller alone may write, and no part of `value`.
pub(crate) unsafe fn assign<T: Message>(at: NonNull<T>, value: &T, arena: &Arena) {
    // SAFETY: passed on.
    unsafe { assign_sharing(at, value, arena, &|_| None) }
}

/// [`assign`], but long `bytes` that have an owner are shared.
///
/// # Safety
/// As [`assign`].
pub(crate) unsafe fn assign_sharing<T: Message>(
    at: NonNull<T>,
    value: &T,
    arena: &Arena,
    owner: Owner<'_>,
) {
    let plan = T::plan();
    let from = Object::new(NonNull::from(value).cast(), plan.bytes());
    let to = Object::new(at.cast(), plan.bytes());
    if (0..plan.bytes()).step_by(8).any(|offset| to.load(offset) != [0; 8]) {
        arena.abandon(plan.bytes());
    }
    to.copy_from(from);
    Copier { arena, owner }.steps(plan, plan.steps(), from, to);
}

struct Copier<'a, 'f> {
    arena: &'a Arena,
    owner: Owner<'f>,
}

impl<'a> Copier<'a, '_> {
    /// Gives `to`, which has the bytes of `from`, targets of its own.
    fn steps(&self, plan: Plan<'_>, steps: &[Step], from: Object<'_>, to: Object<'a>) {
        for step in steps {
            self.step(plan, *step, from, to);
        }
    }

    fn step(&self, plan: Plan<'_>, step: Step, from: Object<'_>, to: Object<'a>) {
        match step {
            Step::Bool { .. } | Step::Absent { .. } | Step::Spare { .. } => {}
            Step::Unknown { offset } => self.unknown(offset, from, to),
            Step::Text { offset } => self.leaf(offset, 1, from, to),
            Step::Blob { offset } => self.blob(offset, from, to),
            Step::Bools { offset } => self.leaf(offset, 1, from, to),
            Step::Numbers { offset, element_bytes } => self.leaf(offset, element_bytes, from, to),
            Step::Link { offset, message } => {
                let plan = plan.other(message);
                if let Some(from) = from.follow(offset, plan.bytes()) {
                    let copy = self.object(from);
                    to.link(offset, copy);
                    self.steps(plan, plan.steps(), from, copy);
                }
            }
            Step::Struct { offset, message } => {
                let plan = plan.other(message);
                let (from, to) = (from.part(offset, plan.bytes()), to.part(offset, plan.bytes()));
                self.steps(plan, plan.steps(), from, to);
            }
            Step::Texts { offset } => {
                self.array(offset, 16, from, to, |from, to| self.leaf(0, 1, from, to));
            }
            Step::Blobs { offset } => {
                self.array(offset, 16, from, to, |from, to| self.blob(0, from, to));
            }
            Step::Messages { offset, message } => {
                let plan = plan.other(message);
                self.array(offset, plan.bytes(), from, to, |from, to| {
                    self.steps(plan, plan.steps(), from, to);
                });
            }
            Step::Map { offset, entry } => {
                let entry = plan.entry(entry);
                self.array(offset, entry.bytes, from, to, |from, to| {
                    self.steps(plan, plan.entry_steps(entry), from, to);
                });
            }
            Step::OneOf { offset, first, count } => {
                let case = u32::from_le_bytes(from.load(offset));
                let member = plan.member(Step::members(first, count), case);
                if let Some(step) = member.and_then(|member| member.step) {
                    self.step(plan, step, from, to);
                }
            }
        }
    }

    fn object(&self, from: Object<'_>) -> Object<'a> {
        let copy = self.arena.object(from.bytes());
        copy.copy_from(from);
        copy
    }

    fn unknown(&self, offset: u32, from: Object<'_>, to: Object<'a>) {
        if let Some(from) = from.follow(offset, 16) {
            let copy = self.object(from);
            to.link(offset, copy);
            self.leaf(0, 1, from, copy);
        }
    }

    fn leaf(&self, offset: u32, element_bytes: u32, from: Object<'_>, to: Object<'a>) {
        let Some((target, len)) = from.target(offset, element_bytes) else {
            return to.store(offset, [0; 16]);
        };
        let copy = self.arena.leaf(target.as_slice());
        let room = rounded(copy.bytes()) as u32 / element_bytes;
        to.point(offset, copy, len, room);
    }

    fn blob(&self, offset: u32, from: Object<'_>, to: Object<'a>) {
        if let Some((target, len)) = from.target(offset, 1)
            && len as usize >= crate::ADOPT_BYTES_MIN
            && let Some(owner) = (self.owner)(target.as_slice())
        {
            return to.point(offset, self.arena.adopt(owner), len, 0);
        }
        self.leaf(offset, 1, from, to);
    }

    fn array(
        &self,
        offset: u32,
        element_bytes: u32,
        from: Object<'_>,
        to: Object<'a>,
        mut element: impl FnMut(Object<'_>, Object<'a>),
    ) {
        let Some((target, len)) = from.target(offset, element_bytes) else {
            return to.store(offset, [0; 16]);
        };
        let copy = self.object(target);
        to.point(offset, copy, len, len);
        for at in (0..target.bytes()).step_by(element_bytes as usize) {
            element(target.part(at, element_bytes), copy.part(at, element_bytes));
        }
    }
}
