//! A policy's data for each key, for all of its engines, in bounded memory.
//!
//! The table has a lock. An engine takes the lock only for keys that are not in its [`Cache`], so
//! in the long run not for each item. The data of a key consists of atomics.
//!
//! # Invariants
//!
//! - A key has at most one value at a time. The table forgets a value only if the value reports
//!   that nothing is lost by that, and no cache or call refers to it. Caches release their values
//!   when the table is full ([`Table::generation`]).
//! - There are at most `keys_max` values, and one more, which all keys without room share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use petasos_engine::Time;
use petasos_engine::sync::{AtomicU64, Ordering};

use crate::key::Key;

/// So many values are looked at for one to forget, each time that there is no room.
const LOOKS: usize = 16;
/// Lines of an engine's cache.
const LINES: usize = 256;

/// What is kept for a key.
pub(crate) trait Kept: Default + Send + Sync {
    /// Whether a new one would do the same from now on.
    fn is_idle(&self, now: Time) -> bool;
}

/// When a value was last used, to a second.
#[derive(Debug, Default)]
pub(crate) struct Touched(AtomicU64);

/// What was not used for so long may be forgotten if there is no room, whatever it says.
const OLD_NS: u64 = 60_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

impl Touched {
    /// It is used. Mostly only looks, so that threads do not write to the same line all the time.
    pub(crate) fn touch(&self, now: Time) {
        if now.as_nanos() >= self.0.load(Ordering::Relaxed).saturating_add(SECOND_NS) {
            self.0.store(now.as_nanos(), Ordering::Relaxed);
        }
    }

    pub(crate) fn is_old(&self, now: Time) -> bool {
        now.as_nanos() >= self.0.load(Ordering::Relaxed).saturating_add(OLD_NS)
    }
}

/// The values of a policy by key.
pub(crate) struct Table<V> {
    slots: Mutex<Slots<V>>,
    rest: Arc<V>,
    keys_max: usize,
    /// Counts up when caches are to let go of what they have.
    generation: AtomicU64,
    /// Times that a key had to share [`Table::rest`].
    crowded: AtomicU64,
}

struct Slots<V> {
    indexes: HashMap<Key, usize>,
    entries: Vec<(Key, Arc<V>)>,
    /// The next entry to look at for one to forget.
    hand: usize,
}

impl<V: Kept> Table<V> {
    pub(crate) fn new(keys_max: u32) -> Table<V> {
        let slots = Slots { indexes: HashMap::new(), entries: Vec::new(), hand: 0 };
        Table {
            slots: Mutex::new(slots),
            rest: Arc::default(),
            keys_max: keys_max as usize,
            generation: AtomicU64::new(0),
            crowded: AtomicU64::new(0),
        }
    }

    /// The value of a key, a new one if there is none. None if there is no room.
    fn find(&self, key: Key, now: Time) -> Option<Arc<V>> {
        let mut slots = self.lock();
        if let Some(index) = slots.indexes.get(&key) {
            return Some(Arc::clone(&slots.entries[*index].1));
        }
        if slots.entries.len() >= self.keys_max && !self.make_room(&mut slots, now) {
            self.crowded.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let value: Arc<V> = Arc::default();
        slots.insert(key, Arc::clone(&value));
        Some(value)
    }

    /// Puts a value in that a predecessor has left; none if there is no room any more.
    pub(crate) fn restore(&self, key: Key) -> Option<Arc<V>> {
        self.find(key, Time::ZERO)
    }

    /// What keys share for which there is no room.
    pub(crate) fn rest(&self) -> &Arc<V> {
        &self.rest
    }

    /// Times that a key found no room.
    pub(crate) fn crowded(&self) -> u64 {
        self.crowded.load(Ordering::Relaxed)
    }

    /// All values, in the order of their keys.
    pub(crate) fn all(&self) -> Vec<(Key, Arc<V>)> {
        let mut all = self.lock().entries.clone();
        all.sort_by_key(|(key, _)| *key);
        all
    }

    /// Forgets one of the values that nobody needs.
    fn make_room(&self, slots: &mut Slots<V>, now: Time) -> bool {
        let mut has_idle = false;
        for _ in 0..LOOKS.min(slots.entries.len()) {
            let at = slots.hand % slots.entries.len();
            slots.hand = at + 1;
            let value = &slots.entries[at].1;
            if value.is_idle(now) {
                if Arc::strong_count(value) == 1 {
                    slots.remove(at);
                    return true;
                }
                has_idle = true;
            }
        }
        if has_idle {
            self.generation.fetch_add(1, Ordering::Relaxed);
        }
        false
    }

    fn lock(&self) -> MutexGuard<'_, Slots<V>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V> Slots<V> {
    fn insert(&mut self, key: Key, value: Arc<V>) {
        self.indexes.insert(key, self.entries.len());
        self.entries.push((key, value));
    }

    fn remove(&mut self, at: usize) {
        let (key, _) = self.entries.swap_remove(at);
        self.indexes.remove(&key);
        if let Some((moved, _)) = self.entries.get(at) {
            self.indexes.insert(*moved, at);
        }
    }
}

/// An engine's own way to the values that it uses often.
pub(crate) struct Cache<V> {
    table: Arc<Table<V>>,
    lines: Vec<Option<(Key, Arc<V>)>>,
    generation: u64,
}

impl<V: Kept> Cache<V> {
    pub(crate) fn new(table: &Arc<Table<V>>) -> Cache<V> {
        Cache { table: Arc::clone(table), lines: Vec::new(), generation: 0 }
    }

