//! The program and the plane in Rust do the same with the same packets: whole, altered, cut and
//! repeated ones, in any order. With one worker, since of several the two draw different ones.

use std::net::{SocketAddr, SocketAddrV4};

use petasos_base::{Rng, Time};
use petasos_netio::memory::{Hub, MemoryConfig, MemoryIo};
use petasos_netio::{PacketIo, Route};
use petasos_router::{Config, Join};
use petasos_router_plane::{MemberJoin, MemberJoined, Plane, PlaneConfig};
use petasos_router_xdp::{PlaceNames, ProgramConfig, RouterProgram};
use petasos_wire::{
    FIRST_BYTES, Feedback, Given, Group, Header, Kind, Packet, RoutePolicy, RoutedPacket,
    RoutingBlock, WorkerCounts,
};

use crate::rig::{Became, PAYLOAD, Rig, config, rig};

const BOUND: u16 = 3;
/// The worker's index and tag for the router.
const NAMED: (u32, u32) = ((1 << 19) + 5, 0x00ab_cdef);
const SEEDS: u64 = 30;
const STEPS: u32 = 300;

struct Both {
    rig: Rig,
    plane: Plane,
    now: Time,
    router: MemoryIo,
    client: MemoryIo,
    worker: MemoryIo,
    to_router: [Route; 2],
    attached: petasos_router_plane::ClientAttached,
    joined: MemberJoined,
    told: WorkerCounts,
    next: u64,
    sent: Vec<Vec<u8>>,
}

fn v4(io: &MemoryIo) -> SocketAddrV4 {
    match io.local_address() {
        SocketAddr::V4(address) => address,
        SocketAddr::V6(_) => panic!("ports in memory have IPv4 addresses"),
    }
}

fn both() -> Option<Both> {
    let hub = Hub::direct(MemoryConfig::default());
    let [mut router, mut client, mut worker] = [hub.port(), hub.port(), hub.port()];
    let address = router.local_address();
    let to_router = [&mut client, &mut worker].map(|io| io.route(address).expect("it is there"));
    let core = Config {
        policy: format!("jbsq{BOUND}").parse().expect("it is a policy"),
        waiting_max: 128,
        waiting_age_max: None,
        liveness: None,
        ..Config::default()
    };
    let plane_config = PlaneConfig { core, payload_bytes: PAYLOAD, ..PlaneConfig::default() };
    let mut plane = Plane::new(&plane_config, 1).expect("it is right");
    let now = Time::from_nanos(1_000_000_000);
    let attached = plane.attach(&mut router, client.local_address()).expect("there is room");
    let joining = MemberJoin {
        worker: 1,
        address: worker.local_address(),
        session: NAMED.0,
        tag: NAMED.1,
        join: Join { identity: 1, bound: BOUND, weight: 100 },
        is_primary: false,
    };
    let joined = plane.join(&mut router, now, &joining).expect("there is room");
    let config = ProgramConfig { address: v4(&router), parked_max: 32, ..config() };
    let rig = rig(config)?;
    rig.program.attach_client(attached.client, attached.tag, v4(&client));
    rig.program.begin_place(0, BOUND);
    let (own_tag, secret) = (joined.tag, joined.secret);
    let names = PlaceNames { address: v4(&worker), named: NAMED, own_tag, secret };
    rig.program.name_place(0, &names);
    rig.program.set_limit(0, BOUND, 100);
    let told = WorkerCounts { sequence: 0, received: 0, settled: 0, bound: BOUND };
    let (sent, next) = (Vec::new(), 1);
    let mut both = Both {
        rig,
        plane,
        now,
        router,
        client,
        worker,
        to_router,
        attached,
        joined,
        told,
        next,
        sent,
    };
    // So that the program knows where the worker is.
    let feedback = both.feedback(0);
    both.deliver(true, &feedback);
    Some(both)
}

impl Both {
    fn first(&mut self, rng: &mut Rng) -> Vec<u8> {
        let bytes = [0, 8, 64, 200, PAYLOAD as usize][rng.below(5) as usize];
        let block = RoutingBlock {
            policy: RoutePolicy::Any,
            priority: 0,
            is_claim: rng.below(4) == 0,
            reply: self.client.local_address(),
            client: self.attached.client,
            epoch: 0,
            pair: (1 << 19) + 7,
            pair_tag: 77,
            number: self.next,
            lifetime_us: None,
            key_hash: 0,
        };
        self.next += 1 + rng.below(3);
        let header = Header::for_session(block.client, self.attached.tag)
            .with_request(Kind::Routed, rng.below(1 << 40), block.transmission())
            .with_client(0, bytes as u32, 5);
        [&header.to_bytes()[..], &block.to_bytes(), &vec![3; bytes]].concat()
    }

    fn feedback(&mut self, settled: u32) -> Vec<u8> {
        self.told.sequence += 1;
        self.told.settled += settled;
        self.told.received = self.rig.program.counts(0).given as u32;
        let MemberJoined { session, tag, secret, .. } = self.joined;
        Feedback { session, tag, secret, counts: self.told, failed: 0 }.to_bytes().to_vec()
    }

