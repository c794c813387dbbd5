//! A plane whose clients and workers are ports that a test reads and writes.

use core::time::Duration;
use std::rc::Rc;

use petasos_base::Time;
use petasos_netio::{PacketIo, Route};
use petasos_netio_conformance::turns;
use petasos_router::{Config, Join, Policy};
use petasos_router_plane::{
    ClientAttached, FeedbackLoop, MemberJoin, MemberJoined, Plane, PlaneConfig, PlaneStats,
};
use petasos_wire::{
    Feedback, Group, HEADER_BYTES, Header, Kind, Packet, RejectCode, RoutePolicy, RoutedPacket,
    RoutingBlock, WorkerBlock, WorkerCounts,
};

use crate::factory::{PlaneFactory, TierCounts, planned};
use crate::gathered::Gathered;

/// The group's payload size, in bytes.
pub const PAYLOAD: u32 = 1024;
/// Ports of clients; those of workers follow.
const CLIENT_PORTS: usize = 2;

struct Port<I> {
    io: I,
    to_router: Route,
    /// Where feedback goes.
    to_feedback: Route,
    /// What has arrived and was not looked at.
    inbox: Vec<Vec<u8>>,
    received: u64,
}

/// A worker that has joined.
pub struct Worker {
    port: usize,
    /// What it was told.
    pub joined: MemberJoined,
    /// What it has told.
    pub counts: WorkerCounts,
}

/// See the module's documentation.
pub struct World<I> {
    /// What the plane is told that it is.
    pub now: Time,
    /// The plane's packet I/O.
    pub io: Gathered<I>,
    /// What is tested.
    pub plane: Plane,
    /// Who asks: a client's attachment, and its port, 0 or 1.
    pub client: (ClientAttached, usize),
    /// Those that have joined.
    pub workers: Vec<Worker>,
    ports: Vec<Port<I>>,
    next: u64,
    /// What a tier has done.
    tier: Option<Rc<dyn Fn() -> TierCounts>>,
    /// What hears feedback, if the plane is split.
    feedback: Option<(FeedbackLoop, Gathered<I>)>,
}

/// A first packet that a worker was given, as far as tests look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are the packet's fields")]
pub struct GivenPacket {
    pub session: u32,
    pub tag: u32,
    pub number: u32,
    pub lifetime_us: Option<u32>,
    pub message: Vec<u8>,
    pub is_probe: bool,
}

/// A plane in plaintext with this policy, in which eight requests may wait.
pub fn config(policy: &str) -> PlaneConfig {
    let policy: Policy = policy.parse().expect("it is a policy");
    let core = Config { policy, waiting_max: 8, ..Config::default() };
    PlaneConfig { core, payload_bytes: PAYLOAD, clients_max: 4, is_sealed: false }
}

impl<I: PacketIo> World<I> {
    /// One client, and so many workers, each of which takes `bound` requests at a time.
    pub fn new<F>(factory: &F, policy: &str, workers: usize, bound: u16) -> World<I>
    where
        F: PlaneFactory<Io = I>,
    {
        World::with(factory, &config(policy), workers, bound)
    }

    /// The same, with another configuration.
    pub fn with<F>(factory: &F, config: &PlaneConfig, workers: usize, bound: u16) -> World<I>
    where
        F: PlaneFactory<Io = I>,
    {
        // One more than join at first may join later.
        let own = 1 + usize::from(factory.is_split());
        let mut ports = factory.ports(own + CLIENT_PORTS + workers + 1).into_iter();
        let mut own_port = || Gathered::new(ports.next().expect("there are more"));
        let mut io = own_port();
        let heard = factory.is_split().then(&mut own_port);
        let router = io.local_address();
        let feedback = heard.as_ref().map_or(router, |heard| heard.local_address());
        let port = |mut io: I| {
            let to = [router, feedback].map(|to| io.route(to).expect("ports reach each other"));
            let [to_router, to_feedback] = to;
            Port { io, to_router, to_feedback, inbox: Vec::new(), received: 0 }
        };
        let ports: Vec<_> = ports.map(port).collect();
        let (mut plane, counts) = planned(factory, io.inner(), config);
        let feedback = heard.map(|heard| (plane.split(), heard));
        let tier = counts.map(|counts| {
            let counts: Rc<dyn Fn() -> TierCounts> = counts.into();
            let taken = counts.clone();
            io.set_taken(Box::new(move || taken().taken));
            counts
        });
        let now = Time::from_nanos(1_000_000_000);
        let attached = plane.attach(&mut io, ports[0].io.local_address()).expect("there is room");
        let (client, next) = ((attached, 0), 1);
        let workers_none = Vec::new();
        let mut world =
            World { now, io, plane, client, workers: workers_none, ports, next, tier, feedback };
        (0..workers).for_each(|_| world.join(bound, false));
        world
    }

