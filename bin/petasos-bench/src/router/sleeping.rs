//! Workers whose service times are slept through (`petasos_pacing`), and of which distribution.

use petasos_base::{Rng, Time};
use petasos_pacing::OneByOne;
use petasos_queueing::Service;

/// How long requests take.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub service: Service,
    /// The mean, in nanoseconds; with 0, workers answer at once.
    pub mean_ns: u64,
    /// How much longer a request is on its way to the worker than it really is, and its answer on
    /// the way back: as if the worker were further away.
    pub way_ns: u64,
}

/// A worker's queue.
#[derive(Debug)]
pub struct Queue {
    times: Times,
    rng: Rng,
    worker: OneByOne,
}

impl Queue {
    pub fn new(times: Times, seed: u64) -> Queue {
        Queue { times, rng: Rng::new(seed), worker: OneByOne::default() }
    }

    /// When a request that comes now is to be answered. With `sleep_ns`, it takes so long and waits
    /// for nobody.
    pub fn answered_at(&mut self, now: Time, sleep_ns: u64) -> Time {
        let Times { service, mean_ns, way_ns } = self.times;
        if sleep_ns > 0 {
            return now.plus_nanos(sleep_ns);
        }
        if mean_ns == 0 {
            return now;
        }
        let takes_ns = (service.sample(&mut self.rng) * mean_ns as f64) as u64;
        self.worker.served_at(now.plus_nanos(way_ns), takes_ns).plus_nanos(way_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_served_one_after_the_other() {
        let times = Times { service: Service::Deterministic, mean_ns: 1000, way_ns: 100 };
        let mut queue = Queue::new(times, 1);
        let at = |ns| Time::from_nanos(ns);
        assert_eq!(queue.answered_at(at(0), 0), at(1200));
        assert_eq!(queue.answered_at(at(50), 0), at(2200), "it waits for the first");
        assert_eq!(queue.answered_at(at(60), 7), at(67), "this one waits for nobody");
        assert_eq!(queue.answered_at(at(9000), 0), at(10_200));
        let mut at_once = Queue::new(Times { mean_ns: 0, ..times }, 1);
        assert_eq!(at_once.answered_at(at(5), 0), at(5));
    }
}
