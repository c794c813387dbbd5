//! From recorded calls to steps of the store.

use std::collections::{BTreeMap, HashSet};

use crate::evidence::{Happening, Mention, Violation};
use crate::history::{Call, History, Outcome};
use crate::misuse::Misuse;
use crate::model::{Part, Timed};
use crate::models::etcd::facts::Facts;
use crate::models::etcd::model::{Etcd, EtcdCall, What, has_written};
use crate::models::etcd::watches::{Sight, Told, told};
use crate::models::parts::{ended_at, mention};
use crate::op::{Op, Reply};

const NS_PER_MS: u64 = 1_000_000;

/// The revision of a store that was never written.
const FIRST_REVISION: u64 = 1;

/// The history's store, and what is wrong with its watches by themselves.
///
/// # Errors
/// If a call is none of such a store.
pub fn part(history: &History) -> Result<(Part<Etcd<'_>>, Vec<Violation>), Misuse> {
    let mut all = Reading {
        facts: Facts::default(),
        calls: Vec::new(),
        violations: Vec::new(),
        expiries: BTreeMap::new(),
    };
    let leases = leases_in_use(history);
    for (index, call) in history.calls.iter().enumerate() {
        validate(call)?;
        match (&call.op, &call.outcome) {
            (Op::Watch { keys, revision }, _) => match told(index, call, keys, *revision) {
                Ok(told) => all.watch(index, told),
                Err(what) => {
                    let calls = vec![index];
                    all.violations.push(Violation::Contradiction { calls, what });
                }
            },
            (_, Outcome::NotDone) => {}
            (op, Outcome::Unknown) if !matters(op, &leases) => {}
            (op, _) => all.call(index, call, op, &leases),
        }
    }
    for (lease, (mention, from)) in std::mem::take(&mut all.expiries) {
        all.push(mention, from, None, What::Expiry(lease));
    }
    let revision = history.header.revision.unwrap_or(FIRST_REVISION);
    let model = Etcd { revision, facts: all.facts };
    Ok((Part { model, calls: all.calls }, all.violations))
}

struct Reading<'h> {
    facts: Facts<'h>,
    calls: Vec<Timed<EtcdCall<'h>>>,
    violations: Vec<Violation>,
    /// When each lease may end by itself for the first time, and a call that has made it.
    expiries: BTreeMap<u64, (Mention, u64)>,
}

impl<'h> Reading<'h> {
    fn push(&mut self, mention: Mention, from: u64, to: Option<u64>, what: What<'h>) {
        let call = EtcdCall { index: mention.call, called_at: from, what };
        self.calls.push(Timed { mention, called_at: from, ended_at: to, call });
    }

    fn watch(&mut self, index: usize, told: Told<'h>) {
        for Sight { revision, at, place } in told.sights {
            self.facts.revision(revision);
            // Revisions stay, so it is there at the latest when it is told of.
            let mention = Mention { call: index, place, what: Happening::Sight };
            self.push(mention, at, Some(at), What::Sight(revision));
        }
        self.facts.windows.extend(told.window);
    }

    fn call(&mut self, index: usize, call: &'h Call, op: &'h Op, leases: &HashSet<u64>) {
        let reply = match &call.outcome {
            Outcome::Ok(_, reply) => Some(&**reply),
            Outcome::NotDone | Outcome::Unknown => None,
        };
        self.push(mention(index, call), call.called_at, ended_at(call), What::Op(op, reply));
        if let Some(reply) = reply {
            self.answer(index, op, reply);
        }
        if let Op::Grant { lease, ttl_ms } = op
            && leases.contains(lease)
            && reply.is_none_or(|reply| reply.error.is_none())
        {
            let from = call.called_at.saturating_add(ttl_ms.saturating_mul(NS_PER_MS));
            let mention = Mention { call: index, place: call.place, what: Happening::Expiry };
            let (_, earliest) = self.expiries.entry(*lease).or_insert((mention, from));
            *earliest = from.min(*earliest);
        }
    }

