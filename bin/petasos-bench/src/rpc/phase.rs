//! The phases of a measurement, and the results of a turn.

use clap::ValueEnum;
use petasos_report::Histogram;
use serde::{Deserialize, Serialize};

use super::tally::Tally;

/// The phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Phase {
    /// Latency of one call at a time, both sides spinning
    Spinning,
    /// Latency of one call at a time, both sides asleep between packets
    Sleeping,
    /// Rate, or goodput, and processor time of a window of calls
    Window,
}

impl Phase {
    /// All phases, in the order of a round.
    pub const ALL: [Phase; 3] = [Phase::Spinning, Phase::Sleeping, Phase::Window];

    /// The name on the command line and in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Spinning => "spinning",
            Phase::Sleeping => "sleeping",
            Phase::Window => "window",
        }
    }

    /// The phase with this name.
    pub fn named(name: &str) -> Option<Phase> {
        Phase::ALL.into_iter().find(|phase| phase.name() == name)
    }
}

/// The result of a turn for one side. Values that a side does not measure are 0 or empty.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Turn {
    /// Calls completed.
    pub completed: u64,
    /// Calls that a policy has refused. They are not completed.
    pub refused: u64,
    /// Calls that a policy is to refuse, if there is one.
    pub forbidden: u64,
    /// Payload bytes, for floors that have no calls.
    pub bytes: u64,
    /// Seconds, for computing rates.
    pub elapsed_s: f64,
    /// Seconds of these for binding a schema, where that is measured apart.
    pub bind_s: f64,
    /// Seconds of all calls together, where their mean is wanted.
    pub call_s: f64,
    /// Processor time, user and system, of the whole process in seconds.
    pub cpu_s: f64,
    /// Round-trip times: all of them, or a sample.
    pub latency: Histogram,
    /// If calls have numbers.
    pub tally: Option<Tally>,
}
