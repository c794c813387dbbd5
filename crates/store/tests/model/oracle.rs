//! What a table has to answer, from a map of the standard library.

use std::collections::HashMap;

use petasos_base::Rng;
use petasos_store::{Condition, LockOwner, Partition, Refused, Side, Write};

/// An item as the map has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub value: Vec<u8>,
    pub flags: u16,
    pub expiry_ms: Option<u64>,
    pub stamp: u64,
}

impl Item {
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expiry_ms.is_some_and(|then| then <= now_ms)
    }

    /// Bytes that it takes in a log (K11).
    pub fn bytes(&self, key: &[u8]) -> u64 {
        let padded = |bytes: usize| bytes.next_multiple_of(8) as u64;
        24 + padded(key.len()) + padded(self.value.len())
    }
}

/// An operation, with all that it needs.
#[derive(Clone, Debug)]
pub enum Operation {
    Get,
    Set { value: Vec<u8>, flags: u16, expiry_ms: Option<u64>, condition: Condition },
    Extend { side: Side, bytes: Vec<u8> },
    Update { to: Vec<u8> },
    Delete { condition: Condition },
    Touch { expiry_ms: Option<u64> },
}

/// What became of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Item(Option<Item>),
    Written(u64),
    Done,
    Refused(Refused),
}

/// Does it in the table.
pub fn operate(table: &mut Partition, now_ms: u64, key: &[u8], operation: &Operation) -> Outcome {
    let key = table.key(key).expect("it has an allowed length");
    let written =
        |result: Result<u64, Refused>| result.map_or_else(Outcome::Refused, Outcome::Written);
    let done =
        |result: Result<(), Refused>| result.map_or_else(Outcome::Refused, |()| Outcome::Done);
    let nobody: Option<LockOwner> = None;
    match operation {
        Operation::Get => Outcome::Item(table.get(now_ms, &key).map(|item| Item {
            value: item.to_vec(),
            flags: item.flags(),
            expiry_ms: item.expiry_ms(),
            stamp: item.stamp(),
        })),
        Operation::Set { value, flags, expiry_ms, condition } => {
            let (flags, expiry_ms, condition) = (*flags, *expiry_ms, *condition);
            let write = Write { value, flags, expiry_ms, condition, owner: nobody };
            written(table.set(now_ms, &key, &write))
        }
        Operation::Extend { side, bytes } => {
            written(table.extend(now_ms, &key, *side, bytes, nobody))
        }
        Operation::Update { to } => written(table.update(now_ms, &key, nobody, |bytes, _| {
            bytes.get_mut(..to.len())?.copy_from_slice(to);
            Some(to.len())
        })),
        Operation::Delete { condition } => done(table.delete(now_ms, &key, *condition, nobody)),
        Operation::Touch { expiry_ms } => done(table.touch(now_ms, &key, *expiry_ms, nobody)),
    }
}

/// The map.
#[derive(Default)]
pub struct Oracle {
    pub items: HashMap<Vec<u8>, Item>,
}

impl Oracle {
    /// Forgets all that has expired.
    pub fn expire(&mut self, now_ms: u64) {
        self.items.retain(|_, item| !item.is_expired(now_ms));
    }

    /// Forgets this key's item, if it has expired.
    pub fn expire_key(&mut self, key: &[u8], now_ms: u64) {
        if self.items.get(key).is_some_and(|item| item.is_expired(now_ms)) {
            self.items.remove(key);
        }
    }

    /// Bytes of all items.
    pub fn bytes(&self) -> u64 {
        self.items.iter().map(|(key, item)| item.bytes(key)).sum()
    }

