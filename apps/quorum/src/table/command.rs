//! Commands and queries of the table, and their results.
//!
//! A command is operation (1), zero (1), key length (2), key, compared stamp (8), epoch (8), and
//! the value; see [`Operation`]. An [`Operation::Commit`] has a transaction's records instead of a
//! key and a value.

use petasos_base::ByteReader;

use crate::bytes::{push_long, push_short, push_u64};

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 1024;
/// The longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 1 << 20;
/// The most records of a transaction.
pub const RECORDS_MAX: usize = 1024;

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    /// Stores a value.
    Put = 1,
    /// Deletes the item.
    Delete = 2,
    /// Stores a value if the item's stamp is the given one; 0 stands for no item.
    PutIf = 3,
    /// Deletes the item if its stamp is the given one.
    DeleteIf = 4,
    /// Appends to the value. Without an item, stores it.
    Append = 5,
    /// Adds the value, 8 bytes of two's complement, to the item's, which is 0 without an item.
    Add = 6,
    /// Writes a transaction's records, all or none (see [`Record`]).
    Commit = 7,
    /// From now on, earlier epochs are fenced: the epoch is the command's if that is later.
    Fence = 8,
}

impl Operation {
    fn of(number: u8) -> Option<Operation> {
        use Operation::{Add, Append, Commit, Delete, DeleteIf, Fence, Put, PutIf};
        let all = [Put, Delete, PutIf, DeleteIf, Append, Add, Commit, Fence];
        all.into_iter().find(|operation| *operation as u8 == number)
    }
}

/// A command of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableCommand<'a> {
    /// What it does.
    pub operation: Operation,
    /// The stamp that is compared, or 0.
    pub stamp: u64,
    /// The epoch of its coordinator: a later one of the table's refuses the command. 0 is never
    /// fenced.
    pub epoch: u64,
    /// The item's key.
    pub key: &'a [u8],
    /// The value, or a transaction's records.
    pub value: &'a [u8],
}

impl<'a> TableCommand<'a> {
    /// A command without a stamp and an epoch.
    pub fn new(operation: Operation, key: &'a [u8], value: &'a [u8]) -> TableCommand<'a> {
        TableCommand { operation, stamp: 0, epoch: 0, key, value }
    }

    /// Writes it.
    pub fn encode(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&[self.operation as u8, 0]);
        push_short(to, self.key);
        push_u64(to, self.stamp);
        push_u64(to, self.epoch);
        to.extend_from_slice(self.value);
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(20 + self.key.len() + self.value.len());
        self.encode(&mut bytes);
        bytes
    }

    /// Reads one, from bytes that nobody vouches for.
    pub fn decode(bytes: &'a [u8]) -> Option<TableCommand<'a>> {
        let mut bytes = ByteReader::new(bytes);
        let operation = Operation::of(bytes.u8()?)?;
        (bytes.u8()? == 0).then_some(())?;
        let key = bytes.short()?;
        let (stamp, epoch) = (bytes.u64()?, bytes.u64()?);
        let command = TableCommand { operation, stamp, epoch, key, value: bytes.rest() };
        command.is_consistent().then_some(command)
    }

    fn is_consistent(&self) -> bool {
        let has_key = (1..=KEY_BYTES_MAX).contains(&self.key.len());
        let is_compared = matches!(self.operation, Operation::PutIf | Operation::DeleteIf);
        let has_stamp = self.stamp == 0 || is_compared;
        let length = self.value.len();
        has_stamp
            && match self.operation {
                Operation::Put | Operation::PutIf | Operation::Append => {
                    has_key && length <= VALUE_BYTES_MAX
                }
                Operation::Delete | Operation::DeleteIf => has_key && length == 0,
                Operation::Add => has_key && length == 8,
                Operation::Commit => self.key.is_empty() && Record::read_all(self.value).is_some(),
                Operation::Fence => self.key.is_empty() && length == 0 && self.epoch > 0,
            }
    }
}

/// What a transaction does to one key: what its coordinator appends to the log before it changes
/// other replicas' tables (milestone 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Which table: a number that is its users'.
    pub table: u32,
    /// The key.
    pub key: &'a [u8],
    /// The version that the transaction has read, which has to be the item's: its stamp, or 0 for
    /// none.
    pub version: u64,
    /// The new value; [`None`] deletes the item.
    pub value: Option<&'a [u8]>,
}

impl<'a> Record<'a> {
    /// Writes it behind others.
    pub fn encode(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.table.to_le_bytes());
        push_short(to, self.key);
        push_u64(to, self.version);
        to.push(u8::from(self.value.is_some()));
        push_long(to, self.value.unwrap_or(&[]));
    }

    /// Reads all records of a transaction. Each key is there once.
    pub fn read_all(bytes: &'a [u8]) -> Option<Vec<Record<'a>>> {
        let mut bytes = ByteReader::new(bytes);
        let mut records = Vec::new();
        while !bytes.is_empty() {
            (records.len() < RECORDS_MAX).then_some(())?;
            records.push(Record::read(&mut bytes)?);
        }
        let mut keys: Vec<_> = records.iter().map(|record| (record.table, record.key)).collect();
        keys.sort_unstable();
        let is_good = !keys.is_empty() && keys.windows(2).all(|pair| pair[0] != pair[1]);
        is_good.then_some(records)
    }

    fn read(bytes: &mut ByteReader<'a>) -> Option<Record<'a>> {
        let table = bytes.u32()?;
        let (key, version) = (bytes.short()?, bytes.u64()?);
        let is_write = bytes.u8()?;
        let value = bytes.long()?;
        let is_good = (1..=KEY_BYTES_MAX).contains(&key.len())
            && value.len() <= VALUE_BYTES_MAX
            && (is_write == 1 || (is_write == 0 && value.is_empty()));
        is_good.then_some(Record { table, key, version, value: (is_write == 1).then_some(value) })
    }
}

/// How a command of the table ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TableStatus {
    /// It was done.
    Done = 0,
    /// There is no such item.
    Absent = 1,
    /// The item's stamp, or a record's version, is another one. Nothing has changed.
    Changed = 2,
    /// The table is full. Nothing has changed.
    Full = 3,
    /// The item is no number, or would be longer than a value may be. Nothing has changed.
    Unfit = 4,
    /// The command's epoch was fenced by a later one. Nothing has changed.
    Fenced = 5,
}

impl TableStatus {
    fn of(number: u8) -> Option<TableStatus> {
        use TableStatus::{Absent, Changed, Done, Fenced, Full, Unfit};
        let all = [Done, Absent, Changed, Full, Unfit, Fenced];
        all.into_iter().find(|status| *status as u8 == number)
    }
}

/// What a command has brought about: status (1), and a number (8): the new stamp, the sum, or the
/// table's epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableResult {
    /// How it ended.
    pub status: TableStatus,
    /// Of what was written, the stamp; of [`Operation::Add`] the sum; of [`Operation::Fence`], and
    /// of a command that was fenced, the epoch; of [`TableStatus::Changed`] the item's stamp.
    pub number: u64,
}

impl TableResult {
    /// Writes it.
    pub fn encode(&self, to: &mut Vec<u8>) {
        to.push(self.status as u8);
        push_u64(to, self.number);
    }

    /// Reads it. A command that was malformed has no result.
    pub fn decode(bytes: &[u8]) -> Option<TableResult> {
        let mut bytes = ByteReader::new(bytes);
        let status = TableStatus::of(bytes.u8()?)?;
        let number = bytes.u64()?;
        bytes.end(TableResult { status, number })
    }
}
