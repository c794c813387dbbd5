//! Messages to commands.

use petasos::Status;
use petasos_quorum::etcd::{
    Compare, DEPTH_MAX, End, KEY_BYTES_MAX, Keys, OPERATIONS_MAX, Operation, Put, Range, Relation,
    Target, Txn, check,
};

use crate::api;
use crate::api::compare::{CompareResult, CompareTarget, TargetUnion};
use crate::api::request_op::Request;
use crate::failure::{
    duplicate_key, empty_key, lease_provided, too_large, too_many_operations, value_provided,
};
use crate::sorting::read_max;

/// The range that a key and an end name, as etcd reads them: no end is one key, a zero byte all
/// from the key on.
pub(crate) fn keys<'a>(key: &'a [u8], end: &'a [u8]) -> Result<Keys<'a>, Status> {
    if key.is_empty() {
        return Err(empty_key());
    }
    if key.len().max(end.len()) > KEY_BYTES_MAX {
        return Err(too_large());
    }
    let end = match end {
        [] => End::Single,
        [0] => End::Last,
        end => End::Before(end),
    };
    Ok(Keys { from: key, end })
}

pub(crate) fn put(put: &api::PutRequest) -> Result<Operation<'_>, Status> {
    let Keys { from: key, .. } = keys(put.key(), &[])?;
    if put.ignore_value() && !put.value().is_empty() {
        return Err(value_provided());
    }
    if put.ignore_lease() && put.lease() != 0 {
        return Err(lease_provided());
    }
    Ok(Operation::Put(Put {
        key,
        value: (!put.ignore_value()).then(|| put.value()),
        lease: (!put.ignore_lease()).then(|| put.lease()),
        wants_previous: put.prev_kv(),
    }))
}

pub(crate) fn delete(delete: &api::DeleteRangeRequest) -> Result<Operation<'_>, Status> {
    let keys = keys(delete.key(), delete.range_end())?;
    Ok(Operation::Delete { keys, wants_previous: delete.prev_kv() })
}

/// A range in a transaction.
fn range(range: &api::RangeRequest) -> Result<Operation<'_>, Status> {
    let limit = read_max(range)?.unwrap_or_default();
    Ok(Operation::Range(Range {
        keys: keys(range.key(), range.range_end())?,
        revision: range.revision().max(0),
        limit,
        keys_only: range.keys_only(),
        count_only: range.count_only(),
    }))
}

/// A whole transaction.
pub(crate) fn txn(txn: &api::TxnRequest) -> Result<Txn<'_>, Status> {
    let txn = txn_at(txn, 0)?;
    check(&txn).map_err(|_| duplicate_key())?;
    Ok(txn)
}

fn txn_at(txn: &api::TxnRequest, depth: usize) -> Result<Txn<'_>, Status> {
    let lengths = [txn.compare().len(), txn.success().len(), txn.failure().len()];
    if depth >= DEPTH_MAX || lengths.iter().any(|length| *length > OPERATIONS_MAX) {
        return Err(too_many_operations());
    }
    let compares = txn.compare().iter().map(compare).collect::<Result<_, _>>()?;
    let then = operations(txn.success(), depth)?;
    Ok(Txn { compares, then, otherwise: operations(txn.failure(), depth)? })
}

fn operations(list: &[api::RequestOp], depth: usize) -> Result<Vec<Operation<'_>>, Status> {
    list.iter().map(|part| operation(part, depth)).collect()
}

fn operation(part: &api::RequestOp, depth: usize) -> Result<Operation<'_>, Status> {
    match part.request() {
        Some(Request::RequestRange(of)) => range(of),
        Some(Request::RequestPut(of)) => put(of),
        Some(Request::RequestDeleteRange(of)) => delete(of),
        Some(Request::RequestTxn(of)) => Ok(Operation::Txn(txn_at(of, depth + 1)?)),
        // etcd takes it for an operation without a key.
        None => Err(empty_key()),
    }
}

fn compare(compare: &api::Compare) -> Result<Compare<'_>, Status> {
    // What is given for another target counts as not given, as at etcd.
    let number = match (compare.target(), compare.target_union()) {
        (CompareTarget::VERSION, Some(TargetUnion::Version(number)))
        | (CompareTarget::CREATE, Some(TargetUnion::CreateRevision(number)))
        | (CompareTarget::MOD, Some(TargetUnion::ModRevision(number)))
        | (CompareTarget::LEASE, Some(TargetUnion::Lease(number))) => number,
        _ => 0,
    };
    let target = match (compare.target(), compare.target_union()) {
        (CompareTarget::VALUE, Some(TargetUnion::Value(value))) => Target::Value(value),
        (CompareTarget::VALUE, _) => Target::Value(&[]),
        (CompareTarget::CREATE, _) => Target::Created(number),
        (CompareTarget::MOD, _) => Target::Modified(number),
        (CompareTarget::LEASE, _) => Target::Lease(number),
        _ => Target::Version(number),
    };
    let relation = match compare.result() {
        CompareResult::GREATER => Relation::Greater,
        CompareResult::LESS => Relation::Less,
        CompareResult::NOT_EQUAL => Relation::NotEqual,
        _ => Relation::Equal,
    };
    let keys = keys(compare.key(), compare.range_end())?;
    Ok(Compare { keys, target, relation })
}
