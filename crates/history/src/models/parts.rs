//! Dividing calls into parts that have no key in common.

use std::collections::HashMap;

use crate::bytes::Bytes;
use crate::evidence::{Happening, Mention};
use crate::history::{Call, Outcome};

/// When a call ended, if that is known.
pub fn ended_at(call: &Call) -> Option<u64> {
    match call.outcome {
        Outcome::Ok(at, _) => Some(at),
        Outcome::NotDone | Outcome::Unknown => None,
    }
}

/// A call, done at one time.
pub fn mention(index: usize, call: &Call) -> Mention {
    Mention { call: index, place: call.place, what: Happening::Call }
}

/// Keys by number, and which of them occur together.
#[derive(Debug, Default)]
pub struct KeySets {
    numbers: HashMap<Bytes, usize>,
    names: Vec<Bytes>,
    /// A key of the same set, towards the one that stands for all.
    towards: Vec<usize>,
}

impl KeySets {
    /// The number of a key.
    pub fn number(&mut self, key: &Bytes) -> usize {
        if let Some(number) = self.numbers.get(key) {
            return *number;
        }
        let number = self.names.len();
        self.numbers.insert(key.clone(), number);
        self.names.push(key.clone());
        self.towards.push(number);
        number
    }

    /// The key with this number.
    pub fn name(&self, number: usize) -> &Bytes {
        &self.names[number]
    }

    /// The two occur together.
    pub fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.find(one), self.find(other));
        self.towards[one.max(other)] = one.min(other);
    }

    /// The key that stands for all that occur together with this one.
    pub fn find(&mut self, key: usize) -> usize {
        let mut at = key;
        while self.towards[at] != at {
            self.towards[at] = self.towards[self.towards[at]];
            at = self.towards[at];
        }
        at
    }
}

/// Keys for people: the first few.
pub fn described(names: &[Bytes]) -> String {
    const SHOWN: usize = 4;
    let shown = names.iter().take(SHOWN).map(|name| format!("{name:?}"));
    let text = shown.collect::<Vec<_>>().join(", ");
    match names.len() {
        0..=SHOWN => text,
        all => format!("{text} and {} more", all - SHOWN),
    }
}
