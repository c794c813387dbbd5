//! Sequences: no number is given twice, and numbers follow real time. Some may be left out.
//!
//! No search is needed: calls are placed in the order of their numbers, or not at all. A call whose
//! outcome is unknown may have taken numbers that nobody has seen, which may be left out anyway.

use std::collections::BTreeMap;

use crate::bytes::Bytes;
use crate::evidence::Violation;
use crate::history::{Call, History, Outcome};
use crate::misuse::Misuse;
use crate::op::Op;

/// Numbers that a call was given.
#[derive(Clone, Copy)]
struct Taken {
    first: u64,
    last: u64,
    called_at: u64,
    ended_at: u64,
    index: usize,
}

/// Looks at each sequence. Returns what is wrong, and how many there are.
///
/// # Errors
/// If a call is none of a sequence.
pub fn check(history: &History) -> Result<(Vec<Violation>, usize), Misuse> {
    let mut sequences: BTreeMap<&Bytes, Vec<Taken>> = BTreeMap::new();
    for (index, call) in history.calls.iter().enumerate() {
        let Op::Take { key, count } = &call.op else {
            return Err(Misuse::of_operation(call, call.op.name(), "sequence"));
        };
        if let Some(taken) = taken(index, call, *count)? {
            sequences.entry(key).or_default().push(taken);
        }
    }
    let count = sequences.len();
    let violations = sequences.into_iter().filter_map(|(key, taken)| first_flaw(key, taken));
    Ok((violations.collect(), count))
}

fn taken(index: usize, call: &Call, count: u64) -> Result<Option<Taken>, Misuse> {
    let Outcome::Ok(ended_at, reply) = &call.outcome else { return Ok(None) };
    let first = reply.first.ok_or_else(|| Misuse::of_answer(call, "first"))?;
    let more = count.checked_sub(1);
    let more = more.ok_or_else(|| Misuse::of_argument(call, "it takes at least one number"))?;
    let last = first.checked_add(more);
    let last = last.ok_or_else(|| Misuse::of_argument(call, "numbers end at 2^64 - 1"))?;
    let (called_at, ended_at) = (call.called_at, *ended_at);
    Ok(Some(Taken { first, last, called_at, ended_at, index }))
}

fn first_flaw(key: &Bytes, mut taken: Vec<Taken>) -> Option<Violation> {
    taken.sort_unstable_by_key(|taken| (taken.first, taken.called_at, taken.index));
    // Of those with lower numbers: the one with the highest, and the one that began last.
    let mut lower: Option<(Taken, Taken)> = None;
    for now in taken {
        let Some((highest, latest)) = &mut lower else {
            lower = Some((now, now));
            continue;
        };
        if highest.last >= now.first {
            let what = format!("sequence {key:?} has given {} twice", now.first);
            return Some(Violation::Contradiction { calls: vec![highest.index, now.index], what });
        }
        if now.ended_at < latest.called_at {
            let what = format!(
                "sequence {key:?} has given {} to a call that began after {} had been given",
                latest.first, now.first
            );
            return Some(Violation::Contradiction { calls: vec![now.index, latest.index], what });
        }
        *highest = now;
        if now.called_at > latest.called_at {
            *latest = now;
        }
    }
    None
}
