//! Who is believed in a group: answers come from members, first packets from the router, and what
//! follows from the client (RT10, RT16, RT26), whatever names a stranger knows. One end is real,
//! the others are sockets of the test.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use petasos_control::{AttachGrant, DataAddress, Epoch, JoinGrant};
use petasos_endpoint::{
    CallError, Clock, Endpoint, EndpointConfig, MsgBuf, RejectCode, RouterProcess, SessionId,
};
use petasos_netio_udp::{UdpConfig, UdpIo};
use petasos_wire::{
    Given, Group, Header, Kind, Packet, Ready, RoutedPacket, RoutingBlock, WorkerBlock,
};

use crate::common::*;

const PAYLOAD: u16 = 1024;
const GROUP: Group = Group { payload_bytes: PAYLOAD as u32, is_sealed: false };
const CLIENT: u32 = 5;

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind((localhost(), 0)).expect("loopback has ports");
    socket.set_read_timeout(Some(PATIENCE)).expect("it is a socket");
    socket
}

fn address(socket: &UdpSocket) -> SocketAddr {
    socket.local_addr().expect("it is bound")
}

fn data(socket: &UdpSocket) -> DataAddress {
    DataAddress::udp(address(socket).port(), None)
}

fn epoch() -> Epoch {
    Epoch { number: 0, binds_anew: false, secret: None }
}

fn endpoint<S>(state: S) -> Endpoint<S> {
    let io = UdpIo::bind(SocketAddr::new(localhost(), 0), UdpConfig::default());
    let io = io.expect("loopback has ports");
    Endpoint::new(EndpointConfig::default(), io, Clock::system(), state)
}

fn received(socket: &UdpSocket) -> Vec<u8> {
    let mut bytes = [0; 2048];
    let (len, _) = socket.recv_from(&mut bytes).expect("it comes");
    bytes[..len].to_vec()
}

/// Turns a loop until it has received one more packet than before.
fn hears<S>(endpoint: &mut Endpoint<S>) {
    let before = endpoint.stats().io.rx_frames;
    let clock = Clock::system();
    let end = clock.now() + PATIENCE;
    while endpoint.stats().io.rx_frames == before {
        endpoint.run_once();
        assert!(clock.now() < end, "it comes");
    }
    endpoint.run_once();
}

/// A client with two workers in its roster.
struct Asking {
    client: Endpoint<Outcomes>,
    session: SessionId,
    router: UdpSocket,
    workers: [UdpSocket; 2],
    stranger: UdpSocket,
}

impl Asking {
    fn new() -> Asking {
        let (router, workers, stranger) = (socket(), [socket(), socket()], socket());
        let mut client = endpoint(Outcomes::default());
        let grant = AttachGrant {
            client: CLIENT,
            tag: 77,
            payload_bytes: PAYLOAD,
            asked_max: 16,
            has_no_window: false,
            cipher: None,
            epoch: epoch(),
            address: data(&router),
        };
        let reply = client.local_address();
        let session = client.attach_group(&grant, reply, localhost()).expect("it is reached");
        for (at, worker) in workers.iter().enumerate() {
            let told = client.set_group_member(session, at as u16 + 1, address(worker));
            told.expect("it is reached");
        }
        Asking { client, session, router, workers, stranger }
    }

    /// Begins a call that only asks. What an answer of `worker` is: a ready that names a session.
    fn ask(&mut self, worker: u16) -> Vec<u8> {
        let cx = self.client.context();
        let request = MsgBuf::from_slice(b"hello");
        cx.enqueue_request(self.session, ECHO, request, collect, 1).expect("it is attached");
        self.client.run_once();
        let bytes = received(&self.router);
        let packet = Packet::parse(&bytes).expect("it is a packet");
        let first = RoutedPacket::from_client(packet, GROUP).expect("it is a first packet");
        let block = WorkerBlock { session: 1 << 19, tag: 9, worker };
        let ready = Header::for_session(first.pair(), first.pair_tag())
            .with_request(Kind::Ready, packet.request(), 0)
            .with_server(packet.transmission(), 0, 8);
        [&ready.to_bytes()[..], &block.to_bytes()].concat()
    }

