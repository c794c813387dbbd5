//! Checking a whole history.

use crate::evidence::{Verdict, Violation};
use crate::history::{History, Outcome};
use crate::line::ModelKind;
use crate::misuse::Misuse;
use crate::model::{Model, Part};
use crate::models::{counter, etcd, register, sequence};
use crate::search::{Answer, Budget, search};

/// What a check has found, and how much it has looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The result.
    pub verdict: Verdict,
    /// Calls by outcome: answered, not done, unknown.
    pub outcomes: [usize; 3],
    /// Parts that have no keys in common.
    pub parts: usize,
    /// Calls that were tried in some place.
    pub steps: u64,
}

/// Says whether a service of this kind may have had this history (QR1), with each call that is not
/// *not done* (QR4) between its begin and its end; if its outcome is unknown, at any time after its
/// begin, or never.
///
/// # Errors
/// If the history has calls of other models, or lacks what this one needs.
pub fn check(history: &History, model: ModelKind, budget: Budget) -> Result<Report, Misuse> {
    let mut left = budget;
    let (verdict, parts) = match model {
        ModelKind::Register => parts(register::parts(history)?, Vec::new(), &mut left),
        ModelKind::Counter => parts(counter::parts(history)?, Vec::new(), &mut left),
        ModelKind::Sequence => {
            let (violations, parts) = sequence::check(history)?;
            (Verdict::of(violations, Vec::new()), parts)
        }
        ModelKind::Etcd => {
            let (part, violations) = etcd::part(history)?;
            // What is wrong by itself needs no search, which would not end sooner for it.
            let all =
                if violations.is_empty() { vec![("the store".to_owned(), part)] } else { vec![] };
            let (verdict, _) = parts(all, violations, &mut left);
            (verdict, 1)
        }
    };
    let outcomes = outcomes(history);
    Ok(Report { verdict, outcomes, parts, steps: budget.steps - left.steps })
}

fn parts<M: Model>(
    parts: Vec<(String, Part<M>)>,
    mut violations: Vec<Violation>,
    budget: &mut Budget,
) -> (Verdict, usize) {
    let count = parts.len();
    let mut undecided = Vec::new();
    for (name, part) in parts {
        match search(&part, budget) {
            Answer::Good(_) => {}
            Answer::Undecided => undecided.push(name),
            Answer::Violated(prefix) => {
                let calls = part.calls.len();
                violations.push(Violation::NoOrder { part: name, calls, prefix });
            }
        }
    }
    (Verdict::of(violations, undecided), count)
}

fn outcomes(history: &History) -> [usize; 3] {
    let mut counts = [0; 3];
    for call in &history.calls {
        let which = match call.outcome {
            Outcome::Ok(..) => 0,
            Outcome::NotDone => 1,
            Outcome::Unknown => 2,
        };
        counts[which] += 1;
    }
    counts
}
