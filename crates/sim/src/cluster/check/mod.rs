//! The checkers: the rules that must hold whatever the network does.
//!
//! They see only [`Event`]s, so they share no code with the workload that could contain the same
//! mistake. Each is tested with histories that it must reject.

mod calls;
mod justice;
mod rest;
#[cfg(test)]
mod tests;

use core::fmt;

use petasos_base::Time;
use petasos_endpoint::CallError;

use super::plan::Plan;

pub(super) use calls::{AtMostOnce, Bytes, ExactlyOnce, OncePerNumber};
pub(super) use justice::Justice;
pub(super) use rest::{HostAtRest, NetworkAtRest};

/// One life of one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Life {
    /// Which host.
    pub host: u32,
    /// How often the host was restarted before.
    pub restarts: u32,
}

/// What happened, as the application sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Event {
    /// A client has started a call.
    Started { call: u64, client: Life, server: Life, plan: Plan, timeout_at: Time },
    /// A handler has received a request, which the server knows as `request`; `right` if it has
    /// exactly the call's bytes.
    Executed { call: u64, server: Life, request: RequestName, right: bool },
    /// A handler had no memory for its answer, and reported that.
    Unanswered { call: u64 },
    /// A client has cancelled a call before its end.
    Cancelled { call: u64 },
    /// A call has ended.
    Ended { call: u64, outcome: Outcome },
    /// A client has been told that a peer has failed.
    PeerFailed { client: Life, server: Life },
    /// A host has crashed: its calls will not end.
    Died { host: Life },
}

/// Identifies a request at its server: the session's index and generation, and the request's
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RequestName(pub(super) u32, pub(super) u32, pub(super) u64);

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// With a response; `right` if it has exactly the call's bytes.
    Response { right: bool },
    /// Without a response.
    Failed(CallError),
}

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which rule.
    pub rule: &'static str,
    /// What happened.
    pub what: String,
}

impl Violation {
    pub(super) fn new(rule: &'static str, what: impl fmt::Display) -> Violation {
        Violation { rule, what: what.to_string() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// Watches the history for one kind of violation.
pub(super) trait Checker {
    /// Processes the next event.
    fn note(&mut self, at: Time, event: &Event) -> Result<(), Violation>;

    /// Processes the end of the history.
    fn finish(&self) -> Result<(), Violation> {
        Ok(())
    }
}

/// All checkers of one run, and the first violation.
pub(super) struct Judge {
    checkers: Vec<Box<dyn Checker>>,
    verdict: Result<(), Violation>,
}

impl Judge {
    /// `trusting` disables the checks that undetected damage may legitimately break: of the bytes,
    /// and of everything that depends on the numbers in them. No damage makes a server run a
    /// request with the same number twice, so that is always checked. `lateness_nanos_max` is how
    /// late a timeout may be noticed.
    pub(super) fn new(trusting: bool, lateness_nanos_max: u64) -> Judge {
        let mut checkers: Vec<Box<dyn Checker>> =
            vec![Box::new(ExactlyOnce::default()), Box::new(OncePerNumber::default())];
        if !trusting {
            checkers.push(Box::new(AtMostOnce::default()));
            checkers.push(Box::new(Bytes));
            checkers.push(Box::new(Justice::new(lateness_nanos_max)));
        }
        Judge { checkers, verdict: Ok(()) }
    }

    pub(super) fn note(&mut self, at: Time, event: &Event) {
        for checker in &mut self.checkers {
            if self.verdict.is_ok()
                && let Err(mut violation) = checker.note(at, event)
            {
                violation.what += &format!(" (at {} ns)", at.as_nanos());
                self.verdict = Err(violation);
            }
        }
    }

    /// The verdict so far.
    pub(super) fn verdict(&self) -> Result<(), Violation> {
        self.verdict.clone()
    }

    /// The verdict on the whole history.
    pub(super) fn finish(&self) -> Result<(), Violation> {
        self.verdict()?;
        self.checkers.iter().try_for_each(|checker| checker.finish())
    }
}