    fn tell(&mut self, from: fn(&Asking) -> &UdpSocket, bytes: &[u8]) {
        let to = self.client.local_address();
        from(self).send_to(bytes, to).expect("loopback takes it");
        hears(&mut self.client);
    }

    fn counts(&self) -> (u64, u64, u64) {
        let stats = self.client.stats();
        (stats.event_loop.wrong_origin, stats.pairs.from_elsewhere, stats.pairs.bound)
    }
}

#[test]
fn a_client_hears_members_at_their_addresses_only() {
    let _watchdog = watchdog("a client of a group");
    let mut world = Asking::new();
    let ready = world.ask(1);
    world.tell(|it| &it.stranger, &ready);
    assert_eq!(world.counts(), (1, 0, 0), "a stranger that knows the tag");
    world.tell(|it| &it.workers[1], &ready);
    assert_eq!(world.counts(), (2, 0, 0), "a member under another's number");
    world.tell(|it| &it.router, &ready);
    assert_eq!(world.counts(), (3, 0, 0), "the router under a member's number");
    world.tell(|it| &it.workers[0], &ready);
    assert_eq!(world.counts(), (3, 0, 1));
    let request = received(&world.workers[0]);
    let request = Packet::parse(&request).expect("it is a packet");
    assert_eq!((request.kind(), request.session(), request.tag()), (Kind::Request, 1 << 19, 9));
    assert_eq!(request.payload(), b"hello");
    // Bound: the same, for packets of the session, with a block and without.
    let pair = Packet::parse(&ready).expect("it is a packet");
    let response = Header::for_session(pair.session(), pair.tag())
        .with_request(Kind::Response, pair.request(), 1)
        .with_server(request.transmission(), 4, 8);
    let block = WorkerBlock { session: 1 << 19, tag: 9, worker: 1 };
    let response = [&response.to_bytes()[..], &block.to_bytes(), b"evil"].concat();
    let ack = Header::for_session(pair.session(), pair.tag())
        .with_request(Kind::Ack, pair.request(), 1)
        .with_server(request.transmission(), 1, 8);
    world.tell(|it| &it.stranger, &response);
    world.tell(|it| &it.workers[1], &response);
    world.tell(|it| &it.stranger, &ack.to_bytes());
    assert_eq!(world.counts().0, 6);
    assert!(world.client.state().list.is_empty());
    world.tell(|it| &it.workers[0], &response);
    assert_eq!(world.client.state().list, [(1, Ok(b"evil".to_vec()))]);
}

/// That nobody takes what was answered by `ready`, as who has this number says it.
fn rejection(ready: &[u8], worker: u16) -> Vec<u8> {
    let packet = Packet::parse(ready).expect("it is a packet");
    let header = Header::for_session(packet.session(), packet.tag())
        .with_request(Kind::Reject, packet.request(), 0)
        .with_server(packet.echo(), RejectCode::NoWorker as u32, 0);
    let block = WorkerBlock { session: 0, tag: 0, worker };
    [&header.to_bytes()[..], &block.to_bytes()].concat()
}

#[test]
fn a_client_believes_rejections_of_the_router_and_of_members_as_themselves_only() {
    let _watchdog = watchdog("a client that is rejected");
    let mut world = Asking::new();
    let ready = world.ask(1);
    let [of_router, of_one] = [WorkerBlock::ROUTER, 1].map(|number| rejection(&ready, number));
    for forged in [&of_router, &of_one] {
        world.tell(|it| &it.stranger, forged);
        world.tell(|it| &it.workers[1], forged);
    }
    world.tell(|it| &it.workers[0], &of_router);
    world.tell(|it| &it.router, &of_one);
    assert_eq!(world.counts(), (6, 0, 0));
    assert!(world.client.state().list.is_empty());
    world.tell(|it| &it.router, &of_router);
    assert_eq!(world.client.state().list, [(1, Err(CallError::NoWorker))]);
}

/// A worker of a router.
struct Working {
    worker: Endpoint<usize>,
    /// The router's index and tag at the worker.
    named: (u32, u32),
    router: UdpSocket,
    client: UdpSocket,
    stranger: UdpSocket,
    given: u32,
}

