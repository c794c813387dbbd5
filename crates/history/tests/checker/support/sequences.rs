//! Sequences: numbers, each once.

use petasos_base::Rng;
use petasos_history::{ModelKind, Op, Reply};

use super::key;
use super::world::Service;

/// What is wrong with a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// A block is given twice, as after a failover that has forgotten it.
    Twice,
    /// Numbers are given from an older block.
    Backwards,
}

/// The service: one sequence, that leaves numbers out at times.
pub struct Sequences {
    fault: Fault,
    next: u64,
    kept: Vec<u64>,
    answered: u64,
}

impl Sequences {
    pub fn new(fault: Fault) -> Sequences {
        Sequences { fault, next: 0, kept: Vec::new(), answered: 0 }
    }
}

impl Service for Sequences {
    const MODEL: ModelKind = ModelKind::Sequence;

    fn ask(&mut self, rng: &mut Rng) -> Op {
        Op::Take { key: key(rng, 1), count: 1 + rng.below(5) }
    }

    fn answer(&mut self, op: &Op, _: u64, _: u64) -> Reply {
        let Op::Take { count, .. } = op else { panic!("not asked: {op:?}") };
        self.answered += 1;
        let is_wrong = self.answered.is_multiple_of(50);
        if is_wrong && self.fault == Fault::Twice {
            self.next -= self.next.min(20);
        }
        if self.answered.is_multiple_of(10) {
            self.kept.push(self.next);
            self.next += 8;
        }
        let kept =
            if is_wrong && self.fault == Fault::Backwards { self.kept.first() } else { None };
        let first = kept.copied().unwrap_or(self.next);
        self.next = self.next.max(first + count);
        Reply { first: Some(first), ..Reply::default() }
    }
}
