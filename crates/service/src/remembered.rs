//! Numbers that are remembered by keys, for as long as somebody has the key, and longer while there
//! is room.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// Numbers by keys. Memory and time are bounded, whatever keys come.
#[derive(Debug)]
pub(crate) struct Remembered<K: ?Sized> {
    by_key: HashMap<Arc<K>, u32>,
    keys_max: usize,
    /// Keys that came since those were forgotten last that nobody has any more.
    since_forgotten: usize,
}

impl<K: Eq + Hash + ?Sized> Remembered<K> {
    pub(crate) fn new(keys_max: usize) -> Remembered<K> {
        Remembered { by_key: HashMap::new(), keys_max, since_forgotten: keys_max }
    }

    /// All keys that are remembered, and their numbers.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Arc<K>, u32)> {
        self.by_key.iter().map(|(key, number)| (key, *number))
    }

    /// Remembers a key that nobody has, with its number, if there is room.
    pub(crate) fn put(&mut self, key: Arc<K>, number: u32) {
        if self.by_key.len() < self.keys_max {
            self.by_key.insert(key, number);
        }
    }

    /// The number of a key, and the key, which its user keeps for as long. A key that is not
    /// remembered gets a `new` number. `None` if there is no room for it, or no number.
    pub(crate) fn number<Q>(
        &mut self,
        key: &Q,
        new: impl FnOnce() -> Option<u32>,
    ) -> (Arc<K>, Option<u32>)
    where
        Q: Eq + Hash + ?Sized,
        for<'a> Arc<K>: Borrow<Q> + From<&'a Q>,
    {
        if let Some((key, number)) = self.by_key.get_key_value(key) {
            return (key.clone(), Some(*number));
        }
        self.since_forgotten = self.since_forgotten.saturating_add(1);
        // It looks at all keys: not for each that comes.
        if self.by_key.len() >= self.keys_max && self.since_forgotten > self.keys_max / 4 {
            self.by_key.retain(|key, _| Arc::strong_count(key) > 1);
            self.since_forgotten = 0;
        }
        let has_room = self.by_key.len() < self.keys_max;
        let (key, number) = (Arc::from(key), new().filter(|_| has_room));
        if let Some(number) = number {
            self.by_key.insert(Arc::clone(&key), number);
        }
        (key, number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remembered(keys_max: usize) -> impl FnMut(&str) -> (Arc<str>, Option<u32>) {
        let (mut numbers, mut next) = (Remembered::<str>::new(keys_max), 0);
        move |key| {
            numbers.number(key, || {
                next += 1;
                Some(next)
            })
        }
    }

    #[test]
    fn a_key_has_one_number_and_no_other_has_it() {
        let mut number = remembered(4);
        let all: Vec<_> = ["a", "b", "c", "d"].map(&mut number).into();
        for (key, one) in &all {
            assert_eq!(number(key), (key.clone(), *one));
        }
        let numbers: std::collections::BTreeSet<_> = all.iter().map(|(_, one)| one).collect();
        assert_eq!(numbers.len(), 4);
        // There is no room until keys are used no more.
        for other in ["e", "f", "g"] {
            assert_eq!(number(other).1, None);
        }
        let (_, kept) = all[3];
        drop(all);
        let held = number("d");
        let given = ["h", "i"].map(|key| number(key).1);
        assert!(given.iter().any(Option::is_some), "{given:?}");
        assert_eq!(held.1, kept, "it is still used");
        assert_eq!(number("d"), held);
    }

    #[test]
    fn many_keys_take_bounded_memory() {
        let mut numbers = Remembered::<str>::new(64);
        for number in 0..10_000 {
            let (_, _) = numbers.number(&*number.to_string(), || Some(number));
            assert!(numbers.by_key.len() <= 64);
        }
    }
}
