//! Long histories of services that are right.

use petasos_base::Rng;
use petasos_history::{Budget, History, ModelKind, Verdict, check};

use crate::support::counters::{self, Counters};
use crate::support::etcd::{self, Etcd};
use crate::support::registers::{self, Registers};
use crate::support::sequences::{self, Sequences};
use crate::support::world::{Plan, Service, history};

const LONG: Plan = Plan { clients: 16, calls: 100_000, unknown: 0.0, not_done: 0.01 };

/// A check is bounded by its steps, not by time: so many per call.
fn good<S: Service>(history: &History, steps_per_call: u64) {
    let calls = history.calls.len();
    let budget = Budget { steps: steps_per_call * calls as u64, ..Budget::default() };
    let report = check(history, S::MODEL, budget).expect("it is a history of this model");
    assert_eq!(report.verdict, Verdict::Good, "{:?}", S::MODEL);
    assert_eq!(report.outcomes.iter().sum::<usize>(), calls);
    assert!(S::MODEL == ModelKind::Sequence || report.steps > 0);
}

fn long<S: Service>(service: S, unknown: f64) {
    let plan = Plan { unknown, ..LONG };
    let history = history(service, plan, &mut Rng::new(7));
    assert!(history.calls.len() >= LONG.calls);
    good::<S>(&history, 100);
}

#[test]
fn many_keys() {
    long(Registers::new(5000, 0, registers::Fault::None), 0.01);
    long(Counters::new(5000, counters::Fault::None), 0.01);
}

#[test]
fn few_hot_keys() {
    long(Registers::new(3, 0, registers::Fault::None), 0.0);
    long(Counters::new(1, counters::Fault::None), 0.0);
    let stamps = Registers::new(3, 0, registers::Fault::None).stamped_ones();
    long(stamps, 0.001);
}

#[test]
fn few_values_on_hot_keys() {
    long(Registers::new(2, 3, registers::Fault::None), 0.0);
}

#[test]
fn a_store_with_unknown_outcomes() {
    let plan = Plan { clients: 16, calls: 20_000, unknown: 0.01, not_done: 0.01 };
    let history = history(Etcd::new(8, etcd::Fault::None), plan, &mut Rng::new(7));
    good::<Etcd>(&history, 500);
}

#[test]
fn a_sequence() {
    long(Sequences::new(sequences::Fault::None), 0.1);
}
