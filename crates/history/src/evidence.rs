//! Why a history is none that a service may have.

/// The longest order that the search has found for a part, and what does not fit behind it. Calls
/// are places in the history's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Calls, in an order that fits.
    pub order: Vec<usize>,
    /// The state behind them.
    pub state: String,
    /// The call that should be placed next at the latest: all that are left may come later.
    pub blocked: Option<usize>,
    /// The calls that may be next, of those that were answered. None of them fits, in any order,
    /// or what follows does not.
    pub left: Vec<usize>,
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
