//! The rules that hold once all activity has ended.

use petasos_runtime::Held;
use petasos_sim::cluster::{Life, Violation};

/// A host without any open calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtRest {
    pub(crate) life: Life,
    pub(crate) held: Held,
    /// Requests and calls that the endpoint still has, and bytes that its pool has lent.
    pub(crate) unfinished: (usize, usize, usize),
    /// Handlers that have panicked, and messages that broke a rule.
    pub(crate) failures: (u64, u64),
}

impl AtRest {
    pub(crate) fn check(&self) -> Result<(), Violation> {
        let rules = [
            ("no panics", self.failures.0 == 0),
            ("peers keep the rules", self.failures.1 == 0),
            ("nothing is left in the loop", self.held == Held::default()),
            ("no call is left", (self.unfinished.0, self.unfinished.1) == (0, 0)),
            ("buffers come back", self.unfinished.2 == 0),
        ];
        match rules.into_iter().find(|(_, holds)| !holds) {
            None => Ok(()),
            Some((rule, _)) => {
                Err(Violation { rule, what: format!("host {}: {self:?}", self.life.host) })
            }
        }
    }
}
