//! A router, workers and the link between them. The world keeps books of its own: which request has
//! which number, and how often it has run.

use std::collections::HashMap;
use std::time::Duration;

use petasos_base::{Rng, Time};
use petasos_proto::given::{GivenNumber, GivenNumbers, GivenTimes, Taken};
use petasos_router::{
    Config, Event, GIVEN_NUMBERS, Join, Output, Request, Router, WorkerCounts, WorkerId,
};

const WORKERS: usize = 3;
const TURN: Duration = Duration::from_micros(100);
/// Most packets take no longer.
const TRIP: Duration = Duration::from_micros(300);
/// Slow ones come when their numbers were written off.
const SLOW_TRIP: Duration = Duration::from_millis(6);
const TIMES: GivenTimes =
    GivenTimes { hole: Duration::from_millis(2), beat: Duration::from_millis(20) };
/// When all slots are back after the link is whole: the next probe, its way, what it says, and a
/// part of a time for holes and timers.
const BACK: Duration = Duration::from_millis(30);

/// What happens to packets, with which probability.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub loss: f64,
    pub copies: f64,
    /// Some packets take very long.
    pub is_slow: bool,
}

#[derive(Clone, Copy, Debug)]
enum Packet {
    Request { worker: usize, packet_index: u32, token: u64 },
    Probe { worker: usize, packet_index: u32 },
    Feedback { worker: usize, told: WorkerCounts },
}

struct Worker {
    id: WorkerId,
    numbers: GivenNumbers,
    /// What it runs, until when.
    running: Vec<(Time, GivenNumber)>,
    /// The greatest *n* so far.
    n_max: u16,
}

/// See the module's documentation.
pub struct World {
    router: Router<u64>,
    workers: Vec<Worker>,
    packets: Vec<(Time, Packet)>,
    link: Link,
    rng: Rng,
    now: Time,
    next_token: u64,
    /// How often each request has begun to run.
    runs: HashMap<u64, u32>,
    is_n_fixed: bool,
    breaks: bool,
    silences: u64,
}

impl World {
    pub fn new(seed: u64, start: u64, link: Link) -> World {
        let mut rng = Rng::new(seed);
        let mut router = Router::new(&Config::default()).expect("it is right");
        let mut worker = |identity| {
            let n = 1 + rng.below(5) as u16;
            let join = Join { identity, bound: n, weight: 100 };
            let id = router.handle_join_at(Time::ZERO, join, start).expect("there is a place");
            let numbers = GivenNumbers::starting_at(Time::ZERO, TIMES, n, start);
            Worker { id, numbers, running: Vec::new(), n_max: n }
        };
        let workers = (0..WORKERS as u64).map(&mut worker).collect();
        World {
            router,
            workers,
            packets: Vec::new(),
            link,
            rng,
            now: Time::ZERO,
            next_token: 0,
            runs: HashMap::new(),
            is_n_fixed: false,
            breaks: false,
            silences: 0,
        }
    }

    /// All workers take so many from the first feedback on, and never another number.
    pub fn with_n(mut self, n: u16) -> World {
        self.is_n_fixed = true;
        self.workers.iter_mut().for_each(|worker| worker.numbers.set_n(n));
        self
    }

    /// The link loses everything for a second.
    pub fn broken_for_a_second(mut self) -> World {
        self.breaks = true;
        self
    }

    pub fn probes(&self) -> u64 {
        self.router.counts().probes
    }

    pub fn silences(&self) -> u64 {
        self.silences
    }

    /// Much happens, then no more requests come and the link is whole.
    pub fn run(mut self) -> World {
        self.turns(500, true);
        if self.breaks {
            let link = self.link;
            self.link = Link { loss: 1.0, ..link };
            self.turns(10_000, true);
            self.link = link;
            self.turns(500, true);
        }
        self.link = Link { loss: 0.0, copies: 0.0, is_slow: false };
        // What waits is given meanwhile, and runs for a while.
        while self.router.waiting() > 0 || self.workers.iter().any(|of| !of.running.is_empty()) {
            self.turns(1, false);
        }
        self.turns((BACK.as_nanos() / TURN.as_nanos()) as u64, false);
        assert_eq!((self.router.outstanding(), self.router.waiting()), (0, 0), "a slot is lost");
        for worker in &self.workers {
            assert_eq!((worker.numbers.held(), worker.numbers.open_holes()), (0, 0));
        }
        self
    }