    /// Another client attaches, at a client's port.
    pub fn attach(&mut self, port: usize) -> (ClientAttached, usize) {
        let address = self.ports[port].io.local_address();
        let attached = self.plane.attach(&mut self.io, address).expect("there is room");
        (attached, port)
    }

    /// The address of a client's port.
    pub fn client_address(&self, port: usize) -> std::net::SocketAddr {
        self.ports[port].io.local_address()
    }

    /// Another worker joins.
    pub fn join(&mut self, bound: u16, is_primary: bool) {
        let at = self.workers.len();
        let port = CLIENT_PORTS + at;
        let number = at as u32;
        let joining = MemberJoin {
            worker: at as u16 + 1,
            address: self.ports[port].io.local_address(),
            session: (1 << 19) + number,
            tag: 900 + number,
            join: Join { identity: number.into(), bound, weight: 100 },
            is_primary,
        };
        let joined = self.plane.join(&mut self.io, self.now, &joining).expect("there is room");
        if let Some((feedback, heard)) = &mut self.feedback {
            feedback.join(heard, &joined, joining.address).expect("ports reach each other");
        }
        let counts = WorkerCounts { sequence: 0, received: 0, settled: 0, bound };
        self.workers.push(Worker { port, joined, counts });
        if self.tier.is_some() {
            // As workers do: so a tier knows where it is.
            self.feed_back(at, 0, |_| {});
        }
    }

    /// What the plane has done, and a tier in its place.
    pub fn stats(&self) -> &PlaneStats {
        self.plane.stats()
    }

    /// How many requests wait, wherever.
    pub fn waiting(&self) -> usize {
        self.plane.waiting() + self.tier_counts().parked as usize
    }

    /// Whether a tier is before the plane.
    pub fn has_tier(&self) -> bool {
        self.tier.is_some()
    }

