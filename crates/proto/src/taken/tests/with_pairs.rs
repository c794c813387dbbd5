//! Both ends together: a client's pairs, a router that gives first packets to two workers at
//! random, and a network that loses, copies and reorders. Requests and responses are one packet.

use std::collections::{HashMap, HashSet};

use petasos_base::Rng;
use petasos_wire::{Header, Kind, Packet, WorkerBlock};

use super::*;
use crate::pairs::{
    Answer, Arrival, Asking, AttachmentId, First, Member, PairConfig, PairId, Pairs, WorkerSession,
};

const ROUTER: AttachmentId = AttachmentId(7);

/// What is under way.
#[derive(Clone, Debug)]
enum Sent {
    First(First),
    Given { worker: u16, index: u32, first: First },
    ToClient { worker: u16, header: Header, block: Option<WorkerBlock> },
    ToWorker { to: WorkerSession, kind: Kind, request: u64 },
}

struct Bound {
    pair: PairId,
    session: WorkerSession,
    /// After the fourth the client gives up.
    sendings: u32,
    next_at: Time,
}

struct World {
    rng: Rng,
    now: Time,
    pairs: Pairs<u64>,
    workers: Vec<Worker>,
    /// The router's windows (RT3).
    seen: HashSet<u64>,
    under_way: Vec<(Time, Sent)>,
    bound: Vec<Bound>,
    running: Vec<(Time, usize, TakenId)>,
    /// By a call's request: whether it was a claim, how often it ran.
    calls: HashMap<u64, (bool, u32)>,
    /// And whether it has certainly not run.
    over: HashMap<u64, bool>,
}

impl World {
    fn new(seed: u64) -> World {
        let mut pairs = Pairs::new(PairConfig::default());
        pairs.attach(ROUTER, 1000, 0);
        World {
            rng: Rng::new(seed),
            now: millis(1000),
            pairs,
            workers: (0..2).map(|_| Worker::new()).collect(),
            seen: HashSet::new(),
            under_way: Vec::new(),
            bound: Vec::new(),
            running: Vec::new(),
            calls: HashMap::new(),
            over: HashMap::new(),
        }
    }

    fn ask(&mut self) {
        let is_claim = self.rng.chance(0.5);
        let asking =
            Asking { tag: 1 + self.rng.below(1 << 20) as u32, is_claim, timeout_at: Time::NEVER };
        let id = self.pairs.ask(ROUTER, asking, 0).unwrap();
        *self.pairs.context(id).unwrap() = id.request;
        self.calls.insert(id.request, (is_claim, 0));
    }

    /// Copies come late.
    fn send(&mut self, sent: &Sent) {
        for _ in 0..[1, 1, 1, 1, 1, 1, 0, 0, 2, 3][self.rng.below(10) as usize] {
            let takes_us = if self.rng.chance(0.1) { self.rng.below(40_000) } else { 50 };
            self.under_way.push((self.now + Duration::from_micros(takes_us), sent.clone()));
        }
    }

    fn turn(&mut self) {
        self.now = self.now + Duration::from_micros(250);
        let now = self.now;
        let (due, later) = self.under_way.drain(..).partition(|(at, _)| *at <= now);
        self.under_way = later;
        let due: Vec<(Time, Sent)> = due;
        due.into_iter().for_each(|(_, sent)| self.deliver(sent));
        self.client();
        for worker in 0..self.workers.len() {
            self.workers[worker].now = now;
            for due in self.workers[worker].due() {
                self.tells(worker, due);
            }
        }
        let (due, later) = self.running.drain(..).partition(|(at, ..)| *at <= now);
        self.running = later;
        let due: Vec<_> = due;
        due.into_iter().for_each(|(_, worker, id)| self.answers(worker, id));
    }

