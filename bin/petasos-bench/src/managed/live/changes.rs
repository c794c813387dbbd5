//! Many changes of policies under full load, among as many that change nothing (*shams*), in random
//! order. Both go the same way through the control plane; what differs is the change.
//!
//! Around each, the longest time is taken in which no call ended. A second application shares the
//! services, and is not changed.

mod gaps;
mod kinds;
mod outcome;

use std::time::Duration;

use petasos_base::{Rng, random_seed};
use petasos_report::Progress;

use super::clock::now_ns;
use super::operator::{Change, Done, Operator};
use super::stage::{PairTurn, Stage, calls};
use crate::error::BenchError;
use crate::managed::service::BARE;
use crate::report::Report;
use gaps::Around;
use kinds::{KINDS, Kind};

/// Calls of the first application that are outstanding, and of the second.
const WINDOWS: [usize; 2] = [128, 8];
/// Between two changes.
const PAUSE: Duration = Duration::from_millis(12);
/// Changes are asked for within turns of this length, except in its first and last part.
const TURN: Duration = Duration::from_secs(2);
const EDGE: Duration = Duration::from_millis(50);

/// What was found for a kind of changes.
pub struct Found {
    pub kind: &'static str,
    /// How many were made.
    pub made: u64,
    /// What calls did around them.
    pub changes: Vec<Around>,
    pub shams: Vec<Around>,
    pub lost: u64,
    pub duplicated: u64,
}

/// Both applications in all turns.
#[derive(Default)]
pub struct Totals {
    pub turns: Vec<[PairTurn; 2]>,
}

/// Makes `count` changes of each kind, or as many as `seconds` have time for.
///
/// # Errors
/// If a process does not come up or has died, or a change is refused.
pub fn run(count: usize, seconds: f64) -> Result<Report, BenchError> {
    let shapes = WINDOWS.map(|window| calls(32, window));
    let mut stage = Stage::start(BARE, BARE, &shapes)?;
    let operators = stage.operators()?;
    stage.turn(TURN / 4, || Ok(()))?;
    let give_up_ns = now_ns() + (seconds * 1e9) as u64;
    let (mut rng, mut totals) = (Rng::new(random_seed()), Totals::default());
    let mut found = Vec::new();
    for kind in &KINDS {
        for operator in &operators {
            kind.prepare.iter().try_for_each(|change| operator.change(*change).map(drop))?;
        }
        let mut plan = Plan::new(kind, count, &mut rng);
        let label = format!("managed changes, {}", kind.name);
        let mut progress = Progress::new(&label, plan.left() as u64);
        let all = plan.left();
        while plan.left() > 0 && now_ns() < give_up_ns {
            let (turns, done) = stage.turn(TURN, || plan.work(&operators))?;
            plan.note(kind, &mut found, &turns, &done);
            progress.set((all - plan.left()) as u64);
            totals.turns.extend(<[PairTurn; 2]>::try_from(turns).ok());
        }
        progress.finish("done");
        if plan.left() > 0 {
            break;
        }
        operators.iter().try_for_each(|operator| kind.tidy(operator))?;
    }
    outcome::report(count, &found, &totals)
}

/// The changes of a kind that are left, and shams among them.
struct Plan {
    /// Whether it is a sham; the next is the last.
    left: Vec<bool>,
    kind: &'static Kind,
    /// Real changes that were made: odd ones go to the other host, and in turn through the kind's
    /// changes.
    made: usize,
}

/// Something that was done.
#[derive(Clone, Copy)]
struct Made {
    /// The index of the change among its kind's; none for a sham.
    which: Option<usize>,
    done: Done,
}

impl Plan {
    fn new(kind: &'static Kind, count: usize, rng: &mut Rng) -> Plan {
        // As many at each host.
        let changes = count.next_multiple_of(2) * kind.changes.len();
        let mut left: Vec<bool> = (0..2 * changes).map(|at| at < changes).collect();
        for at in (1..left.len()).rev() {
            left.swap(at, rng.below(at as u64 + 1) as usize);
        }
        Plan { left, kind, made: 0 }
    }

    fn left(&self) -> usize {
        self.left.len()
    }

    /// Does what has time within a turn.
    fn work(&mut self, operators: &[Operator; 2]) -> Result<Vec<Made>, BenchError> {
        let ends_ns = now_ns() + (TURN - EDGE * 2).as_nanos() as u64;
        let mut done = Vec::new();
        std::thread::sleep(EDGE);
        while now_ns() < ends_ns {
            let Some(is_sham) = self.left.pop() else { break };
            done.push(if is_sham { self.sham(operators)? } else { self.change(operators)? });
            std::thread::sleep(PAUSE);
        }
        Ok(done)
    }

    /// A change at the host whose turn it is.
    fn change(&mut self, operators: &[Operator; 2]) -> Result<Made, BenchError> {
        let which = self.made / 2 % self.kind.changes.len();
        let (_, changes) = self.kind.changes[which];
        let round = self.made / 2 / self.kind.changes.len();
        let change = changes[round % changes.len()];
        let done = operators[self.made % 2].change(change)?;
        self.made += 1;
        Ok(Made { which: Some(which), done })
    }

    fn sham(&self, operators: &[Operator; 2]) -> Result<Made, BenchError> {
        let done = operators[self.left.len() % 2].change(Change::Sham)?;
        Ok(Made { which: None, done })
    }

    /// Adds what a turn tells of each kind of changes.
    fn note(&self, kind: &'static Kind, found: &mut Vec<Found>, turns: &[PairTurn], made: &[Made]) {
        let [first, second] = turns else { return };
        let tallies = [&first.tally, &second.tally];
        for (which, (name, _)) in kind.changes.iter().enumerate() {
            let at = found.iter().position(|found| found.kind == *name).unwrap_or_else(|| {
                found.push(Found::new(name));
                found.len() - 1
            });
            let around = |is_it: &dyn Fn(&Made) -> bool| -> Vec<Around> {
                let its = made.iter().filter(|made| is_it(made));
                its.filter_map(|made| Around::new(tallies, made.done)).collect()
            };
            found[at].changes.extend(around(&|made| made.which == Some(which)));
            found[at].made += made.iter().filter(|made| made.which == Some(which)).count() as u64;
            found[at].shams.extend(around(&|made| made.which.is_none()));
            found[at].lost += first.lost + second.lost;
            found[at].duplicated += first.duplicated + second.duplicated;
        }
    }
}

impl Found {
    fn new(kind: &'static str) -> Found {
        Found { kind, made: 0, changes: Vec::new(), shams: Vec::new(), lost: 0, duplicated: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_has_as_many_shams_as_changes() {
        for kind in &KINDS {
            let plan = Plan::new(kind, 10, &mut Rng::new(1));
            let changes = 10 * kind.changes.len();
            assert_eq!(plan.left(), 2 * changes);
            assert_eq!(plan.left.iter().filter(|is_sham| **is_sham).count(), changes);
        }
    }
}
