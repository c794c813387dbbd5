//! Snapshots of the store (QR21): its numbers, its leases, and keys with their versions.
//!
//! A record is kind (1), and then: revision, compacted and cleaned revisions, and the clock (8
//! each); or a lease's number, time to live and deadline (8 each); or a key and versions, which go
//! on in further records if they are long.

use petasos_base::ByteReader;

use super::command::{KEY_BYTES_MAX, push_i64, read_i64};
use super::history::{History, Version};
use super::leases::LEASES_MAX;
use super::store::{Etcd, FrozenRest, Key};
use crate::bytes::{push_short, push_u64};

const NUMBERS: u8 = 1;
const LEASE: u8 = 2;
const KEY: u8 = 3;

/// A record ends once it has so many bytes.
const RECORD_BYTES: usize = 1 << 20;

impl Etcd {
    pub(super) fn begin_snapshot(&mut self) {
        let revisions = [self.revision, self.compacted, self.cleaned].map(i64::cast_unsigned);
        let [revision, compacted, cleaned] = revisions;
        let leases = self.leases.from(i64::MIN);
        self.frozen = FrozenRest {
            numbers: Some([revision, compacted, cleaned, self.now_ms]),
            leases: leases.map(|(id, lease)| (id, lease.ttl_s, lease.deadline_ms)).collect(),
            key: None,
        };
        self.keys.freeze();
    }

    pub(super) fn next_record(&mut self, record: &mut Vec<u8>) -> bool {
        if let Some(numbers) = self.frozen.numbers.take() {
            record.push(NUMBERS);
            numbers.iter().for_each(|number| push_u64(record, *number));
            return true;
        }
        if let Some((id, ttl_s, deadline_ms)) = self.frozen.leases.pop_front() {
            record.push(LEASE);
            push_i64(record, id);
            push_i64(record, ttl_s);
            push_u64(record, deadline_ms);
            return true;
        }
        let key = self.frozen.key.take();
        let next = || self.keys.next_frozen().map(|(key, history)| (key, history, 0));
        let Some((key, history, mut written)) = key.or_else(next) else { return false };
        record.push(KEY);
        push_short(record, &key);
        while let Some(version) = history.versions().get(written)
            && record.len() < RECORD_BYTES
        {
            version.encode(record);
            written += 1;
        }
        if written < history.versions().len() {
            self.frozen.key = Some((key, history, written));
        }
        true
    }

    pub(super) fn load_record(&mut self, record: &[u8]) -> Option<()> {
        let mut bytes = ByteReader::new(record);
        match bytes.u8()? {
            NUMBERS => {
                let mut number = || read_i64(&mut bytes).filter(|number| *number >= 0);
                (self.revision, self.compacted) = (number()?, number()?);
                self.cleaned = number()?;
                self.now_ms = bytes.u64()?;
                let is_good = self.cleaned <= self.compacted && self.compacted <= self.revision;
                bytes.end(())?;
                is_good.then_some(())
            }
            LEASE => {
                let (id, ttl_s) = (read_i64(&mut bytes)?, read_i64(&mut bytes)?);
                let deadline_ms = bytes.u64()?;
                bytes.end(())?;
                let is_new = self.leases.get(id).is_none() && self.leases.len() < LEASES_MAX;
                is_new.then_some(())?;
                self.leases.restore(id, ttl_s, deadline_ms);
                self.count_lease(id);
                Some(())
            }
            KEY => self.load_key(&mut bytes),
            _ => None,
        }
    }

    fn load_key(&mut self, bytes: &mut ByteReader<'_>) -> Option<()> {
        let key = bytes.short().filter(|key| (1..=KEY_BYTES_MAX).contains(&key.len()))?;
        let is_next = self.keys.last_key().is_none_or(|last| **last <= *key);
        // Deletions may be more than the store may have otherwise.
        (is_next && self.bytes / 2 <= self.bytes_max).then_some(())?;
        let shared = Key::from(key);
        if self.keys.get(key).is_none() {
            self.keys.insert(shared.clone(), History::default());
        }
        while !bytes.is_empty() {
            let version = Version::read(bytes)?;
            let history = self.keys.edit(key)?;
            let last = history.versions().last();
            let is_later = last.is_none_or(|last| last.modified < version.modified);
            (is_later && version.modified <= self.revision).then_some(())?;
            let old_lease = history.now().map_or(0, |now| now.lease);
            history.push(version.clone());
            self.leases.move_key(&shared, old_lease, version.lease);
            self.count(key, &version);
            if version.modified > self.cleaned {
                self.log.insert((version.modified, version.position), shared.clone());
            }
        }
        Some(())
    }
}
