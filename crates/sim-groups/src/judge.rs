//! What is known of all calls, and what must be true of them.

use core::fmt;
use core::time::Duration;
use std::borrow::Cow;
use std::collections::BTreeMap;

use petasos_base::{Rng, Time};

use crate::sabotage::Sabotage;

const BYTES: &str = "messages keep their bytes";
const NOT_RUN: &str = "what is said not to have run has not";

/// How a call has ended at its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// With its response.
    Answered,
    /// Without, and it may have run.
    Failed,
    /// Without, and it has certainly not run.
    NotRun,
    /// Its client has crashed.
    Abandoned,
}

/// A call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// Whether it may run only once.
    pub(crate) is_claim: bool,
    pub(crate) request_bytes: u32,
    pub(crate) response_bytes: u32,
    /// How long the handler takes; 0 answers at once.
    pub(crate) takes_us: u64,
    /// The handler rejects.
    pub(crate) declines: bool,
    pub(crate) timeout_at: Time,
    runs: u32,
    outcome: Option<Outcome>,
}

/// How many calls have ended in which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// With their responses.
    pub answered: u32,
    /// Without, and they may have run.
    pub failed: u32,
    /// Without, and they have certainly not run.
    pub not_run: u32,
    /// Their clients have crashed.
    pub abandoned: u32,
    /// Calls that ran more than once, all of which may.
    pub repeated: u32,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { answered, failed, not_run, abandoned, repeated } = self;
        write!(f, "{answered} answered, {failed} failed, {not_run} not run, ")?;
        write!(f, "{abandoned} abandoned; {repeated} ran more than once")
    }
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    calls: BTreeMap<u64, Call>,
    next: u64,
    wrong: Vec<Violation>,
    sabotage: Option<Sabotage>,
}

/// A rule that was broken.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) rule: &'static str,
    pub(crate) what: String,
}

impl Judge {
    pub(crate) fn new(sabotage: Option<Sabotage>) -> Judge {
        Judge { sabotage, ..Judge::default() }
    }

    /// The inserted bug.
    pub(crate) fn sabotage(&self) -> Option<Sabotage> {
        self.sabotage
    }

    /// Whether this bug is inserted, and shows at this call.
    pub(crate) fn has_bug(&self, bug: Sabotage, call: u64) -> bool {
        self.sabotage == Some(bug) && call % 8 == 5
    }

    /// A message of a call, which a bug makes longer.
    pub(crate) fn altered<'a>(&self, bug: Sabotage, call: u64, message: &'a [u8]) -> Cow<'a, [u8]> {
        match self.has_bug(bug, call) {
            true => [message, &[0]].concat().into(),
            false => message.into(),
        }
    }

    /// A new call.
    pub(crate) fn begin(&mut self, rng: &mut Rng, now: Time) -> u64 {
        let id = self.next;
        self.next += 1;
        let is_claim = rng.chance(0.5);
        let bytes = |rng: &mut Rng| match rng.below(4) {
            0 => 8 + rng.below(10_000) as u32,
            _ => 8 + rng.below(1000) as u32,
        };
        let takes_us = [0, 0, 0, rng.below(8000)][rng.below(4) as usize];
        let timeout_at = match rng.chance(0.1) {
            true => now + Duration::from_micros(rng.below(50_000)),
            false => Time::NEVER,
        };
        let (request_bytes, response_bytes) = (bytes(rng), bytes(rng));
        let declines = rng.chance(0.03);
        let (runs, outcome) = (0, None);
        let call = Call {
            is_claim,
            request_bytes,
            response_bytes,
            takes_us,
            declines,
            timeout_at,
            runs,
            outcome,
        };
        self.calls.insert(id, call);
        id
    }

    pub(crate) fn call(&self, id: u64) -> Call {
        self.calls[&id]
    }

    /// The bytes of a call's request.
    pub(crate) fn request(&self, id: u64) -> Vec<u8> {
        message(id, self.calls[&id].request_bytes)
    }

    /// The bytes of a call's response.
    pub(crate) fn response(&self, id: u64) -> Vec<u8> {
        message(!id, self.calls[&id].response_bytes)
    }

    /// A handler runs, for the request with these bytes. Whose it is.
    pub(crate) fn runs(&mut self, request: &[u8]) -> u64 {
        let id = u64::from_le_bytes(*request.first_chunk().expect("requests have 8 bytes"));
        let request = self.altered(Sabotage::AlterRequest, id, request);
        let Some(call) = self.calls.get_mut(&id) else { panic!("nobody's request: {id}") };
        call.runs += 1;
        let (call, is_right) = (*call, request[..] == message(id, call.request_bytes));
        self.check(is_right, BYTES, || format!("call {id}: the request's bytes are wrong"));
        let is_once = !call.is_claim || call.runs == 1;
        let rule = "claims run once at most";
        self.check(is_once, rule, || format!("call {id} ran {} times", call.runs));
        let may_run = call.outcome != Some(Outcome::NotRun);
        self.check(may_run, NOT_RUN, || format!("call {id} runs, and was said not to"));
        id
    }

    /// A response has come.
    pub(crate) fn answered(&mut self, id: u64, response: &[u8]) {
        let response = self.altered(Sabotage::AlterResponse, id, response);
        let is_right = response[..] == self.response(id)[..];
        self.check(is_right, BYTES, || format!("call {id}: the response's bytes are wrong"));
        let has_run = self.calls[&id].runs > 0;
        let rule = "answers are those of handlers";
        self.check(has_run, rule, || format!("call {id} has not run, and is answered"));
        self.ends(id, Outcome::Answered);
    }

    pub(crate) fn ends(&mut self, id: u64, outcome: Outcome) {
        let call = self.calls.get_mut(&id).expect("it has begun");
        let (before, runs) = (call.outcome.replace(outcome), call.runs);
        let rule = "calls end once";
        self.check(before.is_none(), rule, || format!("call {id}: {before:?} and {outcome:?}"));
        let is_true = outcome != Outcome::NotRun || runs == 0;
        self.check(is_true, NOT_RUN, || format!("call {id} has run, and is said not to have"));
    }

    pub(crate) fn check(
        &mut self,
        is_right: bool,
        rule: &'static str,
        what: impl FnOnce() -> String,
    ) {
        if !is_right {
            self.wrong.push(Violation { rule, what: what() });
        }
    }

    /// Whether all calls have ended.
    pub(crate) fn is_over(&self) -> bool {
        self.calls.values().all(|call| call.outcome.is_some())
    }

    pub(crate) fn verdict(&self) -> Result<Verdict, Violation> {
        if let Some(Violation { rule, what }) = self.wrong.first() {
            return Err(Violation {
                rule,
                what: format!("{what} ({} more)", self.wrong.len() - 1),
            });
        }
        let mut verdict = Verdict::default();
        for (id, call) in &self.calls {
            match call.outcome {
                Some(Outcome::Answered) => verdict.answered += 1,
                Some(Outcome::Failed) => verdict.failed += 1,
                Some(Outcome::NotRun) => verdict.not_run += 1,
                Some(Outcome::Abandoned) => verdict.abandoned += 1,
                None => {
                    let what = format!("call {id} never ends");
                    return Err(Violation { rule: "calls end", what });
                }
            }
            verdict.repeated += u32::from(call.runs > 1);
        }
        Ok(verdict)
    }
}

/// Bytes that say whose they are.
fn message(id: u64, bytes: u32) -> Vec<u8> {
    let start = id.to_le_bytes();
    let rest = (8..bytes as u64).map(|at| (at ^ id.wrapping_mul(31)) as u8);
    start.into_iter().chain(rest).take(bytes as usize).collect()
}
