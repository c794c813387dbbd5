//! The router's core alone: JBSQ(3) with 16 workers, whose oldest request is always the next to be
//! served, and feedback for each. `icount_router N [free|waits]` routes N requests that find a free
//! slot, or wait for one, and prints one line of JSON. `cargo xtask icount` runs it under callgrind
//! at two lengths and takes the slope.

use std::collections::VecDeque;
use std::time::Duration;

use petasos_base::{Rng, Time};
use petasos_router::{Assignment, Config, Join, Output, Request, Router, WorkerCounts, WorkerId};

const WORKERS: usize = 16;
const BOUND: u16 = 3;
/// Requests that workers have while others find a free slot.
const BUSY: u64 = 32;
/// Requests that wait while all slots are taken.
const WAITING: u64 = 8;
const GAP: Duration = Duration::from_nanos(500);
const BATCH: u64 = 16;

struct Group {
    router: Router<u64>,
    rng: Rng,
    now: Time,
    /// What workers have, in the order in which they got it.
    under_way: VecDeque<WorkerId>,
    /// Of each worker.
    served: [u32; WORKERS],
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let requests: u64 = arguments.next().map_or(20_000, |n| n.parse().expect("a number"));
    let under_way = match arguments.next().as_deref() {
        None | Some("free") => BUSY,
        Some("waits") => u64::from(BOUND) * WORKERS as u64 + WAITING,
        Some(other) => panic!("{other}: neither free nor waits"),
    };
    let mut group = Group::new();
    (0..under_way).for_each(|token| group.request(token));
    for token in 0..requests {
        group.now = group.now + GAP;
        group.request(token);
        group.serve();
        if token % BATCH == 0 {
            group.router.handle_timeout(group.now);
        }
    }
    let counts = group.router.counts();
    assert_eq!(counts.requests, requests + under_way);
    assert_eq!(counts.given - counts.settled + group.router.waiting() as u64, under_way);
    println!("{{\"rpcs\":{requests},\"packets\":0,\"syscalls\":0}}");
}

impl Group {
    fn new() -> Group {
        let policy = format!("jbsq{BOUND}").parse().expect("it is a policy");
        let config = Config { policy, workers_max: WORKERS, ..Config::default() };
        let mut router = Router::new(&config).expect("it is right");
        for identity in 0..WORKERS as u64 {
            let join = Join { identity, bound: 64, weight: 100 };
            router.handle_join(Time::ZERO, join).expect("there are places for all");
        }
        let under_way = VecDeque::with_capacity(WORKERS * usize::from(BOUND));
        Group { router, rng: Rng::new(1), now: Time::ZERO, under_way, served: [0; WORKERS] }
    }

    fn request(&mut self, token: u64) {
        let given = self.router.route(self.now, Request::new(token), &mut self.rng);
        match given {
            Ok(Assignment { worker, .. }) => self.under_way.push_back(worker),
            Err(_) => self.poll(),
        }
    }

    /// The oldest request ends, its worker says so, and what waits is given.
    fn serve(&mut self) {
        let worker = self.under_way.pop_front().expect("there is always one");
        let served = &mut self.served[worker.index()];
        *served += 1;
        let (sequence, received, settled) = (*served, *served, *served);
        let told = WorkerCounts { sequence, received, settled, bound: 64 };
        self.router.handle_feedback(self.now, worker, &told).expect("it is right");
        self.poll();
    }

    fn poll(&mut self) {
        while let Some(output) = self.router.poll(self.now, &mut self.rng) {
            let Output::Give(given) = output else { panic!("{output:?}") };
            self.under_way.push_back(given.worker);
        }
    }
}
