//! Rings that were granted and cannot be reached, or that break later.
//!
//! The server here is a real endpoint over UDP behind a control connection that the test drives
//! itself, so that it can lie about its rings. Nothing here may start a process: until its `exec`,
//! a child keeps the sockets of all tests open.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use petasos_base::sync::{AtomicBool, Ordering};
use petasos_control::{
    AcceptParams, Capabilities, Config, Connection, Event, Hello, LocalOffer, Place, Role,
    SUPPORTED, Text,
};
use petasos_endpoint::{
    Backend, CallError, Clock, ConnectAndWaitError, Context, Endpoint, EndpointConfig, LocalConfig,
    LocalIo, Node, SessionError, SessionId, SessionState,
};
use petasos_netio_shm::rendezvous::{self, Listener};
use petasos_netio_shm::{ShmConfig, ShmIo};
use petasos_netio_udp::{UdpConfig, UdpIo};

use crate::common::*;

fn any() -> SocketAddr {
    SocketAddr::new(localhost(), 0)
}

/// Where this thread runs (C17).
fn place() -> Place {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux has it");
    let digits = boot.trim_end().replace('-', "");
    let boot = u128::from_str_radix(&digits, 16).expect("it is in hexadecimal").to_be_bytes();
    let namespace = std::fs::metadata("/proc/thread-self/ns/net").expect("Linux has it").ino();
    Place { boot, namespace }
}

/// What is behind the name that the server grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rings {
    /// Nobody, any more.
    Closed,
    /// Somebody who turns everybody away.
    Refusing,
    /// Somebody who connects to the client, reads nothing, and closes everything when told to.
    Mute,
    /// Somebody who connects to the client, grants, and dies.
    Dying,
}

/// What the server has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    offers_with_rings: usize,
    offers_without: usize,
    disconnects: usize,
    echoes: usize,
}

struct LyingServer {
    listener: TcpListener,
    address: SocketAddr,
    break_rings: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

impl LyingServer {
    fn start(rings: Rings) -> LyingServer {
        LyingServer::start_at(TcpListener::bind(any()).expect("loopback has ports"), rings)
    }

    fn start_at(listener: TcpListener, rings: Rings) -> LyingServer {
        let address = listener.local_addr().expect("it has one");
        let accepting = listener.try_clone().expect("there are descriptors");
        let break_rings = Arc::new(AtomicBool::new(false));
        let broken = break_rings.clone();
        let (ready, is_ready) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut lie = Lie::new(rings);
            ready.send(()).expect("the test waits");
            let stream = accepting.accept().expect("the client comes").0;
            stream.set_nonblocking(true).expect("it can be told");
            lie.run(stream, &broken)
        });
        is_ready.recv().expect("the server starts");
        LyingServer { listener, address, break_rings, thread }
    }
}

struct Lie {
    rings: Rings,
    name: SocketAddr,
    listener: Option<Listener>,
    links: Vec<rendezvous::Connection>,
    endpoint: Endpoint<usize>,
    connection: Connection,
    clock: Clock,
    seen: Seen,
}

impl Lie {
    fn new(rings: Rings) -> Lie {
        let listener = Listener::bind(any(), &ShmConfig::default()).expect("names are free");
        let name = listener.local_address();
        let io = UdpIo::bind(any(), UdpConfig::default()).expect("loopback has ports");
        let mut endpoint = Endpoint::new(EndpointConfig::default(), io, Clock::system(), 0);
        endpoint.register(ECHO, |count, cx, request| {
            *count += 1;
            echo(count, cx, request);
        });
        let hello = Hello {
            versions: SUPPORTED,
            incarnation: petasos_base::random_seed(),
            endpoints: 1,
            capabilities: Capabilities::SERVER.with(Capabilities::LOCAL),
            name: Text::new("liar"),
            place: Some(place()),
        };
        let clock = Clock::system();
        let connection = Connection::new(Config::default(), Role::Acceptor, hello, clock.now());
        let listener = (rings != Rings::Closed).then_some(listener);
        let (links, seen) = (Vec::new(), Seen::default());
        Lie { rings, name, listener, links, endpoint, connection, clock, seen }
    }

