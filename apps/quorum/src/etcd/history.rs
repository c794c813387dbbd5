//! What has become of one key.

use std::sync::Arc;

use petasos_base::ByteReader;

use super::command::{push_i64, read_i64};
use crate::bytes::{push_long, push_short};

/// What a version takes besides key and value, in what is counted.
pub(super) const VERSION_OVERHEAD_BYTES: usize = 64;

/// What a key was from a revision on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    /// The revision that wrote it.
    pub modified: i64,
    /// The which-th change of that revision it is.
    pub position: u32,
    /// The revision that created the key; 0 if it is deleted.
    pub created: i64,
    /// How often the key was written since; 0 if it is deleted.
    pub number: i64,
    /// Its lease; 0 for none.
    pub lease: i64,
    /// Its value; [`None`] if it is deleted.
    pub value: Option<Arc<[u8]>>,
}

impl Version {
    /// What it takes, with its key.
    pub fn bytes(&self, key: &[u8]) -> usize {
        VERSION_OVERHEAD_BYTES + key.len() + self.value.as_ref().map_or(0, |value| value.len())
    }

    /// Writes it: its numbers, whether it is deleted (1), its value.
    pub fn encode(&self, to: &mut Vec<u8>) {
        push_i64(to, self.modified);
        to.extend_from_slice(&self.position.to_le_bytes());
        [self.created, self.number, self.lease].iter().for_each(|number| push_i64(to, *number));
        to.push(u8::from(self.value.is_none()));
        push_long(to, self.value.as_deref().unwrap_or_default());
    }

    /// Reads one, from bytes that nobody vouches for.
    pub fn read(bytes: &mut ByteReader<'_>) -> Option<Version> {
        let (modified, position) = (read_i64(bytes)?, bytes.u32()?);
        let (created, number) = (read_i64(bytes)?, read_i64(bytes)?);
        let lease = read_i64(bytes)?;
        let (is_deleted, value) = (bytes.u8()?, bytes.long()?);
        let value = (is_deleted == 0).then(|| value.into());
        Some(Version { modified, position, created, number, lease, value })
    }

    /// The version as results have it: key, the revisions that created and wrote it, its number,
    /// its lease, its value.
    pub fn push_item(&self, to: &mut Vec<u8>, key: &[u8], has_value: bool) {
        push_short(to, key);
        let numbers = [self.created, self.modified, self.number, self.lease];
        numbers.iter().for_each(|number| push_i64(to, *number));
        push_long(to, self.value.as_deref().filter(|_| has_value).unwrap_or_default());
    }
}

/// A key's versions that are kept, in the order of their revisions.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    versions: Vec<Version>,
}

impl History {
    /// All that are kept.
    pub fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.versions.is_empty()
    }

    /// Adds a version, which has to be later than all.
    pub fn push(&mut self, version: Version) {
        debug_assert!(self.versions.last().is_none_or(|last| last.modified < version.modified));
        self.versions.push(version);
    }

    /// The key as of a revision, unless it was not there.
    pub fn at(&self, revision: i64) -> Option<&Version> {
        let after = self.versions.partition_point(|version| version.modified <= revision);
        self.versions[..after].last().filter(|version| version.value.is_some())
    }

    /// The key now, unless it is not there.
    pub fn now(&self) -> Option<&Version> {
        self.versions.last().filter(|version| version.value.is_some())
    }

    /// The change of a revision, with what was there before as far as it is kept.
    pub fn change(&self, revision: i64) -> Option<(&Version, Option<&Version>)> {
        let at = self.versions.binary_search_by_key(&revision, |version| version.modified).ok()?;
        let before = self.versions[..at].last().filter(|version| version.value.is_some());
        Some((&self.versions[at], before))
    }

    /// Forgets what nobody may ask for any more: versions that were overwritten up to `compacted`,
    /// and a deletion before it. Gives what is forgotten.
    pub fn compact(&mut self, compacted: i64) -> Vec<Version> {
        let after = self.versions.partition_point(|version| version.modified <= compacted);
        let Some(last) = self.versions[..after].last() else { return Vec::new() };
        let is_gone = last.value.is_none() && last.modified < compacted;
        let kept_from = if is_gone { after } else { after - 1 };
        self.versions.drain(..kept_from).collect()
    }
}
