//! A run of a model: requests come, the router decides, workers serve, feedback returns.
//!
//! Times are whole ticks. A worker serves in order and one at a time; therefore the end of a
//! request is known when it is given, and only arrivals and feedback are events. Random numbers are
//! drawn in the order of arrival, from a stream each for gaps, service times and decisions: with
//! the same seed, all policies see the same requests.

use std::collections::VecDeque;

use petasos_base::{Rng, Time};
use petasos_router::{
    Admission, Assignment, BOUND_MAX, Join, Output, Request, Router, WorkerCounts, WorkerId,
};

use crate::batch::Batch;
use crate::drift::Drift;
use crate::due::{Due, TICKS_MAX};
use crate::model::{Discipline, Model};

/// Ticks of a mean service time.
pub(crate) const TICKS: f64 = (1u64 << 18) as f64;
/// How much of its feedback a worker saves up if nobody heeds it.
const SAVED_MAX: usize = 512;
/// With more load, a worker might have all that it may have, beside what is saved up.
const BLIND_LOAD_MAX: f64 = 0.98;

/// See the module's documentation.
pub(crate) struct World {
    model: Model,
    router: Router<Token>,
    workers: Box<[Worker]>,
    due: Due,
    now: u64,
    /// Ticks between arrivals, on average.
    gap: f64,
    /// Ticks of a request, and of feedback, on the way.
    way: u64,
    /// Policies that do not heed loads get feedback now and then, which costs less.
    is_blind: bool,
    /// Workers' queues do not know of each other.
    is_independent: bool,
    gaps: Rng,
    times: Rng,
    decisions: Rng,
    /// How long the last request waits at one worker that is as fast as all of them, and its
    /// service time: M/G/1, whose mean wait is known.
    fast: (f64, f64),
    drift: Drift,
    batch: Batch,
}

/// A request.
#[derive(Clone, Copy, Debug)]
struct Token {
    arrived: u64,
    service: u64,
}

struct Worker {
    id: WorkerId,
    free_at: u64,
    served: u64,
    /// The latest request, and how long it has waited.
    latest: Option<(Token, u64)>,
    /// When the router hears of the ends that it does not yet know, in order.
    ends: VecDeque<u64>,
}

/// Workers cannot keep up: the queue in the router has no more room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Saturated;

impl World {
    /// An empty system. The model must be right.
    pub(crate) fn new(model: &Model, seed: u64) -> World {
        let mut router = Router::new(&model.config(TICKS)).expect("models are checked");
        let mut seeds = Rng::new(seed);
        let worker = |index| {
            let join = Join { identity: index, bound: BOUND_MAX, weight: 100 };
            let id = router.handle_join(Time::ZERO, join).expect("there are places for all");
            Worker { id, free_at: 0, served: 0, latest: None, ends: VecDeque::new() }
        };
        let workers = (0..model.workers as u64).map(worker).collect();
        let is_ideal = model.discipline == Discipline::Single;
        World {
            router,
            workers,
            due: Due::new(model.workers),
            now: 0,
            gap: TICKS / (model.load * model.workers as f64),
            way: if is_ideal { 0 } else { (model.way() * TICKS) as u64 },
            is_independent: model.discipline.is_blind(),
            is_blind: model.discipline.is_blind() && model.load <= BLIND_LOAD_MAX,
            gaps: Rng::new(seeds.next_u64()),
            times: Rng::new(seeds.next_u64()),
            decisions: Rng::new(seeds.next_u64()),
            fast: (0.0, 0.0),
            drift: Drift::new(model),
            batch: Batch::default(),
            model: model.clone(),
        }
    }

    /// Lets so many requests come, and returns what those that began meanwhile have waited.
    pub(crate) fn run(&mut self, requests: u64) -> Result<Batch, Saturated> {
        (0..requests).try_for_each(|_| self.arrive())?;
        let waiting = self.router.waiting();
        Ok(Batch { waiting, ..core::mem::take(&mut self.batch) })
    }

    #[inline]
    fn arrive(&mut self) -> Result<(), Saturated> {
        let gap = self.gaps.exponential() * self.gap;
        let service = self.model.service.sample(&mut self.times);
        self.control(gap / TICKS, service);
        let arrived = self.now + whole(gap);
        self.hear_until(arrived);
        self.now = arrived;
        assert!(arrived < TICKS_MAX, "runs are shorter");
        let request = Request::new(Token { arrived, service: whole(service * TICKS) });
        match self.router.route(Time::from_nanos(arrived), request, &mut self.decisions) {
            Ok(given) => self.start(arrived, given),
            Err(Admission::Admitted) => self.give(arrived),
            Err(_) => return Err(Saturated),
        }
        Ok(())
    }

