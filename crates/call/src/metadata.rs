//! Metadata of messages: keys with ASCII or binary values, in order.

use std::fmt;

/// Keys with values, in the order in which they were appended; a key may occur more than once.
///
/// It is one word long, and owns no memory when empty. Keys and values are always valid by R9: keys
/// are `[0-9a-z_.-]+` of at most 255 bytes, and do not begin with `grpc-` except
/// [`PREVIOUS_ATTEMPTS`] and [`RETRY_PUSHBACK`]. Values have at most 65,535 bytes, each from 0x20
/// to 0x7e unless the key ends in `-bin`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Metadata(Option<Box<MetadataMap>>);

/// Entries as on the wire, so that writing a tail is little more than a copy: length of the key (1
/// byte), length of the value (2 bytes), key, value.
#[derive(Clone, Default, PartialEq, Eq)]
struct MetadataMap {
    bytes: Vec<u8>,
    entries: usize,
}

/// When a response's metadata are sent (R9). A request has only initial ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataKind {
    /// Before the first message.
    Initial,
    /// With the status.
    Trailing,
}

/// An invalid key or value: the application's fault. The metadata were not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// The key is empty, too long, or contains other bytes than `0-9a-z_.-`.
    #[error("a key must be [0-9a-z_.-]+ of at most 255 bytes")]
    Key,
    /// The key begins with `grpc-`, and is neither of the two keys about retries.
    #[error("keys that begin with grpc- are reserved")]
    Reserved,
    /// The key is for binary values and the value is text, or the other way round.
    #[error("keys of binary values end in -bin, others do not")]
    Kind,
    /// The value is too long, or contains bytes outside 0x20 to 0x7e.
    #[error("a value must be printable ASCII, or binary, of at most 65535 bytes")]
    Value,
}

/// The number of earlier attempts of a call. Each request but the first has it, as a decimal number
/// (gRFC A6).
pub const PREVIOUS_ATTEMPTS: &str = "grpc-previous-rpc-attempts";

/// A server's request about the next attempt, sent with a status: milliseconds to wait, or a
/// negative number for no attempt (gRFC A6).
pub const RETRY_PUSHBACK: &str = "grpc-retry-pushback-ms";

const BINARY: &str = "-bin";
const LENGTHS_BYTES: usize = 3;

impl Metadata {
    /// Metadata without entries.
    pub const fn new() -> Metadata {
        Metadata(None)
    }

    /// The number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |map| map.entries)
    }

    /// Whether there are no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an entry with a value of printable ASCII, after those with the same key.
    ///
    /// # Errors
    /// See [`MetadataError`].
    pub fn append(&mut self, key: &str, value: &str) -> Result<(), MetadataError> {
        if key.ends_with(BINARY) {
            return Err(MetadataError::Kind);
        }
        self.append_bytes(key.as_bytes(), value.as_bytes())
    }

    /// Adds an entry with a binary value; the key must end in `-bin`.
    ///
    /// # Errors
    /// See [`MetadataError`].
    pub fn append_bin(&mut self, key: &str, value: &[u8]) -> Result<(), MetadataError> {
        if !key.ends_with(BINARY) {
            return Err(MetadataError::Kind);
        }
        self.append_bytes(key.as_bytes(), value)
    }

    /// Adds an entry that a peer has sent. The key determines whether the value is binary.
    ///
    /// # Errors
    /// See [`MetadataError`].
    pub fn append_bytes(&mut self, key: &[u8], value: &[u8]) -> Result<(), MetadataError> {
        let key_bytes = check_key(key)?;
        let binary = key.ends_with(BINARY.as_bytes());
        let printable = binary || value.iter().all(|byte| (0x20..=0x7e).contains(byte));
        let value_bytes = u16::try_from(value.len()).ok().filter(|_| printable);
        let value_bytes = value_bytes.ok_or(MetadataError::Value)?;
        let map = self.0.get_or_insert_default();
        map.bytes.reserve(LENGTHS_BYTES + key.len() + value.len());
        map.bytes.push(key_bytes);
        map.bytes.extend_from_slice(&value_bytes.to_le_bytes());
        map.bytes.extend_from_slice(key);
        map.bytes.extend_from_slice(value);
        map.entries += 1;
        Ok(())
    }

    /// All entries, in order. Values are ASCII unless the key ends in `-bin`.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.entries().map(|entry| (entry.key, entry.value))
    }

    /// The first text value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.get_all(key).next()
    }

    /// The text values of `key`, in order.
    pub fn get_all(&self, key: &str) -> impl Iterator<Item = &str> {
        let text = if key.ends_with(BINARY) { "" } else { key };
        self.values(text).map(|value| {
            std::str::from_utf8(value).expect("values of text keys are ASCII, checked on entry")
        })
    }

    /// The first value of `key`, which must end in `-bin`.
    pub fn get_bin(&self, key: &str) -> Option<&[u8]> {
        self.get_all_bin(key).next()
    }

    /// The values of `key`, in order; it must end in `-bin`.
    pub fn get_all_bin(&self, key: &str) -> impl Iterator<Item = &[u8]> {
        self.values(if key.ends_with(BINARY) { key } else { "" })
    }

    /// Removes all entries with `key`, and returns how many there were.
    pub fn remove(&mut self, key: &str) -> usize {
        let mut kept = MetadataMap::default();
        for entry in self.entries().filter(|entry| entry.key != key) {
            kept.bytes.extend_from_slice(entry.bytes);
            kept.entries += 1;
        }
        let removed = self.len() - kept.entries;
        if removed > 0 {
            self.0 = (kept.entries > 0).then(|| Box::new(kept));
        }
        removed
    }

    /// The length of the entries in a tail, in bytes (R9).
    pub(crate) fn tail_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |map| map.bytes.len() + map.entries)
    }

    /// Each entry as in a tail, without its kind: lengths, key, value.
    pub(crate) fn encoded(&self) -> impl Iterator<Item = &[u8]> {
        self.entries().map(|entry| entry.bytes)
    }

    fn values(&self, key: &str) -> impl Iterator<Item = &[u8]> {
        self.entries().filter(move |entry| entry.key == key).map(|entry| entry.value)
    }

    fn entries(&self) -> Entries<'_> {
        Entries(self.0.as_ref().map_or(&[], |map| &map.bytes))
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.iter().map(|(key, value)| (key, value.escape_ascii().to_string()));
        f.debug_map().entries(shown).finish()
    }
}

