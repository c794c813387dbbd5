//! Transactions: all comparisons first, then checks, then changes, so that what is refused has
//! changed nothing.

use super::command::{KEY_BYTES_MAX, push_i64};
use super::history::Version;
use super::operation::{Compare, Keys, Operation, Put, Range, Relation, Target, Txn};
use super::result::{DELETE, PUT, RANGE, Refusal, TXN};
use super::store::{DELETED_BYTES_MAX, DELETED_MAX, Etcd, Key, bounds, version_bytes};
use crate::bytes::push_u64;

/// The longest result, in bytes. It has to fit into a message with what is around it.
const RESULT_BYTES_MAX: usize = 8 << 20;

/// A transaction of which it is decided which way it goes.
pub(super) struct Decided<'a> {
    succeeded: bool,
    operations: Vec<DecidedOperation<'a>>,
}

enum DecidedOperation<'a> {
    Range(&'a Range<'a>),
    Put(&'a Put<'a>),
    Delete(&'a Keys<'a>, bool),
    Txn(Decided<'a>),
}

/// What a transaction would do, added up.
#[derive(Default)]
struct Sum {
    /// Bytes of new versions.
    added: usize,
    /// Keys that are deleted, and their bytes.
    deleted: (usize, usize),
    /// Bytes of results.
    result: usize,
    /// Bytes of values that are put: what a range may find after them.
    put: usize,
    ranges: usize,
}

/// What a transaction does, while it does it.
struct Doing {
    revision: i64,
    position: u32,
}

/// What an item in a result takes besides key and value.
const ITEM_BYTES: usize = 40;

impl Etcd {
    /// Does a transaction, and writes its result.
    pub(super) fn transact(&mut self, txn: &Txn<'_>, result: &mut Vec<u8>) -> Result<(), Refusal> {
        let decided = self.decide(txn);
        let mut sum = Sum::default();
        // In etcd's order, so that the same is refused for the same reason.
        self.check_puts(&decided, &mut sum)?;
        self.check_others(&decided, &mut sum)?;
        sum.result += sum.ranges * sum.put;
        if sum.deleted.0 > DELETED_MAX || sum.deleted.1 > DELETED_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        if sum.result > RESULT_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        if sum.added > 0 && !self.fits(sum.added) {
            return Err(Refusal::NoSpace);
        }
        let mut doing = Doing { revision: self.revision + 1, position: 0 };
        self.perform(&decided, &mut doing, result);
        if doing.position > 0 {
            self.revision = doing.revision;
        }
        Ok(())
    }

    fn decide<'a>(&self, txn: &'a Txn<'a>) -> Decided<'a> {
        let succeeded = txn.compares.iter().all(|compare| self.holds(compare));
        let operations = if succeeded { &txn.then } else { &txn.otherwise };
        let operations = operations.iter().map(|operation| match operation {
            Operation::Range(range) => DecidedOperation::Range(range),
            Operation::Put(put) => DecidedOperation::Put(put),
            Operation::Delete { keys, wants_previous } => {
                DecidedOperation::Delete(keys, *wants_previous)
            }
            Operation::Txn(txn) => DecidedOperation::Txn(self.decide(txn)),
        });
        Decided { succeeded, operations: operations.collect() }
    }

    /// Whether a comparison is true: for all keys of its range, or, if none is there, for one whose
    /// numbers are 0.
    fn holds(&self, compare: &Compare<'_>) -> bool {
        let mut live = self.live(&compare.keys).peekable();
        if live.peek().is_none() {
            let is_of_value = matches!(compare.target, Target::Value(_));
            return !is_of_value && holds_for(compare, None);
        }
        live.all(|(_, version)| holds_for(compare, Some(version)))
    }

    fn check_puts(&self, decided: &Decided<'_>, sum: &mut Sum) -> Result<(), Refusal> {
        for operation in &decided.operations {
            match operation {
                DecidedOperation::Put(put) => self.check_put(put, sum)?,
                DecidedOperation::Txn(txn) => self.check_puts(txn, sum)?,
                DecidedOperation::Range(_) | DecidedOperation::Delete(..) => {}
            }
        }
        Ok(())
    }