    /// What an operation makes of the key's item, if its condition holds.
    pub fn change(&self, key: &[u8], operation: &Operation) -> Result<Option<Item>, Refused> {
        let old = self.items.get(key);
        let present = old.cloned().ok_or(Refused::Absent);
        let holds = |condition: &Condition| match (condition, old) {
            (Condition::Present | Condition::Stamp(_), None) => Err(Refused::Absent),
            (Condition::Absent, Some(_)) => Err(Refused::Present),
            (Condition::Stamp(wanted), Some(item)) if *wanted != item.stamp => {
                Err(Refused::Present)
            }
            _ => Ok(()),
        };
        match operation {
            Operation::Get => Ok(old.cloned()),
            Operation::Set { value, flags, expiry_ms, condition } => {
                holds(condition)?;
                let (value, flags, expiry_ms) = (value.clone(), *flags, *expiry_ms);
                Ok(Some(Item { value, flags, expiry_ms, stamp: 0 }))
            }
            Operation::Extend { side, bytes } => {
                let old = present?;
                let value = match side {
                    Side::Append => [&old.value[..], bytes].concat(),
                    Side::Prepend => [bytes, &old.value[..]].concat(),
                };
                Ok(Some(Item { value, ..old }))
            }
            Operation::Update { to } => {
                let old = present?;
                if old.value.len() > 64 {
                    return Err(Refused::Unsuitable);
                }
                Ok(Some(Item { value: to.clone(), ..old }))
            }
            Operation::Delete { condition } => {
                holds(condition)?;
                present.map(|_| None)
            }
            Operation::Touch { expiry_ms } => {
                present.map(|old| Some(Item { expiry_ms: *expiry_ms, ..old }))
            }
        }
    }

    pub fn put(&mut self, key: &[u8], item: Option<Item>) {
        match item {
            Some(item) => self.items.insert(key.to_vec(), item),
            None => self.items.remove(key),
        };
    }
}

/// How a random run is.
pub struct Shape {
    pub keys: u64,
    pub value_bytes_max: usize,
    /// How many values of a hundred are as long as they can be.
    pub longest_percent: u64,
    /// How many writes of a hundred expire, within two thousand milliseconds.
    pub expire_percent: u64,
}

/// Any operation, on any key.
pub fn any(rng: &mut Rng, shape: &Shape, now_ms: u64, stamp: u64) -> (Vec<u8>, Operation) {
    let number = rng.below(shape.keys);
    // Keys of all lengths, each of which begins with its number.
    let key_bytes = 1 + (number * 37 % 60) as usize;
    let mut key = number.to_le_bytes().to_vec();
    key.resize(key_bytes.max(8), 7);
    let expiry_ms = (rng.below(100) < shape.expire_percent).then(|| now_ms + 1 + rng.below(2000));
    let condition = match rng.below(10) {
        0 => Condition::Absent,
        1 => Condition::Present,
        2 => Condition::Stamp(stamp),
        _ => Condition::Always,
    };
    let operation = match rng.below(20) {
        0..6 => Operation::Get,
        6..14 => {
            let (value, flags) = (value(rng, shape), rng.next_u64() as u16);
            Operation::Set { value, flags, expiry_ms, condition }
        }
        14 => Operation::Extend { side: Side::Append, bytes: short(rng) },
        15 => Operation::Extend { side: Side::Prepend, bytes: short(rng) },
        16 => Operation::Update { to: short(rng) },
        17 => Operation::Touch { expiry_ms },
        _ => Operation::Delete { condition },
    };
    (key, operation)
}

fn value(rng: &mut Rng, shape: &Shape) -> Vec<u8> {
    let longest = rng.below(100) < shape.longest_percent;
    let bound = if longest { shape.value_bytes_max } else { shape.value_bytes_max.min(100) };
    bytes(rng, bound)
}

fn short(rng: &mut Rng) -> Vec<u8> {
    bytes(rng, 40)
}

fn bytes(rng: &mut Rng, most: usize) -> Vec<u8> {
    let len = rng.below(most as u64 + 1);
    let first = rng.next_u64();
    (0..len).map(|at| (first + at) as u8).collect()
}
