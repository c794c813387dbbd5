//! Each call runs at most once, ends exactly once, and carries its own bytes.

use std::collections::{BTreeMap, BTreeSet};

use petasos_base::Time;

use super::{Checker, Event, Life, Outcome, RequestName, Violation};

/// No request is passed to handlers twice, on any host.
#[derive(Default)]
pub(crate) struct AtMostOnce {
    executed: BTreeMap<u64, Life>,
}

impl Checker for AtMostOnce {
    fn note(&mut self, _: Time, event: &Event) -> Result<(), Violation> {
        let Event::Executed { call, server, .. } = *event else { return Ok(()) };
        match self.executed.insert(call, server) {
            None => Ok(()),
            Some(first) => Err(Violation::new(
                "at most once",
                format_args!("call {call:#x} ran on {first:?} and on {server:?}"),
            )),
        }
    }
}

/// No server passes requests with the same number in one session to handlers twice, whatever is
/// damaged (W15).
#[derive(Default)]
pub(crate) struct OncePerNumber {
    executed: BTreeSet<(Life, RequestName)>,
}

impl Checker for OncePerNumber {
    fn note(&mut self, _: Time, event: &Event) -> Result<(), Violation> {
        let Event::Executed { server, request, .. } = *event else { return Ok(()) };
        let is_new = self.executed.insert((server, request));
        let twice = || {
            Violation::new("once per number", format_args!("{request:?} ran twice on {server:?}"))
        };
        is_new.then_some(()).ok_or_else(twice)
    }
}

/// Every call ends exactly once, unless its client dies.
#[derive(Default)]
pub(crate) struct ExactlyOnce {
    open: BTreeMap<u64, Life>,
    ended: BTreeSet<u64>,
}

const EXACTLY_ONCE: &str = "ends exactly once";

impl Checker for ExactlyOnce {
    fn note(&mut self, _: Time, event: &Event) -> Result<(), Violation> {
        match *event {
            Event::Started { call, client, .. } => {
                let fresh = !self.ended.contains(&call) && self.open.insert(call, client).is_none();
                let twice = || Violation::new(EXACTLY_ONCE, format_args!("{call:#x} began twice"));
                fresh.then_some(()).ok_or_else(twice)
            }
            Event::Ended { call, outcome } => {
                if self.open.remove(&call).is_some() {
                    self.ended.insert(call);
                    return Ok(());
                }
                let how = if self.ended.contains(&call) { "ended again" } else { "never began" };
                let what = format_args!("call {call:#x} {how}: {outcome:?}").to_string();
                Err(Violation::new(EXACTLY_ONCE, what))
            }
            Event::Died { host } => {
                self.open.retain(|_, client| *client != host);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn finish(&self) -> Result<(), Violation> {
        let Some((call, client)) = self.open.first_key_value() else { return Ok(()) };
        let count = self.open.len();
        let what =
            format_args!("{count} calls are open, {call:#x} of {client:?} first").to_string();
        Err(Violation::new(EXACTLY_ONCE, what))
    }
}

/// The received bytes are those that were sent.
pub(crate) struct Bytes;

impl Checker for Bytes {
    fn note(&mut self, _: Time, event: &Event) -> Result<(), Violation> {
        let (call, which) = match *event {
            Event::Executed { call, right: false, .. } => (call, "request"),
            Event::Ended { call, outcome: Outcome::Response { right: false } } => {
                (call, "response")
            }
            _ => return Ok(()),
        };
        let what = format_args!("the {which} of call {call:#x} has other bytes").to_string();
        Err(Violation::new("bytes", what))
    }
}
