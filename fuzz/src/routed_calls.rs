//! Calls of a client to a group: the client's and two workers' endpoints, a router's plane, and
//! somebody between them who drops, repeats, alters, holds back and invents packets (RT1 to RT26).
//!
//! Every call ends exactly once, one that may run once does not run twice, and nothing is left.

use petasos_control::{AttachGrant, Cipher, DataAddress, Epoch, JoinGrant, Secret};
use petasos_endpoint::{
    CallSettings, Clock, CongestionConfig, Endpoint, EndpointConfig, MembershipId, RoutePolicy,
    RouterProcess, Routing, SessionId, VirtualClock,
};
use petasos_netio::PacketIo;
use petasos_netio::memory::{MemoryConfig, MemoryIo};
use petasos_router::{Config, Join, Policy, WorkerId};
use petasos_router_plane::{MemberJoin, Plane, PlaneConfig};
use petasos_seal::group::GroupSecret;
use petasos_wire::{EPOCHS, FIRST_BYTES, SEAL_BYTES};

use crate::application::{CALLS_MAX, Client, METHODS, Server, answer_held, ended, register};
use crate::network::Network;
use crate::{Input, Seed};

const PAYLOAD: u16 = 1024;
const WORKERS: u16 = 2;

/// A byte of choices (policy, bounds of one request, seals), then operations.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut scene = Scene::new(input.u8());
    while !input.is_empty() {
        scene.step(&mut input);
    }
    scene.finish();
}

struct Worker {
    endpoint: Endpoint<Server>,
    /// Of its membership, as the router and itself name it. `None` once that has ended.
    member: Option<(WorkerId, MembershipId)>,
}

struct Scene {
    network: Network,
    time: VirtualClock,
    router: MemoryIo,
    plane: Plane,
    client: Endpoint<Client>,
    session: SessionId,
    workers: Vec<Worker>,
    /// By call: whether it may run only once.
    once: Vec<bool>,
    /// `None` in a group in plaintext.
    cipher: Option<Cipher>,
    /// The client's number.
    number: u32,
}

fn address(io: &MemoryIo) -> DataAddress {
    DataAddress::udp(io.local_address().port(), Some(io.local_address().ip()))
}

/// An epoch as the ends are told: workers, or a client. Without a cipher nothing is sealed.
fn epoch(number: u16, cipher: Option<Cipher>, client: Option<u32>) -> Epoch {
    let secret = cipher.map(|_| match client {
        None => Secret::new([number as u8; 32]),
        Some(client) => Secret::new(*group_secret(number).client(client).bytes()),
    });
    Epoch { number, binds_anew: false, secret }
}

fn group_secret(number: u16) -> GroupSecret {
    GroupSecret::new(petasos_endpoint::Cipher::Aes128Gcm, [number as u8; 32])
}

fn config(seed: u64) -> EndpointConfig {
    let congestion = Some(CongestionConfig::none());
    EndpointConfig { seed: Some(seed), congestion, ..EndpointConfig::default() }
}

impl Scene {
    fn new(choices: u8) -> Scene {
        let cipher = (choices & 8 != 0).then_some(Cipher::Aes128Gcm);
        let seal_bytes = if cipher.is_some() { SEAL_BYTES } else { 0 };
        let datagram_bytes_max = FIRST_BYTES + usize::from(PAYLOAD) + seal_bytes;
        let network = Network::new(MemoryConfig { datagram_bytes_max, ..MemoryConfig::default() });
        let time = VirtualClock::default();
        let name = ["jbsq", "jsq", "rr", "random"][usize::from(choices % 4)];
        let policy: Policy = name.parse().expect("it is one");
        let core = Config { policy, workers_max: 4, waiting_max: 8, ..Config::default() };
        let (payload_bytes, is_sealed) = (PAYLOAD.into(), cipher.is_some());
        let config_of = PlaneConfig { core, payload_bytes, clients_max: 4, is_sealed };
        let mut plane = Plane::new(&config_of, 1).expect("it is right");
        if cipher.is_some() {
            plane.begin_epoch(0, Some(group_secret(0)));
        }
        let mut router = network.hub.port();
        let clock = Clock::Virtual(time.clone());
        let mut client = Endpoint::new(config(7), network.hub.port(), clock, Client::default());
        let reply = client.local_address();
        let attached = plane.attach(&mut router, reply).expect("there is room");
        let grant = AttachGrant {
            client: attached.client,
            tag: attached.tag,
            payload_bytes: PAYLOAD,
            asked_max: 64,
            has_no_window: false,
            cipher,
            epoch: epoch(0, cipher, Some(attached.client)),
            address: address(&router),
        };
        let session = client.attach_group(&grant, reply, router.local_address().ip());
        let session = session.expect("the hub reaches every port");
        let (workers, once) = (Vec::new(), Vec::new());
        let number = attached.client;
        let mut scene =
            Scene { network, time, router, plane, client, session, workers, once, cipher, number };
        let bound = if choices & 4 == 0 { 8 } else { 1 };
        (1..=WORKERS).for_each(|number| scene.join(number, attached.client, bound));
        scene
    }

