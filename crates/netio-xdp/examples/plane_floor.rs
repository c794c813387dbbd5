//! What a router's plane takes over AF_XDP, beside a bare forwarder on the same socket, around a
//! switch of veth pairs.
//!
//! `cargo run --profile production -p petasos-netio-xdp --example plane_floor [ROUNDS]`
//!
//! Needs root. *Bare* means that of a frame only the length is looked at, and one that was built
//! before leaves to the next worker. Both take turns in stretches, at the same sockets: first 64
//! requests at once to four workers in one thread, and the time in the router only; then one
//! request at a time, from client to worker by way of the router, which has a thread of its own.

use std::net::SocketAddr;

use petasos_base::Clock;
use petasos_base::sync::{AtomicU64, Ordering};
use petasos_netio::{PacketIo, Route};
use petasos_netio_xdp::{XdpConfig, XdpIo};
use petasos_router::{Config, Join};
use petasos_router_plane::{ClientAttached, MemberJoin, MemberJoined, Plane, PlaneConfig};
use petasos_wire::{Feedback, Header, Kind, RoutePolicy, RoutingBlock, WorkerCounts};

#[path = "../tests/rig/mod.rs"]
mod rig;

const TRAIN: usize = 64;
const PAYLOAD_BYTES: usize = 32;
/// With header and routing block.
const REQUEST_BYTES: usize = 64 + PAYLOAD_BYTES;
/// Rounds of one contender before it is the other's turn.
const STRETCH: usize = 200;

/// A client or worker.
struct Member {
    io: XdpIo,
    to_router: Route,
}

impl Member {
    fn send(&mut self, bytes: &[u8], segment_bytes: usize) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let sent = self.io.transmit_train(self.to_router, rest, segment_bytes);
            rest = rest.get(sent * segment_bytes..).unwrap_or(&[]);
        }
    }
}

/// Who forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Plane,
    Bare,
}

/// The router's end.
struct Forwarder {
    io: XdpIo,
    plane: Plane,
    /// A frame to each worker, as the plane would send it.
    frames: Vec<Vec<u8>>,
    next: usize,
    bare: u64,
}

impl Forwarder {
    fn turn(&mut self, by: By, clock: &Clock) {
        match by {
            By::Plane => _ = self.plane.turn(&mut self.io, clock.now()),
            By::Bare => self.forward(),
        }
    }

    fn forward(&mut self) {
        let (rx, tx) = self.io.socket().halves();
        let (_, descs) = rx.receive();
        let frame_bytes = self.frames[0].len();
        for _ in descs.iter().filter(|desc| desc.len as usize == frame_bytes) {
            while tx.frame().is_none() {
                tx.flush();
            }
            let place = tx.frame().expect("it was there");
            place[..frame_bytes].copy_from_slice(&self.frames[self.next]);
            tx.push(frame_bytes);
            self.next = (self.next + 1) % self.frames.len();
            self.bare += 1;
        }
        if !descs.is_empty() {
            tx.flush();
        }
    }

    fn forwarded(&self) -> u64 {
        self.bare + self.plane.stats().given
    }
}

struct Stage {
    forwarder: Option<Forwarder>,
    client: Member,
    attached: ClientAttached,
    workers: Vec<(Member, MemberJoined, WorkerCounts)>,
    number: u64,
    // Kept until the sockets are gone.
    _star: rig::Star,
}

impl Stage {
    fn new(workers: usize, clock: &Clock) -> Stage {
        let star = rig::Star::new(2 + workers);
        let config = XdpConfig { resolve_wait_ms: 10_000, ..XdpConfig::default() };
        let bind = |at: usize| {
            let address = rig::any_port(rig::v4(at as u8 + 1));
            star.hosts[at].run(|| XdpIo::bind(address, &config)).expect("a fresh interface is free")
        };
        let mut io = bind(0);
        let router = io.local_address();
        let mut members: Vec<_> = (1..2 + workers).map(bind).collect();
        let addresses: Vec<_> = members.iter().map(XdpIo::local_address).collect();
        let routes: Vec<_> = members.iter_mut().map(|io| way(io, router)).collect();
        let to_members: Vec<_> = addresses.iter().map(|address| way(&mut io, *address)).collect();
        let frame = |route: &Route| io.frame(*route, &[7; REQUEST_BYTES]).expect("it fits");
        let frames = to_members[1..].iter().map(frame).collect();
        let core = Config { policy: "jbsq".parse().expect("it is one"), ..Config::default() };
        let config = PlaneConfig { core, ..PlaneConfig::default() };
        let mut plane = Plane::new(&config, 1).expect("it is right");
        let attached = plane.attach(&mut io, addresses[0]).expect("there is room");
        let mut join = |at: usize| {
            let joining = MemberJoin {
                worker: at as u16,
                address: addresses[at],
                session: 1 << 19,
                tag: 1,
                join: Join { identity: at as u64, bound: 64, weight: 100 },
                is_primary: false,
            };
            plane.join(&mut io, clock.now(), &joining).expect("there is room")
        };
        let joined: Vec<_> = (1..=workers).map(&mut join).collect();
        let forwarder = Some(Forwarder { io, plane, frames, next: 0, bare: 0 });
        let member = |(io, to_router)| Member { io, to_router };
        let mut members = members.into_iter().zip(routes).map(member);
        let client = members.next().expect("there is one");
        let counts = WorkerCounts { sequence: 0, received: 0, settled: 0, bound: 64 };
        let workers = members.zip(joined).map(|(member, joined)| (member, joined, counts));
        let workers = workers.collect();
        Stage { forwarder, client, attached, workers, number: 0, _star: star }
    }

