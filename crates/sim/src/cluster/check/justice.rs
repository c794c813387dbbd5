//! Every outcome has its cause: no timeout before its time, no answer without a handler.

use std::collections::BTreeMap;

use petasos_base::Time;
use petasos_endpoint::CallError;

use super::{Checker, Event, Life, Outcome, Violation};
use crate::cluster::plan::{Method, Plan};

struct Cause {
    client: Life,
    server: Life,
    plan: Plan,
    started_at: Time,
    timeout_at: Time,
    executed: bool,
    unanswered: bool,
    cancelled: bool,
}

/// Outcomes have causes, and timeouts are noticed in time.
pub(crate) struct Justice {
    open: BTreeMap<u64, Cause>,
    /// When each client was last told that each peer has failed.
    failures: BTreeMap<(Life, Life), Time>,
    lateness_nanos_max: u64,
}

impl Justice {
    pub(crate) fn new(lateness_nanos_max: u64) -> Justice {
        Justice { open: BTreeMap::new(), failures: BTreeMap::new(), lateness_nanos_max }
    }

    fn judge(&self, at: Time, cause: &Cause, outcome: Outcome) -> Result<(), &'static str> {
        if at.nanos_since(cause.timeout_at) > self.lateness_nanos_max {
            return Err("came long after the call's time was up");
        }
        let just = match outcome {
            Outcome::Response { .. } => cause.executed && cause.plan.answers(),
            Outcome::Failed(error) => self.is_just(at, cause, error),
        };
        if just { Ok(()) } else { Err("has no cause") }
    }

    fn is_just(&self, at: Time, cause: &Cause, error: CallError) -> bool {
        let method = cause.plan.method;
        match error {
            CallError::Timeout => at >= cause.timeout_at,
            CallError::Cancelled => cause.cancelled,
            CallError::PeerFailed => self.has_failed(cause),
            CallError::NotSent => !cause.executed && self.has_failed(cause),
            CallError::UnknownMethod => method == Method::Unknown,
            CallError::ResponseTooLarge => cause.executed && method == Method::Overlong,
            CallError::Declined => cause.executed && method == Method::Declined,
            CallError::HandlerFailed => cause.unanswered,
            // The pool may run out, but this outcome is false for a call that ran.
            CallError::Overloaded => !cause.executed,
            CallError::OutOfMemory => cause.executed && cause.plan.answers(),
            _ => false,
        }
    }

    /// Whether the client was told since the call began that its peer has failed.
    fn has_failed(&self, cause: &Cause) -> bool {
        let failed = self.failures.get(&(cause.client, cause.server));
        failed.is_some_and(|failed_at| *failed_at >= cause.started_at)
    }

    fn cause(&mut self, call: u64, change: impl FnOnce(&mut Cause)) {
        if let Some(cause) = self.open.get_mut(&call) {
            change(cause);
        }
    }
}

impl Plan {
    /// Whether a handler with this plan ever sends a response that its client accepts.
    fn answers(&self) -> bool {
        matches!(self.method, Method::Echo | Method::Deferred | Method::Nested)
            || (self.method == Method::Overlong && self.response_bytes == 0)
    }
}

impl Checker for Justice {
    fn note(&mut self, at: Time, event: &Event) -> Result<(), Violation> {
        match *event {
            Event::Started { call, client, server, plan, timeout_at } => {
                let (executed, unanswered, cancelled) = (false, false, false);
                let started_at = at;
                self.open.insert(
                    call,
                    Cause {
                        client,
                        server,
                        plan,
                        started_at,
                        timeout_at,
                        executed,
                        unanswered,
                        cancelled,
                    },
                );
            }
            Event::Executed { call, .. } => self.cause(call, |cause| cause.executed = true),
            Event::Unanswered { call } => self.cause(call, |cause| cause.unanswered = true),
            Event::Cancelled { call } => self.cause(call, |cause| cause.cancelled = true),
            Event::PeerFailed { client, server } => {
                self.failures.insert((client, server), at);
            }
            Event::Died { host } => self.open.retain(|_, cause| cause.client != host),
            Event::Ended { call, outcome } => {
                let Some(cause) = self.open.remove(&call) else { return Ok(()) };
                self.judge(at, &cause, outcome).map_err(|how| {
                    let Cause { plan, started_at, executed, .. } = cause;
                    let begun = started_at.as_nanos();
                    Violation::new(
                        "outcomes have causes",
                        format_args!(
                            "{outcome:?} of call {call:#x} {how}: begun at {begun} ns, \
                             executed: {executed}, {plan:?}"
                        ),
                    )
                })?;
            }
        }
        Ok(())
    }
}
