//! A table of keys and values that loses nothing: the machine of the papers' PUT (ADR 57).

mod command;
mod query;

use std::ops::Bound;

pub use self::command::{
    KEY_BYTES_MAX, Operation, RECORDS_MAX, Record, TableCommand, TableResult, TableStatus,
    VALUE_BYTES_MAX,
};
use self::query::push_item;
pub use self::query::{ANSWER_BYTES, Item, Query, RANGE_MAX, decode_items};
use petasos_base::ByteReader;

use crate::bytes::{push_long, push_short, push_u64};
use crate::frozen_map::FrozenMap;
use crate::machine::{At, Malformed, StateMachine};
use crate::state::hash;

/// What an item takes besides key and value, in what is counted.
const ITEM_OVERHEAD_BYTES: usize = 64;

/// A key with the number of its table: 0, unless transactions have others.
type Key = Box<[u8]>;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Stored {
    stamp: u64,
    value: Vec<u8>,
}

/// Items by table and key. What it may hold is counted in bytes of keys and values, so that it is
/// full for all replicas at the same command.
pub struct Table {
    items: FrozenMap<Key, Stored>,
    bytes: usize,
    bytes_max: usize,
    epoch: u64,
    digest: u128,
    /// The epoch, until the snapshot under way has it.
    frozen_epoch: Option<u64>,
}

/// A key as it is stored: the table's number, big-endian, so that tables lie one behind the other.
fn full_key(table: u32, key: &[u8]) -> Key {
    [&table.to_be_bytes(), key].concat().into()
}

fn counted(key: &[u8], stored: &Stored) -> usize {
    ITEM_OVERHEAD_BYTES + key.len() + stored.value.len()
}

fn digest_of(key: &[u8], stored: &Stored) -> u128 {
    let mut bytes = Vec::with_capacity(16 + key.len() + stored.value.len());
    push_item(&mut bytes, key, &stored.value, stored.stamp);
    hash(&bytes)
}

impl Table {
    /// An empty table, whose items take at most so many bytes: of each key and value, and 64 more.
    pub fn new(bytes_max: usize) -> Table {
        let items = FrozenMap::new();
        Table { items, bytes: 0, bytes_max, epoch: 0, digest: 0, frozen_epoch: None }
    }

    /// Items that there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.len() == 0
    }

    /// What the items take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Coordinators of earlier epochs are fenced.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether there is room for `new` where `old` was.
    fn fits(&self, key: &[u8], old: Option<&Stored>, length: usize) -> bool {
        let old = old.map_or(0, |old| counted(key, old));
        self.bytes - old + ITEM_OVERHEAD_BYTES + key.len() + length <= self.bytes_max
    }

    fn put(&mut self, key: Key, stored: Stored) {
        self.bytes += counted(&key, &stored);
        self.digest = self.digest.wrapping_add(digest_of(&key, &stored));
        let old = self.items.get(&key).cloned();
        self.forget(&key, old.as_deref());
        self.items.insert(key, stored);
    }

    fn delete(&mut self, key: &[u8]) {
        let old = self.items.remove(key);
        self.forget(key, old.as_deref());
    }

    fn forget(&mut self, key: &[u8], old: Option<&Stored>) {
        if let Some(old) = old {
            self.bytes -= counted(key, old);
            self.digest = self.digest.wrapping_sub(digest_of(key, old));
        }
    }

    fn perform(&mut self, at: At, command: &TableCommand<'_>) -> TableResult {
        let result = |status, number| TableResult { status, number };
        if command.epoch != 0 && command.epoch < self.epoch {
            return result(TableStatus::Fenced, self.epoch);
        }
        match command.operation {
            Operation::Fence => {
                self.epoch = command.epoch;
                result(TableStatus::Done, self.epoch)
            }
            Operation::Commit => self.commit(at, command.value),
            _ => self.change(at, command),
        }
    }

    fn change(&mut self, at: At, command: &TableCommand<'_>) -> TableResult {
        let result = |status, number| TableResult { status, number };
        let key = full_key(0, command.key);
        let old = self.items.get(&key).cloned();
        let stamp = old.as_ref().map_or(0, |old| old.stamp);
        let is_compared = matches!(command.operation, Operation::PutIf | Operation::DeleteIf);
        if is_compared && stamp != command.stamp {
            return result(TableStatus::Changed, stamp);
        }
        if matches!(command.operation, Operation::Delete | Operation::DeleteIf) {
            if old.is_none() {
                return result(TableStatus::Absent, 0);
            }
            self.delete(&key);
            return result(TableStatus::Done, stamp);
        }
        let Some((value, number)) = new_value(at, command, old.as_deref()) else {
            return result(TableStatus::Unfit, stamp);
        };
        if !self.fits(&key, old.as_deref(), value.len()) {
            return result(TableStatus::Full, stamp);
        }
        self.put(key, Stored { stamp: at.number(), value });
        result(TableStatus::Done, number)
    }

    /// Writes a transaction's records, if all versions are as it has read them, and all fit.
    fn commit(&mut self, at: At, records: &[u8]) -> TableResult {
        let result = |status, number| TableResult { status, number };
        let records = Record::read_all(records).unwrap_or_default();
        let (mut added, mut freed) = (0, 0);
        for record in &records {
            let key = full_key(record.table, record.key);
            let old = self.items.get(&key);
            let stamp = old.map_or(0, |old| old.stamp);
            if stamp != record.version {
                return result(TableStatus::Changed, stamp);
            }
            freed += old.map_or(0, |old| counted(&key, old));
            added += record.value.map_or(0, |value| ITEM_OVERHEAD_BYTES + key.len() + value.len());
        }
        if self.bytes - freed + added > self.bytes_max {
            return result(TableStatus::Full, 0);
        }
        for record in records {
            let key = full_key(record.table, record.key);
            match record.value {
                Some(value) => self.put(key, Stored { stamp: at.number(), value: value.to_vec() }),
                None => self.delete(&key),
            }
        }
        result(TableStatus::Done, at.number())
    }
}