    /// Time passes: for the plane, and if there is a tier, for that too.
    pub fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        if self.has_tier() {
            std::thread::sleep(time);
        }
    }

    fn tier_counts(&self) -> TierCounts {
        self.tier.as_ref().map(|counts| counts()).unwrap_or_default()
    }

    /// A first packet of the client, with the next number.
    pub fn first(&mut self, message: &[u8], change: impl FnOnce(&mut RoutingBlock)) -> Vec<u8> {
        let (attached, port) = self.client;
        let mut block = RoutingBlock {
            policy: RoutePolicy::Any,
            priority: 0,
            is_claim: false,
            reply: self.ports[port].io.local_address(),
            client: attached.client,
            epoch: 0,
            pair: (1 << 19) + 7,
            pair_tag: 77,
            number: self.next,
            lifetime_us: None,
            key_hash: 0,
        };
        self.next += 1;
        change(&mut block);
        let header = Header::for_session(block.client, attached.tag)
            .with_request(Kind::Routed, 123, block.transmission())
            .with_client(0, message.len() as u32, 5);
        [&header.to_bytes()[..], &block.to_bytes(), message].concat()
    }

    /// A packet is sent from a client's port, and is under way.
    pub fn post_from_client(&mut self, port: usize, bytes: &[u8]) {
        self.post(port, bytes);
    }

    /// A packet is sent from a worker's port, and is under way.
    pub fn post_from_worker(&mut self, at: usize, bytes: &[u8]) {
        self.post(self.workers[at].port, bytes);
    }

    fn post(&mut self, port: usize, bytes: &[u8]) {
        let Port { io, to_router, to_feedback, .. } = &mut self.ports[port];
        // Feedback is a header (RT20).
        let heard = self.feedback.as_mut().filter(|_| bytes.len() == HEADER_BYTES);
        let to = if heard.is_some() { *to_feedback } else { *to_router };
        let taken = turns().any(|_| io.transmit_train(to, bytes, bytes.len()) == 1);
        assert!(taken, "there is room for a packet");
        heard.map_or(&mut self.io, |(_, heard)| heard).expect();
    }

    /// The client sends a packet, and the plane takes a turn.
    pub fn send(&mut self, bytes: &[u8]) {
        self.post(self.client.1, bytes);
        self.turn();
    }

    /// A first packet with nothing special.
    pub fn ask(&mut self, message: &[u8]) {
        let bytes = self.first(message, |_| {});
        self.send(&bytes);
    }

    /// The plane takes a turn: what is under way to it is a batch.
    pub fn turn(&mut self) {
        self.now = self.now + Duration::from_micros(1);
        if let Some((feedback, heard)) = &mut self.feedback {
            feedback.turn(heard);
        }
        self.plane.turn(&mut self.io, self.now);
    }

    /// Waits until all that the plane has sent is in inboxes.
    fn collect(&mut self) {
        for _ in turns() {
            let sent = self.io.stats().tx_frames + self.tier_counts().sent;
            for Port { io, inbox, received, .. } in &mut self.ports {
                let before = inbox.len();
                inbox.extend(io.receive().frames().map(|frame| frame.bytes.to_vec()));
                *received += (inbox.len() - before) as u64;
            }
            let received: u64 = self.ports.iter().map(|port| port.received).sum();
            assert!(received <= sent, "only the plane sends to ports");
            if received == sent {
                return;
            }
            std::thread::yield_now();
        }
        panic!("some packets of the plane have not arrived");
    }

    /// The bytes that a worker was sent since it was asked last.
    pub fn worker_inbox(&mut self, at: usize) -> Vec<Vec<u8>> {
        self.collect();
        core::mem::take(&mut self.ports[self.workers[at].port].inbox)
    }

    /// The bytes that came to a client's port since it was asked last.
    pub fn client_inbox(&mut self, port: usize) -> Vec<Vec<u8>> {
        self.collect();
        core::mem::take(&mut self.ports[port].inbox)
    }

    /// What a worker was given since it was asked last.
    pub fn given(&mut self, at: usize) -> Vec<GivenPacket> {
        let group = Group { payload_bytes: PAYLOAD, is_sealed: false };
        let packet_of = |bytes: &Vec<u8>| {
            let packet = Packet::parse(bytes).expect("it is a packet");
            let first = RoutedPacket::from_router(packet, group).expect("it is a first packet");
            GivenPacket {
                session: packet.session(),
                tag: packet.tag(),
                number: first.given(),
                lifetime_us: first.lifetime_us(),
                message: first.message().to_vec(),
                is_probe: first.is_probe(),
            }
        };
        self.worker_inbox(at).iter().map(packet_of).collect()
    }

    /// The messages of what a worker was given since it was asked last.
    pub fn messages(&mut self, at: usize) -> Vec<Vec<u8>> {
        self.given(at).into_iter().map(|given| given.message).collect()
    }

    /// The same without probes.
    pub fn requests(&mut self, at: usize) -> Vec<Vec<u8>> {
        let given = self.given(at).into_iter();
        given.filter(|given| !given.is_probe).map(|given| given.message).collect()
    }

    /// The codes of rejections that came to the client's port.
    pub fn rejections(&mut self) -> Vec<RejectCode> {
        let code_of = |bytes: &Vec<u8>| {
            let packet = Packet::parse(bytes).expect("it is a packet");
            let names = (packet.kind(), packet.session(), packet.tag(), packet.request());
            assert_eq!(names, (Kind::Reject, (1 << 19) + 7, 77, 123));
            let (block, rest) = WorkerBlock::split(packet).expect("it has a block");
            assert_eq!(block, WorkerBlock { session: 0, tag: 0, worker: WorkerBlock::ROUTER });
            RejectCode::from_value(rest.value()).expect("it is assigned")
        };
        self.client_inbox(self.client.1).iter().map(code_of).collect()
    }

    /// How many numbers a worker was given and has not settled, as the plane knows.
    pub fn outstanding(&self, at: usize) -> u32 {
        let known = self.plane.worker(self.workers[at].joined.id).expect("it is there");
        known.account.outstanding() as u32
    }

    /// Feedback of a worker that has settled so many more, of all that it has received.
    pub fn told(&mut self, at: usize, settled: u32) -> Feedback {
        let known = self.plane.worker(self.workers[at].joined.id).expect("it is there");
        let worker = &mut self.workers[at];
        worker.counts.sequence += 1;
        worker.counts.settled += settled;
        worker.counts.received = known.account.given() as u32;
        let MemberJoined { session, tag, secret, .. } = worker.joined;
        Feedback { session, tag, secret, counts: worker.counts, failed: 0 }
    }

    /// A worker says that it has settled so many more, and the plane takes a turn.
    pub fn feed_back(&mut self, at: usize, settled: u32, change: impl FnOnce(&mut Feedback)) {
        let mut told = self.told(at, settled);
        change(&mut told);
        self.post_from_worker(at, &told.to_bytes());
        self.turn();
    }
}
