//! Clients that call a service at random, and record it.

use petasos_base::Rng;
use petasos_history::{CallId, Header, History, ModelKind, Op, Reader, Recorder, Reply};

/// What is called.
pub trait Service {
    /// What it claims to be.
    const MODEL: ModelKind;

    /// What a client calls next.
    fn ask(&mut self, rng: &mut Rng) -> Op;

    /// Does a call.
    fn answer(&mut self, op: &Op, called_at: u64, now: u64) -> Reply;

    /// Something else happens.
    fn idle(&mut self, _now: u64, _watches: &Recorder<Vec<u8>>) {}

    /// Whether calls that are done are said not to be.
    fn denies(&self) -> bool {
        false
    }
}

/// How much is called.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub clients: u64,
    pub calls: usize,
    /// The part of calls whose outcome nobody learns.
    pub unknown: f64,
    /// The part of calls that are not done.
    pub not_done: f64,
}

enum Client {
    Idle,
    Called(CallId, u64, Op),
    Answered(CallId, Reply),
}

/// What the clients have recorded, one text for each, and one of watches.
pub struct World<S> {
    pub service: S,
    recorders: Vec<Recorder<Vec<u8>>>,
    clients: Vec<Client>,
    /// Calls that nobody waits for, and that may yet be done.
    lost: Vec<(u64, Op)>,
    now: u64,
}

impl<S: Service> World<S> {
    pub fn new(service: S, plan: Plan) -> World<S> {
        let header = Some(Header { model: Some(S::MODEL), revision: None });
        let recorder = |process| Recorder::new(Vec::new(), process, header).expect("it is memory");
        World {
            service,
            recorders: (0..=plan.clients).map(recorder).collect(),
            clients: (0..plan.clients).map(|_| Client::Idle).collect(),
            lost: Vec::new(),
            now: 0,
        }
    }

    /// Calls, and returns what was recorded.
    pub fn run(mut self, plan: Plan, rng: &mut Rng) -> Vec<Vec<u8>> {
        let mut left = plan.calls;
        while left > 0 || self.clients.iter().any(|client| !matches!(client, Client::Idle)) {
            // At times two things happen at the same time.
            self.now += rng.below(4) * 1000;
            let watches = self.recorders.last().expect("there is one more than clients");
            self.service.idle(self.now, watches);
            if rng.chance(0.1) && !self.lost.is_empty() {
                let which = rng.below(self.lost.len() as u64) as usize;
                let (called_at, op) = self.lost.swap_remove(which);
                self.service.answer(&op, called_at, self.now);
            }
            let client = rng.below(plan.clients) as usize;
            left -= usize::from(self.step(client, left > 0, plan, rng));
        }
        let texts = self.recorders.into_iter().map(|one| one.finish().expect("it is memory"));
        texts.collect()
    }

    /// True if a call began.
    fn step(&mut self, client: usize, may_call: bool, plan: Plan, rng: &mut Rng) -> bool {
        let recorder = &self.recorders[client];
        let now = self.now;
        let state = std::mem::replace(&mut self.clients[client], Client::Idle);
        match state {
            Client::Idle if may_call => {
                let op = self.service.ask(rng);
                let id = recorder.call(now, &op).expect("it is memory");
                self.clients[client] = Client::Called(id, now, op);
                return true;
            }
            Client::Idle => {}
            Client::Called(id, called_at, op) if rng.chance(plan.unknown) => {
                // Half of them say nothing at all.
                if rng.chance(0.5) {
                    recorder.unknown(id, now).expect("it is memory");
                }
                self.lost.push((called_at, op));
            }
            Client::Called(id, called_at, op) if rng.chance(plan.not_done) => {
                if self.service.denies() {
                    self.service.answer(&op, called_at, now);
                }
                recorder.not_done(id, now).expect("it is memory");
            }
            Client::Called(id, called_at, op) => {
                let reply = self.service.answer(&op, called_at, now);
                self.clients[client] = Client::Answered(id, reply);
            }
            Client::Answered(id, reply) => recorder.ok(id, now, reply).expect("it is memory"),
        }
        false
    }
}

/// Reads texts as files.
pub fn read(texts: &[Vec<u8>]) -> History {
    let mut reader = Reader::new();
    for text in texts {
        reader.read(text.as_slice()).expect("a recorder has written it");
    }
    reader.finish()
}

/// A history of a service.
pub fn history<S: Service>(service: S, plan: Plan, rng: &mut Rng) -> History {
    read(&World::new(service, plan).run(plan, rng))
}
