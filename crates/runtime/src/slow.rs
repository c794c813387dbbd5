//! Counts turns in which tasks took too long, while everything else in the loop had to wait.

use core::fmt::Write;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use petasos_base::{Clock, Time};

/// So many handlers that run in a row are timed together at most.
const SERIES_MAX: u32 = 8;
/// At most one line is logged in this time.
#[cfg(feature = "tracing")]
const LOGGED: Duration = Duration::from_secs(1);

/// Turns in which handlers and other tasks took more than a millisecond, while all other calls of
/// the loop waited. Such methods belong on workers (`Placement::Worker`). A thread that was
/// descheduled counts, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlowTurns {
    /// How many such turns there were.
    pub turns: u64,
    /// The duration of the longest.
    pub longest: Duration,
    /// Methods whose handlers took most of such a turn in a row, by name. Handlers are timed for a
    /// minute after a slow turn, so the first slow turn is not attributed.
    pub methods: Vec<SlowMethod>,
}

/// A method's part in slow turns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlowMethod {
    /// The service's full name.
    pub service: String,
    /// The method's name in it.
    pub method: String,
    /// Turns that were slow because of it.
    pub turns: u64,
    /// The longest time that its handlers took in a row without waiting: one of them, or up to
    /// eight that ran one after the other.
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
            "# HELP rpc_server_slow_handlers_total Turns of which handlers took most.\n\
             # TYPE rpc_server_slow_handlers_total counter\n",
        );
        for SlowMethod { service, method, turns, .. } in &self.methods {
            let labels = format!("service=\"{service}\",method=\"{method}\"");
            writeln!(out, "rpc_server_slow_handlers_total{{{labels}}} {turns}").expect(text);
        }
        out
    }
}

/// The counts of a loop. Any thread may read them.
#[derive(Default)]
pub struct SlowCounts(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    turns: u64,
    longest: Duration,
    /// By service and method.
    methods: BTreeMap<Name, (u64, Duration)>,
}

/// The names of a service and a method.
pub(crate) type Name = (Arc<str>, Arc<str>);

impl SlowCounts {
    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a turn. Returns how many there have been.
    pub(crate) fn note(&self, took: Duration, culprit: Option<(Name, Duration)>) -> u64 {
        let mut counted = self.lock();
        counted.turns += 1;
        counted.longest = counted.longest.max(took);
        if let Some((name, took)) = culprit {
            let (turns, longest) = counted.methods.entry(name).or_default();
            (*turns, *longest) = (*turns + 1, (*longest).max(took));
        }
        counted.turns
    }

    /// The sum of several loops' counts.
    pub fn sum<'a>(all: impl Iterator<Item = &'a SlowCounts>) -> SlowTurns {
        let mut sum = Counted::default();
        for counts in all {
            let counted = counts.lock();
            sum.turns += counted.turns;
            sum.longest = sum.longest.max(counted.longest);
            for (name, (turns, longest)) in &counted.methods {
                let of = sum.methods.entry(name.clone()).or_default();
                *of = (of.0 + turns, of.1.max(*longest));
            }
        }
        let method = |((service, method), (turns, longest)): (Name, (u64, Duration))| {
            let (service, method) = (service.to_string(), method.to_string());
            SlowMethod { service, method, turns, longest }
        };
        let methods = sum.methods.into_iter().map(method).collect();
        SlowTurns { turns: sum.turns, longest: sum.longest, methods }
    }
}

/// A loop's own state for finding slow turns.
#[derive(Default)]
pub(crate) struct Slow {
    /// Names, by the methods' indices in the loop.
    pub(crate) names: Vec<Name>,
    /// Until when handlers are timed, if they are.
    pub(crate) timed_until: Option<Time>,
    /// While handlers are timed: the method of the series that took the longest in this turn.
    pub(crate) slowest: Option<(u32, Duration)>,
    series: Series,
    #[cfg(feature = "tracing")]
    logged_at: Option<Time>,
}

/// Handlers of one method that run in a row and are timed together. There is none if `count` is 0.
#[derive(Default)]
struct Series {
    kind: u32,
    count: u32,
    began: Time,
}

impl Slow {
    /// A handler of a method is about to run.
    pub(crate) fn begin_run(&mut self, kind: u32, clock: &Clock) {
        if self.series.count > 0 && self.series.kind != kind {
            self.end_series(clock.now());
        }
        if self.series.count == 0 {
            self.series = Series { kind, count: 0, began: clock.now() };
        }
        self.series.count += 1;
    }

    /// It has run.
    pub(crate) fn end_run(&mut self, clock: &Clock) {
        if self.series.count == SERIES_MAX {
            self.end_series(clock.now());
        }
    }

    /// The series under way, if there is one, is over.
    pub(crate) fn end_series(&mut self, now: Time) {
        let Series { kind, count, began } = core::mem::take(&mut self.series);
        let took = now - began;
        if count > 0 && self.slowest.is_none_or(|(_, slowest)| slowest < took) {
            self.slowest = Some((kind, took));
        }
    }

    /// Logs a slow turn, unless one was logged just before.
    #[cfg(feature = "tracing")]
    pub(crate) fn log(&mut self, now: Time, took: Duration, method: Option<Name>, so_far: u64) {
        if self.logged_at.is_some_and(|last| now < last + LOGGED) {
            return;
        }
        self.logged_at = Some(now);
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let method =
            method.map_or("?".to_owned(), |(service, method)| format!("{service}/{method}"));
        tracing::warn!(took_us, method, so_far, "tasks have blocked their loop");
    }

    #[cfg(not(feature = "tracing"))]
    pub(crate) fn log(&mut self, _: Time, _: Duration, _: Option<Name>, _: u64) {}
}
