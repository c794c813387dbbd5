//! Keys with values and stamps.

use std::collections::HashMap;

use petasos_base::Rng;
use petasos_history::{Bytes, ModelKind, Op, Reply};

use super::key;
use super::world::Service;

/// What is wrong with a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Reads find what was there a few changes ago.
    StaleRead,
    /// Writes are answered, and lost.
    LostWrite,
    /// Writes are done again later.
    DoneTwice,
    /// A condition is not looked at.
    NoCompare,
    /// A stamp is given twice.
    SameStamp,
    /// Half of a transaction is done.
    TornTransaction,
    /// What was done is said not to be.
    Denied,
}

/// The service. Faults begin after some calls, and then happen one time in four.
pub struct Registers {
    keys: u64,
    values: u64,
    fault: Fault,
    stamps: bool,
    transactions: bool,
    is_plain: bool,
    items: HashMap<Bytes, (Bytes, u64)>,
    past: HashMap<Bytes, Vec<Option<(Bytes, u64)>>>,
    again: Vec<Op>,
    stamp: u64,
    written: u64,
    answered: u64,
}

impl Registers {
    /// `values` says how many there are; 0 for as many as there are writes.
    pub fn new(keys: u64, values: u64, fault: Fault) -> Registers {
        Registers {
            keys,
            values,
            fault,
            stamps: false,
            transactions: false,
            is_plain: false,
            items: HashMap::new(),
            past: HashMap::new(),
            again: Vec::new(),
            stamp: 0,
            written: 0,
            answered: 0,
        }
    }

    /// Answers have stamps.
    pub fn stamped_ones(self) -> Registers {
        Registers { stamps: true, ..self }
    }

    /// Some calls are transactions.
    pub fn with_transactions(self) -> Registers {
        Registers { transactions: true, ..self }
    }

    /// Values are written whatever there is.
    pub fn plain(self) -> Registers {
        Registers { is_plain: true, ..self }
    }

    fn value(&mut self, rng: &mut Rng) -> Bytes {
        self.written += 1;
        let number = if self.values == 0 { self.written } else { rng.below(self.values) };
        format!("v{number}").as_str().into()
    }

    fn op(&mut self, rng: &mut Rng) -> Op {
        let key = key(rng, self.keys);
        let value = self.value(rng);
        let present = self.items.get(&key).cloned();
        match rng.below(if self.is_plain { 6 } else { 9 }) {
            0..4 => Op::Get { key },
            4..6 => Op::Set { key, value },
            6 if rng.chance(0.3) => Op::Delete { key },
            6 => Op::Append { key, value, create: rng.chance(0.5) },
            7 if self.stamps && !self.transactions => {
                let stamp = present.map_or(1, |(_, stamp)| stamp);
                Op::CompareStamp { key, stamp, value }
            }
            _ => {
                let guess = rng.chance(0.7);
                let expect = present.filter(|_| guess).map(|(value, _)| value);
                Op::CompareSet { key, expect, value }
            }
        }
    }

    /// Whether the fault happens now.
    fn is_wrong(&self, fault: Fault) -> bool {
        self.fault == fault && self.answered > 20 && self.answered.is_multiple_of(4)
    }

    fn store(&mut self, key: &Bytes, value: Option<Bytes>) {
        let old = self.items.remove(key);
        self.past.entry(key.clone()).or_default().push(old);
        if let Some(value) = value {
            self.stamp += u64::from(!self.is_wrong(Fault::SameStamp));
            self.items.insert(key.clone(), (value, self.stamp));
        }
    }

    fn get(&self, key: &Bytes) -> Option<(Bytes, u64)> {
        if self.is_wrong(Fault::StaleRead) {
            let past = self.past.get(key).map_or(&[][..], Vec::as_slice);
            if let [.., old, _, _, _, _] = past {
                return old.clone();
            }
        }
        self.items.get(key).cloned()
    }

    fn store_if(&mut self, holds: bool, key: &Bytes, value: &Bytes) -> Reply {
        let holds = holds || self.is_wrong(Fault::NoCompare);
        if holds {
            self.store(key, Some(value.clone()));
        }
        Reply { done: Some(holds), ..self.stamped(holds) }
    }

    fn stamped(&self, is_done: bool) -> Reply {
        Reply { stamp: (is_done && self.stamps).then_some(self.stamp), ..Reply::default() }
    }

    fn act(&mut self, op: &Op) -> Reply {
        self.answered += 1;
        let present = |items: &HashMap<Bytes, (Bytes, u64)>, key| items.get(key).cloned();
        match op {
            Op::Get { key } => {
                let found = self.get(key);
                let stamp = found.as_ref().map(|(_, stamp)| *stamp).filter(|_| self.stamps);
                Reply { value: Some(found.map(|(value, _)| value)), stamp, ..Reply::default() }
            }
            Op::Set { key, value } => {
                if self.is_wrong(Fault::LostWrite) {
                    return Reply::default();
                }
                self.store(key, Some(value.clone()));
                self.stamped(true)
            }
            Op::Delete { key } => {
                let existed = Some(self.items.contains_key(key));
                self.store(key, None);
                Reply { existed, ..Reply::default() }
            }
            Op::CompareSet { key, expect, value } => {
                let now = present(&self.items, key).map(|(value, _)| value);
                self.store_if(now == *expect, key, value)
            }
            Op::CompareStamp { key, stamp, value } => {
                let now = present(&self.items, key).map(|(_, stamp)| stamp);
                self.store_if(now == Some(*stamp), key, value)
            }
            Op::Append { key, value, create } => {
                let longer = match present(&self.items, key) {
                    Some((old, _)) => Some(old.with(value)),
                    None => create.then(|| value.clone()),
                };
                let Some(longer) = longer else {
                    return Reply { done: Some(false), ..Reply::default() };
                };
                let length = Some(longer.as_slice().len() as u64);
                self.store(key, Some(longer));
                Reply { length, ..self.stamped(true) }
            }
            Op::Transaction(ops) => {
                let half = if self.is_wrong(Fault::TornTransaction) { 1 } else { ops.len() };
                let parts = ops[..half].iter().map(|op| self.act(op)).collect::<Vec<_>>();
                let rest =
                    ops[half..].iter().map(|_| Reply { done: Some(true), ..Reply::default() });
                Reply { parts: Some(parts.into_iter().chain(rest).collect()), ..Reply::default() }
            }
            other => panic!("not asked: {other:?}"),
        }
    }
}

impl Service for Registers {
    const MODEL: ModelKind = ModelKind::Register;

    fn ask(&mut self, rng: &mut Rng) -> Op {
        match self.transactions && rng.chance(0.4) {
            false => self.op(rng),
            true => {
                let set = |this: &mut Registers, rng: &mut Rng| {
                    let (key, value) = (key(rng, this.keys), this.value(rng));
                    Op::Set { key, value }
                };
                if self.fault != Fault::TornTransaction && rng.chance(0.5) {
                    let (one, other) = (self.op(rng), self.op(rng));
                    return Op::Transaction(vec![one, other]);
                }
                Op::Transaction(vec![set(self, rng), set(self, rng)])
            }
        }
    }

    fn answer(&mut self, op: &Op, _: u64, _: u64) -> Reply {
        if self.is_wrong(Fault::DoneTwice)
            && let Some(again) = self.again.pop()
        {
            self.act(&again);
        }
        if let Op::Set { .. } = op
            && self.again.len() < 3
        {
            self.again.insert(0, op.clone());
        }
        self.act(op)
    }

    fn denies(&self) -> bool {
        self.fault == Fault::Denied
    }
}
