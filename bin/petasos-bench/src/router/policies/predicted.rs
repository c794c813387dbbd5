//! What the simulation of the router's core says of the same workers, load and delay.

use petasos_queueing::{Model, Service, simulate_all};

use super::Setting;
use crate::error::BenchError;
use crate::router::args::RouterArgs;
use crate::router::curves::{Curve, Tail};
use crate::router::team::WORKERS;

/// A load beyond those that are measured, so that the objective is not met at all of them. More
/// takes minutes.
const MORE_LOAD: f64 = 0.98;
/// Policies that do not heed loads have long missed the objective here, and take the longest to
/// simulate.
const BLIND_LOAD_MAX: f64 = 0.9;
/// The part of all ways that a worker waits for its next request: those between it and the router.
/// The third way is the answer's.
const DELAY: f64 = 2.0 / 3.0;

/// A prediction.
pub struct Predicted {
    /// From the end of a request until its worker can have the next, in microseconds.
    pub delay_us: f64,
    pub tails: Vec<Tail>,
}

impl Predicted {
    /// The 99th percentile at a load.
    pub fn at(&self, load: f64) -> Option<f64> {
        let tail = self.tails.iter().find(|tail| (tail.load - load).abs() < 1e-9);
        tail.map(|tail| tail.p99_us)
    }
}

/// Predicts all curves that can be, and the best that there can be.
///
/// # Errors
/// If something cannot be simulated.
pub fn all(
    args: &RouterArgs,
    setting: &Setting,
    service: Service,
    curves: &[Curve],
) -> Result<Vec<(&'static str, Predicted)>, BenchError> {
    let routed = curves.iter().filter_map(|curve| Some((curve.name(), curve.policy()?, curve)));
    let mut all = Vec::new();
    for (name, policy, curve) in routed {
        all.push((name, of_policy(args, setting, service, policy, curve.ways_us)?));
    }
    let ways_us = petasos_report::median(curves.iter().map(|curve| curve.ways_us));
    let single = of_policy(args, setting, service, "single", ways_us.unwrap_or_default())?;
    all.push(("single", single));
    Ok(all)
}

fn of_policy(
    args: &RouterArgs,
    setting: &Setting,
    service: Service,
    policy: &str,
    ways_us: f64,
) -> Result<Predicted, BenchError> {
    let mean_us = args.mean_us as f64;
    let slept_us = setting.communication * mean_us;
    let delay_us = slept_us + DELAY * ways_us;
    let discipline = policy.parse()?;
    let is_blind = matches!(policy, "random" | "rr");
    let more = Some(MORE_LOAD).filter(|_| !args.quick);
    let loads = setting.loads.iter().copied().chain(more);
    let loads = loads.filter(|load| !is_blind || *load <= BLIND_LOAD_MAX);
    let model = |load| {
        let delay = delay_us / mean_us;
        Model { service, discipline, workers: WORKERS, load, delay, hold: 0.0 }
    };
    let models: Vec<_> = loads.map(model).collect();
    let latencies = simulate_all(&models, &args.effort(), 2, |_| {})?;
    // The simulation ends with the service, and begins at the router; `single` has no way at all.
    let is_single = policy == "single";
    let rest_us = slept_us + ways_us - if is_single { 0.0 } else { delay_us / 2.0 };
    let tail = |(model, latency): (&Model, Option<petasos_queueing::Latency>)| {
        let p99 = latency?.p99;
        let p99_us = p99.value * mean_us + rest_us;
        let stderr_us = Some(p99.stderr * mean_us).filter(|error| error.is_finite());
        Some(Tail { load: model.load, p99_us, stderr_us })
    };
    let tails = models.iter().zip(latencies).filter_map(tail).collect();
    Ok(Predicted { delay_us, tails })
}
