//! Leases, with which keys go (QR12).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::result::Refusal;

/// The most leases.
pub const LEASES_MAX: usize = 1 << 16;
/// The shortest time to live, in seconds: shorter ones become this.
pub const TTL_MIN_S: i64 = 2;
/// The longest one: etcd's.
pub const TTL_MAX_S: i64 = 9_000_000_000;

#[derive(Clone, Debug)]
pub(super) struct Lease {
    pub ttl_s: i64,
    /// When it ends, by the replicated clock.
    pub deadline_ms: u64,
    /// Its keys.
    pub keys: BTreeSet<Arc<[u8]>>,
}

/// All leases.
#[derive(Default)]
pub(super) struct Leases {
    by_id: BTreeMap<i64, Lease>,
    by_deadline: BTreeSet<(u64, i64)>,
}

fn deadline_ms(now_ms: u64, ttl_s: i64) -> u64 {
    now_ms.saturating_add(ttl_s.unsigned_abs().saturating_mul(1000))
}

impl Leases {
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    pub fn get(&self, id: i64) -> Option<&Lease> {
        self.by_id.get(&id)
    }

    /// Leases from a number on.
    pub fn from(&self, id: i64) -> impl Iterator<Item = (i64, &Lease)> {
        self.by_id.range(id..).map(|(id, lease)| (*id, lease))
    }

    /// A new lease. Its number, or a free one from `hint` on, and its time to live.
    pub fn grant(
        &mut self,
        now_ms: u64,
        id: i64,
        ttl_s: i64,
        hint: i64,
    ) -> Result<(i64, i64), Refusal> {
        if ttl_s > TTL_MAX_S {
            return Err(Refusal::TtlTooLarge);
        }
        if self.by_id.len() >= LEASES_MAX {
            return Err(Refusal::NoSpace);
        }
        let id = if id == 0 { self.free_id(hint) } else { id };
        if self.by_id.contains_key(&id) {
            return Err(Refusal::LeaseExists);
        }
        let ttl_s = ttl_s.max(TTL_MIN_S);
        self.restore(id, ttl_s, deadline_ms(now_ms, ttl_s));
        Ok((id, ttl_s))
    }

    fn free_id(&self, hint: i64) -> i64 {
        let mut id = hint.max(1);
        while self.by_id.contains_key(&id) {
            id = id.checked_add(1).unwrap_or(1);
        }
        id
    }

    /// A lease of a snapshot.
    pub fn restore(&mut self, id: i64, ttl_s: i64, deadline_ms: u64) {
        self.by_id.insert(id, Lease { ttl_s, deadline_ms, keys: BTreeSet::new() });
        self.by_deadline.insert((deadline_ms, id));
    }

    /// Renews a lease, and says for how many seconds. Also returned is when it would have ended.
    pub fn renew(&mut self, now_ms: u64, id: i64) -> Option<(i64, u64)> {
        let lease = self.by_id.get_mut(&id)?;
        let old_ms = lease.deadline_ms;
        lease.deadline_ms = deadline_ms(now_ms, lease.ttl_s);
        self.by_deadline.remove(&(old_ms, id));
        self.by_deadline.insert((lease.deadline_ms, id));
        Some((lease.ttl_s, old_ms))
    }

    pub fn remove(&mut self, id: i64) -> Option<Lease> {
        let lease = self.by_id.remove(&id)?;
        self.by_deadline.remove(&(lease.deadline_ms, id));
        Some(lease)
    }

    /// A lease that has ended by now.
    pub fn ended(&self, now_ms: u64) -> Option<i64> {
        self.by_deadline.first().filter(|(deadline_ms, _)| *deadline_ms <= now_ms).map(|one| one.1)
    }

    /// A key's lease is another one now.
    pub fn move_key(&mut self, key: &Arc<[u8]>, old: i64, new: i64) {
        if old == new {
            return;
        }
        if let Some(lease) = self.by_id.get_mut(&old) {
            lease.keys.remove(key);
        }
        if let Some(lease) = self.by_id.get_mut(&new) {
            lease.keys.insert(key.clone());
        }
    }
}
