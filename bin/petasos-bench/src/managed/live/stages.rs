//! A load under which something is changed, stage by stage: the typical rate of each stage, and the
//! rates over time for a picture.

use std::time::Duration;

use petasos_report::median;
use serde_json::{Value, json};

use super::clock::now_ns;
use super::operator::Done;
use super::stage::PairTurn;
use crate::error::BenchError;
use crate::rpc::tally::{SLICE_NS, Tally};

/// Slices of the client's turn that are one of the picture's.
pub const JOINED: usize = 20;
/// After a change, so much of its stage does not count: the answer to the operator may be late.
const SETTLING_NS: u64 = 100_000_000;

/// A change, which ends a stage.
pub type StageEnd<'a> = &'a dyn Fn() -> Result<Done, BenchError>;

/// Makes a change at the end of each stage but the last.
///
/// # Errors
/// That of the first change that fails.
pub fn change_at_ends(stage: Duration, changes: &[StageEnd<'_>]) -> Result<Vec<Done>, BenchError> {
    let begun_ns = now_ns();
    let stage_ns = stage.as_nanos() as u64;
    let mut done = Vec::new();
    for (change, stages) in changes.iter().zip(1..) {
        let at = begun_ns + stages * stage_ns;
        std::thread::sleep(Duration::from_nanos(at.saturating_sub(now_ns())));
        done.push(change()?);
    }
    Ok(done)
}

/// The calls per second of a whole turn.
pub fn rate(turn: &PairTurn) -> f64 {
    turn.client.completed as f64 / turn.client.elapsed_s
}

/// Seconds since the beginning, and calls per second, in the slices between two times. The last
/// slice of a turn is not whole.
pub fn rates(tally: &Tally, from_ns: u64, to_ns: u64) -> impl Iterator<Item = (f64, f64)> {
    let whole = tally.per_slice.chunks_exact(JOINED).enumerate();
    let length_ns = JOINED as u64 * SLICE_NS;
    let begun_ns = tally.begun_ns;
    let rates = whole.map(move |(at, slices)| {
        let at_ns = at as u64 * length_ns;
        let calls: u32 = slices.iter().sum();
        (at_ns, f64::from(calls) * 1e9 / length_ns as f64)
    });
    rates
        .filter(move |(at_ns, _)| {
            let begins_ns = begun_ns + at_ns;
            begins_ns >= from_ns && begins_ns + length_ns <= to_ns
        })
        .map(|(at_ns, rate)| (at_ns as f64 / 1e9, rate))
}

/// The median rate of each stage, between the changes that were done.
pub fn typical(tally: &Tally, done: &[Done]) -> Vec<f64> {
    let ends_ns = tally.begun_ns + tally.per_slice.len() as u64 * SLICE_NS;
    let begins = [tally.begun_ns].into_iter().chain(done.iter().map(|done| done.answered_ns));
    let ends = done.iter().map(|done| done.asked_ns).chain([ends_ns]);
    let spans = begins.zip(ends).map(|(from, to)| (from + SETTLING_NS, to));
    let typical = spans.map(|(from, to)| median(rates(tally, from, to).map(|(_, rate)| rate)));
    typical.map(|rate| rate.unwrap_or(f64::NAN)).collect()
}

/// When each change was asked for, in seconds since the beginning.
pub fn asked_at_s(tally: &Tally, done: &[Done]) -> Vec<f64> {
    let at_s = |done: &Done| done.asked_ns.saturating_sub(tally.begun_ns) as f64 / 1e9;
    done.iter().map(at_s).collect()
}

/// The changes, for programs: what they were, when, how long the operator waited, and what they
/// have done to the calls of all applications.
pub fn changes(names: &[&str], turns: &[PairTurn], done: &[Done]) -> Value {
    let at_s = turns.first().map_or(Vec::new(), |turn| asked_at_s(&turn.tally, done));
    let rows = names.iter().zip(done).zip(at_s).map(|((what, done), at_s)| {
        let took_us = (done.answered_ns - done.asked_ns) as f64 / 1e3;
        json!({ "what": what, "at_s": at_s, "took_us": took_us })
    });
    let made: Vec<_> = rows.collect();
    json!({
        "count": made.len(),
        "lost": turns.iter().map(|turn| turn.lost).sum::<u64>(),
        "duplicated": turns.iter().map(|turn| turn.duplicated).sum::<u64>(),
        "made": made,
    })
}

/// The same in a sentence.
pub fn counted(turns: &[PairTurn]) -> String {
    let sum = |of: fn(&PairTurn) -> u64| turns.iter().map(of).sum::<u64>();
    let (lost, duplicated) = (sum(|turn| turn.lost), sum(|turn| turn.duplicated));
    format!("{lost} calls lost, {duplicated} run twice, of {}", sum(|turn| turn.tally.sent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_whole_slices_of_a_stage() {
        let per_slice = [vec![1; JOINED], vec![2; JOINED], vec![9; JOINED - 1]].concat();
        let tally = Tally { begun_ns: 1000, per_slice, ..Tally::default() };
        let all: Vec<_> = rates(&tally, 0, u64::MAX).collect();
        assert_eq!(all, [(0.0, 1000.0), (0.02, 2000.0)]);
        let length_ns = JOINED as u64 * SLICE_NS;
        assert_eq!(rates(&tally, 1001, 1000 + 2 * length_ns).count(), 1);
        assert_eq!(rates(&tally, 0, 1000 + 2 * length_ns - 1).count(), 1);
    }

    #[test]
    fn changes_are_made_in_order_at_the_ends_of_stages() {
        let stage = Duration::from_millis(2);
        let begun_ns = now_ns();
        let change = || Ok(Done { asked_ns: now_ns(), answered_ns: now_ns() });
        let done = change_at_ends(stage, &[&change, &change]).expect("no change fails");
        let after = |done: &Done| done.asked_ns - begun_ns;
        assert!(after(&done[0]) >= 2_000_000 && after(&done[1]) >= 4_000_000, "{done:?}");
        let fails = || Err("refused".into());
        assert!(change_at_ends(stage, &[&fails, &change]).is_err());
    }
}