    /// Serves until the client leaves; a dying server until it has granted rings.
    fn run(&mut self, mut stream: TcpStream, broken: &AtomicBool) -> Seen {
        let mut buffer = [0; 4096];
        loop {
            let now = self.clock.now();
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => self.connection.handle_bytes(&buffer[..count], now),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            self.connection.handle_timeout(now);
            while let Some(event) = self.connection.poll_event() {
                self.on_event(event);
            }
            if let Some(output) = self.connection.poll_output() {
                let count = stream.write(output).expect("it is short");
                self.connection.advance_output(count);
            }
            if self.rings == Rings::Dying && self.seen.offers_with_rings > 0 {
                break;
            }
            self.tend_rings(broken.load(Ordering::Acquire));
            self.endpoint.run_once();
            std::thread::yield_now();
        }
        Seen { echoes: *self.endpoint.state(), ..self.seen }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::ConnectRequested { id, params } => {
                let granted = self.endpoint.accept_session(&params, localhost(), None);
                let granted = granted.map(|granted| match params.local {
                    Some(offer) => self.lie_about(granted, offer),
                    None => granted,
                });
                self.seen.offers_without += usize::from(params.local.is_none());
                self.connection.reply(id, granted).expect("it fits what was asked");
            }
            Event::Disconnected { session } => {
                self.seen.disconnects += 1;
                let known = self.endpoint.drop_server_session(session.session, session.tag);
                assert!(known, "a session is given up once");
            }
            _ => {}
        }
    }

    fn lie_about(&mut self, granted: AcceptParams, offer: LocalOffer) -> AcceptParams {
        self.seen.offers_with_rings += 1;
        if matches!(self.rings, Rings::Mute | Rings::Dying) {
            let link = rendezvous::connect(self.name, offer.name, &ShmConfig::default());
            // If the client turns it away, it is granted all the same.
            self.links.extend(link.ok());
        }
        AcceptParams {
            local: Some(self.name),
            credits: granted.credits.min(offer.credits),
            payload_bytes: granted.payload_bytes.min(offer.payload_bytes_max),
            ..granted
        }
    }

    fn tend_rings(&mut self, broken: bool) {
        if broken {
            self.links.clear();
            self.listener = None;
        }
        let Some(listener) = &self.listener else { return };
        let refused = listener.accept().expect("there are descriptors");
        assert!(refused.is_none() || self.rings == Rings::Refusing, "the links stand");
    }
}

struct Scene {
    client: Endpoint<Outcomes>,
    node: Node,
    server: LyingServer,
}

fn scene(io: impl Into<Backend>, rings: Rings) -> Scene {
    let (node, server) = (node(None), LyingServer::start(rings));
    let config = EndpointConfig::default();
    let mut client = Endpoint::new(config, io, Clock::system(), Outcomes::default());
    client.attach(&node).expect("the node runs");
    Scene { client, node, server }
}

fn local_with(shm: ShmConfig) -> LocalIo {
    let config = LocalConfig { shm, ..LocalConfig::default() };
    LocalIo::bind(any(), &config).expect("loopback has ports")
}

fn local() -> LocalIo {
    local_with(ShmConfig::default())
}

impl Scene {
    fn connect(&mut self) -> Result<SessionId, ConnectAndWaitError> {
        self.client.connect_and_wait(self.server.address, PATIENCE)
    }

    /// Sessions that fell back to the network, and sessions that lost their rings.
    fn counts(&self) -> (u64, u64) {
        let stats = self.client.stats().event_loop;
        (stats.rings_unreachable, stats.rings_lost)
    }

    /// The server's story, after the client has left.
    fn finish(self) -> Seen {
        drop((self.client, self.node));
        self.server.thread.join().expect("the server does not panic")
    }

    /// The first session falls back to the network, and the next ones know.
    fn falls_back_once(mut self) {
        for _ in 0..6 {
            let session = self.connect().expect("the network is there");
            echoes(&mut self.client, session);
            assert_eq!(self.client.context().session_error(session), None);
        }
        assert_eq!(self.counts(), (1, 0));
        let seen = self.finish();
        assert_eq!((seen.offers_with_rings, seen.offers_without), (1, 6));
        assert_eq!(seen.echoes, 6, "each call ran once");
        assert!(seen.disconnects >= 1, "what was granted is given back");
    }

    /// A call is under way when the rings break for good.
    fn loses_its_rings(mut self, session: SessionId) {
        assert!(self.client.run_for(PATIENCE, |state, _| !state.list.is_empty()), "it ends");
        let (_, outcome) = self.client.state_mut().list.pop().expect("it has ended");
        assert_eq!(outcome, Err(CallError::PeerFailed));
        assert_eq!(self.client.context().session_state(session), SessionState::Failed);
        let error = self.client.context().session_error(session);
        assert_eq!(error, Some(SessionError::RingsLost));
        assert_eq!(self.counts(), (0, 1));
        // The next session knows.
        let session = self.connect().expect("the network is there");
        echoes(&mut self.client, session);
        assert_eq!(self.counts(), (0, 1));
        let seen = self.finish();
        assert_eq!((seen.offers_with_rings, seen.offers_without, seen.echoes), (1, 1, 1));
        assert!(seen.disconnects >= 1, "the lost session's far end is given up");
    }
}

