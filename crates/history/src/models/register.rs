//! Registers: keys with values, absent at first, and with stamps if answers have them.
//!
//! Stamps are given to writes, count up, and are never given twice (`docs/spec/kv.md`, K6). A write
//! whose answer has none has one that is not known until something reads it. Keys that no
//! transaction has in common are parts of their own.

use std::collections::BTreeMap;

use crate::bytes::Bytes;
use crate::history::{Call, History, Outcome};
use crate::misuse::Misuse;
use crate::model::{Model, Part, Step, Timed, digest};
use crate::models::parts::{KeySets, described, ended_at, mention};
use crate::models::value::Value;
use crate::op::{Op, Reply};

/// Registers that occur together in transactions.
#[derive(Clone, Debug)]
pub struct Registers {
    names: Vec<Bytes>,
}

/// What a call does, one key after the other.
#[derive(Clone, Debug)]
pub struct RegisterCall(Vec<(usize, Action)>);

/// What is done to a key, and what was answered: nothing is known of what is None.
#[derive(Clone, Debug)]
enum Action {
    Get { value: Option<Option<Value>>, stamp: Option<u64> },
    Set { value: Value, stamp: Option<u64> },
    Delete { existed: Option<bool> },
    CompareSet { expect: Option<Value>, value: Value, done: Option<bool>, stamp: Option<u64> },
    CompareStamp { expect: u64, value: Value, done: Option<bool>, stamp: Option<u64> },
    Append { more: Value, create: bool, answer: Option<Appended> },
}

#[derive(Clone, Copy, Debug)]
struct Appended {
    done: bool,
    length: Option<u64>,
    stamp: Option<u64>,
}

/// A key's state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Register {
    value: Option<Value>,
    /// The last stamp that is known.
    stamp: u64,
    /// Whether a later one was given, that is not.
    is_later: bool,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub struct State {
    registers: Vec<Register>,
    digest: u128,
}

impl Register {
    fn store(&mut self, value: Value, stamp: Option<u64>) -> bool {
        self.value = Some(value);
        match stamp {
            Some(stamp) if stamp <= self.stamp => return false,
            Some(stamp) => (self.stamp, self.is_later) = (stamp, false),
            None => self.is_later = true,
        }
        true
    }

    /// The stamp is read.
    fn read(&mut self, stamp: u64) -> bool {
        let fits = match self.is_later {
            true => stamp > self.stamp,
            false => stamp == self.stamp,
        };
        (self.stamp, self.is_later) = (stamp, false);
        fits && self.value.is_some()
    }

    /// Stores if a condition holds, and says whether that fits the answer.
    fn store_if(
        &mut self,
        holds: bool,
        done: Option<bool>,
        value: &Value,
        stamp: Option<u64>,
    ) -> bool {
        done.is_none_or(|done| done == holds) && (!holds || self.store(value.clone(), stamp))
    }

    fn act(&mut self, action: &Action) -> bool {
        match action {
            Action::Get { value, stamp } => {
                let fits = value.as_ref().is_none_or(|value| *value == self.value);
                fits && stamp.is_none_or(|stamp| self.read(stamp))
            }
            Action::Set { value, stamp } => self.store(value.clone(), *stamp),
            Action::Delete { existed } => {
                let had = self.value.take().is_some();
                existed.is_none_or(|existed| existed == had)
            }
            Action::CompareSet { expect, value, done, stamp } => {
                self.store_if(self.value == *expect, *done, value, *stamp)
            }
            Action::CompareStamp { expect, value, done, stamp } => {
                if *done == Some(false) && self.is_later && self.value.is_some() {
                    // Nobody knows the stamp: it may be another.
                    return true;
                }
                let before = self.clone();
                let holds = self.read(*expect);
                if !holds {
                    *self = before;
                }
                self.store_if(holds, *done, value, *stamp)
            }
            Action::Append { more, create, answer } => self.append(more, *create, *answer),
        }
    }

