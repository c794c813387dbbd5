//! Workers and a network that loses, repeats, reorders and delays, and what must hold whatever they
//! do. The world keeps books of its own: it knows where each request really is.

mod commands;

use std::collections::HashMap;
use std::time::Duration;

use petasos_base::{Rng, Time};
use petasos_router::{
    Admission, Affinity, Bound, Event, Join, Output, Refusal, Request, Router, WorkerCounts,
    WorkerId,
};

use crate::settings::{self, TRIP};
use crate::support::feedback;

/// After this long a worker gives a hole up.
const PATIENCE: Duration = Duration::from_millis(3);

/// A request that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiting {
    /// 0 of the greatest priority.
    rank: u8,
    sequence: u64,
    is_for_primary: bool,
    expires: Time,
}

/// A worker, as it is.
#[derive(Debug)]
struct Worker {
    bound: u16,
    sequence: u64,
    received: u64,
    settled: u64,
    /// Requests that it works on, by number.
    held: Vec<u64>,
    /// Missing numbers below `received`, and since when.
    holes: Vec<(u64, Time)>,
    /// Of the latest feedback that has arrived.
    told: (u64, u16),
    /// The most that the router knew that it may have, since it had nothing.
    allowed: u16,
    is_silent: bool,
}

/// What is on its way.
#[derive(Clone, Copy, Debug)]
enum Packet {
    Request { worker: WorkerId, number: u64, is_probe: bool },
    Feedback { worker: WorkerId, told: WorkerCounts, sequence: u64 },
}

