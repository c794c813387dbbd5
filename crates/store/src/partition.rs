//! A partition, as its owner sees it: what is there, and reading it.
//!
//! Parts of its behaviour are in modules of their own: `change` (writes), `chain` (slots of
//! buckets), `clean` (a store's log), `transaction` (locks). All of them are methods of
//! [`Partition`], which alone writes a partition's [`Memory`].

use std::sync::Arc;

use arrayvec::ArrayVec;

use crate::hash::{KeyHash, Secret};
use crate::item::{Header, Item, Key, KeyError};
use crate::locks::Locks;
use crate::memory::Memory;
use crate::reader::Reader;
use crate::ring::Ring;
use crate::segments::Segments;
use crate::sizes::{Mode, Sizes};
use crate::slot::Slot;

/// Keys that are begun between the fetch of a key's bucket and that of its entry, and between that
/// and its reading (K14).
const FETCH_STEPS: usize = 8;
/// Items that are written anew at a batch's end, at most (K3).
const KEPT_PER_BATCH: usize = 64;

/// The log of a partition.
#[derive(Debug)]
pub(crate) enum Log {
    Cache(Ring),
    Store(Segments),
}

/// Where an item is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    /// The bucket and the slot that lead to it.
    pub line: usize,
    pub slot: usize,
    pub place: usize,
    pub header: Header,
}

/// An item that is read often, and would go soon.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub line: usize,
    pub slot: usize,
    pub leads_to: Slot,
}

/// What a partition has done, and what is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionStats {
    /// Items. Of a cache, those that have been overwritten count until that is noticed.
    pub items: u64,
    /// Items that have expired, as far as that was noticed.
    pub expired: u64,
    /// Items that a cache has forgotten, as far as that was noticed.
    pub forgotten: u64,
    /// Items that were written anew, as they were read often (K3).
    pub kept: u64,
    /// Bytes that cleaning has moved.
    pub moved_bytes: u64,
}

/// A partition of a table: what its owner has. It does nothing by itself, and starts no threads.
///
/// Times are milliseconds of one clock of the caller's, which does not go back; an earlier one
/// counts as the latest seen (K7). In a cache, [`Partition::end_batch`] is called when a batch of
/// operations has ended.
#[derive(Debug)]
pub struct Partition {
    pub(crate) memory: Arc<Memory>,
    pub(crate) secret: Secret,
    pub(crate) sizes: Sizes,
    pub(crate) log: Log,
    /// Overflow buckets that no chain has.
    pub(crate) overflow: Vec<usize>,
    pub(crate) now_ms: u64,
    pub(crate) next_stamp: u64,
    /// How far stamps of a partition are apart, so that no other gives the same.
    stamp_step: u64,
    pub(crate) kept: ArrayVec<Kept, KEPT_PER_BATCH>,
    pub(crate) locks: Locks,
    pub(crate) stats: PartitionStats,
    /// Counts what may have changed other slots than the operation's own.
    pub(crate) moves: u64,
}

impl Partition {
    pub(crate) fn new(sizes: &Sizes, secret: Secret, number: u16, of: u16) -> Partition {
        let memory = Arc::new(Memory::new(sizes));
        let mains = sizes.buckets as usize;
        let log = match sizes.mode {
            Mode::Cache => Log::Cache(Ring::new(memory.log_words())),
            Mode::Store => Log::Store(Segments::new(sizes)),
        };
        Partition {
            secret,
            sizes: *sizes,
            log,
            overflow: (mains..memory.lines()).rev().collect(),
            memory,
            now_ms: 0,
            next_stamp: u64::from(number) + 1,
            stamp_step: of.into(),
            kept: ArrayVec::new(),
            locks: Locks::new(sizes.locks_max),
            stats: PartitionStats::default(),
            moves: 0,
        }
    }

