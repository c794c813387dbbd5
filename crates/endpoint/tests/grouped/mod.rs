//! A client and workers of a group, on a virtual clock, with a router that a test plays: it gives
//! first packets to workers in turn, and keeps what they tell it.
#![allow(clippy::unwrap_used, reason = "a test helper fails its test")]
#![allow(dead_code, reason = "each test file uses its own part")]

mod sealing;

use petasos_base::Rng;
use petasos_control::{AttachGrant, Cipher, DataAddress, JoinGrant};
use petasos_endpoint::{
    CallId, CallSettings, Clock, CongestionConfig, Endpoint, EndpointConfig, GroupError, KeyLife,
    MembershipId, RouterProcess, Routing, SessionId, VirtualClock,
};
use petasos_netio::Ecn;
use petasos_netio::memory::{Captured, Hub, MemoryConfig, MemoryIo};
use petasos_seal::End;
use petasos_seal::group::Link;
use petasos_wire::{
    Feedback, Given, Group, Header, Kind, Packet, Probe, RejectCode, RoutedPacket, WorkerBlock,
    WorkerCounts,
};

use crate::joined::{Client, Server, keep, register};
pub use sealing::{epoch_of_client, epoch_of_workers};

pub const PAYLOAD: usize = 1024;
/// What a full packet with its routing block takes (RT8).
const DATAGRAM: usize = PAYLOAD + 64;
/// The tag at the end of a sealed one.
const SEAL: usize = 16;
/// The client's number and tag at the router.
const CLIENT: u32 = 5;
const CLIENT_TAG: u32 = 0x0abc_d123;

/// Runs at once, and may be repeated.
pub const WHOLE: Routing = Routing {
    policy: petasos_endpoint::RoutePolicy::Any,
    priority: 0,
    key_hash: 0,
    is_idempotent: true,
};

/// Runs at most once.
pub const ONCE: Routing = Routing {
    policy: petasos_endpoint::RoutePolicy::Any,
    priority: 0,
    key_hash: 0,
    is_idempotent: false,
};

/// A worker as the router knows it.
pub struct Member {
    pub endpoint: Endpoint<Server>,
    pub id: MembershipId,
    /// The router's index and tag there.
    pub session: u32,
    pub tag: u32,
    port: u32,
    pub given: u32,
    pub told: Option<WorkerCounts>,
    /// What it has told of failures.
    pub failed: u64,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Arrives,
    IsLost,
    ArrivesTwice,
}

pub struct Grouped {
    pub hub: Hub,
    pub time: VirtualClock,
    pub client: Endpoint<Client>,
    pub members: Vec<Member>,
    pub session: SessionId,
    pub client_port: u32,
    router_port: u32,
    /// The member that is given the next request.
    pub next: usize,
    /// Each first packet is given to every member, as no router should.
    pub gives_to_all: bool,
    /// `None` in a group in plaintext.
    cipher: Option<Cipher>,
    /// What seals the router's rejections, in epoch 3.
    own_link: Option<Link>,
    rejections: u32,
    /// Rejects first packets with this code instead of giving them.
    pub rejects: Option<RejectCode>,
    /// What a worker was given last.
    given: Option<Vec<u8>>,
    /// Packets so far.
    pub packets: usize,
    /// The kinds of all packets.
    pub kinds: Vec<Kind>,
}

fn address(port: u32) -> DataAddress {
    let address = MemoryIo::address(port);
    DataAddress::udp(address.port(), Some(address.ip()))
}

fn grant(router_port: u32, payload_bytes: u16, cipher: Option<Cipher>) -> AttachGrant {
    AttachGrant {
        client: CLIENT,
        tag: CLIENT_TAG,
        payload_bytes,
        asked_max: 256,
        has_no_window: false,
        cipher,
        epoch: epoch_of_client(3, cipher),
        address: address(router_port),
    }
}

impl Grouped {
    pub fn new(workers: usize) -> Grouped {
        Grouped::with(workers, |_| {}, |_| {})
    }

    pub fn with(
        workers: usize,
        client: impl Fn(&mut EndpointConfig),
        worker: impl Fn(&mut EndpointConfig),
    ) -> Grouped {
        Grouped::of(workers, client, worker, None)
    }

