//! Items that an engine holds in an order of its own.
//!
//! Items leave by rank, and items of equal rank in the order of their arrival. An item never has a
//! lower rank than an earlier item of its call in the same direction. So items of a call keep their
//! order, whatever ranks the engine chooses (E1).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use petasos_engine::{CallId, Decompose, Direction, Item, Time, Work};

/// Fewer entries than this are not looked through.
const ENTRIES_MIN: usize = 64;

/// Held items.
#[derive(Debug)]
pub(crate) struct Hold<R> {
    slots: Vec<Option<Held>>,
    free: Vec<usize>,
    by_rank: BinaryHeap<Reverse<(R, u64, usize)>>,
    /// In the order in which they came. Some have left already.
    by_age: VecDeque<(u64, usize)>,
    /// The items of a call, by direction and by the call's index: no other call has that as long as
    /// an item is there.
    queued: [Vec<Option<Queued<R>>>; 2],
    next: u64,
}

/// Items of a call that go in one direction.
#[derive(Clone, Copy, Debug)]
struct Queued<R> {
    count: u32,
    /// The rank of the latest one.
    latest: R,
}

#[derive(Debug)]
struct Held {
    item: Item,
    call: CallId,
    direction: Direction,
    number: u64,
    since: Time,
}

impl<R: Ord + Copy> Default for Hold<R> {
    fn default() -> Hold<R> {
        Hold {
            slots: Vec::new(),
            free: Vec::new(),
            by_rank: BinaryHeap::new(),
            by_age: VecDeque::new(),
            queued: [Vec::new(), Vec::new()],
            next: 0,
        }
    }
}

impl<R: Ord + Copy> Hold<R> {
    /// How many items are held.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rank of the latest item of a call that is held, behind which others must stay.
    pub(crate) fn rank_of(&self, call: CallId, direction: Direction) -> Option<R> {
        let way = self.queued[direction as usize].get(call.index as usize)?;
        way.map(|way| way.latest)
    }

    /// Holds an item.
    pub(crate) fn push(&mut self, work: &Work<'_>, item: Item, rank: R) {
        let (call, direction) = (work.call_id(&item), work.direction(&item));
        let (rank, number) = (self.follow(call, direction, rank), self.next);
        self.next += 1;
        let held = Held { item, call, direction, number, since: work.now() };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(held);
        self.by_rank.push(Reverse((rank, number, slot)));
        self.by_age.push_back((number, slot));
        self.forget_taken();
    }

    /// Counts an item of a call. Gives its rank, which is not lower than that of an earlier one.
    fn follow(&mut self, call: CallId, direction: Direction, rank: R) -> R {
        let (queued, at) = (&mut self.queued[direction as usize], call.index as usize);
        if at >= queued.len() {
            queued.resize(at + 1, None);
        }
        let way = queued[at].get_or_insert(Queued { count: 0, latest: rank });
        (way.count, way.latest) = (way.count + 1, rank.max(way.latest));
        way.latest
    }

    /// An item that leaves by rank stays in the order of ages, and the other way round, until it
    /// comes to the front. That may take for ever, so now and then all of them are looked for.
    fn forget_taken(&mut self) {
        let enough = 2 * self.len() + ENTRIES_MIN;
        let slots = &self.slots;
        let is_there = |number: u64, slot: usize| {
            slots[slot].as_ref().is_some_and(|held: &Held| held.number == number)
        };
        if self.by_age.len() > enough {
            self.by_age.retain(|(number, slot)| is_there(*number, *slot));
        }
        if self.by_rank.len() > enough {
            self.by_rank.retain(|Reverse((_, number, slot))| is_there(*number, *slot));
        }
    }

    /// The item that leaves next, with its rank and since when it is held.
    pub(crate) fn first(&mut self) -> Option<(R, Time, &Item)> {
        while let Some(&Reverse((rank, number, slot))) = self.by_rank.peek() {
            if self.is_there(number, slot) {
                let held = self.slots[slot].as_ref().expect("it is there");
                return Some((rank, held.since, &held.item));
            }
            self.by_rank.pop();
        }
        None
    }

    /// Takes the item out that leaves next.
    pub(crate) fn pop_first(&mut self) -> Option<Item> {
        self.first()?;
        let Reverse((_, _, slot)) = self.by_rank.pop()?;
        Some(self.take(slot))
    }

    /// Since when the item is held that has been held for longest.
    pub(crate) fn oldest(&mut self) -> Option<Time> {
        while let Some(&(number, slot)) = self.by_age.front() {
            if self.is_there(number, slot) {
                return self.slots[slot].as_ref().map(|held| held.since);
            }
            self.by_age.pop_front();
        }
        None
    }

    /// Takes the item out that has been held for longest. No earlier one of its call is there.
    pub(crate) fn pop_oldest(&mut self) -> Option<Item> {
        self.oldest()?;
        let (_, slot) = self.by_age.pop_front()?;
        Some(self.take(slot))
    }

    /// Entries in both orders, for tests of memory.
    #[cfg(test)]
    pub(crate) fn entries(&self) -> usize {
        self.by_rank.len().max(self.by_age.len())
    }

    /// Gives everything back, in the order in which it came.
    pub(crate) fn give_back(mut self, decompose: &mut Decompose<'_>) {
        while let Some(item) = self.pop_oldest() {
            decompose.give_back(item);
        }
    }

    fn is_there(&self, number: u64, slot: usize) -> bool {
        self.slots[slot].as_ref().is_some_and(|held| held.number == number)
    }

    fn take(&mut self, slot: usize) -> Item {
        let Held { item, call, direction, .. } = self.slots[slot].take().expect("it is there");
        self.free.push(slot);
        let way = &mut self.queued[direction as usize][call.index as usize];
        let left = way.as_mut().expect("the item was counted");
        left.count -= 1;
        if left.count == 0 {
            *way = None;
        }
        if self.is_empty() {
            self.by_rank.clear();
            self.by_age.clear();
        }
        item
    }
}
