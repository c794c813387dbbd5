//! Why a history is none that a service may have.

use crate::history::Place;

/// Something that happened at one time, and where the history says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mention {
    /// The call's place in the history's list.
    pub call: usize,
    /// The line.
    pub place: Place,
    /// What it says of the call.
    pub what: Happening,
}

/// What happens at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A call is done.
    Call,
    /// A watch is told of a revision: it is there at the latest then.
    Sight,
    /// The lease that the call has made ends by itself.
    Expiry,
}

/// The longest order that the search has found for a part, and what does not fit behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Calls, in an order that fits.
    pub order: Vec<Mention>,
    /// The state behind them.
    pub state: String,
    /// The call that should be placed next at the latest: all that are left may come later.
    pub blocked: Option<Mention>,
    /// The calls that may be next, of those that were answered. None of them fits, in any order,
    /// or what follows does not.
    pub left: Vec<Mention>,
}

/// What is wrong with a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// No order of the calls of a part fits.
    NoOrder {
        /// The part's keys, for people.
        part: String,
        /// How many calls it has.
        calls: usize,
        /// How far an order goes.
        prefix: Prefix,
    },
    /// These calls contradict each other, or a call itself, whatever the order is.
    Contradiction {
        /// The calls.
        calls: Vec<usize>,
        /// How.
        what: String,
    },
}

/// What a check has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is an order of all calls that fits.
    Good,
    /// There is none. What was found, part by part.
    Violated(Vec<Violation>),
    /// The budget did not suffice for these parts, and the others are good.
    Undecided(Vec<String>),
}

impl Verdict {
    /// Joins what was found in parts.
    pub(crate) fn of(violations: Vec<Violation>, undecided: Vec<String>) -> Verdict {
        match (violations.is_empty(), undecided.is_empty()) {
            (false, _) => Verdict::Violated(violations),
            (true, false) => Verdict::Undecided(undecided),
            (true, true) => Verdict::Good,
        }
    }
}
