//! A router with workers that say what tests want.

use std::time::Duration;

use petasos_base::{Rng, Time};
use petasos_router::{
    Admission, Assignment, Config, Event, Join, Output, Request, Router, WorkerCounts, WorkerId,
};

/// So many milliseconds after the start.
pub fn ms(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// What a worker tells, as packets have it.
pub fn feedback(sequence: u64, settled: u64, received: u64, bound: u16) -> WorkerCounts {
    let low = |count: u64, bits: u32| (count & ((1 << bits) - 1)) as u32;
    let (sequence, received, settled) = (low(sequence, 24), low(received, 20), low(settled, 28));
    WorkerCounts { sequence, received, settled, bound }
}

/// A router, its time and its random numbers.
pub struct Bench {
    pub router: Router<u32>,
    pub now: Time,
    rng: Rng,
    sequence: u64,
}

impl Bench {
    pub fn new(config: &Config) -> Bench {
        let router = Router::new(config).expect("the configuration is right");
        Bench { router, now: Time::ZERO, rng: Rng::new(1), sequence: 0 }
    }

    /// The same, with a worker for each bound.
    pub fn with_workers(config: &Config, bounds: &[u16]) -> (Bench, Vec<WorkerId>) {
        let mut bench = Bench::new(config);
        let workers = bounds.iter().map(|bound| bench.join(*bound, 100)).collect();
        (bench, workers)
    }

    pub fn join(&mut self, bound: u16, weight: u8) -> WorkerId {
        self.sequence += 1;
        let join = Join { identity: self.sequence, bound, weight };
        self.router.handle_join(self.now, join).expect("there is a place")
    }

    /// Requests that are admitted.
    pub fn requests(&mut self, tokens: impl IntoIterator<Item = u32>) {
        for token in tokens {
            self.request(Request::new(token));
        }
    }

    pub fn request(&mut self, request: Request<u32>) {
        assert_eq!(self.router.handle_request(self.now, request), Admission::Admitted);
    }

    /// A request that is given at once, if nothing is before it.
    pub fn route(&mut self, token: u32) -> Result<WorkerId, Admission<u32>> {
        let given = self.router.route(self.now, Request::new(token), &mut self.rng);
        given.map(|given| given.worker)
    }

    /// All decisions that are due.
    pub fn outputs(&mut self) -> Vec<Output<u32>> {
        core::iter::from_fn(|| self.router.poll(self.now, &mut self.rng)).collect()
    }

    /// All decisions that are due, which are assignments.
    pub fn given(&mut self) -> Vec<Assignment<u32>> {
        let given = |output| match output {
            Output::Give(assignment) => assignment,
            output => panic!("{output:?}"),
        };
        self.outputs().into_iter().map(given).collect()
    }

    pub fn tokens(&mut self) -> Vec<u32> {
        self.given().into_iter().map(|given| given.token).collect()
    }

    /// A worker says that it has received and settled so many, and takes so many at a time.
    pub fn tell(&mut self, worker: WorkerId, settled: u64, received: u64, bound: u16) {
        self.sequence += 1;
        let told = feedback(self.sequence, settled, received, bound);
        self.router.handle_feedback(self.now, worker, &told).expect("it is right");
    }

    /// Time passes until then.
    pub fn pass(&mut self, now: Time) {
        self.now = now;
        self.router.handle_timeout(now);
    }

    pub fn outstanding(&self, worker: WorkerId) -> u64 {
        self.router.worker(worker).expect("it is a member").account.outstanding()
    }

    pub fn limit(&self, worker: WorkerId) -> u16 {
        self.router.worker(worker).expect("it is a member").limit
    }

    pub fn events(&mut self) -> Vec<Event> {
        core::iter::from_fn(|| self.router.poll_event()).collect()
    }
}
