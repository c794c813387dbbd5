//! The limit of a key.

use petasos_engine::Time;
use petasos_engine::sync::{AtomicU64, Ordering};
use serde::{Deserialize, Serialize};

use crate::table::{Kept, Touched};

/// Limits are kept in parts of calls, as they change by less than one.
const CALL: f64 = 1000.0;
/// By how many calls a limit may grow in a window before it is smoothed: room for a queue.
const GROWTH: f64 = 4.0;
/// How much of a new limit counts.
const SMOOTHING: f64 = 0.2;
/// How much of a window counts for the latency in the long run.
const LONG_SMOOTHING: f64 = 0.05;
/// What is left of a limit after a window with calls that ended because of overload.
const BACKOFF: f64 = 0.9;
/// A limit shrinks by half at most in a window.
const GRADIENT_MIN: f64 = 0.5;
/// A window with fewer answers goes on.
const ANSWERS_MIN: u64 = 10;

/// What is configured.
pub(super) struct Limits {
    pub(super) initial: u64,
    pub(super) least: u64,
    pub(super) most: u64,
    pub(super) tolerance: f64,
    pub(super) window_ns: u64,
}

/// What the end of a call says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Its latency counts.
    Answer,
    /// It took too long, or was refused.
    Overload,
    /// Nothing about the load.
    Nothing,
}

/// The numbers say nothing about other memory, so that no ordering is needed.
#[derive(Debug, Default)]
pub(super) struct Limiter {
    /// In parts of calls; 0 as long as it is the initial one.
    limit: AtomicU64,
    calls: AtomicU64,
    /// The latency in the long run; 0 if there was no window yet.
    long_ns: AtomicU64,
    /// Of the window: its end, answers and their latencies, overloads, the most calls at a time.
    window_ends_ns: AtomicU64,
    answers: AtomicU64,
    latencies_ns: AtomicU64,
    overloads: AtomicU64,
    calls_most: AtomicU64,
    used: Touched,
}

/// A limiter in a state.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Entry {
    /// In thousandths of calls.
    #[serde(default)]
    limit: u64,
    #[serde(default)]
    long_ns: u64,
}

impl Kept for Limiter {
    fn is_idle(&self, now: Time) -> bool {
        let is_new = self.limit.load(Ordering::Relaxed) == 0;
        self.calls() == 0 && (is_new || self.used.is_old(now))
    }
}

impl Limiter {
    /// How many calls there may be at a time.
    pub(super) fn limit(&self, limits: &Limits) -> f64 {
        let parts = self.limit.load(Ordering::Relaxed);
        let limit = if parts == 0 { limits.initial as f64 } else { parts as f64 / CALL };
        limit.clamp(limits.least as f64, limits.most as f64)
    }

    /// How many there are.
    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// A call begins, if it may: those of a class may use a part of the limit. One may always.
    pub(super) fn admit(&self, limits: &Limits, share: f64) -> bool {
        let allowed = ((self.limit(limits) * share) as u64).max(u64::from(share > 0.0));
        let calls = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if calls > allowed {
            self.leave();
            return false;
        }
        if calls > self.calls_most.load(Ordering::Relaxed) {
            self.calls_most.fetch_max(calls, Ordering::Relaxed);
        }
        true
    }

    /// A call is there that another engine has admitted.
    pub(super) fn enter(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// A call is over.
    pub(super) fn leave(&self) {
        self.calls.fetch_sub(1, Ordering::Relaxed);
    }

    /// A call has ended.
    pub(super) fn record(&self, limits: &Limits, now: Time, outcome: Outcome, latency_ns: u64) {
        self.used.touch(now);
        match outcome {
            Outcome::Answer => {
                self.answers.fetch_add(1, Ordering::Relaxed);
                self.latencies_ns.fetch_add(latency_ns, Ordering::Relaxed);
            }
            Outcome::Overload => drop(self.overloads.fetch_add(1, Ordering::Relaxed)),
            Outcome::Nothing => return,
        }
        let ends = self.window_ends_ns.load(Ordering::Relaxed);
        if now.as_nanos() >= ends || ends - now.as_nanos() > limits.window_ns {
            self.end_window(limits, now, ends);
        }
    }

    /// Ends the window, if it says something. Of several threads, one does it.
    #[cold]
    fn end_window(&self, limits: &Limits, now: Time, ends: u64) {
        let order = Ordering::Relaxed;
        let (answers, overloads) = (self.answers.load(order), self.overloads.load(order));
        if ends > 0 && overloads == 0 && answers < ANSWERS_MIN {
            return;
        }
        let next = now.as_nanos().saturating_add(limits.window_ns);
        if self.window_ends_ns.compare_exchange(ends, next, order, order).is_err() || ends == 0 {
            return;
        }
        let (answers, overloads) = (self.answers.swap(0, order), self.overloads.swap(0, order));
        let latencies = self.latencies_ns.swap(0, order);
        let most = self.calls_most.swap(self.calls(), order);
        let limit = self.limit(limits);
        let changed = if overloads > 0 {
            limit * BACKOFF
        } else {
            let latency = latencies as f64 / answers.max(1) as f64;
            self.changed(limits, limit, latency, most)
        };
        let changed = changed.clamp(limits.least as f64, limits.most as f64);
        self.limit.store((changed * CALL) as u64, order);
    }

    /// The limit after a window with this mean latency.
    fn changed(&self, limits: &Limits, limit: f64, latency: f64, calls_most: u64) -> f64 {
        let long = match self.long_ns.load(Ordering::Relaxed) {
            0 => latency,
            long => long as f64 + (latency - long as f64) * LONG_SMOOTHING,
        };
        // The long run forgets a bad time faster than it was learnt.
        let long = if long > 2.0 * latency { long * 0.95 } else { long };
        self.long_ns.store((long as u64).max(1), Ordering::Relaxed);
        if (calls_most as f64) < limit / 2.0 {
            return limit;
        }
        let gradient = (limits.tolerance * long / latency.max(1.0)).clamp(GRADIENT_MIN, 1.0);
        let target = limit * gradient + GROWTH;
        limit * (1.0 - SMOOTHING) + target * SMOOTHING
    }

    pub(super) fn entry(&self) -> Entry {
        let (limit, long_ns) = (&self.limit, &self.long_ns);
        Entry { limit: limit.load(Ordering::Relaxed), long_ns: long_ns.load(Ordering::Relaxed) }
    }

    pub(super) fn restore(&self, entry: &Entry) {
        self.limit.store(entry.limit, Ordering::Relaxed);
        self.long_ns.store(entry.long_ns, Ordering::Relaxed);
    }
}
