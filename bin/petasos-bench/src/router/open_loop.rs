//! Points of latency-load curves: an open loop of Poisson arrivals, whose times are checked.

use std::time::Duration;

use petasos_base::{Clock, random_seed};
use petasos_load::{Arrivals, Limits, Outcome, Plan, Quantile, RunError, Schedule, Target, run};
use serde_json::{Value, json};

use crate::error::BenchError;

/// The part of a point's time that comes before it, so that queues are as they will be.
const WARM_UP: f64 = 0.25;
/// The part of a mean service time that 99 of 100 requests may be sent late.
const LAG_PART: u32 = 4;
/// How long the generator looks for answers before a request is due: always. It has a core of its
/// own, and a virtual machine's processor that rests is often woken a millisecond late.
const SPIN: Duration = Duration::from_secs(1);
const QUICK_LAG_MAX: Duration = Duration::from_secs(5);

/// What came of a point.
#[derive(Debug)]
pub enum Point {
    Measured(Box<Outcome>),
    /// The target cannot take the load.
    Saturated,
    /// The generator did not send what it should have: why.
    Refused(String),
}

/// What the times were like at which requests were sent, over all points.
#[derive(Debug, Default)]
pub struct Arrived {
    /// Points count whatever their times were like: figures mean nothing.
    is_quick: bool,
    /// The most that the 99th percentile of requests may be sent late.
    lag_max: Duration,
    points: u64,
    /// How many points do not count because of them.
    refused: u64,
    rate_error: f64,
    p_exponential: Vec<f64>,
    p_independent: Vec<f64>,
}

/// Sends requests at a rate for `seconds`, after some that do not count.
///
/// # Errors
/// If the target is lost, or the rate cannot be.
pub fn point(
    target: &mut dyn Target,
    rate: f64,
    seconds: f64,
    arrived: &mut Arrived,
) -> Result<Point, BenchError> {
    let schedule = |seconds: f64| {
        let arrivals = Arrivals::Poisson { seed: random_seed() };
        Schedule::new(&arrivals, rate, Duration::from_secs_f64(seconds))
    };
    let plan = Plan { warm_up: Some(schedule(seconds * WARM_UP)?), measured: schedule(seconds)? };
    let limits =
        Limits { failures_max: 0.0, lag_max: arrived.lag_max, spin: SPIN, ..Limits::default() };
    match run(target, &Clock::system(), plan, &limits, |_| {}) {
        Ok(run) => {
            let (outcome, refusals) = run.report_anyway();
            arrived.add(&outcome, !refusals.is_empty());
            Ok(match refusals.first().filter(|_| !arrived.is_quick) {
                Some(refusal) => Point::Refused(refusal.to_string()),
                None => Point::Measured(Box::new(outcome)),
            })
        }
        Err(RunError::Refused(refusal)) if refusal.is_of_target() => Ok(Point::Saturated),
        Err(RunError::Refused(refusal)) => {
            arrived.refused += 1;
            Ok(Point::Refused(refusal.to_string()))
        }
        Err(error) => Err(error.into()),
    }
}

/// A quantile of a point that was measured.
pub fn quantile(outcome: &Outcome, quantile: f64) -> Quantile {
    let nothing = Quantile { value_us: 0.0, stderr_us: None };
    outcome.latencies.quantile(quantile).unwrap_or(nothing)
}

impl Arrived {
    /// Of requests that are served for `mean` each, of which sending may take a part.
    pub fn new(is_quick: bool, mean: Duration) -> Arrived {
        let lag_max = if is_quick { QUICK_LAG_MAX } else { mean / LAG_PART };
        Arrived { is_quick, lag_max, ..Arrived::default() }
    }

    fn add(&mut self, outcome: &Outcome, is_refused: bool) {
        self.points += 1;
        self.refused += u64::from(is_refused);
        self.rate_error = self.rate_error.max(outcome.checks.rate_error.abs());
        self.p_exponential.extend(outcome.checks.p_exponential);
        self.p_independent.extend(outcome.checks.p_independent);
    }

    /// The largest error of a rate, and medians of p-values, which are 0.5 for good arrivals.
    pub fn json(&self) -> Value {
        let median = |values: &[f64]| petasos_report::median(values.iter().copied());
        json!({
            "points": self.points,
            "refused": self.refused,
            "rate_error": self.rate_error,
            "p_exponential": median(&self.p_exponential),
            "p_independent": median(&self.p_independent),
        })
    }
}