    fn client(&mut self) {
        self.pairs.handle_timers(self.now);
        while let Some(over) = self.pairs.poll_over() {
            self.ends(over.context, over.has_not_run);
        }
        while let Some(first) = self.pairs.poll_first(self.now) {
            self.send(&Sent::First(first));
        }
        let now = self.now;
        let (due, mut later) =
            core::mem::take(&mut self.bound).into_iter().partition(|it| it.next_at <= now);
        let due: Vec<Bound> = due;
        for bound in due {
            if bound.sendings == 4 {
                // It may have run.
                let context = self.pairs.end(bound.pair).unwrap();
                self.ends(context, false);
                continue;
            }
            let Bound { pair, session, sendings, .. } = bound;
            self.send(&Sent::ToWorker { to: session, kind: Kind::Request, request: pair.request });
            let next_at = now + Duration::from_millis(12);
            later.push(Bound { pair, session, sendings: sendings + 1, next_at });
        }
        self.bound = later;
    }

    fn ends(&mut self, request: u64, has_not_run: bool) {
        self.bound.retain(|bound| bound.pair.request != request);
        assert_eq!(self.over.insert(request, has_not_run), None, "a call ends once");
    }

    fn deliver(&mut self, sent: Sent) {
        match sent {
            Sent::First(first) if self.seen.insert(first.number) => {
                let worker = self.rng.below(2) as u16;
                self.workers[worker as usize].given += 1;
                let index = self.workers[worker as usize].given;
                self.send(&Sent::Given { worker, index, first });
            }
            Sent::First(_) => {}
            Sent::Given { worker, index, first } => self.takes(worker as usize, index, first),
            Sent::ToClient { worker, header, block } => self.client_hears(worker, header, block),
            Sent::ToWorker { to, kind, request } => self.worker_hears(to, kind, request),
        }
    }

    fn takes(&mut self, at: usize, index: u32, first: First) {
        let (now, worker) = (self.now, &mut self.workers[at]);
        let Some(arrived) = worker.taken.arrive(now, HERE, index, false) else { return };
        let echo = (first.number % (1 << 24)) as u32;
        let asker = Asker {
            client: 0,
            pair: first.pair.index,
            pair_tag: first.tag,
            request: first.pair.request,
            echo,
            message_bytes: 32,
            expires_at: Time::NEVER,
        };
        // Each session has a tag of its own.
        let tag = index + 1000 * (at as u32 + 1);
        if self.rng.chance(0.05) {
            worker.taken.refuse(arrived);
            self.says(at, asker, (Kind::Reject, RejectCode::Overloaded as u32), None);
        } else if first.is_claim {
            worker.taken.take_claim(now, arrived, asker, tag, asker.request).unwrap();
        } else {
            let id = worker.taken.take_whole(now, arrived, asker, tag, asker.request).unwrap();
            self.runs(at, id, asker.request);
        }
    }

    fn runs(&mut self, at: usize, id: TakenId, request: u64) {
        self.calls.get_mut(&request).expect("it was asked").1 += 1;
        let takes_us = if self.rng.chance(0.3) { self.rng.below(20_000) } else { 10 };
        self.running.push((self.now + Duration::from_micros(takes_us), at, id));
    }

    /// A worker says something to a client.
    fn says(
        &mut self,
        at: usize,
        asker: Asker,
        (kind, value): (Kind, u32),
        session: Option<SessionName>,
    ) {
        let header = Header::for_session(asker.pair, asker.pair_tag);
        let header = header.with_request(kind, asker.request, 9).with_server(asker.echo, value, 32);
        let (session, tag) = session.map_or((0, 0), |session| (session.index, session.tag));
        let worker = at as u16 + 1;
        let block = Some(WorkerBlock { session, tag, worker });
        self.send(&Sent::ToClient { worker, header, block });
    }

    fn tells(&mut self, at: usize, due: Due<u64>) {
        match due {
            Due::Ready { session, asker, is_running, .. } => {
                self.says(at, asker, (Kind::Ready, u32::from(is_running)), Some(session));
            }
            Due::Lapsed { id, code } => self.rejects(at, id, code),
            Due::Gone { .. } => {}
        }
    }