/// See the module's documentation.
pub struct World {
    router: Router<u64>,
    rng: Rng,
    now: Time,
    waiting: HashMap<u64, Waiting>,
    workers: HashMap<WorkerId, Worker>,
    packets: Vec<(Time, Packet)>,
    next_token: u64,
    loss: f64,
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let config = settings::random(&mut rng);
        World {
            router: Router::new(&config).expect("the configuration is right"),
            now: Time::ZERO,
            waiting: HashMap::new(),
            workers: HashMap::new(),
            packets: Vec::new(),
            next_token: 0,
            loss: [0.0, 0.01, 0.2][rng.below(3) as usize],
            rng,
        }
    }

    /// Much happens, then all comes to an end, and nothing is left.
    pub fn run(mut self) {
        for _ in 0..600 {
            self.step();
            self.settle();
        }
        self.quiesce();
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0..35 => self.request(),
            35..60 => self.serve(),
            60..85 => {
                let passed_us = self.rng.below(600);
                self.pass(Duration::from_micros(passed_us));
            }
            85..90 => self.join(),
            90..92 => self.change_bound(),
            92..94 => self.speak_for_a_stranger(),
            _ => self.command(),
        }
    }

    fn request(&mut self) {
        let token = self.next_token;
        self.next_token += 1;
        let key = Affinity::Key(self.rng.below(20));
        let affinity = [Affinity::Primary, key, Affinity::Any][self.rng.below(5).min(2) as usize];
        let priority = [0, 7, 15, 200][self.rng.below(4) as usize];
        let life = TRIP * self.rng.below(10) as u32;
        let expires = if self.rng.chance(0.2) { self.now + life } else { Time::NEVER };
        let request = Request { token, affinity, priority, expires };
        let age_max = self.router.config().waiting_age_max;
        let waiting = Waiting {
            rank: 15 - priority.min(self.router.config().priority_max),
            sequence: token,
            is_for_primary: affinity == Affinity::Primary,
            expires: age_max.map_or(expires, |age_max| expires.min(self.now + age_max)),
        };
        if self.rng.chance(0.5) {
            match self.router.route(self.now, request, &mut self.rng) {
                Ok(given) => {
                    let is_first = self.waiting.values().all(|other| other.is_for_primary);
                    assert!(is_first && affinity == Affinity::Any);
                    self.waiting.insert(token, waiting);
                    self.give(given.token, given.worker, given.number);
                }
                Err(admission) => self.admit(request, waiting, admission),
            }
        } else {
            let admission = self.router.handle_request(self.now, request);
            self.admit(request, waiting, admission);
        }
    }

    /// Checks what became of a request at first.
    fn admit(&mut self, request: Request<u64>, waiting: Waiting, admission: Admission<u64>) {
        let Request { token, expires, .. } = request;
        let waiting_max = self.router.config().waiting_max;
        let for_primary = self.waiting.values().filter(|other| other.is_for_primary).count();
        let is_part_full = waiting.is_for_primary && for_primary >= waiting_max / 2;
        let is_full = self.waiting.len() >= waiting_max || is_part_full;
        match admission {
            Admission::Admitted => {
                assert!(!is_full);
                self.waiting.insert(token, waiting);
            }
            Admission::Displaced(other) => {
                let displaced = self.waiting.remove(&other).expect("it waited");
                assert!(is_full && displaced.rank > waiting.rank);
                let mut rivals =
                    self.waiting.values().filter(|other| !is_part_full || other.is_for_primary);
                let latest = rivals
                    .all(|rest| (rest.rank, rest.sequence) < (displaced.rank, displaced.sequence));
                assert!(latest, "another was less urgent, or came later");
                self.waiting.insert(token, waiting);
            }
            Admission::Refused(refused, why) => {
                assert_eq!(refused, token);
                match why {
                    Refusal::Full => assert!(is_full),
                    Refusal::Expired => assert!(expires <= self.now),
                    _ => assert!(!self.is_wanted(&waiting)),
                }
            }
        }
    }

    /// Whether anybody will ever take it.
    fn is_wanted(&self, waiting: &Waiting) -> bool {
        let primary = self.router.primary();
        self.workers.iter().any(|(id, worker)| {
            let is_asked = !waiting.is_for_primary || primary == Some(*id);
            let is_draining = self.router.worker(*id).expect("it is a member").is_draining;
            is_asked && worker.told.1 > 0 && !is_draining
        })
    }

    /// Takes all outputs, and checks each, and the state afterwards.
    fn settle(&mut self) {
        self.take_events();
        while let Some(output) = self.router.poll(self.now, &mut self.rng) {
            match output {
                Output::Give(given) => self.give(given.token, given.worker, given.number),
                Output::Probe { worker, number } => {
                    self.send(Packet::Request { worker, number, is_probe: true });
                }
                Output::Dropped(token, why) => {
                    let dropped = self.waiting.remove(&token).expect("it waited");
                    match why {
                        Refusal::Nobody => assert!(!self.is_wanted(&dropped)),
                        _ => assert!(dropped.expires <= self.now),
                    }
                }
            }
        }
        self.take_events();
        self.check();
    }

    fn give(&mut self, token: u64, id: WorkerId, number: u64) {
        let given = self.waiting.remove(&token).expect("it waited, and nobody has had it");
        assert!(given.expires > self.now, "it has expired");
        let order = |waiting: &Waiting| (waiting.rank, waiting.sequence);
        // Where the primary gets it, it could have got any other as well.
        let has_no_hold = self.router.config().hold.is_none();
        let is_at_primary = has_no_hold && self.router.primary() == Some(id);
        let competes =
            |other: &&Waiting| is_at_primary || other.is_for_primary == given.is_for_primary;
        let mut others = self.waiting.values().filter(competes);
        assert!(others.all(|other| order(other) > order(&given)), "another came before");
        assert!(!given.is_for_primary || self.router.primary() == Some(id));
        let state = self.router.worker(id).expect("it is a member");
        assert!(state.account.outstanding() <= state.limit.into(), "more than it may have");
        assert_eq!(state.account.given(), number);
        self.send(Packet::Request { worker: id, number, is_probe: false });
    }

    fn take_events(&mut self) {
        while let Some(event) = self.router.poll_event() {
            match event {
                Event::Gone { worker, .. } => {
                    assert!(self.workers.remove(&worker).is_some(), "it was a member");
                }
                Event::Left { worker } => {
                    let left = self.workers.remove(&worker).expect("it was a member");
                    assert!(left.held.is_empty(), "it had requests");
                }
                Event::Drained { worker } => assert!(self.workers[&worker].held.is_empty()),
                _ => (),
            }
        }
    }

    /// What holds whenever all outputs are taken.
    fn check(&self) {
        let states =
            self.router.workers().map(|id| (id, self.router.worker(id).expect("it is a member")));
        let states: HashMap<_, _> = states.collect();
        assert_eq!(states.len(), self.workers.len());
        let sum: u64 = states.values().map(|state| state.account.outstanding()).sum();
        assert_eq!(sum, self.router.outstanding());
        assert_eq!(self.router.waiting(), self.waiting.len());
        let has_slot = |id| {
            let state = states.get(&id);
            state.is_some_and(|state| state.account.outstanding() < state.limit.into())
        };
        let is_free = |is_for_primary: bool| match is_for_primary {
            true => self.router.primary().is_some_and(has_slot),
            false => states.keys().any(|id| has_slot(*id)),
        };
        if self.router.config().hold.is_none() {
            let idle = self.waiting.values().find(|waiting| is_free(waiting.is_for_primary));
            assert_eq!(idle, None, "it waits although a worker has a slot");
        }
        let unwanted = self.waiting.values().find(|waiting| !self.is_wanted(waiting));
        assert_eq!(unwanted, None, "it waits although nobody will take it");
        let is_usable = states.values().any(|state| state.limit > 0);
        let is_out = states.values().any(|state| state.ejected_until.is_some());
        assert!(self.waiting.is_empty() || is_usable || !is_out, "an ejection leaves nobody");
        for (id, worker) in &self.workers {
            let state = &states[id];
            assert!(state.limit <= self.bound(worker.told.1), "more than it wants");
            // The router may believe that there are more, but never fewer, than there are.
            let there = worker.held.len() + self.packets_to(*id);
            assert!(there as u64 <= state.account.outstanding(), "a slot has returned twice");
            assert!(there <= worker.allowed.into(), "more than it has ever wanted");
        }
    }

    fn bound(&self, announced: u16) -> u16 {
        match self.router.config().policy.bound {
            Bound::AtMost(bound) => announced.min(bound),
            Bound::Announced => announced,
        }
    }

    /// Requests on the way that the worker would take.
    fn packets_to(&self, id: WorkerId) -> usize {
        let of = &self.workers[&id];
        let is_new =
            |number| number > of.received || of.holes.iter().any(|(hole, _)| *hole == number);
        let to_it = |packet: &Packet| match packet {
            Packet::Request { worker, number, is_probe } => {
                *worker == id && !is_probe && is_new(*number)
            }
            Packet::Feedback { .. } => false,
        };
        self.packets.iter().filter(|(_, packet)| to_it(packet)).count()
    }

    /// Loses a packet, or lets it arrive after some time. Feedback sometimes arrives twice.
    fn send(&mut self, packet: Packet) {
        let is_feedback = matches!(packet, Packet::Feedback { .. });
        let copies = if is_feedback && self.rng.chance(0.1) { 2 } else { 1 };
        for _ in 0..copies {
            let longest = if self.rng.chance(0.02) { PATIENCE * 3 } else { TRIP };
            let trip = self.rng.below(longest.as_nanos() as u64);
            if !self.rng.chance(self.loss) {
                self.packets.push((self.now.plus_nanos(trip), packet));
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        let now = self.now;
        self.router.handle_timeout(now);
        self.take_events();
        let mut arrived: Vec<_> = self.packets.extract_if(.., |(at, _)| *at <= now).collect();
        arrived.sort_by_key(|(at, _)| *at);
        for (_, packet) in arrived {
            match packet {
                Packet::Request { worker, number, is_probe } => {
                    self.arrive(worker, number, is_probe);
                }
                Packet::Feedback { worker, told, sequence } => self.hear(worker, told, sequence),
            }
        }
        self.ids().into_iter().for_each(|id| self.give_up_holes(id));
    }

    /// What a worker does with a number (RT16, RT21).
    fn arrive(&mut self, id: WorkerId, number: u64, is_probe: bool) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        if number > worker.received {
            let missing = worker.received + 1..number;
            worker.holes.extend(missing.map(|number| (number, self.now)));
            worker.received = number;
        } else {
            let before = worker.holes.len();
            worker.holes.retain(|(hole, _)| *hole != number);
            if worker.holes.len() == before {
                return;
            }
        }
        if !is_probe {
            return worker.held.push(number);
        }
        worker.settled += 1;
        let before = worker.holes.len();
        worker.holes.retain(|(hole, _)| *hole > number);
        worker.settled += (before - worker.holes.len()) as u64;
        self.tell(id);
    }

    fn give_up_holes(&mut self, id: WorkerId) {
        let worker = self.workers.get_mut(&id).expect("it is a member");
        let before = worker.holes.len();
        worker.holes.retain(|(_, since)| self.now - *since < PATIENCE);
        let given_up = (before - worker.holes.len()) as u64;
        worker.settled += given_up;
        if given_up > 0 || self.rng.chance(0.05) {
            self.tell(id);
        }
    }

    fn hear(&mut self, id: WorkerId, told: WorkerCounts, sequence: u64) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return assert!(self.router.handle_feedback(self.now, id, &told).is_err());
        };
        if sequence > worker.told.0 {
            worker.told = (sequence, told.bound);
        }
        self.allow(id);
        self.router.handle_feedback(self.now, id, &told).expect("it is right");
        self.take_events();
    }

    /// In an order that a seed determines.
    fn ids(&self) -> Vec<WorkerId> {
        let mut ids: Vec<_> = self.workers.keys().copied().collect();
        ids.sort_by_key(|id| id.index());
        ids
    }

    fn some_worker(&mut self) -> Option<WorkerId> {
        let ids = self.ids();
        let count = ids.len() as u64;
        (count > 0).then(|| ids[self.rng.below(count) as usize])
    }

    fn tell(&mut self, id: WorkerId) {
        let worker = self.workers.get_mut(&id).expect("it is a member");
        if worker.is_silent {
            return;
        }
        worker.sequence += 1;
        let Worker { sequence, settled, received, bound, .. } = *worker;
        let told = feedback(sequence, settled, received, bound);
        self.send(Packet::Feedback { worker: id, told, sequence });
    }

    /// A worker ends one of its requests, and mostly says so.
    fn serve(&mut self) {
        let Some(id) = self.some_worker() else { return };
        let worker = self.workers.get_mut(&id).expect("it is a member");
        if !worker.held.is_empty() {
            let count = worker.held.len() as u64;
            worker.held.swap_remove(self.rng.below(count) as usize);
            worker.settled += 1;
        }
        if self.rng.chance(0.7) {
            self.tell(id);
        }
    }

    fn join(&mut self) {
        let bound = self.rng.below(6) as u16;
        let weight = [100, 100, 50, 7][self.rng.below(4) as usize];
        let join = Join { identity: self.rng.below(10), bound, weight };
        let Ok(id) = self.router.handle_join(self.now, join) else {
            return assert_eq!(self.workers.len(), self.router.config().workers_max);
        };
        let worker = Worker {
            bound,
            sequence: 0,
            received: 0,
            settled: 0,
            held: Vec::new(),
            holes: Vec::new(),
            told: (0, bound),
            allowed: self.bound(bound),
            is_silent: self.rng.chance(0.05),
        };
        assert!(self.workers.insert(id, worker).is_none(), "IDs are fresh");
    }

    /// No more requests, and no more loss: all slots return.
    fn quiesce(&mut self) {
        self.loss = 0.0;
        for id in self.ids() {
            self.router.handle_reconnect(id);
        }
        let is_over = |world: &World| world.router.outstanding() == 0 && world.packets.is_empty();
        for _ in 0..1000 {
            for id in self.ids() {
                let worker = self.workers.get_mut(&id).expect("it is a member");
                worker.settled += worker.held.drain(..).len() as u64;
                worker.is_silent = false;
            }
            self.pass(TRIP * 2);
            self.settle();
            if is_over(self) {
                return;
            }
        }
        panic!("a slot is lost: {:?}", self.workers);
    }
}