/// What a command makes of a value, and the number that it returns.
fn new_value(at: At, command: &TableCommand<'_>, old: Option<&Stored>) -> Option<(Vec<u8>, u64)> {
    let old = old.map_or(&[][..], |old| &old.value);
    match command.operation {
        Operation::Append => {
            let value = [old, command.value].concat();
            (value.len() <= VALUE_BYTES_MAX).then_some((value, at.number()))
        }
        Operation::Add => {
            let old = if old.is_empty() { [0; 8] } else { old.try_into().ok()? };
            let added = u64::from_le_bytes(command.value.try_into().ok()?);
            let sum = u64::from_le_bytes(old).wrapping_add(added);
            Some((sum.to_le_bytes().to_vec(), sum))
        }
        _ => Some((command.value.to_vec(), at.number())),
    }
}

impl StateMachine for Table {
    fn check(&self, command: &[u8]) -> Result<usize, Malformed> {
        let command = TableCommand::decode(command).ok_or(Malformed)?;
        Ok(match command.operation {
            Operation::Delete | Operation::DeleteIf | Operation::Fence => 0,
            Operation::Commit => RECORDS_MAX.min(command.value.len()) * ITEM_OVERHEAD_BYTES,
            _ => ITEM_OVERHEAD_BYTES + 4 + command.key.len(),
        } + command.value.len())
    }

    fn room(&self) -> usize {
        self.bytes_max - self.bytes
    }

    fn apply(&mut self, at: At, command: &[u8], result: &mut Vec<u8>) {
        if let Some(command) = TableCommand::decode(command) {
            self.perform(at, &command).encode(result);
        }
    }

    fn tick(&mut self, _: At) {}

    fn read(&self, query: &[u8], answer: &mut Vec<u8>) -> Result<(), Malformed> {
        let (from, until, limit) = match Query::decode(query).ok_or(Malformed)? {
            Query::Get(key) => {
                let full = full_key(0, key);
                if let Some(stored) = self.items.get(&full) {
                    push_item(answer, key, &stored.value, stored.stamp);
                }
                answer.push(0);
                return Ok(());
            }
            Query::Range { from, until: [], limit } => (full_key(0, from), full_key(1, &[]), limit),
            Query::Range { from, until, limit } => (full_key(0, from), full_key(0, until), limit),
        };
        let begin = answer.len();
        // A range that ends before it begins has nothing.
        let until = until.max(from.clone());
        let items = self.items.range(Bound::Included(&from), Bound::Excluded(&until));
        for (count, (key, stored)) in (0..).zip(items) {
            if count == limit || answer.len() - begin >= ANSWER_BYTES {
                answer.push(1);
                return Ok(());
            }
            push_item(answer, &key[4..], &stored.value, stored.stamp);
        }
        answer.push(0);
        Ok(())
    }

    fn digest(&self) -> u128 {
        let numbers = [self.epoch, self.bytes as u64].map(u64::to_le_bytes).concat();
        self.digest.wrapping_add(hash(&numbers))
    }

    fn freeze(&mut self) {
        self.frozen_epoch = Some(self.epoch);
        self.items.freeze();
    }

    /// The first record is the epoch, others are items: key, stamp, value.
    fn frozen(&mut self, record: &mut Vec<u8>) -> bool {
        if let Some(epoch) = self.frozen_epoch.take() {
            record.push(0);
            push_u64(record, epoch);
            return true;
        }
        let Some((key, stored)) = self.items.next_frozen() else { return false };
        record.push(1);
        push_short(record, &key);
        push_u64(record, stored.stamp);
        push_long(record, &stored.value);
        true
    }

    fn load(&mut self, record: &[u8]) -> Result<(), Malformed> {
        self.load_record(record).ok_or(Malformed)
    }
}

impl Table {
    fn load_record(&mut self, record: &[u8]) -> Option<()> {
        let mut bytes = ByteReader::new(record);
        if bytes.u8()? == 0 {
            self.epoch = bytes.u64()?;
            return bytes.end(());
        }
        let (key, stamp, value) = (bytes.short()?, bytes.u64()?, bytes.long()?);
        bytes.end(())?;
        let key: Key = key.into();
        let is_next = key.len() > 4 && self.items.last_key().is_none_or(|last| *last < key);
        let fits = value.len() <= VALUE_BYTES_MAX && self.fits(&key, None, value.len());
        (is_next && fits).then(|| self.put(key, Stored { stamp, value: value.to_vec() }))
    }
}