    fn append(&mut self, more: &Value, create: bool, answer: Option<Appended>) -> bool {
        let longer = match &self.value {
            Some(value) => Some(value.with(more)),
            None => create.then(|| more.clone()),
        };
        let Some(longer) = longer else {
            return answer.is_none_or(|answer| !answer.done);
        };
        let length = longer.length();
        match answer {
            None => self.store(longer, None),
            Some(answer) => {
                let fits = answer.done && answer.length.is_none_or(|answer| answer == length);
                fits && self.store(longer, answer.stamp)
            }
        }
    }
}

impl Registers {
    /// What a key adds to the digest: nothing if it is as at first.
    fn share(key: usize, register: &Register) -> u128 {
        if *register == Register::default() { 0 } else { digest(&(key, register)) }
    }
}

impl Model for Registers {
    type Call = RegisterCall;
    type State = State;
    type Undo = Vec<(usize, Register)>;

    fn start(&self) -> State {
        State { registers: vec![Register::default(); self.names.len()], digest: 0 }
    }

    fn apply(&self, state: &mut State, call: &RegisterCall, _: u64) -> Option<Step<Self::Undo>> {
        let before = state.digest;
        let mut undo = Vec::with_capacity(call.0.len());
        for (key, action) in &call.0 {
            let mut register = state.registers[*key].clone();
            if !register.act(action) {
                self.undo(state, undo);
                return None;
            }
            if register != state.registers[*key] {
                state.digest ^= Registers::share(*key, &register);
                let old = std::mem::replace(&mut state.registers[*key], register);
                state.digest ^= Registers::share(*key, &old);
                undo.push((*key, old));
            }
        }
        Some(Step { undo, changes: state.digest != before })
    }

    fn is_read(&self, call: &RegisterCall) -> bool {
        call.0.iter().all(|(_, action)| match action {
            Action::Get { .. } => true,
            Action::Set { .. } => false,
            Action::Delete { existed } => *existed == Some(false),
            Action::CompareSet { done, .. } | Action::CompareStamp { done, .. } => {
                *done == Some(false)
            }
            Action::Append { answer, .. } => answer.is_some_and(|answer| !answer.done),
        })
    }

    fn undo(&self, state: &mut State, undo: Self::Undo) {
        for (key, old) in undo.into_iter().rev() {
            state.digest ^= Registers::share(key, &old);
            let new = std::mem::replace(&mut state.registers[key], old);
            state.digest ^= Registers::share(key, &new);
        }
    }

    fn digest(&self, state: &State) -> u128 {
        state.digest
    }

    fn describe(&self, state: &State) -> String {
        let named = self.names.iter().zip(&state.registers);
        let text = |(name, register): (&Bytes, &Register)| match &register.value {
            None => format!("{name:?} is absent"),
            Some(value) => format!("{name:?} is {value}"),
        };
        named.map(text).collect::<Vec<_>>().join(", ")
    }
}

/// The history's registers, with their names, divided where no call has them in common.
///
/// # Errors
/// If a call is none of a register.
pub fn parts(history: &History) -> Result<Vec<(String, Part<Registers>)>, Misuse> {
    let mut sets = KeySets::default();
    let mut timed = Vec::new();
    for (index, call) in history.calls.iter().enumerate() {
        if let Some(actions) = actions(call, &mut sets)? {
            for (key, _) in &actions {
                sets.join(actions[0].0, *key);
            }
            let (called_at, ended_at) = (call.called_at, ended_at(call));
            timed.push(Timed {
                mention: mention(index, call),
                called_at,
                ended_at,
                call: RegisterCall(actions),
            });
        }
    }
    Ok(divided(&mut sets, timed))
}

