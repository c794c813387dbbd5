//! What a router takes for a request over UDP, beside a forwarder that looks at nothing: the same
//! trains, the same fan-out, the same feedback, in one thread on loopback, in turns.
//!
//! `rates [ROUNDS]` prints the medians of nanoseconds per request, in the router's part only, and
//! their ratio. `cargo run --release -p petasos-router-plane --example rates`

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use petasos_base::Clock;
use petasos_netio::{PacketIo, Route};
use petasos_netio_udp::{UdpConfig, UdpIo};
use petasos_router::{Config, Join};
use petasos_router_plane::{ClientAttached, MemberJoin, MemberJoined, Plane, PlaneConfig};
use petasos_wire::{Feedback, Header, Kind, RoutePolicy, RoutingBlock, WorkerCounts};

const WORKERS: usize = 4;
const TRAIN: usize = 64;
const PAYLOAD_BYTES: usize = 32;
/// With header and routing block.
const REQUEST_BYTES: usize = 64 + PAYLOAD_BYTES;
/// Rounds of one contender before it is the other's turn.
const STRETCH: usize = 200;

fn socket() -> UdpIo {
    let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    UdpIo::bind(any, UdpConfig::default()).expect("loopback has ports")
}

/// A client, workers, and a router's socket.
struct Stage {
    io: UdpIo,
    client: UdpIo,
    to_router: Route,
    workers: Vec<(UdpIo, Route)>,
}

impl Stage {
    fn new() -> Stage {
        let (io, mut client) = (socket(), socket());
        let to_router = client.route(io.local_address()).expect("it is loopback");
        let workers = (0..WORKERS).map(|_| {
            let mut worker = socket();
            let route = worker.route(io.local_address()).expect("it is loopback");
            (worker, route)
        });
        Stage { workers: workers.collect(), io, client, to_router }
    }

    fn send(&mut self, train: &[u8]) {
        let segment_bytes = train.len() / TRAIN;
        let sent = self.client.transmit_train(self.to_router, train, segment_bytes);
        assert_eq!(sent, TRAIN, "loopback takes a train");
    }

    /// How many packets a worker has received since it was asked last, and how many of them are
    /// requests: a slow router also asks whether its workers are there.
    fn received(&mut self, at: usize) -> (usize, usize) {
        let (mut packets, mut requests) = (0, 0);
        loop {
            let batch = self.workers[at].0.receive();
            if batch.chunks.is_empty() {
                return (packets, requests);
            }
            packets += batch.frames().count();
            requests += batch.frames().filter(|frame| frame.bytes.len() == REQUEST_BYTES).count();
        }
    }

    fn tell(&mut self, at: usize, feedback: &[u8]) {
        let (worker, route) = &mut self.workers[at];
        worker.transmit_train(*route, feedback, feedback.len());
    }
}

/// A router that decides.
struct Routed {
    stage: Stage,
    plane: Plane,
    attached: ClientAttached,
    joined: Vec<(MemberJoined, WorkerCounts)>,
    number: u64,
    bytes: Vec<u8>,
}

impl Routed {
    fn new(clock: &Clock) -> Routed {
        let mut stage = Stage::new();
        let core = Config { policy: "jbsq".parse().expect("it is one"), ..Config::default() };
        let config = PlaneConfig { core, ..PlaneConfig::default() };
        let mut plane = Plane::new(&config, 1).expect("it is right");
        let address = stage.client.local_address();
        let attached = plane.attach(&mut stage.io, address).expect("there is room");
        let mut joined = Vec::new();
        for at in 0..WORKERS {
            let joining = MemberJoin {
                worker: at as u16 + 1,
                address: stage.workers[at].0.local_address(),
                session: 1 << 19,
                tag: 1,
                join: Join { identity: at as u64, bound: 64, weight: 100 },
                is_primary: false,
            };
            let one = plane.join(&mut stage.io, clock.now(), &joining).expect("there is room");
            joined.push((one, WorkerCounts { sequence: 0, received: 0, settled: 0, bound: 64 }));
        }
        Routed { stage, plane, attached, joined, number: 0, bytes: Vec::new() }
    }

    fn train(&mut self) {
        self.bytes.clear();
        for _ in 0..TRAIN {
            self.number += 1;
            let block = RoutingBlock {
                policy: RoutePolicy::Any,
                priority: 0,
                is_claim: false,
                reply: self.stage.client.local_address(),
                client: self.attached.client,
                epoch: 0,
                pair: 1 << 19,
                pair_tag: 1,
                number: self.number,
                lifetime_us: None,
                key_hash: 0,
            };
            let header = Header::for_session(self.attached.client, self.attached.tag)
                .with_request(Kind::Routed, self.number, block.transmission())
                .with_client(0, PAYLOAD_BYTES as u32, 1);
            self.bytes.extend_from_slice(&header.to_bytes());
            self.bytes.extend_from_slice(&block.to_bytes());
            self.bytes.extend_from_slice(&[7; PAYLOAD_BYTES]);
        }
    }

