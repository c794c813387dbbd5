//! The store: keys with their histories, leases, and what has changed when.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use super::history::{History, VERSION_OVERHEAD_BYTES, Version};
use super::leases::{Lease, Leases};
use super::operation::{End, Keys};
use super::result::Refusal;
use crate::bytes::push_u64;
use crate::frozen_map::FrozenMap;
use crate::state::hash;

/// What a lease takes, in what is counted.
pub(super) const LEASE_BYTES: usize = 128;
/// The most keys that are deleted by one revision.
pub(super) const DELETED_MAX: usize = 1 << 16;
/// The most bytes of keys that are deleted by one revision.
pub(super) const DELETED_BYTES_MAX: usize = 8 << 20;
/// So many changes are cleaned away for each entry at most, or those of one revision.
const CLEANED_MAX: usize = 4096;
/// So many leases end with each entry at most.
const ENDED_MAX: usize = 256;

pub(super) type Key = Arc<[u8]>;

/// What is still to be written of a snapshot, besides keys that it has not come to.
#[derive(Default)]
pub(super) struct FrozenRest {
    /// The revision, those that were compacted and cleaned, and the clock.
    pub numbers: Option<[u64; 4]>,
    /// Leases' numbers, times to live, and deadlines.
    pub leases: VecDeque<(i64, i64, u64)>,
    /// A key, and how many of its versions are written.
    pub key: Option<(Key, Arc<History>, usize)>,
}

/// Keys and values with their revisions: etcd's store (`docs/spec/replication.md`, QR22).
pub struct Etcd {
    pub(super) keys: FrozenMap<Key, History>,
    pub(super) leases: Leases,
    /// What has changed after `cleaned`: a revision's which-th change is of which key.
    pub(super) log: BTreeMap<(i64, u32), Key>,
    pub(super) revision: i64,
    pub(super) compacted: i64,
    /// What was overwritten up to here, and compacted, is gone.
    pub(super) cleaned: i64,
    pub(super) now_ms: u64,
    pub(super) bytes: usize,
    pub(super) bytes_max: usize,
    pub(super) digest: u128,
    pub(super) frozen: FrozenRest,
}

fn digest_of(key: &[u8], version: &Version) -> u128 {
    let mut bytes = Vec::with_capacity(key.len() + 64);
    crate::bytes::push_short(&mut bytes, key);
    version.encode(&mut bytes);
    hash(&bytes)
}

pub(super) fn digest_of_lease(id: i64, ttl_s: i64, deadline_ms: u64) -> u128 {
    let mut bytes = Vec::with_capacity(24);
    let numbers = [id.cast_unsigned(), ttl_s.cast_unsigned(), deadline_ms];
    numbers.iter().for_each(|number| push_u64(&mut bytes, *number));
    hash(&bytes)
}

/// The bounds of a range, which is empty if it ends before it begins.
pub(super) fn bounds<'a>(keys: &Keys<'a>) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    let from = Bound::Included(keys.from);
    match keys.end {
        End::Single => (from, Bound::Included(keys.from)),
        End::Before(end) => (from, Bound::Excluded(end.max(keys.from))),
        End::Last => (from, Bound::Unbounded),
    }
}

impl Etcd {
    /// An empty store, whose versions take at most so many bytes: of each, key and value, and 64
    /// more.
    pub fn new(bytes_max: usize) -> Etcd {
        Etcd {
            keys: FrozenMap::new(),
            leases: Leases::default(),
            log: BTreeMap::new(),
            revision: 1,
            compacted: 0,
            cleaned: 0,
            now_ms: 0,
            bytes: 0,
            bytes_max,
            digest: 0,
            frozen: Default::default(),
        }
    }

    /// The revision of the last change; 1 before the first one.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// A version is added.
    pub(super) fn count(&mut self, key: &[u8], version: &Version) {
        self.bytes += version.bytes(key);
        self.digest = self.digest.wrapping_add(digest_of(key, version));
    }

    fn uncount(&mut self, key: &[u8], version: &Version) {
        self.bytes -= version.bytes(key);
        self.digest = self.digest.wrapping_sub(digest_of(key, version));
    }

    /// Gives a key its next version.
    pub(super) fn add(&mut self, key: &[u8], version: Version) {
        self.count(key, &version);
        let (shared, old_lease) =
            match self.keys.range(Bound::Included(key), Bound::Included(key)).next() {
                Some((shared, history)) => {
                    (shared.clone(), history.now().map_or(0, |now| now.lease))
                }
                None => (Key::from(key), 0),
            };
        self.leases.move_key(&shared, old_lease, version.lease);
        self.log.insert((version.modified, version.position), shared.clone());
        match self.keys.edit(key) {
            Some(history) => history.push(version),
            None => {
                let mut history = History::default();
                history.push(version);
                self.keys.insert(shared, history);
            }
        }
    }

    /// Stores a value, as the which-th change of a revision.
    pub(super) fn put(
        &mut self,
        revision: i64,
        position: u32,
        key: &[u8],
        value: Arc<[u8]>,
        lease: i64,
    ) {
        let now = self.keys.get(key).and_then(|history| history.now());
        let (created, number) = now.map_or((revision, 1), |now| (now.created, now.number + 1));
        let value = Some(value);
        self.add(key, Version { modified: revision, position, created, number, lease, value });
    }

