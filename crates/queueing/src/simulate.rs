//! A model's latencies, as precise as asked for, with their errors.

use petasos_base::Rng;

use crate::batch::Batch;
use crate::due::TICKS_MAX;
use crate::model::{Model, ModelError};
use crate::regression::{Estimate, Observation, controlled_mean};
use crate::tail::Latencies;
use crate::theory::single_server_wait_mean;
use crate::world::{Saturated, TICKS, World};

/// The quantile that is reported.
const ABOVE: f64 = 0.01;
/// Runs of a model that do not know of each other.
const WORLDS: u64 = 4;
/// Batches of each.
const BATCHES: usize = 16;
/// Corrections of the quantile: the first is nearly right.
const CORRECTIONS: u32 = 2;
/// Queues that grow by less of what comes are not said to grow without end.
const GROWTH_MIN: f64 = 0.005;
/// The least requests of a point: below them, batches would be too short to tell an error.
const REQUESTS_MIN: u64 = 64_000;

/// A simulation that takes more requests before there is any result is refused.
const LEAST_MAX: u64 = 2_000_000_000;

/// How long to simulate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// The seed of all random numbers.
    pub seed: u64,
    /// Stop when the standard errors, relative to the values, are no more than this for the 99th
    /// percentile and half of it for the mean.
    pub precision: f64,
    /// The least requests.
    pub requests_min: u64,
    /// The most requests.
    pub requests_max: u64,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort { seed: 1, precision: 0.004, requests_min: 1_000_000, requests_max: 150_000_000 }
    }
}

impl Effort {
    /// Exactly so many requests, rounded up to whole batches. They may be too few to know the
    /// errors ([`Latency::errors_are_known`]).
    pub fn requests(requests: u64, seed: u64) -> Effort {
        Effort { seed, precision: 0.0, requests_min: requests, requests_max: requests }
    }
}

/// What has come out. Times are in mean service times, and are those from a request's arrival at
/// the router to its end at the worker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// The mean.
    pub mean: Estimate,
    /// The 99th percentile.
    pub p99: Estimate,
    /// How many requests were observed.
    pub requests: u64,
    /// Whether the parts of the run, whose differences tell the errors, were long enough for that.
    /// If not, the errors are larger than they seem.
    pub errors_are_known: bool,
}

/// Simulates a model. None if the workers cannot keep up, because the bound and the delay leave
/// them idle.
///
/// # Errors
/// If the model is wrong, or does not fit the effort.
pub fn simulate(model: &Model, effort: &Effort) -> Result<Option<Latency>, ModelError> {
    check(model, effort)?;
    Ok(Simulation::new(model, effort).run(effort).ok())
}

/// Checks what [`simulate`] checks.
pub(crate) fn check(model: &Model, effort: &Effort) -> Result<(), ModelError> {
    model.check()?;
    let least = least(model, effort);
    let requests = effort.requests_max.max(effort.requests_min).max(least);
    let each = requests as f64 / WORLDS as f64 + warm_up(model) as f64;
    let times = each / (model.load * model.workers as f64);
    // Random times are longer or shorter than expected, but not by much.
    match least <= LEAST_MAX && times * 1.1 < TICKS_MAX as f64 / TICKS {
        true => Ok(()),
        false => {
            let Model { workers, load, .. } = *model;
            Err(ModelError::TooLong { requests, workers, load })
        }
    }
}

/// The requests of a batch, to begin with.
fn batch(model: &Model, effort: &Effort) -> u64 {
    let length = effort.requests_min.max(REQUESTS_MIN).div_ceil(WORLDS * BATCHES as u64);
    if effort.precision > 0.0 { length.max(batch_min(model)) } else { length }
}

/// Batches that are shorter do not differ enough, and errors would seem small.
fn batch_min(model: &Model) -> u64 {
    warm_up(model).saturating_mul(2)
}

/// How many requests there are before the first result.
fn least(model: &Model, effort: &Effort) -> u64 {
    let batches = batch(model, effort).saturating_mul(BATCHES as u64);
    warm_up(model).saturating_add(batches).saturating_mul(WORLDS)
}

struct Simulation<'a> {
    model: &'a Model,
    worlds: Vec<World>,
    /// Of each world, [`BATCHES`] of equal length.
    batches: Vec<Vec<Batch>>,
    /// Requests of a batch.
    length: u64,
}

