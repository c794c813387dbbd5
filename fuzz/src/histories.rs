//! Recorded calls, as `petasos check` reads them from any file.
//!
//! A line that is read is written as it was, and every history gets an answer of each model: good,
//! violated with calls that are in it, undecided, or refused with a line that is in it.

use petasos_history::{Budget, History, Line, Misuse, ModelKind, Report, Verdict, Violation};
use petasos_history::{check, read};

use crate::Seed;

const BUDGET: Budget = Budget { steps: 2000, configurations: 500 };

/// The file.
pub fn run(bytes: &[u8]) {
    for text in bytes.split(|byte| *byte == b'\n') {
        if let Ok(line) = Line::parse(text) {
            let again = line.to_json().expect("lines can be written");
            assert_eq!(Line::parse(again.as_bytes()).expect("it was written"), line);
        }
    }
    let history = match read(bytes) {
        Ok(history) => history,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    for model in ModelKind::ALL {
        match check(&history, model, BUDGET) {
            Ok(report) => reported(&history, &report),
            Err(Misuse { place, what, .. }) => {
                assert!(!what.is_empty() && place.file == 0 && place.line > 0);
            }
        }
    }
}

fn reported(history: &History, report: &Report) {
    let calls = history.calls.len();
    assert_eq!(report.outcomes.iter().sum::<usize>(), calls);
    assert!(report.steps <= 2 * BUDGET.steps);
    let Verdict::Violated(violations) = &report.verdict else { return };
    for violation in violations {
        match violation {
            Violation::Contradiction { calls: between, what } => {
                assert!(!what.is_empty() && between.iter().all(|call| *call < calls));
            }
            Violation::NoOrder { prefix, .. } => {
                let mut mentions = prefix.order.iter().chain(&prefix.left).chain(&prefix.blocked);
                assert!(mentions.all(|mention| mention.call < calls));
                assert!(!prefix.left.is_empty(), "something does not fit");
            }
        }
    }
}

/// The histories that the crate's tests have.
pub fn seeds() -> Vec<Seed> {
    macro_rules! stored {
        ($($name:literal)*) => {
            vec![$((
                $name,
                include_bytes!(concat!(
                    "../../crates/history/tests/histories/", $name, ".jsonl"
                )).to_vec(),
            )),*]
        };
    }
    stored! {
        "register-good" "register-stamps" "register-stale-read" "register-torn-transaction"
        "counter-good" "counter-added-twice" "sequence-good" "sequence-given-twice"
        "etcd-good" "etcd-watch-gap" "etcd-early-expiry"
    }
}
