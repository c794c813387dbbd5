//! A timing wheel: what is to be looked at again at some time, in slots of equal width.
//!
//! Varghese and Lauck's hashed wheel (1987) in the use that Carousel (SIGCOMM 2017) makes of it:
//! one wheel for any number of sessions, constant cost per item, and the order within a slot is
//! that of entry. Items are small copies (an index), never what they stand for; the owner checks
//! on expiry whether the item still means anything, so nothing is ever cancelled.
//!
//! Invariants: every item lies in the slot of a tick in `tick .. tick + slots`, so a slot holds
//! items of one tick only; a slot's bit is set if and only if its list has a node, and a word's
//! bit if and only if the word is not zero; `due_at_ns` is the time of the earliest tick with an
//! item, or [`Time::NEVER`]. After the wheel has held its most items once, it does not allocate.

use crate::Time;

/// Items to be looked at again at their times. See the module's documentation.
#[derive(Clone, Debug)]
pub struct Wheel<T> {
    nodes: Vec<Node<T>>,
    /// First of the list of nodes not in use.
    free: u32,
    /// First and last node of each slot; valid if the slot's bit is set.
    slots: Box<[(u32, u32)]>,
    /// A bit for each slot that is not empty, in words, and a bit for each word that is not zero.
    bits: Box<[u64]>,
    words: u64,
    slot_log: u32,
    /// The earliest tick that may have items.
    tick: u64,
    due_at_ns: u64,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Node<T> {
    item: T,
    next: u32,
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
        // One more, as times round up to the end of their slot.
        let slots = (reach_ns >> slot_log).saturating_add(2).min(SLOTS_MAX).next_power_of_two();
        Wheel {
            nodes: Vec::new(),
            free: NONE,
            slots: vec![(NONE, NONE); slots as usize].into(),
            bits: vec![0; slots.div_ceil(64) as usize].into(),
            words: 0,
            slot_log,
            tick: 0,
            due_at_ns: u64::MAX,
            len: 0,
        }
    }

    /// Adds an item that becomes due at the end of `at`'s slot: never before `at`, less than a
    /// slot's width after it. Beyond the wheel's reach it becomes due at that reach, and its
    /// owner has to enter it again. What is due already comes with the next [`Wheel::advance`]
    /// that finds anything, at the end of the present slot. Returns when it becomes due.
    #[inline]
    pub fn insert(&mut self, now: Time, at: Time, item: T) -> Time {
        let present = now.as_nanos() >> self.slot_log;
        let earliest = self.due_at_ns >> self.slot_log;
        // Slots before the first that has items are empty, so the wheel may turn that far.
        self.tick = self.tick.max(present.min(earliest));
        let last = self.tick + self.slots.len() as u64 - 1;
        let partial = at.as_nanos() & ((1 << self.slot_log) - 1) != 0;
        let wanted = (at.as_nanos() >> self.slot_log) + u64::from(partial);
        let tick = wanted.max(present + 1).min(last).max(self.tick);
        self.push(tick, item);
        let due_at_ns = tick << self.slot_log;
        self.due_at_ns = self.due_at_ns.min(due_at_ns);
        Time::from_nanos(due_at_ns)
    }

    #[inline]
    fn push(&mut self, tick: u64, item: T) {
        let node = self.node(item);
        let slot = self.slot(tick);
        let (word, bit) = (slot / 64, 1 << (slot % 64));
        if self.bits[word] & bit == 0 {
            self.slots[slot] = (node, node);
            self.bits[word] |= bit;
            self.words |= 1 << word;
        } else {
            let last = core::mem::replace(&mut self.slots[slot].1, node);
            self.nodes[last as usize].next = node;
        }
        self.len += 1;
    }

    #[inline]
    fn node(&mut self, item: T) -> u32 {
        let node = Node { item, next: NONE };
        if self.free == NONE {
            self.nodes.push(node);
            return u32::try_from(self.nodes.len() - 1).expect("indices have 32 bits");
        }
        let index = self.free;
        self.free = core::mem::replace(&mut self.nodes[index as usize], node).next;
        index
    }

    /// Whether [`Wheel::advance`] has anything to give: one comparison.
    #[inline]
    pub fn is_due(&self, now: Time) -> bool {
        now.as_nanos() >= self.due_at_ns
    }

    /// Takes all items out that are due at `now` and gives them to `due`, in the order of their
    /// slots and, within a slot, of their entry.
    #[inline]
    pub fn advance(&mut self, now: Time, mut due: impl FnMut(T)) {
        while self.is_due(now) {
            self.drain(self.due_at_ns >> self.slot_log, &mut due);
        }
    }

    /// Empties the slot of `tick`, the earliest that has items.
    fn drain(&mut self, tick: u64, due: &mut impl FnMut(T)) {
        let slot = self.slot(tick);
        let (first, last) = self.slots[slot];
        let mut index = first;
        while index != NONE {
            let node = self.nodes[index as usize];
            due(node.item);
            self.len -= 1;
            index = node.next;
        }
        self.nodes[last as usize].next = self.free;
        self.free = first;
        self.bits[slot / 64] &= !(1 << (slot % 64));
        if self.bits[slot / 64] == 0 {
            self.words &= !(1 << (slot / 64));
        }
        self.tick = tick + 1;
        self.due_at_ns = self.next_tick().map_or(u64::MAX, |tick| tick << self.slot_log);
    }

    /// The first tick from `tick` on that has items.
    fn next_tick(&self) -> Option<u64> {
        if self.words == 0 {
            return None;
        }
        let start = self.slot(self.tick);
        let here = self.bits[start / 64] & (u64::MAX << (start % 64));
        let slot = if here != 0 {
            start / 64 * 64 + here.trailing_zeros() as usize
        } else {
            // The words after this one, and around to this one again for its earlier bits.
            let turn = start as u32 / 64 + 1;
            let word = (self.words.rotate_right(turn).trailing_zeros() + turn) as usize % 64;
            word * 64 + self.bits[word].trailing_zeros() as usize
        };
        let ahead = slot.wrapping_sub(start) & (self.slots.len() - 1);
        Some(self.tick + ahead as u64)
    }

    /// When the next item becomes due: until then the owner may sleep. [`Time::NEVER`] if the
    /// wheel is empty.
    #[inline]
    pub fn next_due(&self) -> Time {
        Time::from_nanos(self.due_at_ns)
    }

    /// Items in the wheel.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the wheel has no items.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn slot(&self, tick: u64) -> usize {
        tick as usize & (self.slots.len() - 1)
    }
}

/// The most slots of a wheel: two levels of bits, 64 words under one, find the next in a few
/// instructions.
pub const SLOTS_MAX: u64 = 64 * 64;
/// No node.
const NONE: u32 = u32::MAX;

#[cfg(test)]
#[path = "wheel_tests.rs"]
mod tests;