    fn check_others(&self, decided: &Decided<'_>, sum: &mut Sum) -> Result<(), Refusal> {
        for operation in &decided.operations {
            match operation {
                DecidedOperation::Range(range) => self.check_range(range, sum)?,
                DecidedOperation::Delete(keys, wants_previous) => {
                    self.check_delete(keys, *wants_previous, sum);
                }
                DecidedOperation::Txn(txn) => self.check_others(txn, sum)?,
                DecidedOperation::Put(_) => {}
            }
        }
        Ok(())
    }

    fn check_range(&self, range: &Range<'_>, sum: &mut Sum) -> Result<(), Refusal> {
        if range.revision > self.revision {
            return Err(Refusal::FutureRevision);
        }
        if range.revision > 0 && range.revision < self.compacted {
            return Err(Refusal::Compacted);
        }
        sum.ranges += 1;
        let items = self.visible(range).take(wanted(range));
        let bytes = items.map(|(key, version)| item_bytes(key, version, !range.keys_only));
        for bytes in bytes {
            sum.result += bytes;
            // It is refused, however much more there is.
            if sum.result > RESULT_BYTES_MAX {
                break;
            }
        }
        Ok(())
    }

    /// What a range sees.
    fn visible<'a>(&'a self, range: &Range<'_>) -> impl Iterator<Item = (&'a Key, &'a Version)> {
        let revision = if range.revision > 0 { range.revision } else { i64::MAX };
        let (from, until) = bounds(&range.keys);
        let all = self.keys.range(from, until);
        all.filter_map(move |(key, history)| Some((key, history.at(revision)?)))
    }

    fn check_put(&self, put: &Put<'_>, sum: &mut Sum) -> Result<(), Refusal> {
        let now = self.keys.get(put.key).and_then(|history| history.now());
        let lease = put.lease.unwrap_or_default();
        if lease != 0 && self.leases.get(lease).is_none() {
            return Err(Refusal::LeaseNotFound);
        }
        if now.is_none() && (put.value.is_none() || put.lease.is_none()) {
            return Err(Refusal::KeyNotFound);
        }
        let kept = now.and_then(|now| now.value.as_ref()).map_or(0, |value| value.len());
        let length = put.value.map_or(kept, <[u8]>::len);
        sum.added += version_bytes(put.key.len(), length);
        sum.put += ITEM_BYTES + put.key.len() + length;
        if let Some(now) = now.filter(|_| put.wants_previous) {
            sum.result += item_bytes(put.key, now, true);
        }
        Ok(())
    }

    fn check_delete(&self, keys: &Keys<'_>, wants_previous: bool, sum: &mut Sum) {
        for (key, version) in self.live(keys) {
            sum.deleted.0 += 1;
            sum.deleted.1 += key.len();
            if wants_previous {
                sum.result += item_bytes(key, version, true);
            }
            let is_refused = sum.deleted.0 > DELETED_MAX || sum.result > RESULT_BYTES_MAX;
            if is_refused {
                return;
            }
        }
    }

    fn perform(&mut self, decided: &Decided<'_>, doing: &mut Doing, to: &mut Vec<u8>) {
        to.push(u8::from(decided.succeeded));
        let count = u16::try_from(decided.operations.len()).expect("operations are bounded");
        to.extend_from_slice(&count.to_le_bytes());
        for operation in &decided.operations {
            match operation {
                DecidedOperation::Range(range) => self.read_range(range, doing, to),
                DecidedOperation::Put(put) => self.put_one(put, doing, to),
                DecidedOperation::Delete(keys, wants_previous) => {
                    self.delete_all(keys, *wants_previous, doing, to);
                }
                DecidedOperation::Txn(txn) => {
                    to.push(TXN);
                    self.perform(txn, doing, to);
                }
            }
        }
    }

    fn read_range(&self, range: &Range<'_>, doing: &Doing, to: &mut Vec<u8>) {
        to.push(RANGE);
        push_i64(to, self.revision_in(doing));
        let head = to.len();
        to.extend_from_slice(&[0; 12]);
        let (mut count, mut items) = (0_u64, 0_u32);
        for (key, version) in self.visible(range) {
            if count < wanted(range) as u64 {
                version.push_item(to, key, !range.keys_only);
                items += 1;
            }
            count += 1;
        }
        to[head..head + 8].copy_from_slice(&count.to_le_bytes());
        to[head + 8..head + 12].copy_from_slice(&items.to_le_bytes());
    }

    /// The store's revision, in the middle of a transaction.
    fn revision_in(&self, doing: &Doing) -> i64 {
        if doing.position > 0 { doing.revision } else { self.revision }
    }

    fn put_one(&mut self, put: &Put<'_>, doing: &mut Doing, to: &mut Vec<u8>) {
        let now = self.keys.get(put.key).and_then(|history| history.now());
        to.push(PUT);
        push_previous(to, now.filter(|_| put.wants_previous).map(|now| (put.key, now)));
        let lease = put.lease.or_else(|| now.map(|now| now.lease)).unwrap_or_default();
        let kept = || now.and_then(|now| now.value.clone()).unwrap_or_default();
        let value = put.value.map_or_else(kept, Into::into);
        self.put(doing.revision, doing.position, put.key, value, lease);
        doing.position += 1;
    }

    fn delete_all(
        &mut self,
        keys: &Keys<'_>,
        wants_previous: bool,
        doing: &mut Doing,
        to: &mut Vec<u8>,
    ) {
        to.push(DELETE);
        let mut items = Vec::new();
        let live = self.live(keys).map(|(key, version)| {
            if wants_previous {
                version.push_item(&mut items, key, true);
            }
            key.clone()
        });
        let gone: Vec<Key> = live.collect();
        let is_change = doing.position > 0 || !gone.is_empty();
        push_i64(to, if is_change { doing.revision } else { self.revision });
        push_u64(to, gone.len() as u64);
        let count = if wants_previous { gone.len() } else { 0 };
        let count = u32::try_from(count).expect("deletions are bounded");
        to.extend_from_slice(&count.to_le_bytes());
        to.extend_from_slice(&items);
        for key in gone {
            self.delete(doing.revision, doing.position, &key);
            doing.position += 1;
        }
    }
}

