//! Counters.

use std::collections::HashMap;

use petasos_base::Rng;
use petasos_history::{Bytes, ModelKind, Op, Reply};

use super::key;
use super::world::Service;

/// What is wrong with a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    Lost,
    Twice,
    StaleRead,
    Denied,
}

/// The service. Faults begin after some calls, and then happen one time in eight.
pub struct Counters {
    keys: u64,
    fault: Fault,
    numbers: HashMap<Bytes, i64>,
    past: HashMap<Bytes, Vec<i64>>,
    answered: u64,
}

impl Counters {
    pub fn new(keys: u64, fault: Fault) -> Counters {
        Counters { keys, fault, numbers: HashMap::new(), past: HashMap::new(), answered: 0 }
    }

    fn is_wrong(&self, fault: Fault) -> bool {
        self.fault == fault && self.answered > 20 && self.answered.is_multiple_of(8)
    }
}

impl Service for Counters {
    const MODEL: ModelKind = ModelKind::Counter;

    fn ask(&mut self, rng: &mut Rng) -> Op {
        let key = key(rng, self.keys);
        match rng.below(3) {
            0 => Op::Read { key },
            _ => Op::Add { key, by: 1 + rng.below(3).cast_signed() },
        }
    }

    fn answer(&mut self, op: &Op, _: u64, _: u64) -> Reply {
        self.answered += 1;
        let (lost, twice, stale) = (
            self.is_wrong(Fault::Lost),
            self.is_wrong(Fault::Twice),
            self.is_wrong(Fault::StaleRead),
        );
        let (key, by) = match op {
            Op::Add { key, by } => (key, *by),
            Op::Read { key } => (key, 0),
            other => panic!("not asked: {other:?}"),
        };
        let number = self.numbers.entry(key.clone()).or_default();
        let answered = *number + by;
        *number += if lost { 0 } else { by * (1 + i64::from(twice)) };
        let past = self.past.entry(key.clone()).or_default();
        let old = past.len().checked_sub(40).map(|old| past[old]);
        past.push(*number);
        let number = old.filter(|_| stale && by == 0).unwrap_or(answered);
        Reply { number: Some(number), ..Reply::default() }
    }

    fn denies(&self) -> bool {
        self.fault == Fault::Denied
    }
}
