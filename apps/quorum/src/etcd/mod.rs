//! A store with etcd's model: revisions, ranges, transactions, leases, watches from a past
//! revision, compaction (ADR 55).
//!
//! The store counts revisions: each command that changes keys has one. Of each key it keeps all
//! versions since the last compaction, so that ranges may be read as they were, and changes be told
//! again. Leases end by the replicated clock (QR12). What is refused has changed nothing.
//!
//! What differs from etcd: renewing a lease is a command in the log; and a command that would
//! delete more than 65,536 keys, or have a result of more than 8 MiB, is refused.

mod command;
mod history;
mod leases;
mod machine;
mod operation;
mod overlap;
mod query;
mod reading;
mod result;
mod snapshot;
mod store;
mod txn;

pub use self::command::{
    COMMAND_BYTES_MAX, DEPTH_MAX, EtcdCommand, KEY_BYTES_MAX, OPERATIONS_MAX, PARTS_MAX,
};
pub use self::leases::{LEASES_MAX, TTL_MAX_S, TTL_MIN_S};
pub use self::operation::{Compare, End, Keys, Operation, Put, Range, Relation, Target, Txn};
pub use self::overlap::{Overlap, check};
pub use self::query::{
    EtcdQuery, Event, EventsAnswer, EventsQuery, LeaseAnswer, RangeAnswer, RangeQuery, SizeAnswer,
};
pub use self::result::{Answer, Item, OperationResult, Refusal, TxnResult, read_lease};
pub use self::store::Etcd;