    fn rejects(&mut self, at: usize, id: TakenId, code: RejectCode) {
        let asker = self.workers[at].taken.asker(id).unwrap();
        let session = self.workers[at].tag_of(id);
        self.says(at, asker, (Kind::Reject, code as u32), Some(session));
    }

    fn answers(&mut self, at: usize, id: TakenId) {
        let Some(asker) = self.workers[at].taken.asker(id) else { panic!("it has not ended") };
        match self.workers[at].taken.answer(self.now, id, true) {
            Answered::Kept(session) => self.says(at, asker, (Kind::Response, 0), Some(session)),
            Answered::Left(_) => self.says(at, asker, (Kind::Response, 0), None),
            Answered::Unwanted => {}
        }
    }

    fn client_hears(&mut self, worker: u16, header: Header, block: Option<WorkerBlock>) {
        let bytes = header.to_bytes();
        let packet = Packet::parse(&bytes).unwrap();
        let (from, request) = (Member { attachment: ROUTER, worker }, packet.request());
        match self.pairs.handle(self.now, Arrival { from, packet, block }) {
            Answer::None | Answer::Response { .. } => {}
            Answer::Ready { session, .. } => {
                let pair = PairId { index: packet.session(), request };
                self.bound.push(Bound { pair, session, sendings: 0, next_at: self.now });
            }
            Answer::Complete { context, done } => {
                self.ends(context, false);
                let done = done.map(|to| Sent::ToWorker { to, kind: Kind::Done, request });
                done.iter().for_each(|done| self.send(done));
            }
            Answer::Cancel { session: to, request } => {
                self.send(&Sent::ToWorker { to, kind: Kind::Cancel, request });
            }
            Answer::Rejected { context, has_not_run, .. } => self.ends(context, has_not_run),
            Answer::Session => {
                let pair = PairId { index: packet.session(), request };
                let context = self.pairs.end(pair).unwrap();
                // A rejected session never runs: so a claim has certainly not.
                let (is_claim, _) = self.calls[&context];
                self.ends(context, packet.kind() == Kind::Reject && is_claim);
            }
        }
    }

    fn worker_hears(&mut self, to: WorkerSession, kind: Kind, request: u64) {
        let at = usize::from(to.member.worker) - 1;
        let (now, session) = (self.now, SessionName { index: to.session, tag: to.tag });
        let taken = &mut self.workers[at].taken;
        let Some(id) = taken.find(session, request) else { return };
        match kind {
            Kind::Request => match taken.receive(now, id, Part::Last) {
                Progress::Run => self.runs(at, id, request),
                Progress::Rejected(code) => self.rejects(at, id, code),
                Progress::None => {}
            },
            Kind::Done => drop(taken.done(id)),
            _ => drop(taken.cancel(id)),
        }
    }
}

#[test]
fn rt15_claims_run_once_at_most_and_what_has_not_run_is_said_so() {
    let (mut not_run, mut ran) = (0, 0);
    for seed in 0..60 {
        let mut world = World::new(seed);
        for turn in 0..4000 {
            if turn % 4 == 0 && world.rng.chance(0.5) {
                world.ask();
            }
            world.turn();
        }
        // Everything ends by itself, within the longest wait of either end.
        for _ in 0..40_000 {
            world.turn();
        }
        for (request, (is_claim, runs)) in &world.calls {
            let has_not_run = world.over[request];
            assert!(!is_claim || *runs <= 1, "seed {seed}: {request} ran {runs} times");
            assert!(!has_not_run || *runs == 0, "seed {seed}: {request} is said not to have run");
            (not_run, ran) = (not_run + u32::from(has_not_run), ran + runs.min(&1));
        }
        for worker in &mut world.workers {
            assert_eq!((worker.held(), worker.taken.sessions()), (0, 0), "seed {seed}");
            let given = worker.taken.given(HERE).unwrap();
            assert!(given.open_holes() <= 100, "only what was lost last");
        }
    }
    assert!(ran > 10_000 && not_run > 100, "{ran} ran, {not_run} have not");
}
