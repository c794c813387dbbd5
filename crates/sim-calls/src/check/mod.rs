//! The judge: reads what clients and handlers have recorded, and has no influence on the run.
//!
//! A [`Call`] collects the history of one call. The rules are in the files of this folder. Each
//! rule is a sentence that states what must hold; a [`Violation`] names the broken rule.

mod outcomes;
mod rest;
mod runs;
mod streams;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use petasos::Code;
use petasos_base::Time;
use petasos_sim::cluster::Life;
pub use petasos_sim::cluster::Violation;

use crate::event::{Event, Outcome};
use crate::plan::{Kind, Plan};

pub(crate) use rest::AtRest;

/// A rule that does not hold, if any.
pub(crate) type Broken = Result<(), &'static str>;

/// One run of a handler.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// The code that the run ended with; `Some(None)` if it was dropped.
    pub(crate) ended: Option<Option<Code>>,
    /// Messages of the request stream that the handler received.
    pub(crate) got: u32,
    /// Whether the handler was told that the request stream has ended.
    pub(crate) end_told: bool,
    /// Messages that it has sent.
    pub(crate) sent: u32,
}

/// The state of a call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) client: Life,
    pub(crate) plan: Plan,
    /// The most runs of handlers that are allowed for it.
    pub(crate) runs_max: usize,
    pub(crate) timeout_at: Time,
    pub(crate) runs: BTreeMap<u64, Run>,
    /// Messages that the client has sent.
    pub(crate) sent: u32,
    pub(crate) closed: bool,
    /// The run whose messages the client receives.
    pub(crate) source: Option<u64>,
    /// Messages that the client has received.
    pub(crate) got: u32,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) cancelled: bool,
}

impl Call {
    /// Whether the call is only sent again after a status that its policy names and its handler
    /// returned, because its method may not run twice otherwise (R12).
    fn is_named(&self) -> bool {
        self.plan.kind == Kind::Named || self.plan.kind.is_stream()
    }

    fn is_over(&self) -> bool {
        self.outcome.is_some() || self.cancelled
    }
}

/// Failures that a scenario permits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Excuses {
    /// Servers are short of memory: they refuse requests, and handlers fail for lack of memory.
    pub(crate) short_memory: bool,
    /// Hosts die or drain, so servers may be gone or unreachable. The judge requires such an event
    /// before it accepts this as a cause.
    pub(crate) disruptions: bool,
    /// Streams have a retry policy.
    pub(crate) retries_streams: bool,
    /// Calls go by way of routers, of which one is always there, as is a worker.
    pub(crate) is_routed: bool,
}

/// All calls of a run, and the first violation.
pub(crate) struct Judge {
    excuses: Excuses,
    calls: BTreeMap<u64, Call>,
    dead: Vec<Life>,
    /// Hosts that have died or drained so far.
    disruptions: usize,
    verdict: Result<(), Violation>,
}

impl Judge {
    pub(crate) fn new(excuses: Excuses) -> Judge {
        let (calls, dead) = Default::default();
        Judge { excuses, calls, dead, disruptions: 0, verdict: Ok(()) }
    }

    pub(crate) fn note(&mut self, at: Time, event: &Event) {
        if self.verdict.is_err() {
            return;
        }
        if let Err(rule) = self.judge(at, event) {
            let call = call_of(event).and_then(|call| self.calls.get(&call));
            let what = format!("{event:?} at {} ns; {call:?}", at.as_nanos());
            self.verdict = Err(Violation { rule, what });
        }
    }

    /// The verdict so far.
    pub(crate) fn verdict(&self) -> Result<(), Violation> {
        self.verdict.clone()
    }

    /// The verdict on the whole history.
    pub(crate) fn finish(&self) -> Result<(), Violation> {
        self.verdict()?;
        let is_open = |call: &&Call| !call.is_over() && !self.dead.contains(&call.client);
        match self.calls.values().find(is_open) {
            None => Ok(()),
            Some(call) => {
                Err(Violation { rule: "calls end", what: format!("it never did: {call:?}") })
            }
        }
    }

    fn judge(&mut self, at: Time, event: &Event) -> Broken {
        match event {
            Event::Begun { call, client, plan, timeout_at } => {
                let runs_max =
                    plan.kind.runs_max(self.excuses.retries_streams, self.excuses.is_routed);
                let begun = Call::new(*client, (*plan, runs_max), *timeout_at);
                return hold(self.calls.insert(*call, begun).is_none(), "calls begin once");
            }
            Event::Died { host } => self.dead.push(*host),
            Event::Drained { .. } => {}
            _ => return self.judge_call(at, event),
        }
        self.disruptions += 1;
        Ok(())
    }

    fn judge_call(&mut self, at: Time, event: &Event) -> Broken {
        let number = call_of(event).expect("the other events were looked at");
        let is_disrupted = self.excuses.disruptions && self.disruptions > 0;
        let excuses = Excuses { disruptions: is_disrupted, ..self.excuses };
        let call = self.calls.get_mut(&number).ok_or("what happens belongs to a call")?;
        match event {
            Event::Ran { run, right, .. } => call.on_run(*run, *right),
            Event::RunEnded { run, code, .. } => call.on_run_end(*run, *code),
            Event::SentUp { index, .. } => call.on_sent_up(*index),
            Event::ClosedUp { .. } => call.on_closed_up(),
            Event::GotUp { run, index, right, .. } => call.on_got_up(*run, *index, *right),
            Event::EndedUp { run, .. } => call.on_ended_up(*run),
            Event::SentDown { run, index, .. } => call.on_sent_down(*run, *index),
            Event::GotDown { run, index, right, .. } => call.on_got_down(*run, *index, *right),
            Event::EndedOtherwise { .. } => Err("a stream that has ended stays so"),
            Event::Cancelled { .. } => call.on_cancelled(),
            Event::Ended { outcome, .. } => call.on_ended(at, outcome, excuses),
            Event::Begun { .. } | Event::Died { .. } | Event::Drained { .. } => Ok(()),
        }
    }
}

impl Call {
    fn new(client: Life, (plan, runs_max): (Plan, usize), timeout_at: Time) -> Call {
        Call {
            client,
            plan,
            runs_max,
            timeout_at,
            runs: BTreeMap::new(),
            sent: 0,
            closed: false,
            source: None,
            got: 0,
            outcome: None,
            cancelled: false,
        }
    }
}

/// Ok if `holds`, otherwise the rule that is broken.
pub(crate) fn hold(holds: bool, rule: &'static str) -> Broken {
    if holds { Ok(()) } else { Err(rule) }
}

fn call_of(event: &Event) -> Option<u64> {
    match event {
        Event::Begun { call, .. }
        | Event::Ran { call, .. }
        | Event::RunEnded { call, .. }
        | Event::SentUp { call, .. }
        | Event::ClosedUp { call }
        | Event::GotUp { call, .. }
        | Event::EndedUp { call, .. }
        | Event::SentDown { call, .. }
        | Event::GotDown { call, .. }
        | Event::EndedOtherwise { call }
        | Event::Cancelled { call }
        | Event::Ended { call, .. } => Some(*call),
        Event::Died { .. } | Event::Drained { .. } => None,
    }
}
