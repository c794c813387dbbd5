//! The breaker of a key.
//!
//! A closed breaker consists of atomics. Only calls that arrive when it is half open, and calls
//! that open or close it, take its lock.

use std::sync::{Mutex, MutexGuard, PoisonError};

use petasos_engine::sync::{AtomicU64, Ordering};
use petasos_engine::{ClockShift, Time};
use serde::{Deserialize, Serialize};

use crate::table::{Kept, Touched};

/// When breakers open and close.
pub(super) struct Limits {
    pub(super) consecutive: u64,
    pub(super) ratio: Option<Ratio>,
    pub(super) open_ns: u64,
    pub(super) probes: u64,
}

pub(super) struct Ratio {
    pub(super) failures: f64,
    pub(super) window_ns: u64,
    pub(super) calls_min: u64,
}

/// A time in which a breaker stays closed, or is not closed: the time until which it is open, in
/// nanoseconds; 0 while it is closed.
pub(super) type Epoch = u64;
const CLOSED: Epoch = 0;
/// More calls than there ever are.
const COUNT_MAX: u64 = 1 << 60;

#[derive(Debug, Default)]
pub(super) struct Breaker {
    epoch: AtomicU64,
    /// Failures since the last success.
    consecutive: AtomicU64,
    window_began_ns: AtomicU64,
    succeeded: AtomicU64,
    failed: AtomicU64,
    /// When a call failed last.
    failure: Touched,
    probing: Mutex<Probing>,
}

/// The probes of an epoch.
#[derive(Debug, Default)]
struct Probing {
    epoch: Epoch,
    began_ns: u64,
    admitted: u64,
    succeeded: u64,
}

/// A breaker in a state.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Entry {
    #[serde(default)]
    open_until_ns: Epoch,
    #[serde(default)]
    consecutive: u64,
    #[serde(default)]
    window_began_ns: u64,
    #[serde(default)]
    succeeded: u64,
    #[serde(default)]
    failed: u64,
}

impl Entry {
    /// Tells its times by the clock of another process.
    pub(super) fn carry(&mut self, clock: ClockShift) {
        self.open_until_ns = clock.of(self.open_until_ns);
        self.window_began_ns = clock.of(self.window_began_ns);
    }
}

/// One that failed, or opened, long ago may be forgotten, too: its calls are tried again then.
impl Kept for Breaker {
    fn is_idle(&self, now: Time) -> bool {
        let has_failed = self.failed.load(Ordering::Relaxed) > 0
            || self.consecutive.load(Ordering::Relaxed) > 0
            || !self.is_closed();
        !has_failed || self.failure.is_old(now)
    }
}

impl Breaker {
    pub(super) fn is_closed(&self) -> bool {
        self.epoch.load(Ordering::Relaxed) == CLOSED
    }

    /// Lets a call pass, or not. Gives the epoch in which it begins.
    #[inline]
    pub(super) fn admit(&self, limits: &Limits, now: Time) -> Option<Epoch> {
        let epoch = self.epoch.load(Ordering::Relaxed);
        if epoch == CLOSED { Some(CLOSED) } else { self.admit_probe(limits, now) }
    }

    #[cold]
    fn admit_probe(&self, limits: &Limits, now: Time) -> Option<Epoch> {
        let mut probing = self.lock();
        // A state from another configuration or clock must not refuse for longer than ours.
        let latest = now.as_nanos().saturating_add(limits.open_ns);
        let epoch = self.epoch.fetch_min(latest, Ordering::Relaxed).min(latest);
        if epoch == CLOSED {
            return Some(CLOSED);
        }
        if now.as_nanos() < epoch {
            return None;
        }
        let is_stuck = now.as_nanos() >= probing.began_ns.saturating_add(limits.open_ns);
        if probing.epoch != epoch || probing.admitted >= limits.probes && is_stuck {
            *probing = Probing { epoch, began_ns: now.as_nanos(), admitted: 0, succeeded: 0 };
        }
        if probing.admitted >= limits.probes {
            return None;
        }
        probing.admitted += 1;
        Some(epoch)
    }