    /// To be called once for each batch: lets go of values if the table is short of room.
    pub(crate) fn refresh(&mut self) {
        let generation = self.table.generation.load(Ordering::Relaxed);
        if generation != self.generation {
            self.generation = generation;
            self.lines.fill(None);
        }
    }

    /// The value of a key: its own, or that of the rest if there is no room.
    pub(crate) fn get(&mut self, key: Key, now: Time) -> &Arc<V> {
        if self.lines.is_empty() {
            self.lines.resize(LINES, None);
        }
        let at = key.spread() % LINES;
        let is_there = matches!(&self.lines[at], Some((known, _)) if *known == key);
        if !is_there {
            match self.table.find(key, now) {
                // It is not kept: there may be room the next time.
                None => return &self.table.rest,
                Some(value) => self.lines[at] = Some((key, value)),
            }
        }
        &self.lines[at].as_ref().expect("it was just put there").1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Uses(AtomicU64);

    impl Kept for Uses {
        fn is_idle(&self, _: Time) -> bool {
            self.0.load(Ordering::Relaxed) == 0
        }
    }

    fn key(peer: u32) -> Key {
        Key { peer: Some(peer), ..Key::default() }
    }

    #[test]
    fn a_million_keys_take_the_room_of_a_few() {
        let table = Arc::new(Table::<Uses>::new(100));
        let mut cache = Cache::new(&table);
        for peer in 0..1_000_000 {
            if peer % 64 == 0 {
                cache.refresh();
            }
            cache.get(key(peer), Time::ZERO);
        }
        assert!(table.all().len() <= 100);
        // Those that are new find room, since the others are idle.
        cache.refresh();
        assert!(!Arc::ptr_eq(cache.get(key(7_000_000), Time::ZERO), table.rest()));
    }

    #[test]
    fn what_is_in_use_is_kept_and_the_rest_shares() {
        let table = Arc::new(Table::<Uses>::new(10));
        let mut cache = Cache::new(&table);
        for peer in 0..20 {
            cache.get(key(peer), Time::ZERO).0.fetch_add(1, Ordering::Relaxed);
        }
        assert_eq!((table.all().len(), table.crowded()), (10, 10));
        assert_eq!(table.rest().0.load(Ordering::Relaxed), 10);
        assert_eq!(cache.get(key(3), Time::ZERO).0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn an_idle_value_that_a_cache_has_is_one_and_the_same_until_it_lets_go() {
        let table = Arc::new(Table::<Uses>::new(1));
        let (mut first, mut second) = (Cache::new(&table), Cache::new(&table));
        first.get(key(1), Time::ZERO);
        assert!(Arc::ptr_eq(second.get(key(2), Time::ZERO), table.rest()), "the first has it");
        first.refresh();
        assert!(!Arc::ptr_eq(second.get(key(2), Time::ZERO), table.rest()));
    }
}
