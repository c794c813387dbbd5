//! What is called, and what is answered, of all models.
//!
//! A model takes some operations and refuses the others, with the place of the first
//! ([`crate::Misuse`]). Integers are as JSON has them; bytes are texts ([`Bytes`]).

use serde::{Deserialize, Deserializer, Serialize};

use crate::bytes::Bytes;

/// An operation with its argument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs, reason = "fields are what the variants say of them")]
pub enum Op {
    /// Register: reads `value`, null if there is none, and its `stamp`.
    Get { key: Bytes },
    /// Register: stores a value. The answer may have its `stamp`.
    Set { key: Bytes, value: Bytes },
    /// Register: removes the value. The answer may say whether it `existed`.
    Delete { key: Bytes },
    /// Register: stores a value if the present one is `expect` (null: if there is none). The answer
    /// says whether it was `done`.
    CompareSet {
        key: Bytes,
        #[serde(default)]
        expect: Option<Bytes>,
        value: Bytes,
    },
    /// Register: stores a value if the present one has this stamp. Answer as of `compare_set`.
    CompareStamp { key: Bytes, stamp: u64, value: Bytes },
    /// Register: lengthens the value. If there is none, it is stored if `create` says so, and else
    /// not `done`. The answer may have the new `length`.
    Append {
        key: Bytes,
        value: Bytes,
        #[serde(default, skip_serializing_if = "is_false")]
        create: bool,
    },
    /// Register: several operations in one step. The answer has `parts`, one for each.
    Transaction(Vec<Op>),
    /// Counter: adds. The answer has the new `number`.
    Add { key: Bytes, by: i64 },
    /// Counter: the `number`.
    Read { key: Bytes },
    /// Sequence: takes `count` numbers that follow each other. The answer has the `first`.
    Take { key: Bytes, count: u64 },
    /// Etcd: stores a value, and has it removed with its lease.
    Put {
        key: Bytes,
        value: Bytes,
        #[serde(default, skip_serializing_if = "is_zero")]
        lease: u64,
    },
    /// Etcd: reads keys, now or at a past revision. A `stale` one may be answered from a past
    /// state, whose revision is that of the answer.
    Range {
        keys: Keys,
        #[serde(default, skip_serializing_if = "is_zero")]
        revision: u64,
        #[serde(default, skip_serializing_if = "is_zero")]
        limit: u64,
        #[serde(default, skip_serializing_if = "is_false")]
        stale: bool,
    },
    /// Etcd: removes keys. The answer says how many: `deleted`.
    DeleteRange { keys: Keys },
    /// Etcd: `then` if all conditions hold, else `otherwise`. The answer has `succeeded`, and
    /// `parts` of what was done.
    Txn {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        compare: Vec<Compare>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        then: Vec<Op>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        otherwise: Vec<Op>,
    },
    /// Etcd: makes a lease. It may end by itself `ttl_ms` later, and not before.
    Grant { lease: u64, ttl_ms: u64 },
    /// Etcd: ends a lease, and removes its keys at one revision.
    Revoke { lease: u64 },
    /// Etcd: lets a lease begin anew. The answer says whether it is `alive`.
    KeepAlive { lease: u64 },
    /// Etcd: forgets what lies before a revision.
    Compact { revision: u64 },
    /// Etcd: sees changes of keys from a revision on ([`Seen`]); from the next one after that of
    /// `created` if it names none.
    Watch {
        keys: Keys,
        #[serde(default, skip_serializing_if = "is_zero")]
        revision: u64,
    },
}

impl Op {
    /// The name, as in a history.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Get { .. } => "get",
            Op::Set { .. } => "set",
            Op::Delete { .. } => "delete",
            Op::CompareSet { .. } => "compare_set",
            Op::CompareStamp { .. } => "compare_stamp",
            Op::Append { .. } => "append",
            Op::Transaction(_) => "transaction",
            Op::Add { .. } => "add",
            Op::Read { .. } => "read",
            Op::Take { .. } => "take",
            Op::Put { .. } => "put",
            Op::Range { .. } => "range",
            Op::DeleteRange { .. } => "delete_range",
            Op::Txn { .. } => "txn",
            Op::Grant { .. } => "grant",
            Op::Revoke { .. } => "revoke",
            Op::KeepAlive { .. } => "keep_alive",
            Op::Compact { .. } => "compact",
            Op::Watch { .. } => "watch",
        }
    }
}

/// One key, or all from `key` to below `end`, which is no bound if it is empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the type's documentation has them")]
pub struct Keys {
    pub key: Bytes,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Bytes>,
}

impl Keys {
    /// Whether `key` is one of them.
    pub fn has(&self, key: &Bytes) -> bool {
        match &self.end {
            None => *key == self.key,
            Some(end) => *key >= self.key && (end.as_slice().is_empty() || key < end),
        }
    }
}

/// A condition on one key. An absent one has 0 in place of each number, and no value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the type's documentation has them")]
pub struct Compare {
    pub key: Bytes,
    pub is: Relation,
    pub than: Operand,
}

/// How what is stored relates to what the condition has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Relation {
    Equal,
    NotEqual,
    Less,
    Greater,
}

/// What is compared, and with what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Operand {
    Value(Bytes),
    Create(u64),
    Mod(u64),
    Version(u64),
    Lease(u64),
}

/// An item of the etcd model, as answers and watches have it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// Its key.
    pub key: Bytes,
    /// Its value.
    pub value: Bytes,
    /// The revision at which the key was made.
    pub create: u64,
    /// The revision at which the value was stored.
    #[serde(rename = "mod")]
    pub modified: u64,
    /// How often it was stored since it was made.
    pub version: u64,
    /// Its lease, or 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lease: u64,
}

/// What was answered. Which fields there must be depends on the operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs, reason = "operations say what they mean")]
pub struct Reply {
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub value: Option<Option<Bytes>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stamp: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub existed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<Vec<Item>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alive: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<Vec<Reply>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Refusal>,
}

/// An answer that depends on the state, like any other: the operation was done, and this is what
/// it found. (A call that was *not done* has no answer at all.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The revision is compacted.
    Compacted,
    /// The revision is not there yet.
    Future,
    /// There is no such lease.
    NoLease,
    /// There is such a lease already.
    LeaseExists,
}

/// What a watch has seen before its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Seen {
    /// It was made when the store was at this revision.
    Created(u64),
    /// Changes, in order. Those of a revision are not divided.
    Events(Vec<Event>),
    /// Nothing more has happened to its keys up to this revision.
    Progress(u64),
}

/// A change of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// A value was stored.
    Put(Item),
    /// The key was removed.
    Delete {
        /// The key.
        key: Bytes,
        /// When.
        revision: u64,
    },
}

impl Event {
    /// When it happened.
    pub fn revision(&self) -> u64 {
        match self {
            Event::Put(item) => item.modified,
            Event::Delete { revision, .. } => *revision,
        }
    }

    /// What changed.
    pub fn key(&self) -> &Bytes {
        match self {
            Event::Put(Item { key, .. }) | Event::Delete { key, .. } => key,
        }
    }
}

/// A field that is there, null or not.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<Bytes>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(value: &bool) -> bool {
    !value
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}