impl Working {
    fn new() -> Working {
        let (router, client, stranger) = (socket(), socket(), socket());
        let mut worker = endpoint(0);
        worker.register(ECHO, |count, cx, request| {
            *count += 1;
            echo(count, cx, request);
        });
        let offer = worker.offer_membership().expect("there is room");
        let grant = JoinGrant {
            worker: 1,
            session: 3,
            tag: 4,
            secret: 5,
            payload_bytes: PAYLOAD,
            clients_max: 4,
            beat_us: 1_000_000,
            hole_us: 2_000,
            claim_us: 60_000_000,
            cipher: None,
            epoch: epoch(),
            source: data(&router),
            feedback: data(&router),
        };
        let router_process = RouterProcess { ip: localhost(), incarnation: 1 };
        worker.join_group(offer.id, &grant, 4, router_process).expect("it is reached");
        worker.set_group_client(offer.id, CLIENT, None).expect("there is room");
        let named = (offer.session, offer.tag);
        Working { worker, named, router, client, stranger, given: 0 }
    }

    /// A claim as the router gives it.
    fn claim(&mut self) -> Vec<u8> {
        self.given += 1;
        let block = RoutingBlock {
            policy: Default::default(),
            priority: 0,
            is_claim: true,
            reply: address(&self.client),
            client: CLIENT,
            epoch: 0,
            pair: 1 << 19,
            pair_tag: 6,
            number: u64::from(self.given),
            lifetime_us: None,
            key_hash: 0,
        };
        let header = Header::for_session(CLIENT, 77)
            .with_request(Kind::Routed, 0, block.transmission())
            .with_client(0, 5, ECHO);
        let mut bytes = [&header.to_bytes()[..], &block.to_bytes(), b"hello"].concat();
        let (session, tag) = self.named;
        let given = Given { session, tag, number: self.given, lifetime_us: None };
        given.write_to(bytes.first_chunk_mut().expect("it has header and block"));
        bytes
    }

    fn tell(&mut self, from: fn(&Working) -> &UdpSocket, bytes: &[u8]) {
        let to = self.worker.local_address();
        from(self).send_to(bytes, to).expect("loopback takes it");
        hears(&mut self.worker);
    }

    fn counts(&self) -> (u64, u64, usize) {
        let stats = self.worker.stats();
        (stats.event_loop.wrong_origin, stats.taken.claims, *self.worker.state())
    }
}

#[test]
fn a_worker_hears_its_router_and_then_the_client_only() {
    let _watchdog = watchdog("a worker of a group");
    let mut world = Working::new();
    let claim = world.claim();
    world.tell(|it| &it.stranger, &claim);
    world.tell(|it| &it.client, &claim);
    assert_eq!(world.counts(), (2, 0, 0), "they know index and tag");
    world.tell(|it| &it.router, &claim);
    assert_eq!(world.counts(), (2, 1, 0));
    let ready = received(&world.client);
    let ready = Ready::of(Packet::parse(&ready).expect("it is a packet")).expect("it is a ready");
    assert!(!ready.is_running);
    let WorkerBlock { session, tag, worker } = ready.block;
    assert_eq!((session >> 19, worker), (1, 1), "RT10: bit 19 is set");
    let packet = |kind| Header::for_session(session, tag).with_request(kind, 0, 1);
    let request = packet(Kind::Request).with_client(0, 5, ECHO);
    let request = [&request.to_bytes()[..], b"hello"].concat();
    for kind in [Kind::Cancel, Kind::Done] {
        world.tell(|it| &it.stranger, &packet(kind).to_bytes());
    }
    world.tell(|it| &it.stranger, &request);
    world.tell(|it| &it.router, &request);
    assert_eq!(world.counts(), (6, 1, 0), "the request has not run");
    world.tell(|it| &it.client, &request);
    assert_eq!(world.counts(), (6, 1, 1));
    let mut kinds = Vec::new();
    world.client.set_read_timeout(Some(Duration::from_millis(100))).expect("it is a socket");
    let mut bytes = [0; 2048];
    while let Ok((len, _)) = world.client.recv_from(&mut bytes) {
        let packet = Packet::parse(&bytes[..len]).expect("it is a packet");
        kinds.push(packet.kind());
    }
    assert_eq!(kinds.last(), Some(&Kind::Response), "{kinds:?}");
}