    fn of(
        workers: usize,
        client: impl Fn(&mut EndpointConfig),
        worker: impl Fn(&mut EndpointConfig),
        cipher: Option<Cipher>,
    ) -> Grouped {
        let datagram_bytes_max = DATAGRAM + if cipher.is_some() { SEAL } else { 0 };
        let memory = MemoryConfig { datagram_bytes_max, ..MemoryConfig::default() };
        let (hub, time) = (Hub::captured(memory), VirtualClock::default());
        // A turn takes longer than the targets of congestion control for this packet I/O.
        let congestion = Some(CongestionConfig::none());
        let config =
            |seed| EndpointConfig { seed: Some(seed), congestion, ..EndpointConfig::default() };
        let clock = Clock::Virtual(time.clone());
        let (router, port) = (hub.port(), hub.port());
        let (router_port, client_port) = (router.number(), port.number());
        let mut client_config = config(7);
        client(&mut client_config);
        let mut client = Endpoint::new(client_config, port, clock.clone(), Client::default());
        let grant = grant(router_port, PAYLOAD as u16, cipher);
        let (own, router) = (client.local_address(), MemoryIo::address(router_port).ip());
        let session = client.attach_group(&grant, own, router).unwrap();
        let mut this = Grouped {
            hub,
            time,
            client,
            members: Vec::new(),
            session,
            client_port,
            router_port,
            next: 0,
            gives_to_all: false,
            cipher,
            own_link: cipher.map(|cipher| {
                let secret = sealing::secret(3, cipher).client(CLIENT);
                Link::new(&secret, 0, End::Server, KeyLife::default())
            }),
            rejections: 0,
            rejects: None,
            given: None,
            packets: 0,
            kinds: Vec::new(),
        };
        for _ in 0..workers {
            let mut of = config(100 + this.members.len() as u64);
            worker(&mut of);
            this.join(of);
        }
        this
    }

    /// One more worker joins, and the client is told of it.
    fn join(&mut self, config: EndpointConfig) {
        let (port, at) = (self.hub.port(), self.members.len());
        let (number, clock) = (port.number(), Clock::Virtual(self.time.clone()));
        let mut endpoint = Endpoint::new(config, port, clock, Server::default());
        register(&mut endpoint);
        endpoint.on_abandoned(|server, _, key| server.abandoned.push(key));
        let (offer, worker) = (endpoint.offer_membership().unwrap(), MemoryIo::address(number));
        let (session, tag) = (offer.session, offer.tag);
        let (id, given, told, failed) = (offer.id, 0, None, 0);
        let port = number;
        self.members.push(Member { endpoint, id, session, tag, port, given, told, failed });
        self.grant(at, 3, 1).unwrap();
        self.client.set_group_member(self.session, at as u16 + 1, worker).unwrap();
    }

    /// Grants a worker the membership that it has been offered, and tells it of the client.
    fn grant(&mut self, at: usize, epoch: u16, incarnation: u64) -> Result<(), GroupError> {
        let grant = JoinGrant {
            worker: at as u16 + 1,
            session: 40 + at as u32,
            tag: 0x0400_0000 + at as u32,
            secret: 77,
            payload_bytes: PAYLOAD as u16,
            clients_max: 16,
            beat_us: 20_000,
            hole_us: 2_000,
            claim_us: 20_000,
            cipher: self.cipher,
            epoch: epoch_of_workers(epoch, self.cipher),
            source: address(self.router_port),
            feedback: address(self.router_port),
        };
        let router = RouterProcess { ip: MemoryIo::address(self.router_port).ip(), incarnation };
        let Member { endpoint, id, .. } = &mut self.members[at];
        endpoint.join_group(*id, &grant, 16, router)?;
        endpoint.set_group_client(*id, CLIENT, None)
    }

    /// The client attaches once more, and is told of all workers.
    pub fn attach_again(&mut self, payload_bytes: u16) -> SessionId {
        let (own, router) = (self.client.local_address(), MemoryIo::address(self.router_port).ip());
        let grant = grant(self.router_port, payload_bytes, self.cipher);
        let session = self.client.attach_group(&grant, own, router).unwrap();
        for (member, worker) in self.members.iter().zip(1..) {
            let at = MemoryIo::address(member.port);
            self.client.set_group_member(session, worker, at).unwrap();
        }
        session
    }

    /// Starts a call on a buffer of the client's pool.
    pub fn call(&mut self, method: u16, request: &[u8], tag: u64, routing: Routing) -> CallId {
        self.call_with(method, request, tag, routing, &CallSettings::default())
    }

