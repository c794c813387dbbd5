//! What anybody has seen of each revision.

use std::collections::{BTreeMap, HashMap};

use crate::bytes::Bytes;
use crate::models::etcd::store::Store;
use crate::op::{Event, Item, Keys};

/// What a watch has seen: all changes of its keys from one revision to another.
#[derive(Debug)]
pub struct Window<'h> {
    /// Its place in the history's list of calls.
    pub index: usize,
    /// Its keys.
    pub keys: Keys,
    /// The first revision.
    pub from: u64,
    /// The last one.
    pub to: u64,
    /// Changes by revision.
    pub events: BTreeMap<u64, Vec<&'h Event>>,
}

/// All of it.
#[derive(Debug, Default)]
pub struct Facts<'h> {
    /// The last revision that anybody has seen. A call whose outcome is unknown has no need to
    /// make a later one.
    pub last: u64,
    /// The calls that were answered with the revision of their own write.
    pub writers: HashMap<u64, usize>,
    /// Items as they were read, by the revision that has stored them.
    pub items: HashMap<u64, Vec<&'h Item>>,
    /// What watches have seen.
    pub windows: Vec<Window<'h>>,
}

impl<'h> Facts<'h> {
    /// A revision is there.
    pub fn revision(&mut self, revision: u64) {
        self.last = self.last.max(revision);
    }

    /// An item was read.
    pub fn item(&mut self, item: &'h Item) {
        self.revision(item.modified);
        let same = self.items.entry(item.modified).or_default();
        // Most items are read again and again.
        if same.last() != Some(&item) {
            same.push(item);
        }
    }

    /// Whether a call may make a revision. `is_open`: its outcome is unknown.
    pub fn may_write(&self, call: usize, revision: u64, is_open: bool) -> bool {
        match self.writers.get(&revision) {
            Some(writer) => *writer == call && !is_open,
            None => !is_open || revision <= self.last,
        }
    }

    /// Whether the store's last revision, which has changed these keys, is as it was seen.
    pub fn fit(&self, store: &Store, stored: &[Bytes]) -> bool {
        let revision = store.revision;
        let has = |item: &&Item| {
            let now = store.now(&item.key);
            now.is_some_and(|version| version.is(item))
        };
        let items = self.items.get(&revision);
        items.is_none_or(|items| items.iter().all(has))
            && self.windows.iter().all(|window| window.fits(store, stored))
    }
}

impl Window<'_> {
    /// Whether the store's last revision, which has changed these keys, is as it was seen.
    pub fn fits(&self, store: &Store, stored: &[Bytes]) -> bool {
        if store.revision < self.from || store.revision > self.to {
            return true;
        }
        let none = Vec::new();
        let events = self.events.get(&store.revision).unwrap_or(&none);
        let was_seen = |key: &Bytes| events.iter().any(|event| event.key() == key);
        let was_done = |event: &&Event| match event {
            Event::Put(item) => store.now(&item.key).is_some_and(|version| version.is(item)),
            Event::Delete { key, .. } => stored.contains(key) && store.now(key).is_none(),
        };
        events.iter().all(was_done) && stored.iter().all(|key| !self.keys.has(key) || was_seen(key))
    }
}
