//! Sessions over TCP: calls of any length, connections that break under them, and peers that use
//! something else.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use petasos_endpoint::{
    Backend, Clock, ConnectAndWaitError, Endpoint, EndpointConfig, MsgBuf, Node, RefuseCode,
    SessionError, SessionId, Switch, TcpConfig, TcpIo,
};
use petasos_netio::PacketIo;
use petasos_netio_udp::{UdpConfig, UdpIo};
use rustix::net::{Shutdown, getpeername, shutdown};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

use crate::certificates::{Authority, secured_node};
use crate::common::*;

const LONG: usize = 8_000_000;

fn tcp_with(gathering: Switch) -> Backend {
    let config = TcpConfig { gathering, ..TcpConfig::default() };
    TcpIo::bind(SocketAddr::new(localhost(), 0), config).expect("loopback has ports").into()
}

fn tcp() -> Backend {
    tcp_with(Switch::default())
}

fn udp() -> Backend {
    let any = SocketAddr::new(localhost(), 0);
    UdpIo::bind(any, UdpConfig::default()).expect("loopback has ports").into()
}

/// A client and a server, on a thread of its own, that count what they run.
struct Pair {
    client: Endpoint<Outcomes>,
    session: SessionId,
    server: Server,
    _nodes: [Node; 2],
}

fn client_over(node: &Node, io: Backend) -> Endpoint<Outcomes> {
    let config = EndpointConfig::default();
    let mut client = Endpoint::new(config, io, Clock::system(), Outcomes::default());
    client.attach(node).expect("the node runs");
    client
}

impl Pair {
    fn new(nodes: [Node; 2], gathering: Switch) -> Pair {
        let server = Server::start_over(&nodes[0], tcp, EndpointConfig::default(), |_| {});
        let mut client = client_over(&nodes[1], tcp_with(gathering));
        let address = nodes[0].local_address().expect("it listens");
        let session = client.connect_and_wait(address, PATIENCE).expect("the server is up");
        Pair { client, session, server, _nodes: nodes }
    }

    fn plain() -> Pair {
        Pair::new([node(Some(localhost())), node(None)], Switch::default())
    }

    fn io(&self) -> &TcpIo {
        let Backend::Tcp(io) = self.client.io() else { unreachable!("it was given") };
        io
    }

    fn begin(&mut self, message: &[u8], tag: u64) {
        let request = MsgBuf::from_slice(message);
        let context = self.client.context();
        let begun = context.enqueue_request(self.session, ECHO, request, collect, tag);
        begun.expect("there is room");
    }

    fn run_until_over(&mut self, calls: usize) {
        let over = self.client.run_for(PATIENCE, |state, _| state.list.len() == calls);
        assert!(over, "{} of {calls} calls have ended", self.client.state().list.len());
    }

    /// Checks that each call has ended once, with the message that it sent.
    fn check(&mut self, calls: &[(u64, &[u8])]) {
        let mut outcomes = std::mem::take(&mut self.client.state_mut().list);
        outcomes.sort_by_key(|(tag, _)| *tag);
        assert_eq!(outcomes.len(), calls.len());
        for ((tag, outcome), (expected, message)) in outcomes.iter().zip(calls) {
            assert_eq!(tag, expected);
            assert!(outcome.as_deref() == Ok(*message), "call {tag} came back as it was sent");
        }
    }

    /// A short and a long call, one after the other.
    fn exchange(&mut self) {
        for message in [message(32), message(LONG)] {
            self.begin(&message, 1);
            self.run_until_over(1);
            self.check(&[(1, &message)]);
        }
    }
}

fn message(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251) as u8).collect()
}

/// Ends the connection from `from` as a network would that lets nothing through any more.
fn cut(from: SocketAddr) {
    let this = pidfd_open(getpid(), PidfdFlags::empty()).expect("the kernel has pidfds");
    let fds = std::fs::read_dir("/proc/self/fd").expect("there is /proc");
    let fds = fds.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let copies: Vec<OwnedFd> =
        fds.filter_map(|fd| pidfd_getfd(&this, fd, PidfdGetfdFlags::empty()).ok()).collect();
    let is_from = |fd: &&OwnedFd| {
        let peer = getpeername(fd).ok().and_then(|peer| SocketAddr::try_from(peer?).ok());
        peer == Some(from)
    };
    for fd in copies.iter().filter(is_from) {
        shutdown(fd, Shutdown::Both).expect("it is a connection");
    }
}