#[test]
fn rings_that_nobody_listens_at_are_replaced_by_the_network() {
    let _watchdog = watchdog("closed");
    scene(local(), Rings::Closed).falls_back_once();
}

#[test]
fn a_client_without_room_for_links_takes_the_network() {
    let _watchdog = watchdog("no room");
    let listening = node(Some(localhost()));
    let theirs = || local().into();
    let _server = Server::start_over(&listening, theirs, EndpointConfig::default(), |_| {});
    let only_one = ShmConfig { links_max: 1, ..ShmConfig::default() };
    let mut scene = scene(local_with(only_one), Rings::Mute);
    let address = listening.local_address().expect("it listens");
    let by_rings = scene.client.connect_and_wait(address, PATIENCE).expect("the server is up");
    echoes(&mut scene.client, by_rings);
    let over_the_network = scene.connect().expect("the network is there");
    echoes(&mut scene.client, over_the_network);
    echoes(&mut scene.client, by_rings);
    assert_eq!(scene.counts(), (1, 0));
    assert_eq!(scene.finish().echoes, 1);
}

#[test]
fn where_there_is_nothing_else_unreachable_rings_are_an_error() {
    let _watchdog = watchdog("shm alone");
    let io = ShmIo::bind(any(), ShmConfig::default()).expect("names are free");
    let mut scene = scene(io, Rings::Closed);
    for _ in 0..2 {
        let failed = scene.connect().expect_err("nobody listens there");
        let no_route = ConnectAndWaitError::Failed(SessionError::NoRoute);
        assert_eq!(format!("{failed:?}"), format!("{no_route:?}"));
    }
    assert_eq!(scene.counts(), (0, 0));
    let seen = scene.finish();
    assert_eq!((seen.offers_with_rings, seen.offers_without), (2, 0));
    assert!(seen.disconnects >= 1, "what was granted is given back");
}

#[test]
fn rings_that_refuse_are_replaced_by_the_network() {
    let _watchdog = watchdog("refusing");
    scene(local(), Rings::Refusing).falls_back_once();
}

#[test]
fn rings_that_break_for_good_end_the_session() {
    let _watchdog = watchdog("breaking");
    let mut scene = scene(local(), Rings::Mute);
    let session = scene.connect().expect("the rings stand");
    start(&mut scene.client, session, ECHO, 7);
    // Silence is not the end: it may be stopped.
    let longer = 2 * petasos_netio_shm::LINK_PATIENCE;
    assert!(!scene.client.run_for(longer, |state, _| !state.list.is_empty()));
    scene.server.break_rings.store(true, Ordering::Release);
    scene.loses_its_rings(session);
}

#[test]
fn a_server_that_dies_after_granting_is_met_again_after_its_restart() {
    let _watchdog = watchdog("dying");
    let mut scene = scene(local(), Rings::Dying);
    let mut probe = client(&scene.node, localhost());
    let probed = probe.connect_and_wait(scene.server.address, PATIENCE).expect("it is up");
    let session = scene.client.connect(scene.server.address).expect("the node runs");
    // The client's loop stands still while the grant comes and the server dies.
    let lost = |cx: &Context<Outcomes>| cx.session_state(probed) == SessionState::Failed;
    assert!(probe.run_for(PATIENCE, |_, cx| lost(cx)), "the server dies");
    let LyingServer { listener, thread, .. } = scene.server;
    assert_eq!(thread.join().expect("it has died in order").offers_with_rings, 1);
    scene.server = LyingServer::start_at(listener, Rings::Closed);
    let ready = |cx: &Context<Outcomes>| cx.session_state(session) != SessionState::Connecting;
    assert!(scene.client.run_for(PATIENCE, |_, cx| ready(cx)));
    assert_eq!(scene.client.context().session_error(session), None);
    echoes(&mut scene.client, session);
    assert_eq!(scene.counts(), (1, 0));
    drop(probe);
    let seen = scene.finish();
    assert_eq!((seen.offers_with_rings, seen.offers_without, seen.echoes), (0, 1, 1));
}
