//! An item in the log (K11): a header of three words, the key and the value, each padded with
//! zeros to whole words.

use crate::bytes::Writer;
use crate::hash::KeyHash;
use crate::memory::Memory;

/// Bytes of the longest key (K1).
pub const KEY_BYTES_MAX: usize = 1024;
/// Bytes of the longest value (K1).
pub const VALUE_BYTES_MAX: usize = 1 << 20;

const HEADER_WORDS: usize = 3;
/// Words of the shortest item.
pub(crate) const ITEM_WORDS_LEAST: usize = HEADER_WORDS + 1;

/// Words of an item with a key and a value of these lengths.
pub(crate) const fn words_of(key_bytes: u64, value_bytes: u64) -> u64 {
    HEADER_WORDS as u64 + key_bytes.div_ceil(8) + value_bytes.div_ceil(8)
}

/// A key that has an allowed length, with its hash. It is for partitions of the table that made
/// it; another table finds nothing by it, or puts it where it is not found again.
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    pub(crate) bytes: &'k [u8],
    pub(crate) hash: KeyHash,
}

impl<'k> Key<'k> {
    /// A key, if its length is allowed: before that, nothing looks at its bytes (K1).
    #[inline]
    pub(crate) fn new(
        bytes: &'k [u8],
        hash: impl FnOnce(&[u8]) -> KeyHash,
    ) -> Result<Key<'k>, KeyError> {
        match bytes.len() {
            1..=KEY_BYTES_MAX => Ok(Key { bytes, hash: hash(bytes) }),
            other => Err(KeyError(other)),
        }
    }

    /// The key itself.
    #[must_use]
    pub fn bytes(&self) -> &'k [u8] {
        self.bytes
    }

    /// Its hash, to make the key again of the same bytes ([`crate::Partition::hashed_key`]).
    #[must_use]
    #[inline]
    pub fn hash(&self) -> KeyHash {
        self.hash
    }
}

/// Why bytes are no key (K1): the caller's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key has 1 to 1024 bytes, not {0}")]
pub struct KeyError(pub usize);

/// What an item says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub stamp: u64,
    /// 0 for none.
    pub expiry_ms: u64,
    pub value_bytes: u32,
    pub key_bytes: u16,
    pub flags: u16,
}

impl Header {
    /// The header of an item that begins there. Nothing, if what lies there is none that fits into
    /// the log: a reader may look while the owner writes.
    #[inline]
    pub fn read(memory: &Memory, at: usize) -> Option<Header> {
        if at + HEADER_WORDS > memory.log_words() {
            return None;
        }
        let (stamp, expiry_ms) = (memory.word(at), memory.word(at + 1));
        let lengths = memory.word(at + 2);
        let (value_bytes, key_bytes) = (lengths as u32, (lengths >> 32) as u16);
        let header =
            Header { stamp, expiry_ms, value_bytes, key_bytes, flags: (lengths >> 48) as u16 };
        (at + header.words() <= memory.log_words()).then_some(header)
    }

    pub fn write(&self, memory: &Memory, at: usize) {
        let lengths = u64::from(self.value_bytes)
            | u64::from(self.key_bytes) << 32
            | u64::from(self.flags) << 48;
        let words = [self.stamp, self.expiry_ms, lengths];
        words.into_iter().enumerate().for_each(|(word, bits)| memory.set_word(at + word, bits));
    }

    /// Words of the whole item.
    #[inline]
    pub fn words(&self) -> usize {
        words_of(self.key_bytes.into(), self.value_bytes.into()) as usize
    }

    /// K7.
    #[inline]
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expiry_ms != 0 && self.expiry_ms <= now_ms
    }

    /// Whether the item that begins there has this key.
    #[inline]
    pub fn has_key(&self, memory: &Memory, at: usize, key: &[u8]) -> bool {
        if usize::from(self.key_bytes) != key.len() {
            return false;
        }
        memory.has_bytes(at + HEADER_WORDS, key)
    }

    /// The key of the item that begins there, in these bytes.
    pub fn key<'b>(
        &self,
        memory: &Memory,
        at: usize,
        bytes: &'b mut [u8; KEY_BYTES_MAX],
    ) -> &'b [u8] {
        let key = &mut bytes[..usize::from(self.key_bytes)];
        memory.copy_out(at + HEADER_WORDS, key);
        key
    }

    /// Where the value of the item that begins there begins.
    pub fn value_at(&self, at: usize) -> usize {
        at + HEADER_WORDS + usize::from(self.key_bytes).div_ceil(8)
    }

    /// Writes what is before the value, and says what goes on behind it.
    pub fn begin<'m>(&self, memory: &'m Memory, at: usize, key: &[u8]) -> Writer<'m> {
        self.write(memory, at);
        let mut writer = Writer::new(memory, at + HEADER_WORDS);
        writer.push(key);
        writer.finish();
        Writer::new(memory, self.value_at(at))
    }
}

/// An item of a partition, as its owner sees it. Nothing changes while it is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Item<'t> {
    memory: &'t Memory,
    at: usize,
    header: Header,
}

impl<'t> Item<'t> {
    pub(crate) fn new(memory: &'t Memory, at: usize, header: Header) -> Item<'t> {
        Item { memory, at, header }
    }

    /// Bytes of the value.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        self.header.value_bytes as usize
    }

    /// The number of the write that made it (K6).
    #[must_use]
    pub fn stamp(&self) -> u64 {
        self.header.stamp
    }

    /// When it expires, by the table's clock, in milliseconds (K7).
    #[must_use]
    pub fn expiry_ms(&self) -> Option<u64> {
        Some(self.header.expiry_ms).filter(|expiry| *expiry != 0)
    }

    /// Whatever its writer has set.
    #[must_use]
    pub fn flags(&self) -> u16 {
        self.header.flags
    }

    /// Copies the value.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn copy_to(&self, bytes: &mut [u8]) {
        assert_eq!(bytes.len(), self.value_bytes(), "the value fits exactly");
        self.memory.copy_out(self.header.value_at(self.at), bytes);
    }

    /// The value, in memory of its own.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.value_bytes()];
        self.copy_to(&mut bytes);
        bytes
    }
}
