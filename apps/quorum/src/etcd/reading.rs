//! Answers to queries.

use super::command::push_i64;
use super::query::{ANSWER_BYTES, EtcdQuery, EventsQuery, LOOKED_AT_MAX, RangeQuery, SizeAnswer};
use super::result::Refusal;
use super::store::{Etcd, Key, bounds};
use crate::bytes::{push_short, push_u64};
use crate::machine::StateMachine;

/// What changes' previous values may take in one answer, in bytes. Beyond that they are left out.
const PREVIOUS_BYTES_MAX: usize = 8 << 20;

impl Etcd {
    pub(super) fn answer(&self, query: &EtcdQuery<'_>, to: &mut Vec<u8>) -> Result<(), Refusal> {
        match query {
            EtcdQuery::Range(range) => self.answer_range(range, to),
            EtcdQuery::Events(events) => self.answer_events(events, to),
            EtcdQuery::Lease { id, wants_keys } => {
                self.answer_lease(*id, *wants_keys, to);
                Ok(())
            }
            EtcdQuery::Leases(from) => {
                let ids = self.leases.from(*from).take(LOOKED_AT_MAX);
                ids.for_each(|(id, _)| push_i64(to, id));
                Ok(())
            }
            EtcdQuery::Size => {
                let answer = SizeAnswer {
                    bytes: self.bytes as u64,
                    bytes_max: self.bytes_max as u64,
                    keys: self.keys.len() as u64,
                    compacted: self.compacted,
                    digest: self.digest(),
                };
                answer.encode(to);
                Ok(())
            }
        }
    }

    fn answer_range(&self, range: &RangeQuery<'_>, to: &mut Vec<u8>) -> Result<(), Refusal> {
        let revision = if range.revision > 0 { range.revision } else { self.revision };
        if revision > self.revision {
            return Err(Refusal::FutureRevision);
        }
        if revision < self.compacted {
            return Err(Refusal::Compacted);
        }
        let (mut items, mut found, mut count) = (Vec::new(), 0, 0_u64);
        let mut next: Option<&Key> = None;
        let (from, until) = bounds(&range.keys);
        for (looked_at, (key, history)) in self.keys.range(from, until).enumerate() {
            if looked_at >= LOOKED_AT_MAX || items.len() >= ANSWER_BYTES {
                next = Some(key);
                break;
            }
            let Some(version) = history.at(revision) else { continue };
            count += 1;
            if found < range.limit {
                version.push_item(&mut items, key, !range.keys_only);
                found += 1;
            }
        }
        push_i64(to, revision);
        push_u64(to, count);
        to.push(u8::from(next.is_some()));
        push_short(to, next.map_or(&[], |key| &**key));
        to.extend_from_slice(&items);
        Ok(())
    }

    fn answer_events(&self, query: &EventsQuery<'_>, to: &mut Vec<u8>) -> Result<(), Refusal> {
        if query.from < self.compacted {
            return Err(Refusal::Compacted);
        }
        let head = to.len();
        push_i64(to, self.revision);
        let (mut last, mut previous_bytes) = (None, 0);
        let changes = self.log.range((query.from, 0)..);
        for (looked_at, ((revision, _), key)) in changes.enumerate() {
            let is_whole = last.is_some_and(|last| last < *revision);
            if is_whole && (looked_at >= LOOKED_AT_MAX || to.len() >= ANSWER_BYTES) {
                // Up to the revision before this one, all is there.
                to[head..head + 8].copy_from_slice(&(revision - 1).to_le_bytes());
                break;
            }
            last = Some(*revision);
            if !query.keys.contains(key) {
                continue;
            }
            let history = self.keys.get(key).expect("what has changed is kept");
            let (version, before) = history.change(*revision).expect("what has changed is kept");
            let before = before.filter(|_| query.wants_previous);
            previous_bytes += before.map_or(0, |before| before.bytes(key));
            let before = before.filter(|_| previous_bytes <= PREVIOUS_BYTES_MAX);
            to.push(u8::from(version.value.is_none()) | u8::from(before.is_some()) << 1);
            version.push_item(to, key, true);
            if let Some(before) = before {
                before.push_item(to, key, true);
            }
        }
        Ok(())
    }

    fn answer_lease(&self, id: i64, wants_keys: bool, to: &mut Vec<u8>) {
        let Some(lease) = self.leases.get(id) else { return };
        push_i64(to, lease.ttl_s);
        push_u64(to, lease.deadline_ms.saturating_sub(self.now_ms));
        let mut keys = lease.keys.iter().filter(|_| wants_keys);
        let end = to.len() + PREVIOUS_BYTES_MAX;
        // Of a lease that has very many, not all are told.
        while let Some(key) = keys.next().filter(|_| to.len() < end) {
            push_short(to, key);
        }
    }
}