/// How many items of a range are wanted.
fn wanted(range: &Range<'_>) -> usize {
    match (range.count_only, range.limit) {
        (true, _) => 0,
        (false, 0) => usize::MAX,
        (false, limit) => usize::try_from(limit).unwrap_or(usize::MAX),
    }
}

fn item_bytes(key: &[u8], version: &Version, has_value: bool) -> usize {
    debug_assert!(key.len() <= KEY_BYTES_MAX);
    let value = version.value.as_ref().filter(|_| has_value).map_or(0, |value| value.len());
    ITEM_BYTES + key.len() + value
}

fn push_previous(to: &mut Vec<u8>, previous: Option<(&[u8], &Version)>) {
    to.extend_from_slice(&u32::from(previous.is_some()).to_le_bytes());
    if let Some((key, version)) = previous {
        version.push_item(to, key, true);
    }
}

fn holds_for(compare: &Compare<'_>, version: Option<&Version>) -> bool {
    let number = |of: fn(&Version) -> i64| version.map_or(0, of);
    let order = match compare.target {
        Target::Version(given) => number(|version| version.number).cmp(&given),
        Target::Created(given) => number(|version| version.created).cmp(&given),
        Target::Modified(given) => number(|version| version.modified).cmp(&given),
        Target::Lease(given) => number(|version| version.lease).cmp(&given),
        Target::Value(given) => {
            version.and_then(|version| version.value.as_deref()).unwrap_or_default().cmp(given)
        }
    };
    match compare.relation {
        Relation::Equal => order.is_eq(),
        Relation::NotEqual => order.is_ne(),
        Relation::Greater => order.is_gt(),
        Relation::Less => order.is_lt(),
    }
}
