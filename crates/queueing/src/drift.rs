//! Controls of queues: of those of workers that do not know of each other, or of the fast worker's.
//!
//! From one request of a worker to its next, the wait changes by the first one's service time less
//! the time between them. What both are is not known before, and does not depend on the wait so
//! far. Therefore each function of the wait, times the deviation of that change from its mean, has
//! the mean 0. Two functions explain much of what is random about such a queue (Henderson and
//! Glynn, "Approximating martingales for variance reduction in Markov process simulation", 2002):
//! for the mean wait, the wait itself; for the part of long waits, a function that grows
//! exponentially up to these. Both are those of heavy traffic; what they are not right about only
//! costs precision.

use crate::model::{Discipline, Model};

/// How many controls this gives.
pub(crate) const DRIFTS: usize = 2;
/// Long waits, in multiples of the mean: that of the highest hundredth, if waits are exponential.
const LONG: f64 = 4.605;

/// See the module's documentation. Times are in mean service times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drift {
    /// The mean time between two requests of a worker.
    gap: f64,
    /// About the mean wait.
    wait: f64,
}

impl Drift {
    pub(crate) fn new(model: &Model) -> Drift {
        let workers = model.workers as f64;
        // Of gaps between a worker's requests: of those that come in turn, each is a sum of many.
        let in_turn = model.discipline.is_blind() && model.discipline != Discipline::RANDOM;
        let variation = if in_turn { 1.0 / workers } else { 1.0 };
        let variations = model.service.second_moment() - 1.0 + variation;
        let wait = model.load * variations / (2.0 * (1.0 - model.load));
        Drift { gap: 1.0 / model.load, wait }
    }

    /// The controls of a request that has waited and been served so long, when the next one of the
    /// same worker comes after such a gap.
    #[inline]
    pub(crate) fn of(&self, wait: f64, service: f64, gap: f64) -> [f64; DRIFTS] {
        let deviation = (service - 1.0) - (gap - self.gap);
        let waits = wait / self.wait;
        let rare = if waits < LONG { (waits - LONG).exp() } else { 1.0 };
        [waits * deviation, rare * deviation]
    }
}