    /// Deletes a key, as the which-th change of a revision.
    pub(super) fn delete(&mut self, revision: i64, position: u32, key: &[u8]) {
        let (modified, created, number, lease, value) = (revision, 0, 0, 0, None);
        self.add(key, Version { modified, position, created, number, lease, value });
    }

    /// Keys that are there now.
    pub(super) fn live<'a>(
        &'a self,
        keys: &Keys<'_>,
    ) -> impl Iterator<Item = (&'a Key, &'a Version)> {
        let (from, until) = bounds(keys);
        let all = self.keys.range(from, until);
        all.filter_map(|(key, history)| Some((key, history.now()?)))
    }

    /// Forgets what was before a revision, bit by bit from now on.
    pub(super) fn compact(&mut self, revision: i64) -> Result<(), Refusal> {
        if revision <= self.compacted {
            return Err(Refusal::Compacted);
        }
        if revision > self.revision {
            return Err(Refusal::FutureRevision);
        }
        self.compacted = revision;
        Ok(())
    }

    /// Whether what was compacted is not all gone.
    pub(super) fn is_cleaning(&self) -> bool {
        self.log.first_key_value().is_some_and(|((revision, _), _)| *revision < self.compacted)
    }

    /// Cleans some away, by whole revisions. What was written by the compacted revision itself
    /// stays, so that a watch may begin there.
    pub(super) fn clean(&mut self) {
        let mut cleaned = 0;
        while let Some((&(revision, _), _)) = self.log.first_key_value() {
            let is_of_another = revision > self.cleaned;
            if revision >= self.compacted || (is_of_another && cleaned >= CLEANED_MAX) {
                return;
            }
            self.cleaned = revision;
            let (_, key) = self.log.pop_first().expect("it is there");
            self.clean_key(&key);
            cleaned += 1;
        }
    }

    fn clean_key(&mut self, key: &[u8]) {
        let compacted = self.compacted;
        let Some(history) = self.keys.edit(key) else { return };
        let gone = history.compact(compacted);
        if history.is_empty() {
            self.keys.remove(key);
        }
        gone.iter().for_each(|version| self.uncount(key, version));
    }

    /// A new lease, and its time to live.
    pub(super) fn grant(&mut self, id: i64, ttl_s: i64, hint: i64) -> Result<(i64, i64), Refusal> {
        if self.bytes + LEASE_BYTES > self.bytes_max {
            return Err(Refusal::NoSpace);
        }
        let (id, ttl_s) = self.leases.grant(self.now_ms, id, ttl_s, hint)?;
        self.count_lease(id);
        Ok((id, ttl_s))
    }

    pub(super) fn count_lease(&mut self, id: i64) {
        let Some(Lease { ttl_s, deadline_ms, .. }) = self.leases.get(id) else { return };
        self.digest = self.digest.wrapping_add(digest_of_lease(id, *ttl_s, *deadline_ms));
        self.bytes += LEASE_BYTES;
    }

    /// Renews a lease, and says its time to live; 0 if it has ended.
    pub(super) fn keep_alive(&mut self, id: i64) -> i64 {
        let Some((ttl_s, old_ms)) = self.leases.renew(self.now_ms, id) else { return 0 };
        self.digest = self.digest.wrapping_sub(digest_of_lease(id, ttl_s, old_ms));
        self.bytes -= LEASE_BYTES;
        self.count_lease(id);
        ttl_s
    }

    /// Ends a lease, and deletes its keys: by one revision, or by more if they are many.
    pub(super) fn revoke(&mut self, id: i64) -> Result<(), Refusal> {
        let Some(Lease { ttl_s, deadline_ms, keys }) = self.leases.remove(id) else {
            return Err(Refusal::LeaseNotFound);
        };
        self.digest = self.digest.wrapping_sub(digest_of_lease(id, ttl_s, deadline_ms));
        self.bytes -= LEASE_BYTES;
        let (mut position, mut bytes) = (0, 0);
        for key in keys {
            if position == 0 || position as usize >= DELETED_MAX || bytes > DELETED_BYTES_MAX {
                self.revision += 1;
                (position, bytes) = (0, 0);
            }
            self.delete(self.revision, position, &key);
            position += 1;
            bytes += key.len();
        }
        Ok(())
    }

    /// Ends leases whose time is up.
    pub(super) fn end_leases(&mut self) {
        for _ in 0..ENDED_MAX {
            let Some(id) = self.leases.ended(self.now_ms) else { return };
            self.revoke(id).expect("it is there");
        }
    }

    /// Whether so many more bytes of versions fit.
    pub(super) fn fits(&self, bytes: usize) -> bool {
        self.bytes + bytes <= self.bytes_max
    }
}

/// What a version of these lengths takes.
pub(super) fn version_bytes(key: usize, value: usize) -> usize {
    VERSION_OVERHEAD_BYTES + key + value
}
