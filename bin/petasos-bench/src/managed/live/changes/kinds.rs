//! The kinds of changes.

use crate::error::BenchError;
use crate::managed::live::operator::{Change, Operator};

/// Changes that are made in turn at each host.
pub struct Kind {
    /// What progress calls it.
    pub name: &'static str,
    /// What has to be there before.
    pub prepare: &'static [Change<'static>],
    /// Their names, and for each what is done the first time, the second, and so on.
    pub changes: &'static [(&'static str, &'static [Change<'static>])],
    /// The kinds of engines that may be there after it.
    engines: &'static [&'static str],
}

const LIMIT: &str = "rate_limit";
/// Limits that are never reached.
const HIGH: &str = r#"{"rate_per_s": 90000000, "burst": 1000000}"#;
const HIGHER: &str = r#"{"rate_per_s": 100000000, "burst": 1000000}"#;
const ATTACH: Change<'static> = Change::Attach { kind: LIMIT, configuration: HIGHER };
const ATTACH_NULL: Change<'static> = Change::Attach { kind: "null", configuration: "{}" };

/// All kinds.
pub static KINDS: [Kind; 4] = [
    Kind {
        name: "attach and detach",
        prepare: &[],
        changes: &[("attach", &[ATTACH]), ("detach", &[Change::Detach { kind: LIMIT }])],
        engines: &[],
    },
    Kind {
        name: "reorder",
        prepare: &[ATTACH_NULL, ATTACH],
        changes: &[(
            "reorder",
            &[Change::Move { kind: LIMIT, to: 1 }, Change::Move { kind: LIMIT, to: 0 }],
        )],
        engines: &[LIMIT, "null"],
    },
    Kind {
        name: "configure",
        prepare: &[ATTACH],
        changes: &[(
            "configure",
            &[
                Change::Configure { kind: LIMIT, configuration: HIGH },
                Change::Configure { kind: LIMIT, configuration: HIGHER },
            ],
        )],
        engines: &[LIMIT],
    },
    Kind {
        name: "upgrade",
        prepare: &[ATTACH],
        changes: &[("upgrade", &[Change::Upgrade { kind: LIMIT }])],
        engines: &[LIMIT],
    },
];

impl Kind {
    /// Takes out what the kind has needed.
    ///
    /// # Errors
    /// If that is not done.
    pub fn tidy(&self, operator: &Operator) -> Result<(), BenchError> {
        let detach = |kind: &&str| operator.change(Change::Detach { kind }).map(drop);
        self.engines.iter().try_for_each(detach)
    }
}