    /// A worker joins, and the client is told of it.
    fn join(&mut self, number: u16, client: u32, bound: u16) {
        let (port, clock) = (self.network.hub.port(), Clock::Virtual(self.time.clone()));
        let mut endpoint =
            Endpoint::new(config(100 + u64::from(number)), port, clock, Server::default());
        register(&mut endpoint);
        let offer = endpoint.offer_membership().expect("there is room");
        let joining = MemberJoin {
            worker: number,
            address: endpoint.local_address(),
            session: offer.session,
            tag: offer.tag,
            join: Join { identity: number.into(), bound, weight: 100 },
            is_primary: number == 1,
        };
        let now = self.time.now();
        let joined = self.plane.join(&mut self.router, now, &joining).expect("there is room");
        let grant = JoinGrant {
            worker: number,
            session: joined.session,
            tag: joined.tag,
            secret: joined.secret,
            payload_bytes: PAYLOAD,
            clients_max: 4,
            beat_us: 20_000,
            hole_us: 2_000,
            claim_us: 20_000,
            cipher: self.cipher,
            epoch: epoch(0, self.cipher, None),
            source: address(&self.router),
            feedback: address(&self.router),
        };
        let ip = self.router.local_address().ip();
        let router = RouterProcess { ip, incarnation: 1 };
        endpoint.join_group(offer.id, &grant, bound, router).expect("the hub reaches every port");
        endpoint.set_group_client(offer.id, client, None).expect("there is room");
        let at = endpoint.local_address();
        self.client.set_group_member(self.session, number, at).expect("it is reached");
        self.workers.push(Worker { endpoint, member: Some((joined.id, offer.id)) });
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.u8() % 10 {
            0 => self.call(input),
            1 => self.turn(u64::from(input.u16()) * 1_000),
            2 => self.deliver(usize::MAX),
            3 => self.deliver(1),
            op @ 4..=7 => self.network.meddle(op - 4, input),
            8 => self.network.forge(usize::from(input.u8() % 3) * 20, input),
            _ => self.command(input),
        }
        self.network.collect();
    }

    fn call(&mut self, input: &mut Input<'_>) {
        let number = self.client.state().ends.len();
        if number == CALLS_MAX {
            return;
        }
        let (method, size) = (METHODS[usize::from(input.u8() % 4)], input.u16());
        let (how, timeout_ms) = (input.u8(), u64::from(input.u8()) + 1);
        let timeout = Some(std::time::Duration::from_millis(timeout_ms));
        let settings = CallSettings { timeout, ..CallSettings::default() };
        let policy = [RoutePolicy::Any, RoutePolicy::Primary, RoutePolicy::Hash];
        let routing = Routing {
            policy: policy[usize::from(how / 2 % 3)],
            priority: how / 64,
            key_hash: how.into(),
            is_idempotent: how & 1 == 1,
        };
        self.client.state_mut().ends.push(0);
        self.once.push(!routing.is_idempotent);
        let (session, tag) = (self.session, number as u64);
        let cx = self.client.context();
        let len = usize::from(size % 20_000).max(2);
        let mut buf = cx.alloc(len).expect("the pool has room for all calls");
        buf.fill(how);
        buf[0] = number as u8;
        let call = cx.enqueue_routed(session, method, buf, ended, tag, &settings, routing);
        if let Err(refused) = call {
            cx.free(refused.request);
            self.client.state_mut().ends[number] = 1;
        }
    }

    fn turn(&mut self, nanos: u64) {
        self.time.set(self.time.now().plus_nanos(nanos.max(1_000)));
        self.client.run_once();
        self.plane.turn(&mut self.router, self.time.now());
        while self.plane.poll_event().is_some() {}
        self.workers.iter_mut().for_each(|worker| _ = worker.endpoint.run_once());
    }

    fn deliver(&mut self, count: usize) {
        self.network.deliver(count);
        self.turn(1_000);
    }

    /// Something that an application, an operator or a connection's end does.
    fn command(&mut self, input: &mut Input<'_>) {
        let at = usize::from(input.u8() % WORKERS as u8);
        let worker = &mut self.workers[at];
        match input.u8() % 6 {
            0 => _ = answer_held(&mut worker.endpoint, input.short()),
            1 => self.turn(u64::from(input.u8()) * 1_000_000),
            2 => worker.endpoint.drain(),
            3 => {
                let (number, cipher) = (input.u16() % EPOCHS, self.cipher);
                if let Some((_, membership)) = worker.member.filter(|_| number % 2 == 0) {
                    let told = epoch(number, cipher, None);
                    _ = worker.endpoint.begin_membership_epoch(membership, &told);
                }
                let told = epoch(number, cipher, Some(self.number));
                _ = self.client.set_group_epoch(self.session, &told);
            }
            4 => self.end(at),
            _ => self.client.close_session(self.session),
        }
    }

