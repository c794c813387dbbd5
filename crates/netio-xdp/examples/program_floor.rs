//! What a router takes that is an XDP program, beside a bare reflector in its place, on veth pairs.
//!
//! `cargo run --profile production -p petasos-netio-xdp --example program_floor [ROUNDS]`
//!
//! Needs root. A host's interface has the program in the driver's mode, and the other end of the
//! wire is client and all workers at once, over AF_XDP in one thread. *Bare* means that a program
//! sends each datagram back with its addresses exchanged, and drops what is as short as feedback
//! (`crates/router-xdp/program/reflector.bpf.c`). Both take turns in stretches, with the same
//! packets: first one request at a time, then 64 at once to four workers, and their feedback. So
//! the wire and its ends are in both figures.

use std::net::{SocketAddr, SocketAddrV4};

use petasos_base::Clock;
use petasos_base::sync::Ordering;
use petasos_netio::{PacketIo, Route};
use petasos_netio_xdp::{AttachMode, BpfLink, BpfObject, BpfProgram, XdpConfig, XdpIo, XdpMode};
use petasos_router_xdp::{PlaceNames, ProgramConfig, RouterProgram};
use petasos_wire::{Feedback, Header, Kind, RoutePolicy, RoutingBlock, WorkerCounts};

#[path = "../tests/rig/mod.rs"]
mod rig;

const REFLECTOR: &[u8] = include_bytes!("../../router-xdp/program/reflector.bpf.o");

const TRAIN: usize = 64;
const WORKERS: usize = 4;
const PAYLOAD_BYTES: usize = 32;
/// With header and routing block.
const REQUEST_BYTES: usize = 64 + PAYLOAD_BYTES;
/// Rounds of one contender before it is the other's turn.
const STRETCH: usize = 200;
/// A packet that does not come within this time is lost.
const LOST_NS: u64 = 1_000_000_000;
const PORT: u16 = 9000;
const CLIENT: (u32, u32) = (0, 0x0abc_def1);
/// The index of the first worker.
const WORKER: u32 = 1 << 19;

/// What is at the router's interface.
enum By {
    Router(RouterProgram),
    Bare(BpfProgram),
}

/// One wire.
struct Stage {
    by: By,
    peer: XdpIo,
    to_router: Route,
    address: SocketAddrV4,
    number: u64,
    counts: [WorkerCounts; WORKERS],
    /// Word 0 of what has come, which names the worker.
    came: Vec<u64>,
    // The interfaces go before the programs' links would be of no use.
    _link: BpfLink,
    _pair: rig::Pair,
}

impl Stage {
    fn new(is_router: bool) -> Stage {
        let pair = rig::Pair::new();
        let config = XdpConfig {
            attach: AttachMode::Native,
            resolve_wait_ms: 10_000,
            ..XdpConfig::default()
        };
        let peer = pair.right.run(|| XdpIo::bind(rig::any_port(rig::v4(2)), &config));
        let mut peer = peer.expect("a fresh interface is free");
        let SocketAddr::V4(address) = peer.local_address() else { panic!("it is of IPv4") };
        let SocketAddr::V4(router) = SocketAddr::new(rig::v4(1), PORT) else { panic!("so is it") };
        let by = if is_router { By::Router(routing(router, address)) } else { bare(router) };
        let attach = || match &by {
            By::Router(program) => program.attach("v0", AttachMode::Native),
            By::Bare(program) => program.attach("v0", AttachMode::Native),
        };
        let link = pair.left.run(attach).expect("a fresh interface is free");
        assert_eq!(link.mode(), XdpMode::Native);
        let route = (0..3).find_map(|_| peer.route(router.into()).ok());
        let to_router = route.expect("they reach each other");
        let bound = TRAIN as u16;
        let counts = [WorkerCounts { sequence: 0, received: 0, settled: 0, bound }; WORKERS];
        let (number, came) = (0, Vec::with_capacity(TRAIN));
        let mut stage =
            Stage { by, peer, to_router, address, number, counts, came, _link: link, _pair: pair };
        // The program learns where workers are.
        let feedback = stage.feedback();
        stage.send(&feedback, feedback.len() / WORKERS);
        stage.until_known();
        stage
    }