    /// Gives both a datagram, and compares what they do.
    fn deliver(&mut self, of_worker: bool, datagram: &[u8]) {
        let source = if of_worker { v4(&self.worker) } else { v4(&self.client) };
        let (by_program, is_passed) = self.program_sends(source, datagram);
        // The program leaves policies, priorities and failures to the plane.
        let is_plain = match of_worker {
            true => datagram.get(18).is_none_or(|byte| byte >> 4 == 0),
            false => datagram.get(24).is_none_or(|byte| *byte == 0),
        };
        if !is_plain {
            assert!(is_passed);
            return;
        }
        let io = if of_worker { &mut self.worker } else { &mut self.client };
        let route = self.to_router[usize::from(of_worker)];
        assert_eq!(io.transmit_train(route, datagram, datagram.len()), 1);
        self.now = self.now.plus_nanos(1000);
        self.plane.turn(&mut self.router, self.now);
        let by_plane: Vec<_> =
            self.worker.receive().frames().map(|frame| without(frame.bytes)).collect();
        assert_eq!(by_program, by_plane, "after {datagram:x?}");
        let rejected = self.client.receive().frames().count();
        if rejected > 0 {
            // The process has taken the number, as it would in the program's window.
            assert!(is_passed);
            let packet = Packet::parse(datagram).expect("it was rejected");
            let group = Group { payload_bytes: PAYLOAD, is_sealed: false };
            let first = RoutedPacket::from_client(packet, group).expect("it was rejected");
            assert_eq!(self.rig.program.take_number(first.client(), first.number()), Some(true));
        }
        let account = self.plane.worker(self.joined.id).expect("it is there").account;
        let counts = self.rig.program.counts(0);
        let heard = (counts.given, u64::from(counts.told.settled), u64::from(counts.told.received));
        assert_eq!(heard, (account.given(), account.settled(), account.received()));
        let waits = self.plane.waiting() as u64;
        assert_eq!(self.rig.program.parked(), waits, "after {datagram:x?}");
        assert!(account.outstanding() <= BOUND.into());
        self.sent.push(datagram.to_vec());
    }

    /// What the program sends to the worker, and what the process adds to it; and whether it has
    /// passed the datagram on.
    fn program_sends(&mut self, source: SocketAddrV4, datagram: &[u8]) -> (Vec<Vec<u8>>, bool) {
        let mut all = Vec::new();
        let became = self.rig.run(&self.rig.frame(source, datagram));
        if let Became::Sent(to, bytes) = &became {
            assert_eq!(*to, v4(&self.worker));
            all.push(without(bytes));
        }
        let program: &RouterProgram = &self.rig.program;
        while became == Became::Passed && program.parked() > 0 {
            let Some(number) = program.take_slot(0) else { break };
            let parked = program.take_parked().expect("the kernel gives it");
            let mut bytes = parked.expect("it waits").bytes;
            let (session, tag) = NAMED;
            let given = Given { session, tag, number: number as u32, lifetime_us: None };
            given.write_to(bytes.first_chunk_mut::<FIRST_BYTES>().expect("it has a block"));
            all.push(without(&bytes));
        }
        (all, became == Became::Passed)
    }
}

/// A packet without its time left, which depends on the clock.
fn without(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[56..60].fill(0);
    bytes
}

fn altered(mut datagram: Vec<u8>, rng: &mut Rng) -> Vec<u8> {
    match rng.below(8) {
        0 => datagram.truncate(rng.below(datagram.len() as u64 + 1) as usize),
        1 => datagram.resize(datagram.len() + rng.below(40) as usize, 1),
        _ => {
            for _ in 0..=rng.below(3) {
                let bit = rng.below(datagram.len().min(FIRST_BYTES) as u64 * 8) as usize;
                datagram[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }
    datagram
}

/// What the process would do about all that waits, the program alone does not.
fn drains(datagram: &[u8]) -> bool {
    let told = Packet::parse(datagram).ok().and_then(|packet| Feedback::of(packet).ok());
    told.is_some_and(|told| told.counts.bound == 0)
}

#[test]
fn the_program_does_what_the_plane_does() {
    let mut done = [0; 3];
    for seed in 0..SEEDS {
        let Some(mut both) = both() else { return };
        let mut rng = Rng::new(seed);
        for _ in 0..STEPS {
            let outstanding = both.rig.program.counts(0);
            let unsettled = outstanding.given - u64::from(both.told.settled);
            let of_worker = rng.below(100) < 45 || both.rig.program.parked() > 30;
            let settled = u32::from(unsettled > 0 && rng.below(4) > 0);
            let fresh = if of_worker { both.feedback(settled) } else { both.first(&mut rng) };
            let datagram = match rng.below(10) {
                0 | 1 => altered(fresh, &mut rng),
                2 if !both.sent.is_empty() => {
                    let at = rng.below(both.sent.len() as u64) as usize;
                    both.sent[at].clone()
                }
                _ => fresh,
            };
            let is_left_out = datagram.is_empty() || of_worker && drains(&datagram);
            if !is_left_out {
                both.deliver(of_worker, &datagram);
            }
        }
        let stats = both.rig.program.stats();
        let more = [stats.given, stats.unparked, stats.feedback];
        done.iter_mut().zip(more).for_each(|(done, more)| *done += more);
    }
    assert!(done.iter().all(|done| *done > 10 * SEEDS), "{done:?}");
}
