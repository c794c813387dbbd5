//! Turns in which tasks took too long: everything else in the loop waits meanwhile.
//!
//! The clock is read once more at the end of a turn that has polled something. That tells of a slow
//! turn, and not of whom it was slow for; so from the first one on handlers are timed, each by
//! itself, until there has been none for `TIMED`: each method is wrapped in a `Timed` for that
//! time, and nobody pays for it otherwise.

use core::fmt::Write;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use petasos_base::Time;
use petasos_endpoint::{Context, Request};

use super::dispatcher::{Dispatcher, DispatcherParts};
use super::local::Task;
use super::method::LocalMethod;
use super::streams::Handling;

/// What the tasks of a turn may take.
const SLOW: Duration = Duration::from_millis(1);
/// How long handlers are timed after a slow turn.
const TIMED: Duration = Duration::from_secs(60);
/// The log has one line in so long.
#[cfg(feature = "tracing")]
const LOGGED: Duration = Duration::from_secs(1);

/// Turns of loops in which handlers and other tasks took more than a millisecond, while all other
/// calls of the loop waited. Such methods belong on workers (`Placement::Worker`). A thread that
/// is kept off its core counts, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlowTurns {
    /// How many there were.
    pub turns: u64,
    /// The longest.
    pub longest: Duration,
    /// Methods one of whose handlers took most of such a turn, by name. Handlers are timed for a
    /// minute after a slow turn, so the first is in nobody's account.
    pub methods: Vec<SlowMethod>,
}

/// What a method has to do with slow turns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlowMethod {
    /// The service's full name.
    pub service: &'static str,
    /// The method's name in it.
    pub method: &'static str,
    /// Turns that were slow because of it.
    pub turns: u64,
    /// The longest time that a handler of it took at a stretch.
    pub longest: Duration,
}

impl SlowTurns {
    /// In Prometheus' text format, version 0.0.4: `rpc_server_slow_turns_total` and, by method,
    /// `rpc_server_slow_handlers_total`.
    pub fn to_prometheus(&self) -> String {
        let mut out = String::from(
            "# HELP rpc_server_slow_turns_total Turns whose tasks took more than a millisecond.\n\
             # TYPE rpc_server_slow_turns_total counter\n",
        );
        let text = "strings take all that is written";
        writeln!(out, "rpc_server_slow_turns_total {}", self.turns).expect(text);
        out.push_str(
            "# HELP rpc_server_slow_handlers_total Handlers that took most of such a turn.\n\
             # TYPE rpc_server_slow_handlers_total counter\n",
        );
        for SlowMethod { service, method, turns, .. } in &self.methods {
            let labels = format!("service=\"{service}\",method=\"{method}\"");
            writeln!(out, "rpc_server_slow_handlers_total{{{labels}}} {turns}").expect(text);
        }
        out
    }
}

/// What a loop has counted, for any thread to read.
#[derive(Default)]
pub struct SlowCounts(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    turns: u64,
    longest: Duration,
    /// By service and method.
    methods: BTreeMap<Name, (u64, Duration)>,
}

type Name = (&'static str, &'static str);

impl SlowCounts {
    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a turn; gives how many there have been.
    fn note(&self, took: Duration, culprit: Option<(Name, Duration)>) -> u64 {
        let mut counted = self.lock();
        counted.turns += 1;
        counted.longest = counted.longest.max(took);
        if let Some((name, took)) = culprit {
            let (turns, longest) = counted.methods.entry(name).or_default();
            (*turns, *longest) = (*turns + 1, (*longest).max(took));
        }
        counted.turns
    }

    /// All that these have counted.
    pub fn sum<'a>(all: impl Iterator<Item = &'a SlowCounts>) -> SlowTurns {
        let mut sum = Counted::default();
        for counts in all {
            let counted = counts.lock();
            sum.turns += counted.turns;
            sum.longest = sum.longest.max(counted.longest);
            for (name, (turns, longest)) in &counted.methods {
                let of = sum.methods.entry(*name).or_default();
                *of = (of.0 + turns, of.1.max(*longest));
            }
        }
        let method =
            |((service, method), (turns, longest))| SlowMethod { service, method, turns, longest };
        let methods = sum.methods.into_iter().map(method).collect();
        SlowTurns { turns: sum.turns, longest: sum.longest, methods }
    }
}

/// What a loop remembers of slow turns.
#[derive(Default)]
pub(crate) struct Slow {
    /// By the methods' indices in the loop.
    pub(crate) names: Vec<Name>,
    /// Until when handlers are timed, if they are.
    timed_until: Option<Time>,
    /// The handler of this turn that took the longest, while they are timed.
    slowest: Option<(u32, Duration)>,
    #[cfg(feature = "tracing")]
    logged_at: Option<Time>,
}

/// A method whose handlers are timed.
struct Timed {
    inner: Box<dyn LocalMethod>,
    kind: u32,
}