    /// A worker leaves, and everybody is told.
    fn end(&mut self, at: usize) {
        let Some((id, membership)) = self.workers[at].member.take() else { return };
        self.plane.end(&mut self.router, id);
        // It may have left by itself.
        let _ = self.workers[at].endpoint.leave_group(membership);
        self.client.remove_group_member(self.session, at as u16 + 1);
    }

    /// All that is left arrives, and time passes until every call is over.
    fn finish(mut self) {
        for worker in &mut self.workers {
            while answer_held(&mut worker.endpoint, b"late") {}
        }
        for _ in 0..300 {
            self.turn(20_000_000);
            self.network.collect();
            self.deliver(usize::MAX);
            for worker in &mut self.workers {
                while answer_held(&mut worker.endpoint, b"late") {}
            }
        }
        self.client.state().check();
        self.check_runs();
        self.check_quiet();
    }

    fn check_runs(&self) {
        // Of what is sealed, nothing that is forged is taken.
        if self.network.forged && self.cipher.is_none() {
            return;
        }
        for call in (0..self.once.len()).filter(|call| self.once[*call]) {
            let runs = |worker: &Worker| worker.endpoint.state().runs.get(call).copied();
            let runs: u32 = self.workers.iter().filter_map(runs).sum();
            assert!(runs <= 1, "call {call} ran {runs} times");
        }
    }

    fn check_quiet(&self) {
        assert_eq!(self.client.unfinished(), (0, 0));
        assert_eq!(self.client.memory().pool.lent_bytes, 0, "the client's buffers are back");
        assert_eq!(self.client.stats().event_loop.panics, 0);
        for Worker { endpoint, .. } in &self.workers {
            assert_eq!(endpoint.unfinished(), (0, 0));
            assert_eq!(endpoint.memory().pool.lent_bytes, 0, "a worker's buffers are back");
            assert_eq!(endpoint.stats().event_loop.panics, 0);
        }
    }
}

/// Calls of all sizes and kinds over networks of all kinds, and workers that leave.
pub fn seeds() -> Vec<Seed> {
    let call = |method: u8, size: u16, how: u8, timeout: u8| {
        let [low, high] = size.to_le_bytes();
        vec![0, method, low, high, how, timeout]
    };
    let run = |choices: u8, parts: &[Vec<u8>]| [&[choices][..], &parts.concat()].concat();
    let carry = || vec![1, 1, 0, 2, 2, 2, 2, 2];
    vec![
        ("whole", run(0, &[call(0, 32, 1, 100), carry(), carry()])),
        ("sealed_whole", run(8, &[call(0, 32, 1, 100), carry(), carry()])),
        ("sealed_claim", run(8, &[call(0, 32, 0, 100), carry(), carry()])),
        ("sealed_long", run(8, &[call(0, 3000, 0, 100), carry(), carry(), carry()])),
        ("claim", run(0, &[call(0, 32, 0, 100), carry(), carry()])),
        ("large", run(1, &[call(0, 19_000, 0, 200), carry(), carry(), carry(), carry()])),
        ("long", run(2, &[call(2, 30, 1, 200), carry(), carry(), carry(), carry()])),
        ("primary", run(0, &[call(0, 32, 3, 100), call(0, 32, 2, 100), carry(), carry()])),
        ("key", run(4, &[call(0, 32, 5, 100), call(0, 32, 4, 100), carry(), carry()])),
        ("held", run(4, &[call(1, 32, 1, 50), carry(), vec![9, 0, 1, 60], carry()])),
        ("waits", run(4, &[vec![call(1, 32, 1, 90); 9].concat(), carry(), vec![9, 0, 0, 1, 7]])),
        ("lost", run(0, &[call(0, 19_000, 1, 200), vec![1, 1, 0, 4, 3, 4, 5], carry(), carry()])),
        ("twice", run(0, &[call(0, 32, 0, 90), vec![1, 1, 0, 5, 0, 0, 5, 0, 0, 6, 0], carry()])),
        ("altered", run(0, &[call(0, 32, 1, 90), vec![1, 1, 0, 7, 0, 30, 0, 9], carry(), carry()])),
        (
            "forged",
            run(
                0,
                &[
                    call(2, 900, 1, 90),
                    vec![1, 1, 0, 8, 2, 2, 0, 8, 1, 0, 0, 0, 9, 0, 0, 0, 0],
                    carry(),
                ],
            ),
        ),
        ("draining", run(3, &[call(1, 32, 0, 90), carry(), vec![9, 0, 2], carry()])),
        ("leaves", run(0, &[call(1, 32, 0, 90), carry(), vec![9, 0, 4], call(0, 32, 1, 9)])),
        ("epoch", run(0, &[vec![9, 0, 3, 1, 0], call(0, 32, 1, 90), carry(), carry()])),
        ("closed", run(0, &[call(1, 9_000, 0, 90), carry(), vec![9, 1, 5], carry()])),
    ]
}
