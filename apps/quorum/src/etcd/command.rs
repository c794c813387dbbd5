//! Commands of the store.
//!
//! A command is kind (1) and what its kind needs: a transaction; a revision (8) to compact to; a
//! lease's number (8), and its time to live in seconds (8) if it is granted.
//!
//! A transaction is three lists, each preceded by its length (2): comparisons, and what is done if
//! all are true, and if not. What is done may be another transaction. A single put is a transaction
//! that compares nothing.

use petasos_base::ByteReader;

use super::operation::{Compare, End, Keys, Operation, Put, Range, Relation, Target, Txn};
use super::overlap;
use crate::bytes::{push_long, push_short, push_u64};

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 32 << 10;
/// The longest command, in bytes: etcd's default for requests.
pub const COMMAND_BYTES_MAX: usize = 3 << 19;
/// The most operations of a list in a transaction, and the most comparisons: etcd's default.
pub const OPERATIONS_MAX: usize = 128;
/// The most operations and comparisons of a transaction with all transactions in it.
pub const PARTS_MAX: usize = 1024;
/// How deep transactions may be in transactions.
pub const DEPTH_MAX: usize = 8;

/// A command of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EtcdCommand<'a> {
    /// A transaction.
    Txn(Txn<'a>),
    /// Forgets what was before a revision.
    Compact(i64),
    /// A new lease.
    Grant {
        /// Its number; 0 for one that the store finds.
        id: i64,
        /// Its time to live in seconds.
        ttl_s: i64,
    },
    /// Ends a lease, and deletes its keys.
    Revoke(i64),
    /// Renews a lease.
    KeepAlive(i64),
}

const TXN: u8 = 1;
const COMPACT: u8 = 2;
const GRANT: u8 = 3;
const REVOKE: u8 = 4;
const KEEP_ALIVE: u8 = 5;

impl<'a> EtcdCommand<'a> {
    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let numbers = |bytes: &mut Vec<u8>, kind, numbers: &[i64]| {
            bytes.push(kind);
            numbers.iter().for_each(|number| push_i64(bytes, *number));
        };
        match self {
            EtcdCommand::Txn(txn) => {
                bytes.push(TXN);
                push_txn(&mut bytes, txn);
            }
            EtcdCommand::Compact(revision) => numbers(&mut bytes, COMPACT, &[*revision]),
            EtcdCommand::Grant { id, ttl_s } => numbers(&mut bytes, GRANT, &[*id, *ttl_s]),
            EtcdCommand::Revoke(id) => numbers(&mut bytes, REVOKE, &[*id]),
            EtcdCommand::KeepAlive(id) => numbers(&mut bytes, KEEP_ALIVE, &[*id]),
        }
        bytes
    }

    /// Reads one, from bytes that nobody vouches for. It is within all bounds, and no key of it is
    /// written twice.
    pub fn decode(bytes: &'a [u8]) -> Option<EtcdCommand<'a>> {
        (bytes.len() <= COMMAND_BYTES_MAX).then_some(())?;
        let mut reader = ByteReader::new(bytes);
        let kind = reader.u8()?;
        let mut number = || read_i64(&mut reader);
        let command = match kind {
            TXN => {
                let txn = read_txn(&mut reader, &mut PARTS_MAX.clone(), 0)?;
                overlap::check(&txn).ok()?;
                EtcdCommand::Txn(txn)
            }
            COMPACT => EtcdCommand::Compact(number()?),
            GRANT => {
                let (id, ttl_s) = (number()?, number()?);
                (id >= 0).then_some(EtcdCommand::Grant { id, ttl_s })?
            }
            REVOKE => EtcdCommand::Revoke(number()?),
            KEEP_ALIVE => EtcdCommand::KeepAlive(number()?),
            _ => return None,
        };
        reader.end(command)
    }
}

pub(super) fn push_i64(to: &mut Vec<u8>, number: i64) {
    push_u64(to, number.cast_unsigned());
}

pub(super) fn read_i64(bytes: &mut ByteReader<'_>) -> Option<i64> {
    bytes.u64().map(u64::cast_signed)
}

/// A key, and then 0, or 1 and the key that ends the range, or 2.
pub(super) fn push_keys(to: &mut Vec<u8>, keys: &Keys<'_>) {
    push_short(to, keys.from);
    match keys.end {
        End::Single => to.push(0),
        End::Before(end) => {
            to.push(1);
            push_short(to, end);
        }
        End::Last => to.push(2),
    }
}

pub(super) fn read_keys<'a>(bytes: &mut ByteReader<'a>) -> Option<Keys<'a>> {
    let from = read_key(bytes)?;
    let end = match bytes.u8()? {
        0 => End::Single,
        1 => End::Before(read_key(bytes)?),
        2 => End::Last,
        _ => return None,
    };
    (end != End::Single || !from.is_empty()).then_some(Keys { from, end })
}

fn read_key<'a>(bytes: &mut ByteReader<'a>) -> Option<&'a [u8]> {
    bytes.short().filter(|key| key.len() <= KEY_BYTES_MAX)
}