    /// Counts the controls of a request.
    #[inline]
    fn control(&mut self, gap: f64, service: f64) {
        let workers = self.model.workers as f64;
        let (before, served) = self.fast;
        let wait = (before + served / workers - gap).max(0.0);
        self.fast = (wait, service);
        self.batch.arrive(gap, service, wait);
        if !self.is_independent {
            // Times of the fast worker in mean service times of its own.
            self.batch.drift(self.drift.of(before * workers, served, gap * workers));
        }
    }

    /// Lets feedback arrive, and holds end, until then.
    #[inline]
    fn hear_until(&mut self, until: u64) {
        if self.is_blind {
            return;
        }
        if self.model.hold > 0.0 {
            return self.hear_and_release_until(until);
        }
        while let Some((at, worker)) = self.due.first(until) {
            self.hear(at, worker);
        }
    }

    fn hear_and_release_until(&mut self, until: u64) {
        loop {
            let release = self.router.next_timeout().as_nanos();
            match self.due.first(until.min(release)) {
                Some((at, worker)) => self.hear(at, worker),
                None if release <= until => self.give(release),
                None => return,
            }
        }
    }

    #[inline]
    fn hear(&mut self, at: u64, index: usize) {
        let worker = &mut self.workers[index];
        worker.ends.pop_front();
        let next = worker.ends.front().copied();
        self.due.set(index, next);
        self.tell(at, index, 1);
        self.give(at);
    }

    /// A worker says that it has served so many more.
    #[inline]
    fn tell(&mut self, at: u64, index: usize, served: u64) {
        let worker = &mut self.workers[index];
        worker.served += served;
        let served = worker.served;
        let low = |bits: u32| (served & ((1 << bits) - 1)) as u32;
        let (sequence, received, settled) = (low(24), low(20), low(28));
        let told = WorkerCounts { sequence, received, settled, bound: BOUND_MAX };
        let heard = self.router.handle_feedback(Time::from_nanos(at), worker.id, &told);
        heard.expect("workers count what they were given");
    }

    #[inline]
    fn give(&mut self, now: u64) {
        let at = Time::from_nanos(now);
        while let Some(output) = self.router.poll(at, &mut self.decisions) {
            match output {
                Output::Give(given) => self.start(now, given),
                Output::Dropped(..) | Output::Probe { .. } => {
                    unreachable!("requests have no end, and workers are always there")
                }
            }
        }
    }

    #[inline]
    fn start(&mut self, now: u64, given: Assignment<Token>) {
        let index = given.worker.index();
        let worker = &mut self.workers[index];
        let start = worker.free_at.max(now + self.way);
        let end = start + given.token.service;
        worker.free_at = end;
        let wait = start - self.way - given.token.arrived;
        self.batch.wait(wait);
        if self.is_independent {
            let latest = worker.latest.replace((given.token, wait));
            if let Some((before, wait)) = latest {
                let gap = (given.token.arrived - before.arrived) as f64 / TICKS;
                let (wait, service) = (wait as f64 / TICKS, before.service as f64 / TICKS);
                self.batch.drift(self.drift.of(wait, service, gap));
            }
        }
        worker.ends.push_back(end + self.way);
        if self.is_blind {
            self.hear_of_many(now, index);
        } else if worker.ends.len() == 1 {
            self.due.set(index, Some(end + self.way));
        }
    }

    /// Tells of all ends of a worker up to now, if there are many.
    #[inline]
    fn hear_of_many(&mut self, now: u64, index: usize) {
        let ends = &mut self.workers[index].ends;
        if ends.len() >= SAVED_MAX && ends[SAVED_MAX / 2] <= now {
            let count = ends.partition_point(|end| *end <= now);
            ends.drain(..count);
            self.tell(now, index, count as u64);
        }
    }
}

#[inline]
fn whole(ticks: f64) -> u64 {
    (ticks + 0.5) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Service;

    #[test]
    fn those_who_do_not_listen_decide_the_same_with_all_feedback() {
        for policy in ["random", "rr"] {
            let discipline = policy.parse().expect("it is a policy");
            let service = Service::Exponential;
            let model = Model { service, discipline, workers: 3, load: 0.9, delay: 0.3, hold: 0.0 };
            let (mut blind, mut all) = (World::new(&model, 1), World::new(&model, 1));
            assert!(blind.is_blind);
            all.is_blind = false;
            for _ in 0..3 {
                assert_eq!(blind.run(20_000), all.run(20_000));
            }
        }
    }

    #[test]
    fn a_queue_without_room_is_told() {
        let discipline = "jbsq1".parse().expect("it is a policy");
        let service = Service::Deterministic;
        let model = Model { service, discipline, workers: 2, load: 0.9, delay: 9.0, hold: 0.0 };
        assert_eq!(World::new(&model, 1).run(1_000_000).map(|_| ()), Err(Saturated));
    }
}
