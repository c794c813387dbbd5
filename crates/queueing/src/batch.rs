//! What is observed during a part of a run.

use crate::drift::DRIFTS;
use crate::histogram::Histogram;

/// Waits of the requests that began, and what the requests that came were like.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Batch {
    /// In ticks.
    pub waits: Histogram,
    pub begun: u64,
    pub wait_ticks: u64,
    pub came: u64,
    /// In mean service times.
    pub gaps: f64,
    pub services: f64,
    /// Waits of the same requests at one worker that is as fast as all of them.
    pub fast_waits: f64,
    /// Sums of what [`Drift`](crate::drift::Drift) gives.
    pub drifts: [f64; DRIFTS],
    /// How many waited in the router at the end.
    pub waiting: usize,
}

impl Batch {
    /// Counts a request that comes.
    #[inline]
    pub(crate) fn arrive(&mut self, gap: f64, service: f64, fast_wait: f64) {
        self.came += 1;
        self.gaps += gap;
        self.services += service;
        self.fast_waits += fast_wait;
    }

    /// Counts a request that begins after such a wait.
    #[inline]
    pub(crate) fn wait(&mut self, ticks: u64) {
        self.begun += 1;
        self.wait_ticks += ticks;
        self.waits.record(ticks);
    }

    /// Counts the controls of a request.
    #[inline]
    pub(crate) fn drift(&mut self, drifts: [f64; DRIFTS]) {
        self.drifts.iter_mut().zip(drifts).for_each(|(sum, drift)| *sum += drift);
    }

    /// Counts what the next one has counted.
    pub(crate) fn add(&mut self, other: &Batch) {
        self.waits.add(&other.waits);
        self.begun += other.begun;
        self.wait_ticks += other.wait_ticks;
        self.came += other.came;
        self.gaps += other.gaps;
        self.services += other.services;
        self.fast_waits += other.fast_waits;
        self.drift(other.drifts);
        self.waiting = other.waiting;
    }
}
