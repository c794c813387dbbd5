//! A wheel of one slot per nanosecond, for events of the near future: constant cost, exact order.
//!
//! It holds events of any [`SLOTS`] consecutive nanoseconds; that they are consecutive is the
//! duty of [`crate::EventQueue`], the only user. Invariant: a slot's bit is set if and only if
//! its list has a node, and a word's bit if and only if the word is not zero.

/// The near future. Each slot is a list of nodes in the order of entry.
#[derive(Debug)]
pub(crate) struct Wheel<E> {
    nodes: Vec<Node<E>>,
    /// First of the list of nodes not in use.
    free: u32,
    /// First and last node of each slot; the first is valid if the slot's bit is set.
    slots: Vec<(u32, u32)>,
    /// A bit for each slot that is not empty.
    bits: [u64; 64],
    /// A bit for each word of `bits` that is not zero.
    words: u64,
    len: usize,
}

#[derive(Debug)]
struct Node<E> {
    event: E,
    next: u32,
}

impl<E: Copy> Wheel<E> {
    pub(crate) fn new() -> Wheel<E> {
        let slots = vec![(NONE, NONE); SLOTS as usize];
        Wheel { nodes: Vec::new(), free: NONE, slots, bits: [0; 64], words: 0, len: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds an event at time `at`, which must be within [`SLOTS`] of the earliest.
    #[inline]
    pub(crate) fn push(&mut self, at: u64, event: E) {
        let node = self.node(event);
        let slot = (at % SLOTS) as usize;
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
    fn node(&mut self, event: E) -> u32 {
        let node = Node { event, next: NONE };
        if self.free == NONE {
            self.nodes.push(node);
            return self.nodes.len() as u32 - 1;
        }
        let index = self.free;
        self.free = core::mem::replace(&mut self.nodes[index as usize], node).next;
        index
    }

    /// The earliest time at or after `base` with an event.
    #[inline]
    pub(crate) fn next(&self, base: u64) -> Option<u64> {
        if self.words == 0 {
            return None;
        }
        let start = (base % SLOTS) as u32;
        let here = self.bits[start as usize / 64] & (u64::MAX << (start % 64));
        let slot = if here != 0 {
            start / 64 * 64 + here.trailing_zeros()
        } else {
            // The words after this one, and around to this one again for its earlier bits.
            let turn = start / 64 + 1;
            let word = (self.words.rotate_right(turn).trailing_zeros() + turn) % 64;
            word * 64 + self.bits[word as usize].trailing_zeros()
        };
        Some(base + (u64::from(slot) + SLOTS - u64::from(start)) % SLOTS)
    }

    /// Removes the first event of the slot of time `at`, which must have one.
    #[inline]
    pub(crate) fn pop(&mut self, at: u64) -> E {
        let slot = (at % SLOTS) as usize;
        let (first, last) = self.slots[slot];
        let node = &mut self.nodes[first as usize];
        let (event, next) = (node.event, node.next);
        node.next = self.free;
        self.free = first;
        if first == last {
            self.bits[slot / 64] &= !(1 << (slot % 64));
            let empty = u64::from(self.bits[slot / 64] == 0);
            self.words &= !(empty << (slot / 64));
        } else {
            self.slots[slot].0 = next;
        }
        self.len -= 1;
        event
    }
}

/// Nanoseconds of the near future: a full frame at 10 Gbit/s and the usual cables fit well.
pub(crate) const SLOTS: u64 = 4096;
/// Slots are found by two levels of bits, 64 words under one.
const _: () = assert!(SLOTS == 64 * 64);
/// No node.
pub(crate) const NONE: u32 = u32::MAX;
