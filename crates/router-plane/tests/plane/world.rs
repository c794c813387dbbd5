//! A plane in memory, whose clients and workers are ports that a test reads and writes.

use std::time::Duration;

use petasos_base::Time;
use petasos_netio::memory::{Hub, MemoryConfig, MemoryIo};
use petasos_netio::{PacketIo, TxPacket};
use petasos_router::{Config, Join, Policy};
use petasos_router_plane::{ClientAttached, MemberJoin, MemberJoined, Plane, PlaneConfig};
use petasos_wire::{
    Feedback, Group, Header, Kind, Packet, RejectCode, RoutePolicy, RoutedPacket, RoutingBlock,
    WorkerBlock, WorkerCounts,
};

pub const PAYLOAD: u32 = 1024;

pub struct Worker {
    pub port: MemoryIo,
    pub joined: MemberJoined,
    pub counts: WorkerCounts,
}

pub struct World {
    pub hub: Hub,
    pub now: Time,
    pub io: MemoryIo,
    pub plane: Plane,
    pub client: MemoryIo,
    pub attached: ClientAttached,
    pub workers: Vec<Worker>,
    next: u64,
}

/// A first packet that a worker was given, as far as tests look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenPacket {
    pub session: u32,
    pub tag: u32,
    pub number: u32,
    pub lifetime_us: Option<u32>,
    pub message: Vec<u8>,
    pub is_probe: bool,
}

pub fn config(policy: &str) -> PlaneConfig {
    let policy: Policy = policy.parse().expect("it is a policy");
    let core = Config { policy, waiting_max: 8, ..Config::default() };
    PlaneConfig { core, payload_bytes: PAYLOAD, clients_max: 4, is_sealed: false }
}

pub fn group() -> Group {
    Group { payload_bytes: PAYLOAD, is_sealed: false }
}

impl World {
    pub fn new(policy: &str, workers: usize, bound: u16) -> World {
        World::with(&config(policy), workers, bound)
    }

    pub fn with(config: &PlaneConfig, workers: usize, bound: u16) -> World {
        let hub = Hub::direct(MemoryConfig::default());
        let (mut io, client) = (hub.port(), hub.port());
        let mut plane = Plane::new(config, 1).expect("it is right");
        let now = Time::from_nanos(1_000_000_000);
        let attached = plane.attach(&mut io, client.local_address()).expect("there is room");
        let mut world =
            World { hub, now, io, plane, client, attached, workers: Vec::new(), next: 1 };
        (0..workers).for_each(|_| world.join(bound, false));
        world
    }

    pub fn join(&mut self, bound: u16, is_primary: bool) {
        let (port, at) = (self.hub.port(), self.workers.len() as u32);
        let joining = MemberJoin {
            worker: at as u16 + 1,
            address: port.local_address(),
            session: (1 << 19) + at,
            tag: 900 + at,
            join: Join { identity: u64::from(at), bound, weight: 100 },
            is_primary,
        };
        let joined = self.plane.join(&mut self.io, self.now, &joining).expect("there is room");
        let counts = WorkerCounts { sequence: 0, received: 0, settled: 0, bound };
        self.workers.push(Worker { port, joined, counts });
    }

    /// A first packet of the client, with the next number.
    pub fn first(&mut self, message: &[u8], change: impl FnOnce(&mut RoutingBlock)) -> Vec<u8> {
        let mut block = RoutingBlock {
            policy: RoutePolicy::Any,
            priority: 0,
            is_claim: false,
            reply: self.client.local_address(),
            client: self.attached.client,
            epoch: 0,
            pair: (1 << 19) + 7,
            pair_tag: 77,
            number: self.next,
            lifetime_us: None,
            key_hash: 0,
        };
        self.next += 1;
        change(&mut block);
        let header = Header::for_session(block.client, self.attached.tag)
            .with_request(Kind::Routed, 123, block.transmission())
            .with_client(0, message.len() as u32, 5);
        [&header.to_bytes()[..], &block.to_bytes(), message].concat()
    }

    /// The client sends a packet, and the plane takes a turn.
    pub fn send(&mut self, bytes: &[u8]) {
        send(&mut self.client, self.io.local_address(), bytes);
        self.turn();
    }

    /// A first packet with nothing special.
    pub fn ask(&mut self, message: &[u8]) {
        let bytes = self.first(message, |_| {});
        self.send(&bytes);
    }

    pub fn turn(&mut self) {
        self.now = self.now + Duration::from_micros(1);
        self.plane.turn(&mut self.io, self.now);
    }

    /// What a worker was given since it was asked last.
    pub fn given(&mut self, at: usize) -> Vec<GivenPacket> {
        let mut given = Vec::new();
        for frame in self.workers[at].port.receive().frames() {
            let packet = Packet::parse(frame.bytes).expect("it is a packet");
            let first = RoutedPacket::from_router(packet, group()).expect("it is a first packet");
            given.push(GivenPacket {
                session: packet.session(),
                tag: packet.tag(),
                number: first.given(),
                lifetime_us: first.lifetime_us(),
                message: first.message().to_vec(),
                is_probe: first.is_probe(),
            });
        }
        given
    }

    /// The codes of rejections that the client was sent.
    pub fn rejections(&mut self) -> Vec<RejectCode> {
        let mut codes = Vec::new();
        for frame in self.client.receive().frames() {
            let packet = Packet::parse(frame.bytes).expect("it is a packet");
            assert_eq!(
                (packet.kind(), packet.session(), packet.tag()),
                (Kind::Reject, (1 << 19) + 7, 77)
            );
            assert_eq!(packet.request(), 123);
            let (block, rest) = WorkerBlock::split(packet).expect("it has a block");
            assert_eq!(block, WorkerBlock { session: 0, tag: 0, worker: WorkerBlock::ROUTER });
            codes.push(RejectCode::from_value(rest.value()).expect("it is assigned"));
        }
        codes
    }

    /// Drops what the client was sent.
    pub fn rejections_any(&mut self) {
        self.client.receive();
    }

    /// A worker says that it has settled so many more, of all that it has received.
    pub fn feed_back(&mut self, at: usize, settled: u32, change: impl FnOnce(&mut Feedback)) {
        let given = self.plane.worker(self.workers[at].joined.id).expect("it is there");
        let worker = &mut self.workers[at];
        worker.counts.sequence += 1;
        worker.counts.settled += settled;
        worker.counts.received = given.account.given() as u32;
        let MemberJoined { session, tag, secret, .. } = worker.joined;
        let mut told = Feedback { session, tag, secret, counts: worker.counts };
        change(&mut told);
        send(&mut worker.port, self.io.local_address(), &told.to_bytes());
        self.turn();
    }
}

fn send(from: &mut MemoryIo, to: std::net::SocketAddr, head: &[u8]) {
    let route = from.route(to).expect("the hub reaches every port");
    assert_eq!(from.transmit(&[TxPacket { route, head, body: &[] }]), 1);
}