    /// A key, for this partition and others of its table.
    ///
    /// # Errors
    /// If it is empty or too long (K1).
    #[inline]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Result<Key<'k>, KeyError> {
        Key::new(bytes, |bytes| self.secret.hash(bytes))
    }

    /// A key again, from its bytes and the hash that it had: of these very bytes, in this table.
    /// With another hash, the key is one of which the table knows nothing.
    ///
    /// # Errors
    /// If it is empty or too long (K1).
    #[inline]
    pub fn hashed_key<'k>(&self, bytes: &'k [u8], hash: KeyHash) -> Result<Key<'k>, KeyError> {
        Key::new(bytes, |_| hash)
    }

    /// For other threads, which may read beside the owner (K13).
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader::new(self.memory.clone(), self.secret, &self.sizes)
    }

    /// What it has done, and what is in it.
    #[must_use]
    pub fn stats(&self) -> PartitionStats {
        self.stats
    }

    /// Bytes of all items that always have room: of a store, what K4 promises; of a cache, its
    /// log.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        match &self.log {
            Log::Cache(_) => 8 * self.memory.log_words() as u64,
            Log::Store(segments) => 8 * segments.capacity_words(),
        }
    }

    /// Bytes of all items of a store; of a cache, which forgets silently, nothing.
    #[must_use]
    pub fn items_bytes(&self) -> Option<u64> {
        match &self.log {
            Log::Cache(_) => None,
            Log::Store(segments) => Some(8 * segments.live_words()),
        }
    }

    /// The longest value, in bytes.
    #[must_use]
    pub fn value_bytes_max(&self) -> usize {
        self.sizes.value_bytes_max as usize
    }

    /// Asks for a key's bucket, so that it is near when it is read. Nothing changes.
    #[inline]
    pub fn prefetch_bucket(&self, key: KeyHash) {
        self.memory.prefetch_line(key.bucket(self.sizes.buckets));
    }

    /// Asks for the entries that may be the key's. Its bucket should be near by now.
    #[inline]
    pub fn prefetch_entry(&self, key: KeyHash) {
        let bucket = self.memory.bucket(key.bucket(self.sizes.buckets));
        for (_, slot) in bucket.with_tag(key.tag()) {
            self.memory.prefetch_words(slot.place());
        }
    }

    /// The item of a key, if it has one.
    #[inline]
    pub fn get(&mut self, now_ms: u64, key: &Key<'_>) -> Option<Item<'_>> {
        self.tell_time(now_ms);
        let spot = self.look(key, false)?;
        self.keep(&spot);
        Some(Item::new(&self.memory, spot.place, spot.header))
    }

    /// The items of many keys: `visit` is called for each in turn, with its number. Their cache
    /// misses overlap (K14).
    #[inline]
    pub fn get_many(
        &mut self,
        now_ms: u64,
        keys: &[Key<'_>],
        mut visit: impl FnMut(usize, Option<Item<'_>>),
    ) {
        // Key by key, each some steps after the one before: what is computed for one key is done
        // while memory answers for others.
        for step in 0..keys.len() + 2 * FETCH_STEPS {
            if let Some(key) = keys.get(step) {
                self.prefetch_bucket(key.hash);
            }
            if let Some(key) = step.checked_sub(FETCH_STEPS).and_then(|number| keys.get(number)) {
                self.prefetch_entry(key.hash);
            }
            if let Some(number) = step.checked_sub(2 * FETCH_STEPS) {
                visit(number, self.get(now_ms, &keys[number]));
            }
        }
    }

    /// The version of a key's bucket, which every change of the key increases (K5).
    #[must_use]
    pub fn version(&self, key: &Key<'_>) -> u64 {
        self.memory.state(self.bucket(key)).version()
    }

    #[inline]
    pub(crate) fn bucket(&self, key: &Key<'_>) -> usize {
        key.hash.bucket(self.sizes.buckets)
    }

    #[inline]
    pub(crate) fn tell_time(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
    }

    pub(crate) fn take_stamp(&mut self) -> u64 {
        let stamp = self.next_stamp;
        self.next_stamp += self.stamp_step;
        stamp
    }

    /// Finds a key's item. One that has expired or was overwritten is noticed, and gone (K5), if
    /// nobody has locked its bucket, or who has it looks.
    #[inline]
    pub(crate) fn look(&mut self, key: &Key<'_>, is_holder: bool) -> Option<Spot> {
        let Some(spot) = self.find(key) else {
            if let Log::Cache(_) = self.log {
                self.forget_stale(key);
            }
            return None;
        };
        if spot.header.is_expired(self.now_ms) {
            let bucket = self.bucket(key);
            if is_holder || !self.memory.state(bucket).is_locked() {
                self.expire(bucket, &spot);
            }
            return None;
        }
        Some(spot)
    }

    /// Where a key's item is.
    #[inline]
    pub(crate) fn find(&self, key: &Key<'_>) -> Option<Spot> {
        let tag = key.hash.tag();
        let mut line = self.bucket(key);
        loop {
            let bucket = self.memory.bucket(line);
            for (slot, leads_to) in bucket.with_tag(tag) {
                if self.is_live(leads_to)
                    && let Some(spot) = self.spot(line, slot, leads_to.place())
                    && spot.header.has_key(&self.memory, spot.place, key.bytes)
                {
                    return Some(spot);
                }
            }
            line = bucket.next()?;
        }
    }

    #[inline]
    pub(crate) fn spot(&self, line: usize, slot: usize, place: usize) -> Option<Spot> {
        let header = Header::read(&self.memory, place)?;
        Some(Spot { line, slot, place, header })
    }

    #[inline]
    pub(crate) fn is_live(&self, slot: Slot) -> bool {
        match &self.log {
            Log::Cache(ring) => ring.end().is_live(slot),
            Log::Store(_) => true,
        }
    }

    /// Notes an item that is read and would go soon, for the batch's end (K3).
    #[inline]
    fn keep(&mut self, spot: &Spot) {
        if let Log::Cache(ring) = &self.log {
            let Spot { line, slot, .. } = *spot;
            let leads_to = self.memory.slot(line, slot);
            if ring.is_old(leads_to) {
                // A batch with more has enough to do.
                let _ = self.kept.try_push(Kept { line, slot, leads_to });
            }
        }
    }
}
