//! Steps of the store, as the search takes them.

use crate::model::{Model, Step};
use crate::models::etcd::facts::Facts;
use crate::models::etcd::ops::{perform, revoke};
use crate::models::etcd::store::{Store, Undo};
use crate::op::{Op, Reply};

/// A store, and what was seen of it.
#[derive(Debug)]
pub struct Etcd<'h> {
    /// The revision before the first call.
    pub revision: u64,
    /// What was seen.
    pub facts: Facts<'h>,
}

/// A call, or what happens without one.
#[derive(Clone, Debug)]
pub struct EtcdCall<'h> {
    /// Its place in the history's list of calls.
    pub index: usize,
    /// When it began.
    pub called_at: u64,
    /// What it is.
    pub what: What<'h>,
}

/// What happens.
#[derive(Clone, Debug)]
pub enum What<'h> {
    /// An operation, with its answer if that is known.
    Op(&'h Op, Option<&'h Reply>),
    /// A lease ends by itself.
    Expiry(u64),
    /// A watch was told of a revision: it was there.
    Sight(u64),
}

impl<'h> Model for Etcd<'h> {
    type Call = EtcdCall<'h>;
    type State = Store;
    type Undo = Undo;

    fn start(&self) -> Store {
        Store::new(self.revision)
    }

    fn apply(&self, store: &mut Store, call: &EtcdCall<'h>, until: u64) -> Option<Step<Undo>> {
        let before = store.digest();
        let mut undo = store.undo();
        let (fits, is_open) = match &call.what {
            What::Sight(revision) => (store.revision >= *revision, false),
            What::Expiry(lease) => {
                let is_due = store.leases.get(lease).is_some_and(|lease| lease.ends_from <= until);
                if is_due {
                    revoke(store, *lease, &mut undo);
                }
                (is_due, true)
            }
            What::Op(op, reply) => {
                if !self.may(store, call.index, op, *reply) {
                    return None;
                }
                (perform(store, op, call.called_at, *reply, &mut undo), reply.is_none())
            }
        };
        let fits = fits
            && has_its_revision(store, call)
            && (undo.stored().is_empty()
                || self.facts.may_write(call.index, store.revision, is_open)
                    && self.facts.fit(store, undo.stored()));
        if !fits {
            store.take_back(undo);
            return None;
        }
        Some(Step { undo, changes: store.digest() != before })
    }

    fn is_read(&self, call: &EtcdCall<'h>) -> bool {
        match &call.what {
            What::Sight(_) => true,
            What::Expiry(_) | What::Op(_, None) => false,
            What::Op(op, Some(reply)) => !changes(op, reply),
        }
    }

    fn repeats(&self, call: &EtcdCall<'h>) -> bool {
        matches!(call.what, What::Expiry(_))
    }

    fn undo(&self, store: &mut Store, undo: Undo) {
        store.take_back(undo);
    }

    fn digest(&self, store: &Store) -> u128 {
        store.digest()
    }

    fn describe(&self, store: &Store) -> String {
        let keys = store.keys.keys().filter(|key| store.now(key).is_some()).count();
        let leases = store.leases.len();
        format!("revision {}, {keys} keys, {leases} leases", store.revision)
    }
}

impl Etcd<'_> {
    /// What can be said without doing it: most calls that do not fit are found here.
    fn may(&self, store: &Store, index: usize, op: &Op, reply: Option<&Reply>) -> bool {
        let next = store.revision + 1;
        match (op, reply) {
            (Op::Put { .. }, Some(Reply { error: None, .. })) => {
                reply.and_then(|reply| reply.revision) == Some(next)
            }
            (Op::Put { .. }, None) => self.facts.may_write(index, next, true),
            _ => true,
        }
    }
}

/// Whether an answer says that something was, or may have been changed.
fn changes(op: &Op, reply: &Reply) -> bool {
    match op {
        _ if reply.error.is_some() => false,
        Op::Grant { .. } | Op::Revoke { .. } | Op::Compact { .. } => true,
        Op::KeepAlive { .. } => reply.alive == Some(true),
        _ => has_written(op, reply),
    }
}

/// Whether an answer says that the call has made its revision.
pub fn has_written(op: &Op, reply: &Reply) -> bool {
    let parts = reply.parts.as_deref().unwrap_or_default();
    match op {
        _ if reply.error.is_some() => false,
        Op::Put { .. } => true,
        Op::DeleteRange { .. } => reply.deleted.is_some_and(|deleted| deleted > 0),
        Op::Txn { then, otherwise, .. } => {
            let ops = if reply.succeeded == Some(true) { then } else { otherwise };
            ops.iter().zip(parts).any(|(op, part)| has_written(op, part))
        }
        _ => false,
    }
}

/// Whether the store is at the revision that a call was answered with.
fn has_its_revision(store: &Store, call: &EtcdCall<'_>) -> bool {
    match call.what {
        What::Op(Op::Range { stale: true, .. }, _) => true,
        What::Op(
            Op::Put { .. } | Op::DeleteRange { .. } | Op::Txn { .. } | Op::Range { .. },
            Some(Reply { revision: Some(revision), .. }),
        ) => *revision == store.revision,
        _ => true,
    }
}