    fn send(&mut self, bytes: &[u8], segment_bytes: usize) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let sent = self.peer.transmit_train(self.to_router, rest, segment_bytes);
            rest = rest.get(sent * segment_bytes..).unwrap_or(&[]);
        }
    }

    fn until_known(&self) {
        let By::Router(program) = &self.by else { return };
        let (clock, begin) = (Clock::system(), Clock::system().now());
        while !(0..WORKERS).all(|worker| program.knows(worker)) {
            assert!(clock.now().nanos_since(begin) < LOST_NS, "feedback is lost");
        }
    }

    /// Requests of the client.
    fn requests(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count * REQUEST_BYTES);
        for _ in 0..count {
            self.number += 1;
            let block = RoutingBlock {
                policy: RoutePolicy::Any,
                priority: 0,
                is_claim: false,
                reply: self.address.into(),
                client: CLIENT.0,
                epoch: 0,
                pair: 1 << 19,
                pair_tag: 1,
                number: self.number,
                lifetime_us: None,
                key_hash: 0,
            };
            let header = Header::for_session(CLIENT.0, CLIENT.1)
                .with_request(Kind::Routed, self.number, block.transmission())
                .with_client(0, PAYLOAD_BYTES as u32, 1);
            bytes.extend_from_slice(&header.to_bytes());
            bytes.extend_from_slice(&block.to_bytes());
            bytes.extend_from_slice(&[7; PAYLOAD_BYTES]);
        }
        bytes
    }

    /// Waits for so many packets.
    fn until_came(&mut self, count: usize, clock: &Clock) {
        let begin = clock.now();
        self.came.clear();
        while self.came.len() < count {
            for frame in self.peer.receive().frames() {
                let word = frame.bytes.first_chunk().expect("it has a header");
                self.came.push(u64::from_le_bytes(*word));
            }
            assert!(clock.now().nanos_since(begin) < LOST_NS, "packets are lost");
        }
    }

    /// Each worker says that it has settled all.
    fn feedback(&mut self) -> Vec<u8> {
        for word in &self.came {
            let named = (word >> 16) as u32 & 0xf_ffff;
            // What is reflected names the client.
            if let Some(counts) = self.counts.get_mut(named.wrapping_sub(WORKER) as usize) {
                counts.received += 1;
            }
        }
        let told = self.counts.iter_mut().enumerate().flat_map(|(worker, counts)| {
            counts.sequence += 1;
            counts.settled = counts.received;
            let PlaceNames { own_tag: tag, secret, .. } = names(worker, self.address);
            Feedback { session: worker as u32, tag, secret, counts: *counts, failed: 0 }.to_bytes()
        });
        told.collect()
    }

    /// Nanoseconds until a request has come.
    fn hop(&mut self, clock: &Clock) -> u64 {
        let request = self.requests(1);
        let begin = clock.now();
        self.send(&request, REQUEST_BYTES);
        self.until_came(1, clock);
        let ns = clock.now().nanos_since(begin);
        let feedback = self.feedback();
        self.send(&feedback, feedback.len() / WORKERS);
        ns
    }

    /// Nanoseconds of a stretch of trains.
    fn trains(&mut self, clock: &Clock) -> u64 {
        let requests = self.requests(STRETCH * TRAIN);
        let begin = clock.now();
        for train in requests.chunks(TRAIN * REQUEST_BYTES) {
            self.send(train, REQUEST_BYTES);
            self.until_came(TRAIN, clock);
            let feedback = self.feedback();
            self.send(&feedback, feedback.len() / WORKERS);
        }
        clock.now().nanos_since(begin)
    }
}