    fn ask(&mut self, count: usize) {
        let mut bytes = Vec::with_capacity(count * REQUEST_BYTES);
        for _ in 0..count {
            self.number += 1;
            let block = RoutingBlock {
                policy: RoutePolicy::Any,
                priority: 0,
                is_claim: false,
                reply: self.client.io.local_address(),
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
            bytes.extend_from_slice(&header.to_bytes());
            bytes.extend_from_slice(&block.to_bytes());
            bytes.extend_from_slice(&[7; PAYLOAD_BYTES]);
        }
        self.client.send(&bytes, REQUEST_BYTES);
    }

    /// Waits until workers have had so many requests.
    fn until_received(&mut self, count: usize, by: By) {
        let mut received = 0;
        while received < count {
            for (member, _, counts) in &mut self.workers {
                for frame in member.io.receive().frames() {
                    // A plane that paused asks whether workers are there.
                    let is_request = frame.bytes.len() == REQUEST_BYTES;
                    received += usize::from(is_request);
                    counts.received += u32::from(by == By::Plane || !is_request);
                }
            }
        }
    }

    /// Workers say that they have settled all.
    fn tell(&mut self) {
        for (member, joined, counts) in &mut self.workers {
            counts.sequence += 1;
            counts.settled = counts.received;
            let MemberJoined { session, tag, secret, .. } = *joined;
            let told = Feedback { session, tag, secret, counts: *counts, failed: 0 };
            let bytes = told.to_bytes();
            member.send(&bytes, bytes.len());
        }
    }

    /// A train in one thread: nanoseconds in the router.
    fn train(&mut self, by: By, clock: &Clock) -> u64 {
        self.ask(TRAIN);
        let mut forwarder = self.forwarder.take().expect("it is here");
        let before = forwarder.forwarded();
        let begin = clock.now();
        while forwarder.forwarded() < before + TRAIN as u64 {
            forwarder.turn(by, clock);
        }
        let ns = clock.now().nanos_since(begin);
        self.forwarder = Some(forwarder);
        self.until_received(TRAIN, by);
        self.tell();
        ns
    }

    /// One request by way of a thread that forwards: nanoseconds from client to worker.
    fn hop(&mut self, by: By, clock: &Clock) -> u64 {
        let begin = clock.now();
        self.ask(1);
        self.until_received(1, by);
        let ns = clock.now().nanos_since(begin);
        self.tell();
        ns
    }
}

/// The route, as soon as the kernel has found the neighbour.
fn way(io: &mut XdpIo, to: SocketAddr) -> Route {
    (0..3).find_map(|_| io.route(to).ok()).expect("they reach each other")
}

fn median<T: PartialOrd + Copy>(mut of: Vec<T>) -> T {
    of.sort_by(|a, b| a.partial_cmp(b).expect("they are numbers"));
    of[of.len() / 2]
}

const BOTH: [By; 2] = [By::Plane, By::Bare];

fn rates(rounds: usize, clock: &Clock) {
    let mut stage = Stage::new(4, clock);
    let mode = stage.forwarder.as_ref().expect("it is here").io.mode();
    let (mut times, mut ratios) = ([Vec::new(), Vec::new()], Vec::new());
    for _ in 0..rounds.div_ceil(STRETCH) {
        let of = BOTH.map(|by| (0..STRETCH).map(|_| stage.train(by, clock)).sum::<u64>());
        ratios.push(of[1] as f64 / of[0] as f64);
        times.iter_mut().zip(of).for_each(|(times, ns)| times.push(ns));
    }
    let [plane, bare] = times.map(|ns| median(ns) as f64 / (STRETCH * TRAIN) as f64);
    println!("{mode:?}: a request takes {plane:.0} ns in the plane, {bare:.0} ns bare");
    println!("{mode:?}: rate of the plane: {:.2} of the bare forwarder's", median(ratios));
}

fn hops(rounds: usize, clock: &Clock) {
    let mut stage = Stage::new(1, clock);
    let mut forwarder = stage.forwarder.take().expect("it is here");
    let turn_of = AtomicU64::new(0);
    let turn_of = &turn_of;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let clock = Clock::system();
            while let Some(by) = BOTH.get(turn_of.load(Ordering::Relaxed) as usize) {
                forwarder.turn(*by, &clock);
            }
        });
        let (mut medians, mut added) = ([Vec::new(), Vec::new()], Vec::new());
        for _ in 0..rounds.div_ceil(STRETCH) {
            let of: [u64; 2] = core::array::from_fn(|at| {
                turn_of.store(at as u64, Ordering::Relaxed);
                median((0..STRETCH).map(|_| stage.hop(BOTH[at], clock)).collect())
            });
            added.push(of[0] as f64 - of[1] as f64);
            medians.iter_mut().zip(of).for_each(|(medians, ns)| medians.push(ns));
        }
        turn_of.store(2, Ordering::Relaxed);
        let [plane, bare] = medians.map(|ns| median(ns) as f64 / 1e3);
        println!("a hop: {plane:.2} us by the plane, {bare:.2} us bare (medians)");
        println!("the plane adds {:.2} us (median of pairs of stretches)", median(added) / 1e3);
    });
}

fn main() {
    if !rig::available() {
        return;
    }
    let rounds = std::env::args().nth(1).map_or(20_000, |n| n.parse().expect("a number"));
    let clock = Clock::system();
    rates(rounds, &clock);
    hops(rounds, &clock);
}
