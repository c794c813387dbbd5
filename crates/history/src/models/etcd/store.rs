//! The store: all versions of all keys, and changes that can be taken back.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::bytes::Bytes;
use crate::model::digest;
use crate::op::{Item, Keys};

/// A key at a revision.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    /// The value. None if it was removed.
    pub value: Option<Bytes>,
    /// The revision at which the key was made.
    pub create: u64,
    /// The revision of this version.
    pub modified: u64,
    /// How often it was stored since.
    pub version: u64,
    /// Its lease, or 0.
    pub lease: u64,
}

impl Version {
    /// Whether an answer has it so.
    pub fn is(&self, item: &Item) -> bool {
        self.value.as_ref() == Some(&item.value)
            && self.create == item.create
            && self.modified == item.modified
            && self.version == item.version
            && self.lease == item.lease
    }
}

/// A lease that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// How long it lives, in nanoseconds.
    pub ttl_ns: u64,
    /// It does not end by itself before.
    pub ends_from: u64,
    /// Its keys.
    pub keys: BTreeSet<Bytes>,
}

/// All of it.
#[derive(Clone, Debug)]
pub struct Store {
    /// The last revision.
    pub revision: u64,
    /// What lies before is forgotten.
    pub compacted: u64,
    /// Versions of each key by revision.
    pub keys: BTreeMap<Bytes, Vec<Version>>,
    /// Leases by number.
    pub leases: BTreeMap<u64, Lease>,
    /// The digest of all changes, one after the other.
    changes: u128,
    /// The digest of leases, in any order.
    lives: u128,
}

/// How a change is taken back.
#[derive(Debug)]
pub struct Undo {
    revision: u64,
    compacted: u64,
    changes: u128,
    /// Keys that have a version more.
    stored: Vec<Bytes>,
    /// Leases as they were, the last change last.
    leases: Vec<(u64, Option<Lease>)>,
}

impl Store {
    /// A store without keys.
    pub fn new(revision: u64) -> Store {
        Store {
            revision,
            compacted: 0,
            keys: BTreeMap::new(),
            leases: BTreeMap::new(),
            changes: 0,
            lives: 0,
        }
    }

    /// A number for all of it.
    pub fn digest(&self) -> u128 {
        digest(&(self.changes, self.lives, self.compacted))
    }

    /// The version of a key that was the last one at a revision.
    pub fn at(versions: &[Version], revision: u64) -> Option<&Version> {
        let after = versions.partition_point(|version| version.modified <= revision);
        let last = versions[..after].last()?;
        last.value.is_some().then_some(last)
    }

    /// The present version of a key.
    pub fn now(&self, key: &Bytes) -> Option<&Version> {
        self.keys.get(key)?.last().filter(|version| version.value.is_some())
    }

    /// Keys that there are, or have been.
    pub fn range<'a>(
        &'a self,
        keys: &'a Keys,
    ) -> impl Iterator<Item = (&'a Bytes, &'a Vec<Version>)> {
        let from = Bound::Included(&keys.key);
        let to = match &keys.end {
            None => Bound::Included(&keys.key),
            Some(end) if end.as_slice().is_empty() => Bound::Unbounded,
            // An end that is not behind the begin: nothing.
            Some(end) if *end <= keys.key => Bound::Excluded(&keys.key),
            Some(end) => Bound::Excluded(end),
        };
        let is_empty = matches!(to, Bound::Excluded(end) if *end <= keys.key);
        let all = (!is_empty).then(|| self.keys.range::<Bytes, _>((from, to)));
        all.into_iter().flatten()
    }

    /// Begins a change.
    pub fn undo(&self) -> Undo {
        Undo {
            revision: self.revision,
            compacted: self.compacted,
            changes: self.changes,
            stored: Vec::new(),
            leases: Vec::new(),
        }
    }

    /// Stores a value, at the revision after that at which the change began.
    pub fn put(&mut self, key: &Bytes, value: &Bytes, lease: u64, undo: &mut Undo) {
        let modified = undo.revision + 1;
        let before = self.now(key).map(|last| (last.create, last.version));
        let (create, version) = before.unwrap_or((modified, 0));
        let value = Some(value.clone());
        self.store(key, Version { value, create, modified, version: version + 1, lease }, undo);
    }

    /// Removes a key that is there.
    pub fn delete(&mut self, key: &Bytes, undo: &mut Undo) {
        let modified = undo.revision + 1;
        let version = Version { value: None, create: 0, modified, version: 0, lease: 0 };
        self.store(key, version, undo);
    }

    fn store(&mut self, key: &Bytes, version: Version, undo: &mut Undo) {
        let (old, new) = (self.now(key).map_or(0, |last| last.lease), version.lease);
        self.revision = version.modified;
        self.changes = digest(&(self.changes, key, &version));
        match self.keys.get_mut(key) {
            Some(versions) => versions.push(version),
            None => drop(self.keys.insert(key.clone(), vec![version])),
        }
        undo.stored.push(key.clone());
        if old != new {
            self.change_lease(old, undo, |lease| {
                lease.keys.remove(key);
            });
            self.change_lease(new, undo, |lease| {
                lease.keys.insert(key.clone());
            });
        }
    }

    /// Forgets what lies before a revision: nobody may read it any more.
    pub fn compact(&mut self, revision: u64) {
        self.compacted = revision;
    }

    /// Changes a lease, if it is there.
    pub fn change_lease(&mut self, number: u64, undo: &mut Undo, change: impl FnOnce(&mut Lease)) {
        if let Some(before) = self.leases.get(&number).cloned() {
            let mut after = before;
            change(&mut after);
            self.set_lease(number, Some(after), undo);
        }
    }

    /// Makes, replaces or ends a lease.
    pub fn set_lease(&mut self, number: u64, lease: Option<Lease>, undo: &mut Undo) {
        let before = self.exchange_lease(number, lease);
        undo.leases.push((number, before));
    }

    fn exchange_lease(&mut self, number: u64, lease: Option<Lease>) -> Option<Lease> {
        let share = |lease: &Lease| digest(&(number, lease.ttl_ns, lease.ends_from));
        self.lives ^= lease.as_ref().map_or(0, share);
        let before = match lease {
            Some(lease) => self.leases.insert(number, lease),
            None => self.leases.remove(&number),
        };
        self.lives ^= before.as_ref().map_or(0, share);
        before
    }

    /// Takes the last change back.
    pub fn take_back(&mut self, undo: Undo) {
        let Undo { revision, compacted, changes, stored, leases } = undo;
        for key in stored {
            let is_last = self.keys.get_mut(&key).is_some_and(|versions| {
                versions.pop();
                versions.is_empty()
            });
            if is_last {
                self.keys.remove(&key);
            }
        }
        for (number, lease) in leases.into_iter().rev() {
            self.exchange_lease(number, lease);
        }
        (self.revision, self.compacted, self.changes) = (revision, compacted, changes);
    }
}

impl Undo {
    /// Keys that were changed. One may be there twice.
    pub fn stored(&self) -> &[Bytes] {
        &self.stored
    }
}