fn names(worker: usize, address: SocketAddrV4) -> PlaceNames {
    let number = worker as u32;
    PlaceNames {
        address,
        named: (WORKER + number, 0x0f00_0000 + number),
        own_tag: 0x0123_4567 + number,
        secret: 0xab_cdef_0123 + worker as u64,
    }
}

/// A router whose client and workers are all at `peer`.
fn routing(router: SocketAddrV4, peer: SocketAddrV4) -> RouterProgram {
    let config = ProgramConfig {
        address: router,
        payload_bytes: 1400,
        is_sealed: false,
        clients_max: 1,
        parked_max: 256,
        age_max: core::time::Duration::from_secs(1),
        partial_checksums: false,
    };
    let program = RouterProgram::load(&config).expect("the kernel takes it");
    program.set_epochs([Some(0), None]);
    program.attach_client(CLIENT.0, CLIENT.1, peer);
    for worker in 0..WORKERS {
        program.begin_place(worker, TRAIN as u16);
        program.name_place(worker, &names(worker, peer));
        program.set_limit(worker, TRAIN as u16, 100);
    }
    program.start(true);
    program
}

fn bare(router: SocketAddrV4) -> By {
    let object = BpfObject::parse(REFLECTOR, "xdp").expect("the committed object is one");
    let program = object.load("petasos_bare", &[]).expect("the kernel takes it");
    let ip = u32::from_ne_bytes(router.ip().octets());
    let target = u64::from(ip) | u64::from(router.port().to_be()) << 32;
    let words = program.words("target").expect("it can be shared");
    words.words()[0].store(target, Ordering::Release);
    By::Bare(program)
}

fn median<T: PartialOrd + Copy>(mut of: Vec<T>) -> T {
    of.sort_by(|a, b| a.partial_cmp(b).expect("they are numbers"));
    of[of.len() / 2]
}

fn hops(stages: &mut [Stage; 2], rounds: usize, clock: &Clock) {
    let (mut medians, mut added) = ([Vec::new(), Vec::new()], Vec::new());
    for _ in 0..rounds.div_ceil(STRETCH) {
        let of = stages
            .each_mut()
            .map(|stage| median((0..STRETCH).map(|_| stage.hop(clock)).collect::<Vec<_>>()));
        added.push(of[0] as f64 - of[1] as f64);
        medians.iter_mut().zip(of).for_each(|(medians, ns)| medians.push(ns));
    }
    let [router, bare] = medians.map(|ns| median(ns) as f64 / 1e3);
    println!("a hop: {router:.2} us by the router's program, {bare:.2} us bare (medians)");
    println!("the program adds {:.2} us (median of pairs of stretches)", median(added) / 1e3);
}

fn rates(stages: &mut [Stage; 2], rounds: usize, clock: &Clock) {
    let (mut times, mut ratios) = ([Vec::new(), Vec::new()], Vec::new());
    for _ in 0..rounds.div_ceil(STRETCH) {
        let of = stages.each_mut().map(|stage| stage.trains(clock));
        ratios.push(of[1] as f64 / of[0] as f64);
        times.iter_mut().zip(of).for_each(|(times, ns)| times.push(ns));
    }
    let [router, bare] = times.map(|ns| median(ns) as f64 / (STRETCH * TRAIN) as f64);
    println!(
        "a request of a train takes {router:.0} ns by the router's program, {bare:.0} ns bare"
    );
    println!("rate of the program: {:.2} of the bare reflector's", median(ratios));
}

fn main() {
    if !rig::available() {
        return;
    }
    let rounds = std::env::args().nth(1).map_or(4000, |n| n.parse().expect("a number"));
    let clock = Clock::system();
    let mut stages = [true, false].map(Stage::new);
    hops(&mut stages, 5 * rounds, &clock);
    rates(&mut stages, rounds, &clock);
    for stage in &stages {
        if let By::Router(program) = &stage.by {
            let (given, number) = (program.stats().given, stage.number);
            assert_eq!(given, number, "the program has given all, and nothing waited");
        }
    }
}
