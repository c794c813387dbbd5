//! Rules that must hold in every experiment.

use core::fmt;

use petasos_base::Time;

/// A rule that was broken. This is always a defect of the protocol or of the experiment's own code,
/// never of its configuration. The same seed and configuration break it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// The thread concerned, `None` if it is the network's.
    pub thread: Option<u32>,
    /// When it was noticed, in virtual time.
    pub at: Time,
}

/// The rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// A handler runs at most once for a request.
    RunsOnce,
    /// A complete request has exactly its bytes.
    WholeRequest,
    /// A client has no more packets in flight than it was granted, except for probes.
    Credits,
    /// Nothing in an experiment is a reason to reject, reset or overrun.
    NoRefusal,
    /// Every packet was delivered, dropped for a counted reason, or is in flight.
    Accounting,
    /// Once loads stop, every call completes and nothing stays in flight.
    Drained,
    /// As many handlers ran as calls were completed.
    ExactlyOnce,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = match self.rule {
            Rule::RunsOnce => "a handler ran twice for one request",
            Rule::WholeRequest => "a request was handled without all its bytes",
            Rule::Credits => "a client exceeded its credits",
            Rule::NoRefusal => "a call was rejected, reset or answered at too great length",
            Rule::Accounting => "packets are unaccounted for",
            Rule::Drained => "calls or packets are left over",
            Rule::ExactlyOnce => "handlers run and calls completed differ in number",
        };
        write!(f, "{rule}, at {} ns", self.at.as_nanos())?;
        self.thread.map_or(Ok(()), |thread| write!(f, ", on thread {thread}"))
    }
}

impl std::error::Error for Violation {}