    fn turns(&mut self, turns: u64, asks: bool) {
        for _ in 0..turns {
            self.now = self.now + TURN;
            let requests = if asks { self.rng.below(4) } else { 0 };
            for _ in 0..requests {
                let _waits = self.router.handle_request(self.now, Request::new(self.next_token));
                self.next_token += 1;
            }
            self.turn();
        }
    }

    fn turn(&mut self) {
        let now = self.now;
        let mut arrived: Vec<_> = self.packets.extract_if(.., |(at, _)| *at <= now).collect();
        arrived.sort_by_key(|(at, _)| *at);
        arrived.into_iter().for_each(|(_, packet)| self.arrive(packet));
        (0..WORKERS).for_each(|index| self.work(index));
        self.router.handle_timeout(now);
        while let Some(output) = self.router.poll(now, &mut self.rng) {
            self.send_output(output);
        }
        while let Some(event) = self.router.poll_event() {
            self.silences += u64::from(matches!(event, Event::Silent { .. }));
            assert!(!matches!(event, Event::Gone { .. }), "it is back in time");
        }
    }

    fn send_output(&mut self, output: Output<u64>) {
        let index = |number: u64| number as u32 % GIVEN_NUMBERS;
        match output {
            Output::Give(given) => {
                let worker = given.worker.index();
                let state = self.router.worker(given.worker).expect("it is a member");
                assert!(state.account.outstanding() <= state.limit.into(), "more than n");
                assert!(!state.is_silent, "it is silent");
                let (packet_index, token) = (index(given.number), given.token);
                self.send(Packet::Request { worker, packet_index, token });
            }
            Output::Probe { worker, number } => {
                let packet_index = index(number);
                self.send(Packet::Probe { worker: worker.index(), packet_index });
            }
            Output::Dropped(..) => (),
        }
    }

    fn arrive(&mut self, packet: Packet) {
        let now = self.now;
        match packet {
            Packet::Request { worker, packet_index, token } => {
                let worker = &mut self.workers[worker];
                match worker.numbers.handle_given(now, packet_index, false) {
                    Taken::Request(number) => {
                        let runs = self.runs.entry(token).or_default();
                        *runs += 1;
                        assert_eq!(*runs, 1, "a copy has run");
                        let end = now + Duration::from_micros(self.rng.below(2000));
                        worker.running.push((end, number));
                    }
                    Taken::Probe => panic!("it is none"),
                    Taken::Old => (),
                }
                assert!(worker.running.len() <= worker.n_max.into(), "more than n");
            }
            Packet::Probe { worker, packet_index } => {
                let taken = self.workers[worker].numbers.handle_given(now, packet_index, true);
                assert!(!matches!(taken, Taken::Request(_)));
            }
            Packet::Feedback { worker, told } => {
                let id = self.workers[worker].id;
                self.router.handle_feedback(now, id, &told).expect("it is right, or old");
            }
        }
    }

    /// A worker's part of a turn.
    fn work(&mut self, index: usize) {
        let now = self.now;
        let worker = &mut self.workers[index];
        worker.numbers.handle_timeout(now);
        for (_, number) in worker.running.extract_if(.., |(end, _)| *end <= now) {
            worker.numbers.settle(number);
        }
        if !self.is_n_fixed && self.rng.chance(0.01) {
            let n = 1 + self.rng.below(5) as u16;
            worker.n_max = worker.n_max.max(n);
            worker.numbers.set_n(n);
        }
        if let Some(told) = worker.numbers.poll_feedback(now) {
            self.send(Packet::Feedback { worker: index, told });
        }
    }

    fn send(&mut self, packet: Packet) {
        let copies = if self.rng.chance(self.link.copies) { 2 } else { 1 };
        for _ in 0..copies {
            let is_slow = self.link.is_slow && self.rng.chance(0.05);
            let longest = if is_slow { SLOW_TRIP } else { TRIP };
            let trip = self.rng.below(longest.as_nanos() as u64);
            if !self.rng.chance(self.link.loss) {
                self.packets.push((self.now.plus_nanos(trip), packet));
            }
        }
    }
}