    pub fn call_with(
        &mut self,
        method: u16,
        request: &[u8],
        tag: u64,
        routing: Routing,
        settings: &CallSettings,
    ) -> CallId {
        let session = self.session;
        let cx = self.client.context();
        let mut buf = cx.alloc(request.len()).unwrap();
        buf.copy_from_slice(request);
        cx.enqueue_routed(session, method, buf, keep, tag, settings, routing).unwrap()
    }

    /// Turns all loops for `ms` milliseconds, ten turns each, and carries their packets.
    pub fn run_ms(&mut self, ms: u64) {
        self.run_with(ms, |_, _| Fate::Arrives);
    }

    /// The same, with a say in what becomes of each packet, by its number and kind.
    pub fn run_with(&mut self, ms: u64, mut fate: impl FnMut(usize, Kind) -> Fate) {
        for _ in 0..ms * 10 {
            self.turn(&mut fate);
        }
    }

    /// The same, with altered copies of some packets before them.
    pub fn run_altered(&mut self, ms: u64, rng: &mut Rng) {
        for _ in 0..ms * 10 {
            for packet in self.turn_loops() {
                if rng.below(4) == 0 {
                    let mut bytes = packet.bytes.clone();
                    for _ in 0..1 + rng.below(3) {
                        let at = rng.below(bytes.len().min(80) as u64) as usize;
                        bytes[at] ^= 1 << rng.below(8);
                    }
                    let cut = rng.below(3) == 0;
                    bytes.truncate(if cut { 1 + rng.below(80) as usize } else { bytes.len() });
                    let to = if packet.to == self.router_port { 2 } else { packet.to };
                    self.hub.deliver(to, &bytes, Ecn::NotCapable);
                }
                self.carry(&packet);
            }
        }
    }

    /// Turns all loops once, lets `between` do something, and then carries what they have sent.
    pub fn run_between(&mut self, between: impl FnOnce(&mut Grouped)) {
        let mut packets = self.turn_loops();
        between(self);
        self.hub.take_captured(&mut packets);
        packets.iter().for_each(|packet| self.carry(packet));
    }

    /// Turns all loops once, and shows what is given to workers or goes elsewhere.
    pub fn run_seen(&mut self, turns: u64, mut see: impl FnMut(bool, &[u8])) {
        for _ in 0..turns * 4 {
            for packet in self.turn_loops() {
                self.carry(&packet);
                if let Some(given) = self.given.take() {
                    see(true, &given);
                } else {
                    see(false, &packet.bytes);
                }
            }
        }
    }

    /// Turns all loops `turns` times, a tenth of a millisecond apart.
    pub fn run(&mut self, turns: u64) {
        for _ in 0..turns {
            self.turn(&mut |_, _| Fate::Arrives);
        }
    }

    /// Turns all loops, a tenth of a millisecond later. What they have sent.
    fn turn_loops(&mut self) -> Vec<Captured> {
        self.time.set(self.time.now().plus_nanos(100_000));
        self.client.run_once();
        self.members.iter_mut().for_each(|member| _ = member.endpoint.run_once());
        let mut packets = Vec::new();
        self.hub.take_captured(&mut packets);
        packets
    }

    fn turn(&mut self, fate: &mut impl FnMut(usize, Kind) -> Fate) {
        for packet in self.turn_loops() {
            let kind = Packet::parse(&packet.bytes).unwrap().kind();
            self.packets += 1;
            self.kinds.push(kind);
            let times = match fate(self.packets - 1, kind) {
                Fate::Arrives => 1,
                Fate::IsLost => 0,
                Fate::ArrivesTwice => 2,
            };
            (0..times).for_each(|_| self.carry(&packet));
        }
    }

    fn carry(&mut self, packet: &Captured) {
        if packet.to != self.router_port {
            self.hub.deliver(packet.to, &packet.bytes, Ecn::NotCapable);
            return;
        }
        let parsed = Packet::parse(&packet.bytes).unwrap();
        if let Ok(Feedback { session, tag, secret, counts, failed }) = Feedback::of(parsed) {
            let member = &mut self.members[session as usize - 40];
            assert_eq!((tag, secret), (0x0400_0000 + session - 40, 77), "as was granted");
            member.told = Some(counts);
            member.failed += u64::from(failed);
            return;
        }
        let is_sealed = self.cipher.is_some();
        let group = Group { payload_bytes: PAYLOAD as u32, is_sealed };
        let first =
            RoutedPacket::from_client(parsed, group).expect("the client keeps to the rules");
        assert_eq!((first.client(), parsed.tag()), (CLIENT, CLIENT_TAG));
        assert_eq!(first.reply(), MemoryIo::address(self.client_port), "RT26");
        match self.rejects {
            Some(code) => self.reject(&first, code),
            None => self.give(packet.bytes.clone(), &first),
        }
    }