/// Gives each set of keys its calls, and numbers its keys from 0.
fn divided(sets: &mut KeySets, calls: Vec<Timed<RegisterCall>>) -> Vec<(String, Part<Registers>)> {
    let mut parts: BTreeMap<usize, Part<Registers>> = BTreeMap::new();
    let mut inside: BTreeMap<usize, usize> = BTreeMap::new();
    for mut timed in calls {
        let Some((first, _)) = timed.call.0.first() else { continue };
        let part = parts
            .entry(sets.find(*first))
            .or_insert_with(|| Part { model: Registers { names: Vec::new() }, calls: Vec::new() });
        for (key, _) in &mut timed.call.0 {
            *key = *inside.entry(*key).or_insert_with(|| {
                part.model.names.push(sets.name(*key).clone());
                part.model.names.len() - 1
            });
        }
        part.calls.push(timed);
    }
    parts.into_values().map(|part| (described(&part.model.names), part)).collect()
}

/// What a call does. None if it has done nothing, and nothing is known of what it has read.
fn actions(call: &Call, sets: &mut KeySets) -> Result<Option<Vec<(usize, Action)>>, Misuse> {
    let reply = match &call.outcome {
        Outcome::NotDone => return Ok(None),
        Outcome::Unknown => None,
        Outcome::Ok(_, reply) => Some(&**reply),
    };
    let Op::Transaction(ops) = &call.op else {
        let action = action(call, &call.op, reply, sets)?;
        let is_mute = reply.is_none() && matches!(action.1, Action::Get { .. });
        return Ok((!is_mute).then(|| vec![action]));
    };
    let parts = match reply {
        None => None,
        Some(Reply { parts: Some(parts), .. }) if parts.len() == ops.len() => Some(parts),
        Some(_) => return Err(Misuse::of_answer(call, "parts")),
    };
    let reply = |index: usize| parts.map(|parts| &parts[index]);
    let actions = ops.iter().enumerate().map(|(index, op)| action(call, op, reply(index), sets));
    let actions = actions.collect::<Result<Vec<_>, _>>()?;
    if actions.iter().any(|(_, action)| matches!(action, Action::CompareStamp { .. })) {
        // Whether one holds may not be known, and then the whole would have two outcomes.
        return Err(Misuse::of_argument(call, "stamps cannot be compared in it"));
    }
    let is_mute =
        parts.is_none() && actions.iter().all(|(_, action)| matches!(action, Action::Get { .. }));
    Ok((!is_mute && !actions.is_empty()).then_some(actions))
}

fn action(
    call: &Call,
    op: &Op,
    reply: Option<&Reply>,
    sets: &mut KeySets,
) -> Result<(usize, Action), Misuse> {
    let stamp = reply.and_then(|reply| reply.stamp);
    let done = || match reply {
        None => Ok(None),
        Some(Reply { done: None, .. }) => Err(Misuse::of_answer(call, "done")),
        Some(reply) => Ok(reply.done),
    };
    let (key, action) = match op {
        Op::Get { key } => {
            let value = reply.map(|reply| reply.value.as_ref());
            let value = value.map(|value| value.ok_or_else(|| Misuse::of_answer(call, "value")));
            let value = value.transpose()?.map(|value| value.as_ref().map(Value::of));
            // Some answer 0 where there is no item.
            let stamp = stamp.filter(|stamp| *stamp != 0);
            (key, Action::Get { value, stamp })
        }
        Op::Set { key, value } => (key, Action::Set { value: Value::of(value), stamp }),
        Op::Delete { key } => {
            (key, Action::Delete { existed: reply.and_then(|reply| reply.existed) })
        }
        Op::CompareSet { key, expect, value } => {
            let expect = expect.as_ref().map(Value::of);
            let (value, done) = (Value::of(value), done()?);
            (key, Action::CompareSet { expect, value, done, stamp })
        }
        Op::CompareStamp { key, stamp: expect, value } => {
            let (expect, value, done) = (*expect, Value::of(value), done()?);
            (key, Action::CompareStamp { expect, value, done, stamp })
        }
        Op::Append { key, value, create } => {
            let answer = reply.map(|reply| Appended {
                done: reply.done.unwrap_or(true),
                length: reply.length,
                stamp,
            });
            (key, Action::Append { more: Value::of(value), create: *create, answer })
        }
        other => return Err(Misuse::of_operation(call, other.name(), "register")),
    };
    Ok((sets.number(key), action))
}
