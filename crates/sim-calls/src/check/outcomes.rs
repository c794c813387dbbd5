//! How calls end, and that each end has a cause.

use petasos::Code;
use petasos_base::Time;
use petasos_call::{Failure, Retry};

use super::{Broken, Call, Excuses, Run, hold};
use crate::event::Outcome;
use crate::plan::Kind;

/// The failure below a call that the runtime reports with this message, if it is such a message.
fn failure_of(message: &str) -> Option<Failure> {
    use Failure::*;
    let all = [
        NotConnected,
        RequestTooLarge,
        ResponseTooLarge,
        TooMuch,
        Timeout,
        Cancelled,
        Lost,
        UnknownMethod,
        Overloaded,
        Draining,
        HandlerFailed,
        Declined,
        OutOfMemory,
        WorkerLost,
        NoWorker,
        QueueFull,
        Expired,
        UnknownPolicy,
    ];
    all.into_iter().find(|failure| failure.status().message() == message)
}

/// Whether the client is told that its request has certainly not run (R12).
pub(super) fn says_not_run(message: &str) -> bool {
    let retry = failure_of(message).map(Failure::retry);
    matches!(retry, Some(Retry::Safe | Retry::Elsewhere))
}

impl Call {
    pub(super) fn on_cancelled(&mut self) -> Broken {
        hold(!self.is_over(), "calls end once")?;
        self.cancelled = true;
        Ok(())
    }

    pub(super) fn on_ended(&mut self, at: Time, outcome: &Outcome, excuses: Excuses) -> Broken {
        hold(!self.is_over(), "calls end once")?;
        self.outcome = Some(outcome.clone());
        match outcome {
            Outcome::Answer { run, pieces, right } => self.on_answer(*run, *pieces, *right),
            Outcome::End => self.on_end(),
            Outcome::Failed { code, message } => self.on_failure(at, *code, message, excuses),
        }
    }

    /// An answer must be that of a handler that has succeeded.
    fn on_answer(&self, run: u64, pieces: u32, right: bool) -> Broken {
        hold(right, "messages keep their bytes")?;
        let run = self.runs.get(&run).ok_or("answers are those of handlers")?;
        hold(run.ended == Some(Some(Code::Ok)), "answers are those of handlers")?;
        hold(run.got == pieces, "what the client is told was read was read")
    }

    /// A stream that ends with success must have delivered all that its handler has sent.
    fn on_end(&self) -> Broken {
        let run = match self.source {
            Some(run) => self.runs.get(&run),
            None => self.runs.values().next_back(),
        };
        let run = run.ok_or("answers are those of handlers")?;
        hold(run.ended == Some(Some(Code::Ok)), "answers are those of handlers")?;
        hold(run.sent == self.got, "a stream ends behind its last message")
    }

    fn on_failure(&self, at: Time, code: Code, message: &str, excuses: Excuses) -> Broken {
        // Runs that the policy has examined do not count: the client is only told about the last
        // attempt.
        let may_have_run = self.is_named() && self.runs_max > 1 && self.has_only_named_runs();
        if (self.runs_max == 1 || self.is_named()) && says_not_run(message) && !may_have_run {
            hold(self.runs.is_empty(), "what did not run did not run")?;
        }
        let is_away = code == Code::Unavailable && excuses.is_routed;
        let must_go_on = is_away && self.plan.kind.is_idempotent() && at < self.timeout_at;
        hold(!must_go_on, "what may run again is answered while a router and a worker are there")?;
        let ended = |code| self.runs.values().any(|run: &Run| run.ended == Some(Some(code)));
        let is_lost = failure_of(message) == Some(Failure::HandlerFailed);
        let has_cause = match code {
            // If its request stream is empty, a handler returns this code without a recorded run.
            Code::Aborted => ended(Code::Aborted) || self.plan.up == 0 && self.has_uploads(),
            Code::DeadlineExceeded => at >= self.timeout_at,
            Code::Unavailable => excuses.disruptions,
            Code::ResourceExhausted => excuses.short_memory,
            Code::Internal => excuses.short_memory && is_lost && !self.runs.is_empty(),
            _ => false,
        };
        hold(has_cause, "failures have causes")
    }

    fn has_uploads(&self) -> bool {
        matches!(self.plan.kind, Kind::Collect | Kind::Chat)
    }
}