    /// Gives a first packet to the next worker, or to all.
    fn give(&mut self, bytes: Vec<u8>, first: &RoutedPacket<'_>) {
        let at = self.next % self.members.len();
        self.next += 1;
        let all = if self.gives_to_all { 0..self.members.len() } else { at..at + 1 };
        all.for_each(|at| self.give_to(at, bytes.clone(), first));
    }

    fn give_to(&mut self, at: usize, mut bytes: Vec<u8>, first: &RoutedPacket<'_>) {
        let member = &mut self.members[at];
        member.given += 1;
        let given = Given {
            session: member.session,
            tag: member.tag,
            number: member.given,
            lifetime_us: first.lifetime_us(),
        };
        given.write_to(bytes.first_chunk_mut().unwrap());
        self.given = Some(bytes.clone());
        self.hub.deliver(member.port, &bytes, Ecn::NotCapable);
    }

    /// Asks a worker for feedback (RT22).
    pub fn probe(&mut self, at: usize) {
        let member = &mut self.members[at];
        member.given += 1;
        let Member { session, tag, given, .. } = *member;
        let probe = Probe { session, tag, number: given };
        self.hub.deliver(member.port, &probe.to_bytes(), Ecn::NotCapable);
    }

    fn reject(&mut self, first: &RoutedPacket<'_>, code: RejectCode) {
        let header = Header::for_session(first.pair(), first.pair_tag())
            .with_request(Kind::Reject, first.header().request(), 0)
            .with_server(first.header().transmission(), code as u32, 0);
        let block = WorkerBlock { session: 0, tag: 0, worker: WorkerBlock::ROUTER };
        let Some(link) = &mut self.own_link else {
            let bytes = [&header.to_bytes()[..], &block.to_bytes()].concat();
            return self.deliver_to_client(&bytes);
        };
        self.rejections += 1;
        let header = header.with_checksum().with_transmission(self.rejections);
        let mut bytes = [&header.to_bytes()[..], &block.to_bytes(), &[0; SEAL]].concat();
        let sealer = &mut link.half().unwrap().sealer;
        sealer.seal_behind(&mut bytes, block.to_bytes().len()).unwrap();
        self.deliver_to_client(&bytes);
    }

    /// Puts a packet into the client's inbox, or a worker's.
    pub fn deliver_to_client(&self, bytes: &[u8]) {
        self.hub.deliver(self.client_port, bytes, Ecn::NotCapable);
    }

    pub fn deliver_to_worker(&self, at: usize, bytes: &[u8]) {
        self.hub.deliver(self.members[at].port, bytes, Ecn::NotCapable);
    }

    /// How many requests all workers have run.
    pub fn handled(&self) -> u64 {
        self.members.iter().map(|member| member.endpoint.state().handled).sum()
    }

    /// Fails unless all that was given is settled, and nothing is kept anywhere.
    pub fn assert_quiet(&mut self) {
        assert_eq!(self.client.unfinished(), (0, 0), "calls have ended");
        for at in 0..self.members.len() {
            self.probe(at);
        }
        self.run_ms(10);
        for member in &self.members {
            assert_eq!(member.endpoint.unfinished(), (0, 0));
            let told = member.told.expect("a probe is answered");
            assert_eq!((told.settled, told.received), (member.given, member.given));
            assert_eq!(member.endpoint.memory().pool.lent_bytes, 0, "no buffer is left");
            let stats = member.endpoint.stats();
            assert_eq!(stats.io.tx_errors, 0, "RT8: every packet fits");
        }
        assert_eq!(self.client.stats().io.tx_errors, 0, "RT8: every packet fits");
        assert_eq!(self.client.memory().pool.lent_bytes, 0, "no buffer is left");
    }

    /// The one outcome with `tag`.
    pub fn outcome(&self, tag: u64) -> &Result<Vec<u8>, petasos_endpoint::CallError> {
        self.client.state().outcome(tag)
    }

    pub fn is_over(&self, tag: u64) -> bool {
        self.client.state().is_over(tag)
    }
}
