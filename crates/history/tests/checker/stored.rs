//! Histories in files, which the book and other checkers use, too.

use std::fs;
use std::path::PathBuf;

use petasos_history::{Budget, History, Mention, Verdict, Violation, check, read};

fn stored(name: &str) -> History {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/histories");
    let text = fs::read(folder.join(name).with_extension("jsonl")).expect("it is in the folder");
    read(text.as_slice()).expect("it is a history")
}

fn verdict(name: &str) -> Verdict {
    let history = stored(name);
    let model = history.header.model.expect("it has a header");
    check(&history, model, Budget::default()).expect("it is of the model that it says").verdict
}

/// The lines of the calls that are left when no order goes further.
fn left(name: &str) -> (usize, Vec<u64>) {
    let Verdict::Violated(violations) = verdict(name) else { panic!("{name} is not good") };
    let [Violation::NoOrder { prefix, .. }] = &violations[..] else { panic!("{violations:?}") };
    let line = |mention: &Mention| mention.place.line;
    (prefix.order.len(), prefix.left.iter().map(line).collect())
}

#[test]
fn good_ones_are_good() {
    for name in [
        "register-good",
        "register-same-value",
        "register-stamps",
        "counter-good",
        "sequence-good",
        "etcd-good",
        "etcd-kept-alive",
    ] {
        assert_eq!(verdict(name), Verdict::Good, "{name}");
    }
}

#[test]
fn evidence_is_the_longest_order_and_what_is_left() {
    for (name, order, lines) in [
        ("register-stale-read", 3, &[7][..]),
        ("register-denied", 0, &[4]),
        ("register-torn-transaction", 1, &[4]),
        ("register-same-stamp", 1, &[4]),
        ("counter-added-twice", 1, &[4]),
    ] {
        let (placed, left) = left(name);
        assert_eq!((placed, &left[..]), (order, lines), "{name}");
    }
    // Of what a watch has seen, the line is that of the sight.
    assert_eq!(left("etcd-early-expiry"), (6, vec![12]));
    assert_eq!(left("etcd-ended-while-kept-alive"), (4, vec![10]));
}

#[test]
fn contradictions_say_what_it_is_and_between_which_calls() {
    for (name, expected) in [
        ("etcd-watch-gap", "a watch has not seen revision 5 as it was made"),
        ("sequence-given-twice", "has given 109 twice"),
        ("sequence-backwards", "has given 99 to a call that began after 100 had been given"),
    ] {
        let Verdict::Violated(violations) = verdict(name) else { panic!("{name} is not good") };
        let [Violation::Contradiction { calls, what }] = &violations[..] else {
            panic!("{violations:?}")
        };
        assert!(what.contains(expected), "{name}: {what}");
        assert_eq!(calls.len(), 2, "{name}");
    }
}

#[test]
fn a_model_refuses_what_it_does_not_know() {
    let history = stored("counter-good");
    for model in [
        petasos_history::ModelKind::Register,
        petasos_history::ModelKind::Sequence,
        petasos_history::ModelKind::Etcd,
    ] {
        let misuse = check(&history, model, Budget::default()).expect_err("these are counters");
        let expected = format!("the model `{}` has no operation `add`", model.name());
        assert_eq!((misuse.to_string(), misuse.place.line), (expected, 2));
    }
}

#[test]
fn a_small_budget_is_no_verdict() {
    let history = stored("register-good");
    let budget = Budget { steps: 2, ..Budget::default() };
    let report = check(&history, petasos_history::ModelKind::Register, budget);
    let report = report.expect("it is of this model");
    assert!(matches!(report.verdict, Verdict::Undecided(_)), "{report:?}");
    assert_eq!(report.outcomes, [5, 1, 1]);
}
