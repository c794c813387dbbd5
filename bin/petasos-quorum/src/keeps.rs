//! What a group keeps, as commands for items see it: a table or etcd's model.

use petasos_cli::failure::Failure;
use petasos_quorum::etcd::{
    Answer, Compare, End, EtcdCommand, EtcdQuery, Keys, Operation as EtcdOperation,
    OperationResult, Put, RangeAnswer, RangeQuery, Relation, Target, Txn, TxnResult,
};
use petasos_quorum::service::MachineKind;
use petasos_quorum::table::{
    Item, Operation, Query, TableCommand, TableResult, TableStatus, decode_items,
};

use crate::client::Connected;

/// A change of an item.
#[derive(Clone, Copy)]
pub enum Change<'a> {
    /// Stores a value.
    Put {
        /// Its key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// Only if the item has this stamp; 0 for none.
        if_stamp: Option<u64>,
        /// The lease that it goes with; 0 for none.
        lease: i64,
    },
    /// Deletes the item.
    Delete {
        /// Its key.
        key: &'a [u8],
    },
}

/// Which items are read.
#[derive(Clone, Copy)]
pub enum Wanted<'a> {
    /// That of a key.
    One(&'a [u8]),
    /// Those from a key on, before another one, which may be empty for none.
    Range {
        /// The first key.
        from: &'a [u8],
        /// The first one that is not meant.
        until: &'a [u8],
        /// How many at most.
        limit: u32,
    },
}

/// What a group keeps.
#[derive(Clone, Copy)]
pub struct Keeps(MachineKind);

/// What the group keeps.
///
/// # Errors
/// If no member says it, or it is what this version does not know.
pub fn keeps(connected: &mut Connected) -> Result<Keeps, Failure> {
    let status = connected.status()?;
    match status.charter.machine {
        machine @ (MachineKind::Table | MachineKind::Etcd) => Ok(Keeps(machine)),
        _ => Err(other_version()),
    }
}

/// What a table has not.
pub fn no_leases() -> Failure {
    Failure::with_advice(
        "the group keeps a table, which has no revisions and no leases",
        "make another one with `petasos quorum init --keeps etcd`",
    )
}

/// An answer cannot be read.
pub fn other_version() -> Failure {
    Failure::with_advice("the answer cannot be read", "use the members' version")
}

impl Keeps {
    /// The command that does a change.
    ///
    /// # Errors
    /// If a table is to have a lease.
    pub fn command(self, change: &Change<'_>) -> Result<Vec<u8>, Failure> {
        match (self.0, change) {
            (MachineKind::Etcd, _) => Ok(EtcdCommand::Txn(etcd_txn(change)).to_bytes()),
            (_, Change::Put { lease: 1.., .. }) => Err(no_leases()),
            _ => Ok(table_command(change).to_bytes()),
        }
    }

    /// Whether a change was done.
    pub fn result(self, bytes: &[u8]) -> Result<(), Failure> {
        match self.0 {
            MachineKind::Etcd => etcd_result(bytes),
            _ => table_result(bytes),
        }
    }

    /// The query that reads items.
    pub fn query(self, wanted: &Wanted<'_>) -> Vec<u8> {
        match (self.0, *wanted) {
            (MachineKind::Etcd, _) => EtcdQuery::Range(etcd_range(wanted)).to_bytes(),
            (_, Wanted::One(key)) => Query::Get(key).to_bytes(),
            (_, Wanted::Range { from, until, limit }) => {
                Query::Range { from, until, limit }.to_bytes()
            }
        }
    }

    /// The items of an answer, and whether there are more.
    pub fn items(self, bytes: &[u8]) -> Result<(Vec<Item>, bool), Failure> {
        match self.0 {
            MachineKind::Etcd => etcd_items(bytes),
            _ => decode_items(bytes).ok_or_else(other_version),
        }
    }
}

