//! Items that wait for tokens: a queue for each key.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use petasos_engine::{CallId, Decompose, Item, ItemKind, Time, Work};

use crate::key::Key;

/// So much memory of queues is kept for others.
const SPARE_MAX: usize = 16;

/// Items that wait.
#[derive(Default)]
pub(super) struct Waiting {
    queues: HashMap<Key, Queue>,
    /// When a queue may go on: one entry for each.
    due: BinaryHeap<Reverse<(Time, Key)>>,
    /// How many items of a call wait.
    calls: HashMap<CallId, u32>,
    /// Memory of queues that are empty now.
    spare: Vec<VecDeque<Held>>,
    len: usize,
    next: u64,
    /// When void items were last looked for, so that this is not done for each refusal.
    looked_at: Option<Time>,
}

struct Queue {
    due: Time,
    items: VecDeque<Held>,
}

struct Held {
    item: Item,
    call: CallId,
    /// Counts the items in the order in which they came.
    number: u64,
}

impl Waiting {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// When the next item may go on.
    pub(super) fn due(&self) -> Option<Time> {
        self.due.peek().map(|Reverse((due, _))| *due)
    }

    /// When items of a key may go on, if some wait.
    pub(super) fn due_of(&self, key: Key) -> Option<Time> {
        if self.len == 0 {
            return None;
        }
        self.queues.get(&key).map(|queue| queue.due)
    }

    /// Whether an item is to wait behind one of its call. Requests are limited only, so that what
    /// goes the other way passes.
    pub(super) fn has_earlier(&self, work: &Work<'_>, item: &Item) -> bool {
        let goes_along = work.direction(item) == work.call(item).requests;
        self.len > 0 && goes_along && self.calls.contains_key(&work.call_id(item))
    }

    pub(super) fn push(&mut self, work: &Work<'_>, item: Item, key: Key, due: Time) {
        let call = work.call_id(&item);
        *self.calls.entry(call).or_insert(0) += 1;
        let (spare, wakes) = (&mut self.spare, &mut self.due);
        let queue = self.queues.entry(key).or_insert_with(|| {
            wakes.push(Reverse((due, key)));
            Queue { due, items: spare.pop().unwrap_or_default() }
        });
        queue.items.push_back(Held { item, call, number: self.next });
        (self.len, self.next) = (self.len + 1, self.next + 1);
    }

    /// Passes on what may go on now, and what has become void.
    pub(super) fn release(
        &mut self,
        work: &mut Work<'_>,
        mut take: impl FnMut(&Work<'_>, Key) -> Result<(), Time>,
    ) {
        while self.due().is_some_and(|due| due <= work.now()) {
            let Some(Reverse((_, key))) = self.due.pop() else { return };
            let mut queue = self.queues.remove(&key).expect("each entry has a queue");
            let mut due = None;
            while let Some(held) = queue.items.front() {
                let costs = !work.is_void(&held.item) && work.kind(&held.item) == ItemKind::Request;
                if costs && let Err(later) = take(work, key) {
                    due = Some(later);
                    break;
                }
                let held = queue.items.pop_front().expect("it was there");
                self.forward(work, held);
            }
            self.put_back(key, queue, due);
        }
    }

    /// Frees what has become void, at most once for each batch.
    pub(super) fn drop_void(&mut self, work: &mut Work<'_>) {
        if self.looked_at.replace(work.now()) == Some(work.now()) {
            return;
        }
        let keys: Vec<Key> = self.queues.keys().copied().collect();
        for key in keys {
            let mut items = std::mem::take(&mut self.queues.get_mut(&key).expect("it is").items);
            for _ in 0..items.len() {
                let held = items.pop_front().expect("it was counted");
                if work.is_void(&held.item) {
                    self.forward(work, held);
                } else {
                    items.push_back(held);
                }
            }
            self.queues.get_mut(&key).expect("it is there").items = items;
        }
    }

    pub(super) fn give_back(self, decompose: &mut Decompose<'_>) {
        let mut all: Vec<Held> = self.queues.into_values().flat_map(|queue| queue.items).collect();
        all.sort_by_key(|held| held.number);
        all.into_iter().for_each(|held| decompose.give_back(held.item));
    }

    fn put_back(&mut self, key: Key, mut queue: Queue, due: Option<Time>) {
        match due {
            Some(due) => {
                queue.due = due;
                self.due.push(Reverse((due, key)));
                self.queues.insert(key, queue);
            }
            None if self.spare.len() < SPARE_MAX => self.spare.push(queue.items),
            None => {}
        }
    }

    fn forward(&mut self, work: &mut Work<'_>, held: Held) {
        self.len -= 1;
        if let Some(count) = self.calls.get_mut(&held.call) {
            *count -= 1;
            if *count == 0 {
                self.calls.remove(&held.call);
            }
        }
        work.forward(held.item);
    }
}