fn check_key(key: &[u8]) -> Result<u8, MetadataError> {
    let allowed = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'z' | b'_' | b'.' | b'-');
    if key.is_empty() || !key.iter().all(allowed) {
        return Err(MetadataError::Key);
    }
    let is_of_retries = [PREVIOUS_ATTEMPTS, RETRY_PUSHBACK].iter().any(|it| it.as_bytes() == key);
    if key.starts_with(b"grpc-") && !is_of_retries {
        return Err(MetadataError::Reserved);
    }
    u8::try_from(key.len()).map_err(|_| MetadataError::Key)
}

struct Entry<'a> {
    bytes: &'a [u8],
    key: &'a str,
    value: &'a [u8],
}

struct Entries<'a>(&'a [u8]);

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let ([key_bytes, low, high], rest) = self.0.split_first_chunk::<LENGTHS_BYTES>()?;
        let (key, rest) = rest.split_at(usize::from(*key_bytes));
        let (value, rest) = rest.split_at(usize::from(u16::from_le_bytes([*low, *high])));
        let bytes = &self.0[..self.0.len() - rest.len()];
        self.0 = rest;
        let key = std::str::from_utf8(key).expect("keys are ASCII, checked on entry");
        Some(Entry { bytes, key, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r9_keys_and_values_are_checked_on_entry() {
        let mut metadata = Metadata::new();
        for key in ["", "A", "a b", "ä", "a:b", &"k".repeat(256)] {
            assert_eq!(metadata.append(key, "v"), Err(MetadataError::Key), "{key}");
        }
        assert_eq!(metadata.append("grpc-timeout", "v"), Err(MetadataError::Reserved));
        for key in [PREVIOUS_ATTEMPTS, RETRY_PUSHBACK] {
            assert_eq!(metadata.append(key, "1"), Ok(()));
            assert_eq!(metadata.remove(key), 1);
        }
        assert_eq!(metadata.append("k-bin", "v"), Err(MetadataError::Kind));
        assert_eq!(metadata.append_bin("k", b"v"), Err(MetadataError::Kind));
        for value in ["\n", "\u{7f}", "ü", &"v".repeat(65_536)] {
            assert_eq!(metadata.append("k", value), Err(MetadataError::Value));
        }
        assert_eq!(metadata.append_bin("k-bin", &[0; 65_536]), Err(MetadataError::Value));
        assert!(metadata.is_empty());
        metadata.append(&"k".repeat(255), &"~ ".repeat(32_767)).unwrap();
        metadata.append("0-9_a.z", "").unwrap();
        metadata.append_bin("k-bin", &[0, 0xff]).unwrap();
        assert_eq!(metadata.len(), 3);
    }

    #[test]
    fn r9_equal_keys_keep_their_order() {
        let mut metadata = Metadata::new();
        for (key, value) in [("a", "1"), ("b", "2"), ("a", "3"), ("c", "4")] {
            metadata.append(key, value).unwrap();
        }
        metadata.append_bin("a-bin", b"5").unwrap();
        assert_eq!(metadata.get_all("a").collect::<Vec<_>>(), ["1", "3"]);
        assert_eq!((metadata.get("c"), metadata.get("d")), (Some("4"), None));
        assert_eq!((metadata.get("a-bin"), metadata.get_bin("a")), (None, None));
        assert_eq!(metadata.get_bin("a-bin"), Some(&b"5"[..]));
        assert_eq!(metadata.remove("a"), 2);
        let left: Vec<_> = metadata.iter().collect();
        assert_eq!(left, [("b", &b"2"[..]), ("c", b"4"), ("a-bin", b"5")]);
        assert_eq!((metadata.remove("a"), metadata.len()), (0, 3));
    }

    #[test]
    fn empty_metadata_are_one_word_and_own_nothing() {
        assert_eq!(size_of::<Metadata>(), size_of::<usize>());
        let mut metadata = Metadata::new();
        metadata.append("a", "b").unwrap();
        metadata.remove("a");
        assert_eq!(metadata, Metadata::new());
    }
}