#[test]
fn short_and_long_calls_travel_over_one_connection() {
    let _watchdog = watchdog("TCP");
    let mut pair = Pair::plain();
    pair.exchange();
    assert_eq!((pair.io().connections(), pair.io().tcp_stats().dialled), (1, 1));
    assert_eq!(pair.client.stats().event_loop.wrong_origin, 0);
    assert_eq!(pair.server.stop(), 2);
}

#[test]
fn sealed_calls_travel_over_tcp() {
    let _watchdog = watchdog("sealed over TCP");
    let authority = Authority::new("one");
    let server = secured_node(true, authority.pem("server.test"), Some(&["client.test"]));
    let client = secured_node(false, authority.pem("client.test"), Some(&["server.test"]));
    let mut pair = Pair::new([server, client], Switch::default());
    let session = pair.session;
    assert!(pair.client.context().is_sealed(session));
    pair.exchange();
    assert_eq!(pair.client.stats().event_loop.seals_broken, 0);
}

#[test]
fn connections_that_break_lose_no_call_and_repeat_none() {
    let _watchdog = watchdog("broken connections");
    let mut pair = Pair::plain();
    pair.exchange();
    let client = pair.client.local_address();
    let (short, long) = (message(32), message(LONG));
    const ROUNDS: u64 = 20;
    for round in 0..ROUNDS {
        let calls: Vec<(u64, &[u8])> =
            (0..8).map(|tag| (tag, if tag % 4 == 0 { &long[..] } else { &short[..] })).collect();
        calls.iter().for_each(|(tag, message)| pair.begin(message, *tag));
        // Earlier or later within the calls.
        let enough = pair.io().stats().tx_bytes + (round + 1) * 700_000;
        while pair.io().stats().tx_bytes < enough {
            pair.client.run_once();
        }
        cut(client);
        pair.run_until_over(calls.len());
        pair.check(&calls);
    }
    assert!(pair.io().tcp_stats().lost >= ROUNDS / 2, "{:?}", pair.io().tcp_stats());
    assert_eq!(pair.server.stop() as u64, 2 + 8 * ROUNDS, "each call has run once");
}

#[test]
fn gathering_is_switched_while_calls_run() {
    let _watchdog = watchdog("switched");
    let gathering = Switch::new(false);
    let mut pair = Pair::new([node(Some(localhost())), node(None)], gathering.clone());
    let long = message(LONG);
    for round in 0..10 {
        let calls: Vec<(u64, &[u8])> = (0..4).map(|tag| (tag, &long[..])).collect();
        calls.iter().for_each(|(tag, message)| pair.begin(message, *tag));
        while pair.client.state().list.len() < 2 {
            pair.client.run_once();
        }
        gathering.set(round % 2 == 0);
        pair.run_until_over(calls.len());
        pair.check(&calls);
    }
    assert_eq!(pair.io().tcp_stats().lost, 0);
    assert_eq!(pair.server.stop(), 40);
}

#[test]
fn c7_peers_agree_on_what_carries_their_packets() {
    let _watchdog = watchdog("mismatch");
    let sides: [(Backend, fn() -> Backend); 2] = [(tcp(), udp), (udp(), tcp)];
    for (ours, theirs) in sides {
        let nodes = [node(Some(localhost())), node(None)];
        let _server = Server::start_over(&nodes[0], theirs, EndpointConfig::default(), |_| {});
        let mut client = client_over(&nodes[1], ours);
        let address = nodes[0].local_address().expect("it listens");
        let failed = client.connect_and_wait(address, PATIENCE).expect_err("they disagree");
        let refused = SessionError::RefusedBy(RefuseCode::IncompatibleParameters);
        assert_eq!(format!("{failed:?}"), format!("{:?}", ConnectAndWaitError::Failed(refused)));
    }
}