impl Timed {
    fn run(
        &mut self,
        parts: &mut DispatcherParts,
        run: impl FnOnce(&mut dyn LocalMethod, &mut DispatcherParts),
    ) {
        let clock = &parts.local.clock;
        let began = clock.now();
        run(&mut *self.inner, parts);
        let took = clock.now() - began;
        if parts.slow.slowest.is_none_or(|(_, slowest)| slowest < took) {
            parts.slow.slowest = Some((self.kind, took));
        }
    }
}

impl LocalMethod for Timed {
    fn start(
        &mut self,
        parts: &mut DispatcherParts,
        cx: &mut Context<Dispatcher>,
        request: &mut Request<'_>,
    ) {
        self.run(parts, |inner, parts| inner.start(parts, cx, request));
    }

    fn is_stream(&self) -> bool {
        self.inner.is_stream()
    }

    fn open(
        &mut self,
        parts: &mut DispatcherParts,
        cx: &mut Context<Dispatcher>,
        handling: Handling,
    ) {
        self.run(parts, |inner, parts| inner.open(parts, cx, handling));
    }

    fn poll(&mut self, parts: &mut DispatcherParts, cx: &mut Context<Dispatcher>, slot: u32) {
        self.run(parts, |inner, parts| inner.poll(parts, cx, slot));
    }

    fn is_waiting(&self, slot: u32) -> bool {
        self.inner.is_waiting(slot)
    }

    fn abandon(&mut self, parts: &mut DispatcherParts, cx: &mut Context<Dispatcher>, slot: u32) {
        self.inner.abandon(parts, cx, slot);
    }

    fn expire(
        &mut self,
        parts: &mut DispatcherParts,
        cx: &mut Context<Dispatcher>,
        slot: u32,
        generation: u32,
    ) {
        self.inner.expire(parts, cx, slot, generation);
    }

    fn cut_off(&mut self, parts: &mut DispatcherParts, cx: &mut Context<Dispatcher>, slot: u32) {
        self.inner.cut_off(parts, cx, slot);
    }

    fn untimed(self: Box<Self>) -> Result<Box<dyn LocalMethod>, Box<dyn LocalMethod>> {
        Ok(self.inner)
    }
}

impl Dispatcher {
    /// A turn that began at `began` has polled tasks: was it slow?
    #[inline(never)]
    pub(crate) fn check_time(&mut self, began: Time) {
        let last = self.parts.local.take_polled();
        let took = self.parts.local.clock.now() - began;
        if took > SLOW {
            return self.turn_was_slow(last, began, took);
        }
        if let Some(until) = self.parts.slow.timed_until {
            self.parts.slow.slowest = None;
            if began >= until {
                self.time_handlers(false);
                self.parts.slow.timed_until = None;
            }
        }
    }

    #[cold]
    fn turn_was_slow(&mut self, last: Option<Task>, began: Time, took: Duration) {
        let parts = &mut self.parts;
        let was_timed = parts.slow.timed_until.replace(began + took + TIMED).is_some();
        let slowest = parts.slow.slowest.take().filter(|(_, of_it)| *of_it >= took / 2);
        let name = |kind: u32| parts.slow.names.get(kind as usize).copied();
        let culprit = slowest.and_then(|(kind, of_it)| Some((name(kind)?, of_it)));
        let so_far = parts.local.shared.slow.note(took, culprit);
        // Whoever was polled last may have waited for another.
        let suspect = if was_timed { None } else { last.and_then(|task| name(task.kind)) };
        let named = culprit.map(|(name, _)| name).or(suspect);
        parts.slow.log(began, took, named, so_far);
        if !was_timed {
            self.time_handlers(true);
        }
    }

    /// Times handlers from now on, or no more.
    #[cold]
    fn time_handlers(&mut self, timed: bool) {
        let methods = core::mem::take(&mut self.methods).into_iter().zip(0..);
        let change = |(method, kind): (Box<dyn LocalMethod>, u32)| match timed {
            true => Box::new(Timed { inner: method, kind }) as Box<dyn LocalMethod>,
            false => method.untimed().unwrap_or_else(|method| method),
        };
        self.methods = methods.map(change).collect();
    }
}

impl Slow {
    /// Says so, unless that was said of another turn just before.
    #[cfg(feature = "tracing")]
    fn log(&mut self, now: Time, took: Duration, method: Option<Name>, so_far: u64) {
        if self.logged_at.is_some_and(|last| now < last + LOGGED) {
            return;
        }
        self.logged_at = Some(now);
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let method =
            method.map_or("?".to_owned(), |(service, method)| format!("{service}/{method}"));
        tracing::warn!(took_us, method, so_far, "tasks have kept their loop from all else");
    }

    #[cfg(not(feature = "tracing"))]
    fn log(&mut self, _: Time, _: Duration, _: Option<Name>, _: u64) {}
}