    fn answer(&mut self, index: usize, op: &Op, reply: &'h Reply) {
        let all = std::iter::once(reply).chain(reply.parts.iter().flatten());
        all.flat_map(|reply| reply.items.iter().flatten()).for_each(|item| self.facts.item(item));
        let is_of_lease = matches!(op, Op::Grant { .. } | Op::Revoke { .. } | Op::KeepAlive { .. });
        let Some(revision) = reply.revision.filter(|_| !is_of_lease) else { return };
        self.facts.revision(revision);
        if has_written(op, reply) {
            self.facts.writers.entry(revision).or_insert(index);
        }
    }
}

/// Whether a call with an unknown outcome may have changed anything that others see.
fn matters(op: &Op, leases: &HashSet<u64>) -> bool {
    match op {
        // One that was kept alive, unseen, ends later; it may end later anyway.
        Op::Range { .. } | Op::KeepAlive { .. } => false,
        Op::Grant { lease, .. } | Op::Revoke { lease } => leases.contains(lease),
        _ => true,
    }
}

/// Leases that keys were given to, or that somebody has asked for.
fn leases_in_use(history: &History) -> HashSet<u64> {
    let mut leases = HashSet::new();
    for call in &history.calls {
        let (then, otherwise): (&[Op], &[Op]) = match &call.op {
            Op::Txn { then, otherwise, .. } => (then, otherwise),
            op => (std::slice::from_ref(op), &[]),
        };
        for op in then.iter().chain(otherwise) {
            match op {
                Op::Put { lease, .. } | Op::Revoke { lease } | Op::KeepAlive { lease } => {
                    leases.insert(*lease);
                }
                _ => {}
            }
        }
    }
    leases
}

/// Whether the model knows the call, and the answer has what is needed.
fn validate(call: &Call) -> Result<(), Misuse> {
    if let Op::Txn { then, otherwise, .. } = &call.op {
        let is_inner = |op: &&Op| {
            matches!(op, Op::Put { .. } | Op::DeleteRange { .. })
                || matches!(op, Op::Range { revision: 0, stale: false, .. })
        };
        if !then.iter().chain(otherwise).all(|op| is_inner(&op)) {
            let what = "only put, delete_range and range, of the present, can be in it";
            return Err(Misuse::of_argument(call, what));
        }
    }
    let Outcome::Ok(_, reply) = &call.outcome else { return known(call, &call.op) };
    answered(call, &call.op, reply)?;
    let needs_revision = matches!(
        call.op,
        Op::Put { .. } | Op::DeleteRange { .. } | Op::Txn { .. } | Op::Range { .. }
    );
    match reply.revision {
        None if needs_revision && reply.error.is_none() => Err(Misuse::of_answer(call, "revision")),
        _ => Ok(()),
    }
}

fn known(call: &Call, op: &Op) -> Result<(), Misuse> {
    match op {
        Op::Put { .. }
        | Op::DeleteRange { .. }
        | Op::Range { .. }
        | Op::Txn { .. }
        | Op::Grant { .. }
        | Op::Revoke { .. }
        | Op::KeepAlive { .. }
        | Op::Compact { .. }
        | Op::Watch { .. } => Ok(()),
        other => Err(Misuse::of_operation(call, other.name(), "etcd")),
    }
}

fn answered(call: &Call, op: &Op, reply: &Reply) -> Result<(), Misuse> {
    known(call, op)?;
    if reply.error.is_some() {
        return Ok(());
    }
    let missing = match op {
        Op::DeleteRange { .. } if reply.deleted.is_none() => "deleted",
        Op::Range { .. } if reply.items.is_none() => "items",
        Op::KeepAlive { .. } if reply.alive.is_none() => "alive",
        Op::Txn { .. } if reply.succeeded.is_none() => "succeeded",
        Op::Txn { .. } if reply.parts.is_none() => "parts",
        Op::Txn { then, otherwise, .. } => {
            let ops = if reply.succeeded == Some(true) { then } else { otherwise };
            let parts = reply.parts.as_deref().unwrap_or_default();
            if ops.len() != parts.len() {
                return Err(Misuse::of_answer(call, "parts, one for each operation"));
            }
            return ops.iter().zip(parts).try_for_each(|(op, part)| answered(call, op, part));
        }
        _ => return Ok(()),
    };
    Err(Misuse::of_answer(call, missing))
}