impl<'a> Simulation<'a> {
    fn new(model: &'a Model, effort: &Effort) -> Simulation<'a> {
        let mut seeds = Rng::new(effort.seed);
        let worlds = (0..WORLDS).map(|_| World::new(model, seeds.next_u64())).collect();
        Simulation { model, worlds, batches: Vec::new(), length: batch(model, effort) }
    }

    fn run(mut self, effort: &Effort) -> Result<Latency, Saturated> {
        let warm_up = warm_up(self.model);
        for world in &mut self.worlds {
            world.run(warm_up)?;
            self.batches.push(run_batches(world, self.length)?);
        }
        loop {
            if self.batches.iter().all(|batches| is_growing(batches, self.model.workers)) {
                return Err(Saturated);
            }
            let latency = self.latency();
            let p99 = latency.p99.stderr / latency.p99.value;
            let mean = latency.mean.stderr / latency.mean.value;
            let is_precise = p99 <= effort.precision && mean <= effort.precision / 2.0;
            if is_precise || latency.requests * 2 > effort.requests_max {
                return Ok(latency);
            }
            self.double()?;
        }
    }

    /// Goes on as long as it has gone on so far. Batches become twice as long.
    fn double(&mut self) -> Result<(), Saturated> {
        for (world, batches) in self.worlds.iter_mut().zip(&mut self.batches) {
            batches.extend(run_batches(world, self.length)?);
            let pair = |pair: &[Batch]| {
                let mut sum = pair[0].clone();
                sum.add(&pair[1]);
                sum
            };
            *batches = batches.chunks(2).map(pair).collect();
        }
        self.length *= 2;
        Ok(())
    }

    fn latency(&self) -> Latency {
        let batches: Vec<&Batch> = self.batches.iter().flatten().collect();
        let shift = self.model.way();
        let mean = controlled_mean(
            &self.observe(&batches, |batch| batch.wait_ticks as f64 / TICKS / batch.begun as f64),
        );
        let p99 = self.p99(&batches);
        Latency {
            mean: Estimate { value: mean.value + 1.0 + shift, ..mean },
            p99: Estimate { value: p99.value + shift, ..p99 },
            requests: batches.iter().map(|batch| batch.begun).sum(),
            errors_are_known: self.length >= batch_min(self.model),
        }
    }

    /// The quantile of all latencies, corrected by controls: the part of latencies above a time is
    /// a mean, with controls and an error; from one to the other leads the distribution's own
    /// slope.
    fn p99(&self, batches: &[&Batch]) -> Estimate {
        let service = self.model.service;
        let of = |batch: &Batch| Latencies::new(&batch.waits, TICKS, service);
        let mut sum = Batch::default();
        batches.iter().for_each(|batch| sum.add(batch));
        let (all, each) = (of(&sum), batches.iter().map(|batch| of(batch)).collect::<Vec<_>>());
        let mut value = all.quantile(ABOVE);
        let mut stderr = f64::NAN;
        for _ in 0..CORRECTIONS {
            let parts = each.iter().map(|latencies| latencies.above(value));
            let mut parts = parts.collect::<Vec<_>>().into_iter();
            let part =
                controlled_mean(&self.observe(batches, |_| parts.next().unwrap_or(f64::NAN)));
            let excess = all.above(value) - part.value;
            let above = |part: f64| all.quantile((ABOVE + part).clamp(0.0, 1.0));
            stderr = (above(excess - part.stderr) - above(excess + part.stderr)) / 2.0;
            value = above(excess);
        }
        Estimate { value, stderr }
    }

    fn observe(
        &self,
        batches: &[&Batch],
        mut value: impl FnMut(&Batch) -> f64,
    ) -> Vec<Observation> {
        let workers = self.model.workers as f64;
        let gap = 1.0 / (self.model.load * workers);
        let second_moment = self.model.service.second_moment();
        let fast_wait = single_server_wait_mean(self.model.load, second_moment) / workers;
        let observe = |batch: &&Batch| {
            let came = batch.came as f64;
            let controls = [
                batch.gaps / came / gap - 1.0,
                batch.services / came - 1.0,
                batch.fast_waits / came / fast_wait - 1.0,
                batch.drifts[0] / came,
                batch.drifts[1] / came,
            ];
            Observation { value: value(batch), controls }
        };
        batches.iter().map(observe).collect()
    }
}

fn run_batches(world: &mut World, length: u64) -> Result<Vec<Batch>, Saturated> {
    (0..BATCHES).map(|_| world.run(length)).collect()
}

/// Whether ever more requests wait in the router: in the second half of a run, the queue has grown
/// by a part of all requests that random changes do not explain.
fn is_growing(batches: &[Batch], workers: usize) -> bool {
    let (first, second) = batches.split_at(batches.len() / 2);
    let waiting = |half: &[Batch]| half.last().map_or(0, |batch| batch.waiting);
    let came: u64 = second.iter().map(|batch| batch.came).sum();
    let growth = waiting(second).saturating_sub(waiting(first));
    growth > 64 * workers && growth as f64 > GROWTH_MIN * came as f64
}

/// How many requests come before an empty system has forgotten that it was empty: some of the
/// longest relaxation times that there are, those of queues of one worker each.
fn warm_up(model: &Model) -> u64 {
    let idle = 1.0 - model.load;
    let times = 10.0 * model.service.second_moment() / (idle * idle) + 20.0 * (1.0 + model.delay);
    (times * model.load * model.workers as f64) as u64
}