    /// Sends a train and gives back its nanoseconds in the router.
    fn round(&mut self, clock: &Clock) -> u64 {
        self.train();
        let bytes = core::mem::take(&mut self.bytes);
        self.stage.send(&bytes);
        self.bytes = bytes;
        let begin = clock.now();
        while self.plane.turn(&mut self.stage.io, clock.now()) {}
        let ns = clock.now().nanos_since(begin);
        let mut received = 0;
        for at in 0..WORKERS {
            let (packets, requests) = self.stage.received(at);
            let (joined, counts) = &mut self.joined[at];
            counts.sequence += 1;
            counts.received += packets as u32;
            counts.settled += packets as u32;
            let MemberJoined { session, tag, secret, .. } = *joined;
            let told = Feedback { session, tag, secret, counts: *counts, failed: 0 };
            self.stage.tell(at, &told.to_bytes());
            received += requests;
        }
        assert_eq!(received, TRAIN, "each request goes to a worker");
        ns
    }
}

/// A forwarder that sends a part of each train to each worker, and looks at nothing.
struct Bare {
    stage: Stage,
    routes: Vec<Route>,
    train: Vec<u8>,
}

impl Bare {
    fn new() -> Bare {
        let mut stage = Stage::new();
        let addresses: Vec<_> = stage.workers.iter().map(|(it, _)| it.local_address()).collect();
        let routes = addresses.into_iter().map(|it| stage.io.route(it).expect("it is loopback"));
        let routes = routes.collect();
        Bare { routes, train: vec![7; TRAIN * REQUEST_BYTES], stage }
    }

    fn turn(&mut self, parts: &mut Vec<u8>) -> bool {
        let segment_bytes = self.train.len() / TRAIN;
        parts.clear();
        let batch = self.stage.io.receive();
        if batch.chunks.is_empty() {
            return false;
        }
        for chunk in batch.chunks.iter().filter(|it| it.segment_bytes as usize == segment_bytes) {
            parts.extend_from_slice(&batch.memory[chunk.offset as usize..][..chunk.len as usize]);
        }
        let part_bytes = segment_bytes * TRAIN / WORKERS;
        for (part, route) in parts.chunks(part_bytes).zip(&self.routes) {
            self.stage.io.transmit_train(*route, part, segment_bytes);
        }
        true
    }

    fn round(&mut self, clock: &Clock, parts: &mut Vec<u8>) -> u64 {
        let train = core::mem::take(&mut self.train);
        self.stage.send(&train);
        self.train = train;
        let begin = clock.now();
        while self.turn(parts) {}
        let ns = clock.now().nanos_since(begin);
        let mut received = 0;
        for at in 0..WORKERS {
            received += self.stage.received(at).1;
            self.stage.tell(at, &[0; 24]);
        }
        assert_eq!(received, TRAIN, "each request goes to a worker");
        ns
    }
}

fn main() {
    let rounds = std::env::args().nth(1).map_or(20_000, |n| n.parse().expect("a number"));
    let clock = Clock::system();
    let (mut routed, mut bare, mut parts) = (Routed::new(&clock), Bare::new(), Vec::new());
    let (mut of_routed, mut of_bare) = (Vec::new(), Vec::new());
    for _ in 0..rounds / STRETCH {
        let stretch = |round: &mut dyn FnMut() -> u64| (0..STRETCH).map(|_| round()).sum::<u64>();
        of_routed.push(stretch(&mut || routed.round(&clock)));
        of_bare.push(stretch(&mut || bare.round(&clock, &mut parts)));
    }
    let per_request = |mut of: Vec<u64>| {
        of.sort_unstable();
        of[of.len() / 2] as f64 / (STRETCH * TRAIN) as f64
    };
    let mut ratios: Vec<f64> = of_bare
        .iter()
        .zip(&of_routed)
        .map(|(bare, routed)| *bare as f64 / *routed as f64)
        .collect();
    ratios.sort_by(f64::total_cmp);
    let ratio = ratios[ratios.len() / 2];
    let (routed_ns, bare_ns) = (per_request(of_routed), per_request(of_bare));
    println!("a request in the router: {routed_ns:.0} ns; in a bare forwarder: {bare_ns:.0} ns");
    println!("rate of the router: {ratio:.2} of the forwarder's");
}
