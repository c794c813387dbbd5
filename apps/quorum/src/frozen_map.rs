//! An ordered map that is written down item by item, as it was, while it changes (QR21).

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// A key: bytes that are cheap to share or to keep.
pub(crate) trait Key: Borrow<[u8]> + Clone + Ord + for<'a> From<&'a [u8]> {}

impl<K: Borrow<[u8]> + Clone + Ord + for<'a> From<&'a [u8]>> Key for K {}

/// Items by their keys' bytes.
pub(crate) struct FrozenMap<K, V> {
    items: BTreeMap<K, Arc<V>>,
    frozen: Option<Frozen<K, V>>,
}

/// A snapshot under way.
struct Frozen<K, V> {
    /// Up to here it is written, nothing if there is no key.
    done: Option<K>,
    /// What was there when it began, of keys that have changed since and are not written yet: of
    /// each item that the map had then, and of each that it has now, once at most.
    before: BTreeMap<K, Option<Arc<V>>>,
}

impl<K: Key, V> FrozenMap<K, V> {
    /// A map without items.
    pub fn new() -> FrozenMap<K, V> {
        FrozenMap { items: BTreeMap::new(), frozen: None }
    }

    /// Items that there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Option<&Arc<V>> {
        self.items.get(key)
    }

    /// Items between two keys, in their order.
    pub fn range<'a>(
        &'a self,
        from: Bound<&[u8]>,
        until: Bound<&[u8]>,
    ) -> impl DoubleEndedIterator<Item = (&'a K, &'a Arc<V>)> {
        self.items.range::<[u8], _>((from, until))
    }

    /// The last key.
    pub fn last_key(&self) -> Option<&K> {
        self.items.last_key_value().map(|(key, _)| key)
    }

    /// Keeps for a snapshot what is about to change.
    fn save(&mut self, key: &[u8]) {
        let Some(frozen) = &mut self.frozen else { return };
        let is_written = frozen.done.as_ref().is_some_and(|done| key <= done.borrow());
        if !is_written && !frozen.before.contains_key(key) {
            frozen.before.insert(key.into(), self.items.get(key).cloned());
        }
    }

    /// Stores a value, and returns the one that was there.
    pub fn insert(&mut self, key: K, value: V) -> Option<Arc<V>> {
        self.save(key.borrow());
        let value = Arc::new(value);
        match self.items.get_mut(key.borrow()) {
            Some(slot) => Some(std::mem::replace(slot, value)),
            None => self.items.insert(key, value),
        }
    }

    /// The value of a key, to be changed. It is copied if a snapshot has it.
    pub fn edit(&mut self, key: &[u8]) -> Option<&mut V>
    where
        V: Clone,
    {
        self.save(key);
        self.items.get_mut(key).map(Arc::make_mut)
    }

    /// Removes an item, and returns its value.
    pub fn remove(&mut self, key: &[u8]) -> Option<Arc<V>> {
        self.save(key);
        let old = self.items.remove(key);
        // A key that came and went while the snapshot is written is as if it had never been.
        if let Some(frozen) = &mut self.frozen
            && frozen.before.get(key).is_some_and(Option::is_none)
        {
            frozen.before.remove(key);
        }
        old
    }

    /// Begins a snapshot of what there is. An earlier one that has not ended is given up.
    pub fn freeze(&mut self) {
        self.frozen = Some(Frozen { done: None, before: BTreeMap::new() });
    }

    /// The next item of the snapshot. Without one, the snapshot has ended.
    pub fn next_frozen(&mut self) -> Option<(K, Arc<V>)> {
        while let Some((key, value)) = self.next_key() {
            if let Some(value) = value {
                return Some((key, value));
            }
        }
        self.frozen = None;
        None
    }

    /// The next key of the snapshot, with what it had when the snapshot began.
    fn next_key(&mut self) -> Option<(K, Option<Arc<V>>)> {
        let frozen = self.frozen.as_mut()?;
        let behind = match &frozen.done {
            Some(done) => Bound::Excluded(done.borrow()),
            None => Bound::Unbounded,
        };
        let now = self.items.range::<[u8], _>((behind, Bound::Unbounded)).next();
        let before = frozen.before.first_key_value();
        let (key, value) = match (now, before) {
            (Some((now, _)), Some((before, _))) if before <= now => frozen.before.pop_first()?,
            (Some((key, value)), _) => (key.clone(), Some(value.clone())),
            (None, _) => frozen.before.pop_first()?,
        };
        frozen.done = Some(key.clone());
        Some((key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a snapshot keeps beside the map is bounded by the map, whatever comes and goes.
    #[test]
    fn keys_that_come_and_go_beside_a_snapshot_are_not_kept() {
        let mut map: FrozenMap<Box<[u8]>, u8> = FrozenMap::new();
        map.insert(Box::new([1]), 1);
        map.freeze();
        for key in 0..5_000_u64 {
            let bytes = key.to_le_bytes();
            assert!(map.insert(Box::new(bytes), 2).is_none());
            assert!(map.remove(&bytes).is_some());
        }
        assert!(map.frozen.as_ref().is_some_and(|frozen| frozen.before.is_empty()));
        *map.edit(&[1]).unwrap() = 3;
        let (key, value) = map.next_frozen().unwrap();
        assert_eq!((&*key, *value), (&[1][..], 1));
        assert!(map.next_frozen().is_none());
        assert_eq!(map.get(&[1]).map(|value| **value), Some(3));
    }
}