fn table_command<'a>(change: &Change<'a>) -> TableCommand<'a> {
    match *change {
        Change::Delete { key } => TableCommand::new(Operation::Delete, key, b""),
        Change::Put { key, value, if_stamp: None, .. } => {
            TableCommand::new(Operation::Put, key, value)
        }
        Change::Put { key, value, if_stamp: Some(stamp), .. } => {
            TableCommand { stamp, ..TableCommand::new(Operation::PutIf, key, value) }
        }
    }
}

fn absent() -> Failure {
    Failure::with_advice("there is nothing at that key", "`put` stores a value")
}

fn changed() -> Failure {
    Failure::with_advice("the item has another stamp by now", "read it again")
}

fn table_result(bytes: &[u8]) -> Result<(), Failure> {
    match TableResult::decode(bytes).map(|result| result.status) {
        Some(TableStatus::Done) => Ok(()),
        Some(TableStatus::Absent) => Err(absent()),
        Some(TableStatus::Changed) => Err(changed()),
        Some(TableStatus::Full) => {
            Err(Failure::with_advice("the table is full", "delete something"))
        }
        _ => Err(other_version()),
    }
}

fn etcd_txn<'a>(change: &Change<'a>) -> Txn<'a> {
    match *change {
        Change::Delete { key } => {
            let keys = Keys { from: key, end: End::Single };
            Txn::of(EtcdOperation::Delete { keys, wants_previous: false })
        }
        Change::Put { key, value, if_stamp, lease } => {
            let (value, lease) = (Some(value), Some(lease));
            let put = EtcdOperation::Put(Put { key, value, lease, wants_previous: false });
            let compares = if_stamp.map(|stamp| Compare {
                keys: Keys { from: key, end: End::Single },
                target: Target::Modified(i64::try_from(stamp).unwrap_or(i64::MAX)),
                relation: Relation::Equal,
            });
            Txn { compares: compares.into_iter().collect(), ..Txn::of(put) }
        }
    }
}

/// What a command of etcd's model was refused for.
///
/// # Errors
/// That, or that the answer cannot be read.
pub fn etcd_answer(bytes: &[u8]) -> Result<(i64, petasos_base::ByteReader<'_>), Failure> {
    let Answer { revision, body } = Answer::decode(bytes).ok_or_else(other_version)?;
    let refused = |why| Failure::with_advice(why, "`petasos quorum status` shows the group");
    Ok((revision, body.map_err(refused)?))
}

fn etcd_result(bytes: &[u8]) -> Result<(), Failure> {
    let (_, mut body) = etcd_answer(bytes)?;
    let TxnResult { succeeded, results } = TxnResult::read(&mut body).ok_or_else(other_version)?;
    match results.first() {
        _ if !succeeded => Err(changed()),
        Some(OperationResult::Delete { deleted: 0, .. }) => Err(absent()),
        _ => Ok(()),
    }
}

fn etcd_range<'a>(wanted: &Wanted<'a>) -> RangeQuery<'a> {
    let (keys, limit) = match *wanted {
        Wanted::One(key) => (Keys { from: key, end: End::Single }, 1),
        Wanted::Range { from, until: [], limit } => (Keys { from, end: End::Last }, limit),
        Wanted::Range { from, until, limit } => (Keys { from, end: End::Before(until) }, limit),
    };
    RangeQuery { keys, revision: 0, limit: u64::from(limit), keys_only: false }
}

fn etcd_items(bytes: &[u8]) -> Result<(Vec<Item>, bool), Failure> {
    let (_, mut body) = etcd_answer(bytes)?;
    let answer = RangeAnswer::read(&mut body).ok_or_else(other_version)?;
    let has_more = answer.next.is_some() || answer.count > answer.items.len() as u64;
    let items = answer.items.iter().map(|item| Item {
        key: item.key.to_vec(),
        value: item.value.to_vec(),
        stamp: item.modified.cast_unsigned(),
    });
    Ok((items.collect(), has_more))
}
