//! A timing wheel: items that become due at some time, in slots of equal width.
//!
//! This is Varghese and Lauck's hashed wheel (1987), used as in Carousel (SIGCOMM 2017): one wheel
//! for any number of sessions, constant cost per item, and insertion order within a slot. An item
//! is a small copy (an index), never the object that it stands for. Nothing is ever cancelled: when
//! an item becomes due, its owner checks whether it still means anything.
//!
//! Invariants: every item is in the slot of a tick in `tick .. tick + slots`, so a slot holds items
//! of one tick only; `due_at_ns` is the time of the earliest tick with an item, or [`Time::NEVER`].
//! Memory grows to the largest number of items so far; below that, nothing is allocated.

use crate::Time;
use crate::slot_lists::{SLOTS_MAX, SlotLists};

/// Items that become due at their times. See the module's documentation.
#[derive(Clone, Debug)]
pub struct Wheel<T> {
    /// Items by tick.
    lists: SlotLists<T>,
    slot_log: u32,
    /// The earliest tick that may have items.
    tick: u64,
    due_at_ns: u64,
}

impl<T: Copy> Wheel<T> {
    /// An empty wheel with slots of `slot_ns`, rounded up to a power of two, that reaches at least
    /// `reach_ns` ahead, or [`SLOTS_MAX`] slots if that is less.
    ///
    /// # Panics
    /// If `slot_ns` is 0 or above 2^32.
    pub fn new(slot_ns: u64, reach_ns: u64) -> Wheel<T> {
        assert!((1..=1 << 32).contains(&slot_ns), "a slot is from 1 ns to some seconds wide");
        let slot_log = slot_ns.next_power_of_two().trailing_zeros();
        // One more slot, because times round up to the end of their slot.
        let slots = (reach_ns >> slot_log).saturating_add(2).min(SLOTS_MAX).next_power_of_two();
        Wheel { lists: SlotLists::new(slots), slot_log, tick: 0, due_at_ns: u64::MAX }
    }

    /// Adds an item and returns when it becomes due: at the end of `at`'s slot, so never before
    /// `at` and less than a slot's width after it. If `at` is beyond the wheel's reach, the item
    /// becomes due at the end of that reach, and its owner has to insert it again. If `at` has
    /// passed, the item becomes due at the end of the present slot, with the next
    /// [`Wheel::advance`] that finds anything.
    #[inline]
    pub fn insert(&mut self, now: Time, at: Time, item: T) -> Time {
        let present = now.as_nanos() >> self.slot_log;
        let earliest = self.due_at_ns >> self.slot_log;
        // The slots before the first one with items are empty, so the wheel may skip them.
        self.tick = self.tick.max(present.min(earliest));
        let last = self.tick + self.lists.slots() - 1;
        let partial = at.as_nanos() & ((1 << self.slot_log) - 1) != 0;
        let wanted = (at.as_nanos() >> self.slot_log) + u64::from(partial);
        let tick = wanted.max(present + 1).min(last).max(self.tick);
        self.lists.push(tick, item);
        let due_at_ns = tick << self.slot_log;
        self.due_at_ns = self.due_at_ns.min(due_at_ns);
        Time::from_nanos(due_at_ns)
    }

    /// Whether [`Wheel::advance`] would return anything. This is one comparison.
    #[inline]
    pub fn is_due(&self, now: Time) -> bool {
        now.as_nanos() >= self.due_at_ns
    }

    /// Removes all items that are due at `now` and passes them to `due`, in the order of their
    /// slots and, within a slot, of their insertion.
    #[inline]
    pub fn advance(&mut self, now: Time, mut due: impl FnMut(T)) {
        while self.is_due(now) {
            self.drain(self.due_at_ns >> self.slot_log, &mut due);
        }
    }

    /// Empties the slot of `tick`, the earliest that has items.
    fn drain(&mut self, tick: u64, due: &mut impl FnMut(T)) {
        self.lists.drain(tick, due);
        self.tick = tick + 1;
        self.due_at_ns = self.lists.next(self.tick).map_or(u64::MAX, |tick| tick << self.slot_log);
    }

    /// When the next item becomes due. The owner may sleep until then. [`Time::NEVER`] if the wheel
    /// is empty.
    #[inline]
    pub fn next_due(&self) -> Time {
        Time::from_nanos(self.due_at_ns)
    }

    /// Items in the wheel.
    pub fn len(&self) -> usize {
        self.lists.len()
    }

    /// Whether the wheel has no items.
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }
}

#[cfg(test)]
#[path = "wheel_tests.rs"]
mod tests;