    /// A call of an epoch has ended.
    pub(super) fn record(&self, limits: &Limits, now: Time, began_in: Epoch, is_failure: bool) {
        if is_failure {
            self.failure.touch(now);
        }
        if began_in != self.epoch.load(Ordering::Relaxed) {
            return;
        }
        match (began_in, is_failure) {
            (CLOSED, false) => self.succeed(limits, now),
            (CLOSED, true) => self.fail(limits, now),
            (_, false) => self.succeed_probe(limits, began_in),
            (_, true) => self.open(limits, now, began_in),
        }
    }

    fn succeed(&self, limits: &Limits, now: Time) {
        if self.consecutive.load(Ordering::Relaxed) > 0 {
            self.consecutive.store(0, Ordering::Relaxed);
        }
        if let Some(ratio) = &limits.ratio {
            self.roll(ratio, now);
            self.succeeded.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn fail(&self, limits: &Limits, now: Time) {
        let consecutive = self.consecutive.fetch_add(1, Ordering::Relaxed) + 1;
        let mut is_too_much = consecutive >= limits.consecutive;
        if let Some(ratio) = &limits.ratio {
            self.roll(ratio, now);
            let failed = self.failed.fetch_add(1, Ordering::Relaxed) + 1;
            let all = failed + self.succeeded.load(Ordering::Relaxed);
            is_too_much |= all >= ratio.calls_min && failed as f64 >= ratio.failures * all as f64;
        }
        if is_too_much {
            self.open(limits, now, CLOSED);
        }
    }

    /// Begins a new window if the last one is over. Of several threads, one does it; what others
    /// count meanwhile may be lost, which is few of many.
    fn roll(&self, ratio: &Ratio, now: Time) {
        let began = self.window_began_ns.load(Ordering::Relaxed);
        if now.as_nanos() < began.saturating_add(ratio.window_ns) {
            return;
        }
        let (order, next) = (Ordering::Relaxed, now.as_nanos());
        if self.window_began_ns.compare_exchange(began, next, order, order).is_ok() {
            self.succeeded.store(0, order);
            self.failed.store(0, order);
        }
    }

    #[cold]
    fn open(&self, limits: &Limits, now: Time, from: Epoch) {
        let _probing = self.lock();
        if self.epoch.load(Ordering::Relaxed) == from {
            let until = now.as_nanos().saturating_add(limits.open_ns);
            // Two epochs are never the same, so that calls of the earlier one do not count.
            self.begin(if until == from { until + 1 } else { until });
        }
    }

    fn succeed_probe(&self, limits: &Limits, epoch: Epoch) {
        let mut probing = self.lock();
        if probing.epoch == epoch && self.epoch.load(Ordering::Relaxed) == epoch {
            probing.succeeded += 1;
            if probing.succeeded >= limits.probes {
                self.begin(CLOSED);
            }
        }
    }

    /// With the lock taken.
    fn begin(&self, epoch: Epoch) {
        self.consecutive.store(0, Ordering::Relaxed);
        self.succeeded.store(0, Ordering::Relaxed);
        self.failed.store(0, Ordering::Relaxed);
        self.epoch.store(epoch, Ordering::Relaxed);
    }

    pub(super) fn entry(&self) -> Entry {
        let get = |from: &AtomicU64| from.load(Ordering::Relaxed);
        Entry {
            open_until_ns: get(&self.epoch),
            consecutive: get(&self.consecutive),
            window_began_ns: get(&self.window_began_ns),
            succeeded: get(&self.succeeded),
            failed: get(&self.failed),
        }
    }

    pub(super) fn restore(&self, entry: &Entry) {
        let set = |to: &AtomicU64, value| to.store(value, Ordering::Relaxed);
        // A state may come from another process: what is counted on has room.
        let count = |count: u64| count.min(COUNT_MAX);
        set(&self.epoch, entry.open_until_ns);
        set(&self.consecutive, count(entry.consecutive));
        set(&self.window_began_ns, entry.window_began_ns);
        set(&self.succeeded, count(entry.succeeded));
        set(&self.failed, count(entry.failed));
        self.failure.touch(Time::from_nanos(entry.open_until_ns.max(entry.window_began_ns)));
    }

    fn lock(&self) -> MutexGuard<'_, Probing> {
        self.probing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
