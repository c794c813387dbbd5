//! Checking a whole history.

use crate::evidence::{Verdict, Violation};
use crate::history::{History, Outcome};
use crate::line::ModelKind;
use crate::misuse::Misuse;
use crate::model::{Model, Part};
use crate::models::etcd::model::Etcd;
use crate::models::{counter, etcd, register, sequence};
use crate::op::Op;
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
        ModelKind::Register => parts(register::parts(history)?, &mut left),
        ModelKind::Counter => parts(counter::parts(history)?, &mut left),
        ModelKind::Sequence => {
            let (violations, parts) = sequence::check(history)?;
            (Verdict::of(violations, Vec::new()), parts)
        }
        ModelKind::Etcd => {
            let (part, violations) = etcd::part(history)?;
            // What is wrong by itself needs no search, which would not end sooner for it.
            let verdict = match violations.is_empty() {
                true => store(part, &mut left),
                false => Verdict::Violated(violations),
            };
            (verdict, 1)
        }
    };
    let outcomes = outcomes(history);
    Ok(Report { verdict, outcomes, parts, steps: budget.steps - left.steps })
}

fn parts<M: Model>(parts: Vec<(String, Part<M>)>, budget: &mut Budget) -> (Verdict, usize) {
    let count = parts.len();
    let (mut violations, mut undecided) = (Vec::new(), Vec::new());
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

/// One part, and watches: if its calls have an order without these, the order says which watch is
/// wrong.
fn store(mut part: Part<Etcd<'_>>, budget: &mut Budget) -> Verdict {
    let name = "the store".to_owned();
    let prefix = match search(&part, budget) {
        Answer::Good(_) => return Verdict::Good,
        Answer::Undecided => return Verdict::Undecided(vec![name]),
        Answer::Violated(prefix) => prefix,
    };
    let windows = std::mem::take(&mut part.model.facts.windows);
    let blamed = match search(&part, budget) {
        Answer::Good(order) => etcd::blamed(&part, &windows, &order),
        Answer::Violated(_) | Answer::Undecided => None,
    };
    let calls = part.calls.len();
    Verdict::Violated(vec![blamed.unwrap_or(Violation::NoOrder { part: name, calls, prefix })])
}

fn outcomes(history: &History) -> [usize; 3] {
    let mut counts = [0; 3];
    for call in &history.calls {
        let which = match call.outcome {
            // One that is not ended goes on.
            _ if matches!(call.op, Op::Watch { .. }) => 0,
            Outcome::Ok(..) => 0,
            Outcome::NotDone => 1,
            Outcome::Unknown => 2,
        };
        counts[which] += 1;
    }
    counts
}
