//! Reading beside the owner (K13).

use std::sync::Arc;

use crate::hash::Secret;
use crate::item::{Header, Key, KeyError};
use crate::memory::Memory;
use crate::ring::End;
use crate::sizes::{Mode, Sizes};
use crate::slot::Slot;

/// How often a reader begins before it gives up. The model checker tries all orders of few.
const ATTEMPTS: usize = if cfg!(loom) { 2 } else { 64 };
/// Buckets of a chain that a reader looks at in an attempt: none is longer, unless it is changing.
const CHAIN_MAX: usize = 64;

/// Reads a partition beside its owner, from any thread. It changes nothing, so it keeps nothing in
/// a cache.
#[derive(Clone, Debug)]
pub struct Reader {
    memory: Arc<Memory>,
    secret: Secret,
    buckets: u32,
    value_bytes_max: usize,
    is_cache: bool,
}

/// What a reader found; the value is in the caller's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadItem {
    /// The number of the write that made it (K6).
    pub stamp: u64,
    /// When it expires, by the table's clock, in milliseconds.
    pub expiry_ms: Option<u64>,
    /// Whatever its writer has set.
    pub flags: u16,
    /// The version of its bucket (K5).
    pub version: u64,
}

/// The owner has changed the key's bucket again and again meanwhile: ask it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key's bucket has changed whenever it was read: ask its owner")]
pub struct Busy;

/// What an attempt has read, before it is validated.
struct Read {
    found: Option<Header>,
    /// Slots whose items were looked at.
    looked_at: Looked,
}

/// Slots of a cache that an attempt has relied on: up to a bucket's.
#[derive(Default)]
struct Looked {
    slots: arrayvec::ArrayVec<Slot, { crate::memory::SLOTS }>,
}

impl Reader {
    pub(crate) fn new(memory: Arc<Memory>, secret: Secret, sizes: &Sizes) -> Reader {
        let value_bytes_max = sizes.value_bytes_max as usize;
        let is_cache = sizes.mode == Mode::Cache;
        Reader { memory, secret, buckets: sizes.buckets, value_bytes_max, is_cache }
    }

    /// A key, for this partition and others of its table.
    ///
    /// # Errors
    /// If it is empty or too long (K1).
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Result<Key<'k>, KeyError> {
        Key::new(bytes, |bytes| self.secret.hash(bytes))
    }

    /// The item of a key, if it has one; its value replaces what is in `value`.
    ///
    /// # Errors
    /// If the owner has changed the key's bucket in each of 64 attempts.
    pub fn get(
        &self,
        now_ms: u64,
        key: &Key<'_>,
        value: &mut Vec<u8>,
    ) -> Result<Option<ReadItem>, Busy> {
        for _ in 0..ATTEMPTS {
            if let Some(read) = self.attempt(key, value) {
                return Ok(read.filter(|item| item.expiry_ms.is_none_or(|then| then > now_ms)));
            }
            core::hint::spin_loop();
        }
        Err(Busy)
    }

    /// Nothing, if what was read is not valid.
    fn attempt(&self, key: &Key<'_>, value: &mut Vec<u8>) -> Option<Option<ReadItem>> {
        let bucket = key.hash.bucket(self.buckets);
        let mark = self.memory.mark();
        let before = self.memory.state(bucket);
        if before.is_changing() {
            return None;
        }
        let read = self.read(bucket, mark, key, value)?;
        self.memory.end_read();
        let is_same = self.memory.state(bucket).version() == before.version();
        if !is_same || !self.is_intact(mark, &read.looked_at) {
            return None;
        }
        let item = |header: Header| ReadItem {
            stamp: header.stamp,
            expiry_ms: Some(header.expiry_ms).filter(|expiry| *expiry != 0),
            flags: header.flags,
            version: before.version(),
        };
        Some(read.found.map(item))
    }

    /// Whether nothing that was looked at has been overwritten meanwhile.
    fn is_intact(&self, mark: u64, looked_at: &Looked) -> bool {
        let then = self.memory.mark();
        match self.is_cache {
            true => looked_at.slots.iter().all(|slot| End::from_bits(then).is_live(*slot)),
            false => then == mark,
        }
    }

    /// Looks for the key. Nothing, if a chain is too long to be one.
    fn read(&self, bucket: usize, mark: u64, key: &Key<'_>, value: &mut Vec<u8>) -> Option<Read> {
        let (mut line, tag) = (bucket, key.hash.tag());
        let mut looked_at = Looked::default();
        for _ in 0..CHAIN_MAX {
            let bucket = self.memory.bucket(line);
            for (_, slot) in bucket.with_tag(tag) {
                if self.is_cache {
                    if !End::from_bits(mark).is_live(slot) {
                        continue;
                    }
                    looked_at.slots.push(slot);
                }
                if let Some(header) = self.read_item(slot.place(), key, value) {
                    return Some(Read { found: Some(header), looked_at });
                }
            }
            let Some(next) = bucket.next() else {
                return Some(Read { found: None, looked_at });
            };
            line = Some(next).filter(|next| *next < self.memory.lines())?;
        }
        None
    }

    /// Copies the value of the item there, if it has the key. All of it may be nonsense.
    fn read_item(&self, at: usize, key: &Key<'_>, value: &mut Vec<u8>) -> Option<Header> {
        let header = Header::read(&self.memory, at)?;
        let bytes = header.value_bytes as usize;
        if bytes > self.value_bytes_max || !header.has_key(&self.memory, at, key.bytes) {
            return None;
        }
        value.clear();
        value.resize(bytes, 0);
        self.memory.copy_out(header.value_at(at), value);
        Some(header)
    }
}
