//! The experiments that are no figures of rounds, by name.

use clap::ValueEnum;

/// An experiment that is no figure of rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExperimentId {
    /// A rate limit that is attached, opened and removed while calls run
    #[value(name = "7b")]
    Limit,
    /// Changes of policies under full load: calls lost or repeated, gaps
    Changes,
    /// The binding of a schema of 50 messages
    Bind,
    /// Calls one at a time beside long ones, with and without an order of small ones first
    Table4,
}

impl ExperimentId {
    /// Seconds to measure, unless the user says otherwise.
    pub fn seconds(self) -> f64 {
        match self {
            ExperimentId::Limit => 12.0,
            // It ends with its changes.
            ExperimentId::Changes => 3600.0,
            ExperimentId::Bind => 15.0,
            ExperimentId::Table4 => 20.0,
        }
    }
}
