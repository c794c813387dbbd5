//! Operations on the store, and whether an answer fits.

use crate::bytes::Bytes;
use crate::models::etcd::store::{Lease, Store, Undo, Version};
use crate::op::{Compare, Item, Keys, Op, Operand, Refusal, Relation, Reply};

const NS_PER_MS: u64 = 1_000_000;

/// Does an operation. False if it does not fit its answer, if there is one. `undo` has what was
/// changed then, too.
pub fn perform(
    store: &mut Store,
    op: &Op,
    called_at: u64,
    reply: Option<&Reply>,
    undo: &mut Undo,
) -> bool {
    let refused = |refusal| reply.is_none_or(|reply| reply.error == Some(refusal));
    let is_refused = reply.is_some_and(|reply| reply.error.is_some());
    match op {
        _ if has_unknown_lease(store, op) => refused(Refusal::NoLease),
        Op::Grant { lease, .. } if store.leases.contains_key(lease) => {
            refused(Refusal::LeaseExists)
        }
        Op::Revoke { lease } if !store.leases.contains_key(lease) => refused(Refusal::NoLease),
        Op::Compact { revision } if *revision > store.revision => refused(Refusal::Future),
        Op::Compact { revision } if *revision <= store.compacted => refused(Refusal::Compacted),
        Op::Range { keys, revision, limit, stale } => {
            reply.is_none_or(|reply| reads(store, keys, (*revision, *limit, *stale), reply))
        }
        _ if is_refused => false,
        Op::Put { key, value, lease } => {
            store.put(key, value, *lease, undo);
            true
        }
        Op::DeleteRange { keys } => {
            let deleted = delete(store, keys, undo);
            reply.is_none_or(|reply| reply.deleted == Some(deleted))
        }
        Op::Txn { compare, then, otherwise } => {
            let holds = compare.iter().all(|compare| holds(store, compare));
            let ops = if holds { then } else { otherwise };
            branch(store, ops, holds, reply, undo)
        }
        Op::Grant { lease, ttl_ms } => {
            let ttl_ns = ttl_ms.saturating_mul(NS_PER_MS);
            let ends_from = called_at.saturating_add(ttl_ns);
            let made = Lease { ttl_ns, ends_from, keys: std::collections::BTreeSet::new() };
            store.set_lease(*lease, Some(made), undo);
            true
        }
        Op::Revoke { lease } => {
            revoke(store, *lease, undo);
            true
        }
        Op::KeepAlive { lease } => {
            store.change_lease(*lease, undo, |lease| {
                let ends_from = called_at.saturating_add(lease.ttl_ns);
                lease.ends_from = lease.ends_from.max(ends_from);
            });
            let is_alive = store.leases.contains_key(lease);
            reply.is_none_or(|reply| reply.alive == Some(is_alive))
        }
        Op::Compact { revision } => {
            store.compact(*revision);
            true
        }
        _ => unreachable!("other operations were refused before"),
    }
}

/// Ends a lease, and removes its keys.
pub fn revoke(store: &mut Store, lease: u64, undo: &mut Undo) {
    let keys = store.leases.get(&lease).map(|lease| lease.keys.clone()).unwrap_or_default();
    for key in &keys {
        store.delete(key, undo);
    }
    store.set_lease(lease, None, undo);
}

/// Whether a put names a lease that is not there. Such a transaction is refused as a whole.
fn has_unknown_lease(store: &Store, op: &Op) -> bool {
    match op {
        Op::Put { lease, .. } => *lease != 0 && !store.leases.contains_key(lease),
        Op::Txn { compare, then, otherwise } => {
            let holds = compare.iter().all(|compare| holds(store, compare));
            let ops = if holds { then } else { otherwise };
            ops.iter().any(|op| has_unknown_lease(store, op))
        }
        _ => false,
    }
}

fn branch(
    store: &mut Store,
    ops: &[Op],
    holds: bool,
    reply: Option<&Reply>,
    undo: &mut Undo,
) -> bool {
    let parts = reply.map(|reply| reply.parts.as_deref().unwrap_or_default());
    let fits = reply.is_none_or(|reply| reply.succeeded == Some(holds))
        && parts.is_none_or(|parts| parts.len() == ops.len());
    let part = |index: usize| parts.map(|parts| &parts[index]);
    fits && ops.iter().enumerate().all(|(index, op)| perform(store, op, 0, part(index), undo))
}

fn delete(store: &mut Store, keys: &Keys, undo: &mut Undo) -> u64 {
    let is_there = |(key, _): &(&Bytes, &Vec<Version>)| store.now(key).is_some();
    let keys: Vec<Bytes> = store.range(keys).filter(is_there).map(|(key, _)| key.clone()).collect();
    for key in &keys {
        store.delete(key, undo);
    }
    keys.len() as u64
}

fn holds(store: &Store, compare: &Compare) -> bool {
    let now = store.now(&compare.key);
    let number = |of: fn(&Version) -> u64| now.map_or(0, of);
    let order = match &compare.than {
        Operand::Create(than) => number(|now| now.create).cmp(than),
        Operand::Mod(than) => number(|now| now.modified).cmp(than),
        Operand::Version(than) => number(|now| now.version).cmp(than),
        Operand::Lease(than) => number(|now| now.lease).cmp(than),
        Operand::Value(than) => match now.and_then(|now| now.value.as_ref()) {
            // As in etcd: nothing is true of the value of an absent key, not even that it differs.
            None => return false,
            Some(value) => value.cmp(than),
        },
    };
    match compare.is {
        Relation::Equal => order.is_eq(),
        Relation::NotEqual => order.is_ne(),
        Relation::Less => order.is_lt(),
        Relation::Greater => order.is_gt(),
    }
}

/// Whether a read fits its answer.
fn reads(store: &Store, keys: &Keys, how: (u64, u64, bool), reply: &Reply) -> bool {
    let (revision, limit, is_stale) = how;
    if is_stale && reply.revision.is_none_or(|revision| revision > store.revision) {
        return false;
    }
    // What a stale read does not know of is not there to it. Compaction is no matter of theirs:
    // nobody can say which a replica knew of.
    let now = if is_stale { reply.revision.unwrap_or(0) } else { store.revision };
    match reply.error {
        Some(Refusal::Future) => return revision > now,
        Some(Refusal::Compacted) => return revision != 0 && revision < store.compacted,
        Some(_) => return false,
        None => {}
    }
    if revision > now || (!is_stale && revision != 0 && revision < store.compacted) {
        return false;
    }
    let at = if revision == 0 { now } else { revision };
    let limit = if limit == 0 { usize::MAX } else { usize::try_from(limit).unwrap_or(usize::MAX) };
    let mut found = store
        .range(keys)
        .filter_map(|(key, versions)| Store::at(versions, at).map(|version| (key, version)));
    let answered = reply.items.as_deref().unwrap_or_default();
    let is = |(item, found): (&Item, Option<(&Bytes, &Version)>)| {
        found.is_some_and(|(key, version)| *key == item.key && version.is(item))
    };
    let fits = answered.len() <= limit && answered.iter().all(|item| is((item, found.next())));
    let more = if fits { found.count() } else { 0 };
    let is_all = more == 0 || answered.len() == limit;
    let count = (answered.len() + more) as u64;
    fits && is_all && reply.count.is_none_or(|answered| answered == count)
}
