//! How much processor time an engine of a policy may take, and what happens then (E8, E9).

use petasos_engine::Without;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A budget that cannot be. The operator's fault.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("a budget is more than 0 and at most 100 percent of a processor, not {0}")]
pub struct WrongBudget(f64);

/// The processor time of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Of one processor, over a second.
    percent: f64,
    /// What happens to an engine that takes more.
    #[serde(default)]
    pub over: Over,
}

/// What happens to an engine that exceeds its budget. It is reported in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Over {
    /// Nothing else: it goes on.
    #[default]
    Report,
    /// It is taken out, and items pass.
    Open,
    /// It is taken out, and calls are refused.
    Closed,
}

impl Budget {
    /// So many percent of a processor.
    ///
    /// # Errors
    /// [`WrongBudget`].
    pub fn new(percent: f64, over: Over) -> Result<Budget, WrongBudget> {
        Budget { percent, over }.checked()
    }

    /// The same budget, if it is one.
    ///
    /// # Errors
    /// [`WrongBudget`].
    pub fn checked(self) -> Result<Budget, WrongBudget> {
        // Not a number is in no range.
        let is_right = self.percent > 0.0 && self.percent <= 100.0;
        if is_right { Ok(self) } else { Err(WrongBudget(self.percent)) }
    }

    /// Percent of a processor.
    pub fn percent(&self) -> f64 {
        self.percent
    }
}

impl Over {
    /// All.
    pub const ALL: [Over; 3] = [Over::Report, Over::Open, Over::Closed];

    /// What operators call it.
    pub const fn name(self) -> &'static str {
        match self {
            Over::Report => "report",
            Over::Open => "open",
            Over::Closed => "closed",
        }
    }

    /// What the place of an engine does that is taken out; none if it stays.
    pub const fn without(self) -> Option<Without> {
        match self {
            Over::Report => None,
            Over::Open => Some(Without::Open),
            Over::Closed => Some(Without::Closed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_shares_of_a_processor() {
        for wrong in [0.0, -1.0, 100.1, f64::NAN, f64::INFINITY] {
            assert!(Budget::new(wrong, Over::Report).is_err(), "{wrong}");
        }
        for right in [1e-9, 5.0, 100.0] {
            assert_eq!(Budget::new(right, Over::Open).map(|budget| budget.percent()), Ok(right));
        }
        let read: Budget = serde_json::from_str(r#"{"percent": 2, "over": "closed"}"#).unwrap();
        assert_eq!(Ok(read), Budget::new(2.0, Over::Closed));
        let report: Budget = serde_json::from_str(r#"{"percent": 2}"#).unwrap();
        assert_eq!(report.over, Over::Report);
        for over in Over::ALL {
            assert_eq!(serde_json::to_value(over).unwrap(), over.name());
        }
    }
}