pub(super) fn read_bool(bytes: &mut ByteReader<'_>) -> Option<bool> {
    match bytes.u8()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn push_count(to: &mut Vec<u8>, count: usize) {
    let count = u16::try_from(count).expect("lists are bounded");
    to.extend_from_slice(&count.to_le_bytes());
}

fn push_txn(to: &mut Vec<u8>, txn: &Txn<'_>) {
    push_count(to, txn.compares.len());
    txn.compares.iter().for_each(|compare| push_compare(to, compare));
    for list in [&txn.then, &txn.otherwise] {
        push_count(to, list.len());
        list.iter().for_each(|operation| push_operation(to, operation));
    }
}

fn push_compare(to: &mut Vec<u8>, compare: &Compare<'_>) {
    push_keys(to, &compare.keys);
    to.push(compare.relation as u8);
    let (kind, number) = match compare.target {
        Target::Version(number) => (0, number),
        Target::Created(number) => (1, number),
        Target::Modified(number) => (2, number),
        Target::Lease(number) => (3, number),
        Target::Value(value) => {
            to.push(4);
            return push_long(to, value);
        }
    };
    to.push(kind);
    push_i64(to, number);
}

fn push_operation(to: &mut Vec<u8>, operation: &Operation<'_>) {
    match operation {
        Operation::Range(range) => {
            to.push(1);
            push_keys(to, &range.keys);
            push_i64(to, range.revision);
            push_u64(to, range.limit);
            to.extend_from_slice(&[u8::from(range.keys_only), u8::from(range.count_only)]);
        }
        Operation::Put(put) => {
            to.push(2);
            push_short(to, put.key);
            to.push(u8::from(put.value.is_some()));
            push_long(to, put.value.unwrap_or_default());
            to.push(u8::from(put.lease.is_some()));
            push_i64(to, put.lease.unwrap_or_default());
            to.push(u8::from(put.wants_previous));
        }
        Operation::Delete { keys, wants_previous } => {
            to.push(3);
            push_keys(to, keys);
            to.push(u8::from(*wants_previous));
        }
        Operation::Txn(txn) => {
            to.push(4);
            push_txn(to, txn);
        }
    }
}

/// The length of a list, which uses up what is left for the command.
fn read_count(bytes: &mut ByteReader<'_>, left: &mut usize) -> Option<usize> {
    let count = usize::from(bytes.u16()?);
    *left = left.checked_sub(count)?;
    (count <= OPERATIONS_MAX).then_some(count)
}

fn read_txn<'a>(bytes: &mut ByteReader<'a>, left: &mut usize, depth: usize) -> Option<Txn<'a>> {
    (depth < DEPTH_MAX).then_some(())?;
    let mut txn = Txn::default();
    for _ in 0..read_count(bytes, left)? {
        txn.compares.push(read_compare(bytes)?);
    }
    for list in [&mut txn.then, &mut txn.otherwise] {
        for _ in 0..read_count(bytes, left)? {
            list.push(read_operation(bytes, left, depth)?);
        }
    }
    Some(txn)
}

fn read_compare<'a>(bytes: &mut ByteReader<'a>) -> Option<Compare<'a>> {
    use Relation::{Equal, Greater, Less, NotEqual};
    let keys = read_keys(bytes)?;
    let relation = bytes.u8()?;
    let relations = [Equal, Greater, Less, NotEqual];
    let relation = relations.into_iter().find(|of| *of as u8 == relation)?;
    let target = match bytes.u8()? {
        0 => Target::Version(read_i64(bytes)?),
        1 => Target::Created(read_i64(bytes)?),
        2 => Target::Modified(read_i64(bytes)?),
        3 => Target::Lease(read_i64(bytes)?),
        4 => Target::Value(bytes.long()?),
        _ => return None,
    };
    Some(Compare { keys, target, relation })
}

fn read_operation<'a>(
    bytes: &mut ByteReader<'a>,
    left: &mut usize,
    depth: usize,
) -> Option<Operation<'a>> {
    Some(match bytes.u8()? {
        1 => {
            let (keys, revision) = (read_keys(bytes)?, read_i64(bytes)?);
            let limit = bytes.u64()?;
            let (keys_only, count_only) = (read_bool(bytes)?, read_bool(bytes)?);
            Operation::Range(Range { keys, revision, limit, keys_only, count_only })
        }
        2 => Operation::Put(read_put(bytes)?),
        3 => Operation::Delete { keys: read_keys(bytes)?, wants_previous: read_bool(bytes)? },
        4 => Operation::Txn(read_txn(bytes, left, depth + 1)?),
        _ => return None,
    })
}

fn read_put<'a>(bytes: &mut ByteReader<'a>) -> Option<Put<'a>> {
    let key = read_key(bytes).filter(|key| !key.is_empty())?;
    let (has_value, value) = (read_bool(bytes)?, bytes.long()?);
    let (has_lease, lease) = (read_bool(bytes)?, read_i64(bytes)?);
    let is_good = (has_value || value.is_empty()) && (has_lease || lease == 0);
    let (value, lease) = (has_value.then_some(value), has_lease.then_some(lease));
    let wants_previous = read_bool(bytes)?;
    is_good.then_some(Put { key, value, lease, wants_previous })
}
