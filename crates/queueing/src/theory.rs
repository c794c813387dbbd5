//! What is known in closed form. Times are in mean service times.

use crate::model::{Discipline, Model};
use crate::service::Service;

/// Halvings until a quantile is as precise as numbers can be.
const HALVINGS: u32 = 100;

/// What theory says of a model's latencies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Theory {
    /// The mean.
    pub mean: f64,
    /// The 99th percentile, where it has a simple form.
    pub p99: Option<f64>,
}

/// What theory says of a model: one queue with exponential service times (M/M/k), or queues that do
/// not know of each other (M/G/1). None of others.
pub fn theory(model: &Model) -> Option<Theory> {
    let is_alone = model.workers == 1 && model.delay == 0.0;
    let is_single = model.discipline == Discipline::Single || is_alone;
    let is_random = model.discipline == Discipline::RANDOM;
    let (workers, way) = (model.workers as u32, model.way());
    let is_exponential = model.service == Service::Exponential;
    let queue = match (is_single, is_random, is_exponential) {
        (true, _, true) => Some(ManyServers { workers, load: model.load }),
        (_, true, true) => Some(ManyServers { workers: 1, load: model.load }),
        _ => None,
    };
    if let Some(queue) = queue {
        let (mean, p99) = (queue.wait_mean() + 1.0 + way, queue.latency_quantile(0.01) + way);
        return Some(Theory { mean, p99: Some(p99) });
    }
    let is_one = is_random || is_alone || (is_single && workers == 1);
    let mean = single_server_wait_mean(model.load, model.service.second_moment()) + 1.0 + way;
    is_one.then_some(Theory { mean, p99: None })
}

/// The mean wait of M/G/1 (Pollaczek, Khinchine), the mean service time being 1.
pub fn single_server_wait_mean(load: f64, second_moment: f64) -> f64 {
    load * second_moment / (2.0 * (1.0 - load))
}

/// M/M/k: one queue, exponential service times.
#[derive(Clone, Copy, Debug)]
pub struct ManyServers {
    /// k.
    pub workers: u32,
    /// The part of their time that is needed.
    pub load: f64,
}

impl ManyServers {
    /// The probability that a request waits (Erlang's C).
    pub fn wait_probability(&self) -> f64 {
        let offered = self.load * f64::from(self.workers);
        // Erlang's B, by its recursion over the number of workers.
        let step = |blocked: f64, workers: u32| {
            offered * blocked / (f64::from(workers) + offered * blocked)
        };
        let blocked = (1..=self.workers).fold(1.0, step);
        blocked / (1.0 - self.load * (1.0 - blocked))
    }

    /// Of those who wait, the time is exponential with this rate.
    fn wait_rate(&self) -> f64 {
        f64::from(self.workers) * (1.0 - self.load)
    }

    /// The mean wait.
    pub fn wait_mean(&self) -> f64 {
        self.wait_probability() / self.wait_rate()
    }

    /// The part of latencies above a time.
    pub fn latency_above(&self, time: f64) -> f64 {
        let (waits, rate) = (self.wait_probability(), self.wait_rate());
        let served = (-time).exp();
        let both = match (1.0 - rate).abs() < 1e-9 {
            true => time * served,
            false => ((-rate * time).exp() - served) / (1.0 - rate),
        };
        served + waits * both
    }

    /// The time that this part of latencies exceeds.
    pub fn latency_quantile(&self, above: f64) -> f64 {
        let (mut low, mut high) = (0.0, 1.0);
        while self.latency_above(high) > above {
            high *= 2.0;
        }
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            if self.latency_above(middle) > above { low = middle } else { high = middle }
        }
        high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-9 * right.abs().max(1.0)
    }

    #[test]
    fn one_worker_is_as_textbooks_have_it() {
        for load in [0.1, 0.5, 0.95] {
            let queue = ManyServers { workers: 1, load };
            assert!(near(queue.wait_probability(), load));
            assert!(near(queue.wait_mean(), load / (1.0 - load)));
            assert!(near(queue.wait_mean(), single_server_wait_mean(load, 2.0)));
            assert!(near(queue.latency_quantile(0.01), 100f64.ln() / (1.0 - load)));
        }
        assert!(near(single_server_wait_mean(0.5, 1.0), 0.5), "M/D/1");
    }

    #[test]
    fn two_workers_are_as_textbooks_have_it() {
        // C = 2 ρ² / (1 + ρ).
        let queue = ManyServers { workers: 2, load: 0.75 };
        assert!(near(queue.wait_probability(), 2.0 * 0.5625 / 1.75));
        // The rate at which those who wait are served is 1 here: the other branch.
        let queue = ManyServers { workers: 2, load: 0.5 };
        let both = |time: f64| (1.0 + time / 3.0) * (-time).exp();
        assert!(near(queue.latency_above(3.0), both(3.0)));
    }
}
