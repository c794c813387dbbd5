//! Counters: numbers by name, 0 at first, that are added to and read.

use std::collections::BTreeMap;

use crate::bytes::Bytes;
use crate::history::{Call, History, Outcome};
use crate::misuse::Misuse;
use crate::model::{Model, Part, Step, Timed};
use crate::models::parts::{ended_at, mention};
use crate::op::Op;

/// One counter.
#[derive(Clone, Copy, Debug)]
pub struct Counter;

/// What a call adds, and what it was answered.
#[derive(Clone, Debug)]
pub struct CounterCall {
    by: i64,
    number: Option<i64>,
}

impl Model for Counter {
    type Call = CounterCall;
    type State = i64;
    type Undo = i64;

    fn start(&self) -> i64 {
        0
    }

    fn apply(&self, state: &mut i64, call: &CounterCall, _: u64) -> Option<Step<i64>> {
        let after = state.checked_add(call.by)?;
        if call.number.is_some_and(|number| number != after) {
            return None;
        }
        let undo = std::mem::replace(state, after);
        Some(Step { undo, changes: undo != after })
    }

    fn is_read(&self, call: &CounterCall) -> bool {
        call.by == 0
    }

    fn undo(&self, state: &mut i64, undo: i64) {
        *state = undo;
    }

    fn digest(&self, state: &i64) -> u128 {
        u128::from(state.cast_unsigned())
    }

    fn describe(&self, state: &i64) -> String {
        state.to_string()
    }
}

/// The history's counters, with their names.
///
/// # Errors
/// If a call is none of a counter.
pub fn parts(history: &History) -> Result<Vec<(String, Part<Counter>)>, Misuse> {
    let mut parts: BTreeMap<&Bytes, Part<Counter>> = BTreeMap::new();
    for (index, call) in history.calls.iter().enumerate() {
        let Some((key, counted)) = counted(call)? else { continue };
        let part = parts.entry(key);
        let part = part.or_insert_with(|| Part { model: Counter, calls: Vec::new() });
        let (called_at, ended_at) = (call.called_at, ended_at(call));
        part.calls.push(Timed {
            mention: mention(index, call),
            called_at,
            ended_at,
            call: counted,
        });
    }
    Ok(parts.into_iter().map(|(key, part)| (format!("{key:?}"), part)).collect())
}

/// What a call does to which counter. None if it says nothing.
fn counted(call: &Call) -> Result<Option<(&Bytes, CounterCall)>, Misuse> {
    let (key, by) = match &call.op {
        Op::Add { key, by } => (key, *by),
        Op::Read { key } => (key, 0),
        other => return Err(Misuse::of_operation(call, other.name(), "counter")),
    };
    let number = match &call.outcome {
        Outcome::NotDone => return Ok(None),
        Outcome::Unknown => None,
        Outcome::Ok(_, reply) => {
            Some(reply.number.ok_or_else(|| Misuse::of_answer(call, "number"))?)
        }
    };
    Ok(Some((key, CounterCall { by, number })))
}
