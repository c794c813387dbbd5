//! What policies have counted, as a process that takes over gets it: their states, and what the
//! numbers in them mean.
//!
//! The process before tells it when the other one has said that it serves, so that it is as late as
//! can be, and before anybody attaches there. Nothing may fail then. So whatever cannot go on
//! begins anew, and the log says so.
//!
//! # Invariants
//!
//! - A policy goes on from the state of the one that it is configured as, or from none.
//! - States are taken only with the numbers of applications, peers and methods that they are about.
//! - It has at most [`STATES_BYTES_MAX`](crate::takeover::STATES_BYTES_MAX) bytes. Fields may be
//!   added: those that a process does not know it leaves out.

mod give;
mod go_on;
mod numbers;

use petasos_base::SystemClock;
use petasos_engine::{ClockShift, State};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

pub use go_on::Awaited;
use numbers::Numbers;

/// All of it.
#[derive(Debug, Deserialize, Serialize)]
struct Carried {
    clock: Clocks,
    numbers: Numbers,
    /// Of the rules in force, in their order.
    policies: Vec<Option<StateText>>,
    /// Those whose engines are others than the rules say, or have something of their own.
    #[serde(default)]
    applications: Vec<Chain>,
}

/// One moment, by two clocks.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Clocks {
    /// By that of the process, of which states tell times.
    process_ns: u64,
    /// By that of the system.
    system_ns: u64,
}

/// The state of a policy.
#[derive(Debug, Deserialize, Serialize)]
struct StateText {
    kind: String,
    version: u32,
    json: String,
}

/// The engines of an application.
#[derive(Debug, Deserialize, Serialize)]
struct Chain {
    application: String,
    uid: u32,
    pid: Option<i32>,
    /// The one next to the application first.
    engines: Vec<Link>,
}

/// An engine.
#[derive(Debug, Deserialize, Serialize)]
struct Link {
    /// The rule for which it was made, by its index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rule: Option<usize>,
    /// Its policy, if that is not the rule's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    own: Option<OwnPolicy>,
    /// What the engine has of its own (E7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left: Option<StateText>,
}

/// A policy of one application.
#[derive(Debug, Deserialize, Serialize)]
struct OwnPolicy {
    kind: String,
    configuration: serde_json::Value,
    #[serde(default)]
    state: Option<StateText>,
}

impl Clocks {
    fn here() -> Clocks {
        let system = clock_gettime(ClockId::Monotonic);
        let process_ns = SystemClock::default().now().as_nanos();
        let seconds_ns = system.tv_sec.unsigned_abs().saturating_mul(1_000_000_000);
        Clocks { process_ns, system_ns: seconds_ns.saturating_add(system.tv_nsec.unsigned_abs()) }
    }

    /// How far the clock of this moment is ahead of that of an earlier one.
    fn ahead_of(self, other: Clocks) -> ClockShift {
        let passed = |now: u64, then: u64| i128::from(now) - i128::from(then);
        let ahead =
            passed(self.process_ns, other.process_ns) - passed(self.system_ns, other.system_ns);
        ClockShift { ahead_ns: ahead.clamp(i64::MIN.into(), i64::MAX.into()) as i64 }
    }
}

impl From<State> for StateText {
    fn from(State { kind, version, json }: State) -> StateText {
        StateText { kind, version, json }
    }
}

impl From<StateText> for State {
    fn from(StateText { kind, version, json }: StateText) -> State {
        State { kind, version, json }
    }
}

#[cfg(test)]
mod tests;
