//! What is so now, and what has changed since a reader last looked.
//!
//! A reader keeps one number, whatever has changed: it is told what is newest of each entry. An
//! entry that is gone is kept until it is set again, so that all readers hear of it.

use std::collections::BTreeMap;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct ChangeLog<K, V> {
    /// Each with its latest change; `None`: it is gone.
    entries: BTreeMap<K, (u64, Option<V>)>,
    /// The entry of each latest change.
    changes: BTreeMap<u64, K>,
    version: u64,
}

impl<K: Copy + Ord, V> ChangeLog<K, V> {
    pub(crate) fn new() -> ChangeLog<K, V> {
        ChangeLog { entries: BTreeMap::new(), changes: BTreeMap::new(), version: 0 }
    }

    /// The number of the newest change.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Sets an entry, or notes that it is gone.
    pub(crate) fn set(&mut self, key: K, value: Option<V>) {
        if let Some((before, _)) = self.entries.get(&key) {
            self.changes.remove(before);
        }
        self.version += 1;
        self.changes.insert(self.version, key);
        self.entries.insert(key, (self.version, value));
    }

    /// What has changed since `version`, in the order of the changes.
    pub(crate) fn since(&self, version: u64) -> impl Iterator<Item = (u64, K, Option<&V>)> {
        self.changes.range(version + 1..).map(|(version, key)| {
            let (_, value) = &self.entries[key];
            (*version, *key, value.as_ref())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(log: &ChangeLog<u32, char>, version: u64) -> Vec<(u32, Option<char>)> {
        log.since(version).map(|(_, key, value)| (key, value.copied())).collect()
    }

    #[test]
    fn a_reader_hears_the_newest_of_each_entry_once() {
        let mut log = ChangeLog::new();
        log.set(1, Some('a'));
        log.set(2, Some('b'));
        log.set(1, Some('c'));
        assert_eq!(since(&log, 0), [(2, Some('b')), (1, Some('c'))]);
        let read = log.version();
        assert_eq!(since(&log, read), []);
        log.set(2, None);
        log.set(3, Some('d'));
        assert_eq!(since(&log, read), [(2, None), (3, Some('d'))]);
        log.set(2, Some('e'));
        assert_eq!(since(&log, read), [(3, Some('d')), (2, Some('e'))]);
        assert_eq!(since(&log, 0), [(1, Some('c')), (3, Some('d')), (2, Some('e'))]);
    }
}
