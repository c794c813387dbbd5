//! A circular array of lists, in which the next list with items is found in a few instructions.
//! Timing wheels are built on it.
//!
//! Invariants: a slot's bit is set if and only if its list has a node, and a word's bit is set if
//! and only if the word is not zero. Memory grows to the largest number of items so far; below
//! that, nothing is allocated.

/// Lists of small `Copy` items, one per slot, each in the order of insertion. Any number names a
/// slot; numbers that are equal modulo the number of slots name the same one.
#[derive(Clone, Debug)]
pub struct SlotLists<T> {
    nodes: Vec<Node<T>>,
    /// First of the list of nodes not in use.
    free: u32,
    /// First and last node of each slot; valid if the slot's bit is set.
    slots: Box<[(u32, u32)]>,
    /// A bit for each slot that is not empty, in words, and a bit for each word that is not zero.
    bits: Box<[u64]>,
    words: u64,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Node<T> {
    item: T,
    next: u32,
}

impl<T: Copy> SlotLists<T> {
    /// Empty lists.
    ///
    /// # Panics
    /// If `slots` is no power of two, or above [`SLOTS_MAX`].
    pub fn new(slots: u64) -> SlotLists<T> {
        assert!(slots.is_power_of_two() && slots <= SLOTS_MAX, "{slots} slots");
        SlotLists {
            nodes: Vec::new(),
            free: NONE,
            slots: vec![(NONE, NONE); slots as usize].into(),
            bits: vec![0; slots.div_ceil(64) as usize].into(),
            words: 0,
            len: 0,
        }
    }

    /// How many slots there are.
    #[inline]
    pub fn slots(&self) -> u64 {
        self.slots.len() as u64
    }

    /// Items in all lists.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no items.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an item at the end of a slot's list.
    #[inline]
    pub fn push(&mut self, at: u64, item: T) {
        let node = self.node(item);
        let slot = self.slot(at);
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

    /// Takes the first item of a slot that has one.
    #[inline]
    pub fn pop(&mut self, at: u64) -> T {
        let slot = self.slot(at);
        let (first, last) = self.slots[slot];
        let node = &mut self.nodes[first as usize];
        let (item, next) = (node.item, node.next);
        node.next = self.free;
        self.free = first;
        if first == last {
            self.clear(slot);
        } else {
            self.slots[slot].0 = next;
        }
        self.len -= 1;
        item
    }

    /// Takes all items of a slot that has some.
    pub fn drain(&mut self, at: u64, each: &mut impl FnMut(T)) {
        let slot = self.slot(at);
        let (first, last) = self.slots[slot];
        let mut index = first;
        while index != NONE {
            let node = self.nodes[index as usize];
            each(node.item);
            self.len -= 1;
            index = node.next;
        }
        self.nodes[last as usize].next = self.free;
        self.free = first;
        self.clear(slot);
    }

    #[inline]
    fn clear(&mut self, slot: usize) {
        self.bits[slot / 64] &= !(1 << (slot % 64));
        let empty = u64::from(self.bits[slot / 64] == 0);
        self.words &= !(empty << (slot / 64));
    }

    /// The first number, counted upwards from `from`, whose slot has items.
    #[inline]
    pub fn next(&self, from: u64) -> Option<u64> {
        if self.words == 0 {
            return None;
        }
        let start = self.slot(from);
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
        Some(from + ahead as u64)
    }

    #[inline]
    fn slot(&self, at: u64) -> usize {
        at as usize & (self.slots.len() - 1)
    }
}

/// The most slots: two levels of bits, 64 words under one.
pub const SLOTS_MAX: u64 = 64 * 64;
/// No node.
const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_slot_is_found_around_the_circle() {
        for slots in [1, 2, 64, 128, SLOTS_MAX] {
            let mut lists = SlotLists::new(slots);
            assert_eq!(lists.next(0), None);
            for at in [5, 5 + slots / 2] {
                lists.push(at, at);
                for from in 5 + slots..5 + 2 * slots {
                    let holds = |number: u64| (number - at).is_multiple_of(slots);
                    let next = (from..).find(|number| holds(*number));
                    assert_eq!(lists.next(from), next, "{slots} slots, from {from}");
                }
                assert_eq!(lists.pop(at), at);
                assert!(lists.is_empty() && lists.next(0).is_none());
            }
        }
    }

    #[test]
    fn items_leave_in_the_order_of_entry_and_their_nodes_are_used_again() {
        let mut lists = SlotLists::new(64);
        for round in 0..1000u64 {
            (0..10).for_each(|item| lists.push(round + item % 2, item));
            let mut left = vec![lists.pop(round)];
            lists.drain(round, &mut |item| left.push(item));
            assert_eq!(left, [0, 2, 4, 6, 8]);
            left.clear();
            lists.drain(round + 1, &mut |item| left.push(item));
            assert_eq!(left, [1, 3, 5, 7, 9]);
        }
        assert_eq!(lists.nodes.len(), 10, "no more than were in it at a time");
    }
}
