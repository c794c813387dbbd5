//! What the steps before a turn's requests have found out about their keys, for the handler.
//!
//! Steps see the state as it is, and cannot give the handler anything: so they leave it here. An
//! entry is used for a key that has the same bytes, and for no other.

use core::cell::Cell;

use crate::owner::Sought;

/// Requests of a turn that are remembered.
const REMEMBERED: usize = 64;
/// Longer keys are hashed again.
const KEY_BYTES: usize = 32;

/// Keys of a turn's requests, in the order in which they came.
pub(crate) struct Ahead {
    entries: [Cell<Option<Entry>>; REMEMBERED],
    /// How many were pushed in this turn, fetched, and used.
    pushed: Cell<usize>,
    fetched: Cell<usize>,
    used: usize,
}

#[derive(Clone, Copy)]
struct Entry {
    key: [u8; KEY_BYTES],
    key_bytes: u8,
    sought: Sought,
}

impl Default for Ahead {
    fn default() -> Ahead {
        let counts = (Cell::new(0), Cell::new(0));
        let entries = [const { Cell::new(None) }; REMEMBERED];
        Ahead { entries, pushed: counts.0, fetched: counts.1, used: 0 }
    }
}

impl Ahead {
    /// The first step for a request. All requests get one, also those whose keys are elsewhere.
    #[inline]
    pub fn push(&self, key: &[u8], sought: Option<Sought>) {
        let at = self.pushed.replace(self.pushed.get() + 1);
        let entry = sought.filter(|_| key.len() <= KEY_BYTES).map(|sought| {
            let mut bytes = [0; KEY_BYTES];
            bytes[..key.len()].copy_from_slice(key);
            Entry { key: bytes, key_bytes: key.len() as u8, sought }
        });
        self.entries[at % REMEMBERED].set(entry);
    }

    /// The second step for the next request.
    #[inline]
    pub fn fetch(&self) -> Option<Sought> {
        let at = self.fetched.replace(self.fetched.get() + 1);
        self.entries[at % REMEMBERED].get().map(|entry| entry.sought)
    }

    /// What is known of the key of the request that is handled: usually the next one. One that came
    /// without steps, or that is not handled after all, is between two others.
    #[inline]
    pub fn take(&mut self, key: &[u8]) -> Option<Sought> {
        for at in self.used..(self.used + 2).min(self.pushed.get()) {
            if let Some(entry) = self.entries[at % REMEMBERED].get()
                && entry.key[..usize::from(entry.key_bytes)] == *key
            {
                self.used = at + 1;
                return Some(entry.sought);
            }
        }
        None
    }

    /// The turn has ended.
    #[inline]
    pub fn clear(&mut self) {
        (self.used, *self.pushed.get_mut(), *self.fetched.get_mut()) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use petasos_store::{Config, Mode};

    use super::*;
    use crate::owner::Owned;

    fn owned() -> Owned {
        let config = Config::for_items(Mode::Store, 100, 16, 32);
        let mut partitions = config.partitions().expect("there can be such a table");
        Owned::new(vec![(0, partitions.pop().expect("it has one"))], 1)
    }

    fn is_known(ahead: &mut Ahead, key: &[u8]) -> bool {
        ahead.take(key).is_some()
    }

    /// What was found out about a key is used for that key alone.
    #[test]
    fn an_entry_is_its_keys() {
        let (owned, mut ahead) = (owned(), Ahead::default());
        let push = |ahead: &Ahead, key: &[u8]| ahead.push(key, owned.seek(key));
        for key in [&b"a"[..], b"b", b"ab", b"c"] {
            push(&ahead, key);
        }
        assert!(is_known(&mut ahead, b"a"));
        assert!(!is_known(&mut ahead, b"x"), "it came without steps");
        assert!(is_known(&mut ahead, b"b"));
        assert!(is_known(&mut ahead, b"c"), "the one before was not handled");
        assert!(!is_known(&mut ahead, b"c"), "once");
        ahead.clear();
        assert!(!is_known(&mut ahead, b"a"), "the turn has ended");
        // A beginning is another key, and so are longer ones.
        push(&ahead, b"key");
        assert!(!is_known(&mut ahead, b"ke") && !is_known(&mut ahead, b"keys"));
        assert!(is_known(&mut ahead, b"key"));
    }

    #[test]
    fn long_keys_and_many_requests_are_sought_again() {
        let (owned, mut ahead) = (owned(), Ahead::default());
        let long = [7; KEY_BYTES + 1];
        ahead.push(&long, owned.seek(&long));
        assert!(ahead.fetch().is_none() && !is_known(&mut ahead, &long));
        ahead.clear();
        let keys: Vec<_> = (0..100u32).map(u32::to_le_bytes).collect();
        keys.iter().for_each(|key| ahead.push(key, owned.seek(key)));
        assert!((0..100).all(|_| ahead.fetch().is_some()));
        let known = keys.iter().filter(|key| is_known(&mut ahead, &key[..]));
        assert!(known.count() <= REMEMBERED, "later ones have taken the places of earlier ones");
    }
}
