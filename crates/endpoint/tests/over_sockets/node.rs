//! Two processes' worth of nodes and endpoints over real sockets, in one process.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use petasos_endpoint::{
    CallError, ConnectAndWaitError, ConnectError, EndpointConfig, Fault, Node, NodeConfig,
    NodeError, RefuseCode, SessionError, SessionState,
};

use crate::common::*;

fn failure(result: Result<petasos_endpoint::SessionId, ConnectAndWaitError>) -> SessionError {
    match result {
        Err(ConnectAndWaitError::Failed(error)) => error,
        other => panic!("{other:?} is not a failure of set-up"),
    }
}

fn connect_and_echo(ip: IpAddr) {
    let server_node = node(Some(ip));
    let server = Server::start(&server_node, ip);
    let client_node = node(None);
    let mut client = client(&client_node, ip);
    let address = server_node.local_address().expect("it listens");
    let session = client.connect_and_wait(address, PATIENCE).expect("the server is up");
    echoes(&mut client, session);
    assert_eq!(call(&mut client, session, UNKNOWN), Err(CallError::UnknownMethod));
    assert_eq!(client.context().session_error(session), None);
    assert_eq!(server.stop(), 1);
}

#[test]
fn connects_and_echoes_over_ipv4() {
    let _watchdog = watchdog("connect and echo over IPv4");
    connect_and_echo(localhost());
}

#[test]
fn connects_and_echoes_over_ipv6() {
    let _watchdog = watchdog("connect and echo over IPv6");
    if let Some(ip) = localhost6() {
        connect_and_echo(ip);
    }
}

#[test]
fn an_endpoint_at_an_unspecified_address_is_reached_where_its_node_is() {
    let _watchdog = watchdog("unspecified address");
    let any = IpAddr::from([0, 0, 0, 0]);
    let server_node = node(Some(localhost()));
    let _server = Server::start(&server_node, any);
    let client_node = node(None);
    let mut client = client(&client_node, any);
    let address = server_node.local_address().expect("it listens");
    let session = client.connect_and_wait(address, PATIENCE).expect("the server is up");
    echoes(&mut client, session);
}

#[test]
fn a_wrong_address_is_refused_at_once() {
    let _watchdog = watchdog("wrong address");
    let free = TcpListener::bind((localhost(), 0)).expect("loopback has ports");
    let address = free.local_addr().expect("it is bound");
    drop(free);
    let mut client = client(&node(None), localhost());
    // The node is gone here, which is an error of its own.
    let ended = loop {
        match client.connect_and_wait(address, PATIENCE) {
            Err(ConnectAndWaitError::NotBegun(error)) => break error,
            Err(ConnectAndWaitError::Failed(SessionError::NodeEnded)) => {}
            other => panic!("{other:?} without a node"),
        }
    };
    assert!(matches!(ended, ConnectError::NotAttached));
    let node = node(None);
    let mut client = crate::common::client(&node, localhost());
    let error = failure(client.connect_and_wait(address, PATIENCE));
    assert_eq!(error, SessionError::Refused);
    assert_eq!((error.fault(), error.retry_may_succeed()), (Fault::Client, true));
}

#[test]
fn a_port_in_use_is_named() {
    let _watchdog = watchdog("port in use");
    let first = node(Some(localhost()));
    let listen = first.local_address();
    let second = Node::start(NodeConfig { listen, ..NodeConfig::default() });
    let Err(NodeError::AddressInUse(address)) = second else { panic!("two nodes at one port") };
    assert_eq!(Some(address), listen);
}

/// A TCP peer that says `words` to whoever connects, once, and reads on until the end.
fn fake_peer(words: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind((localhost(), 0)).expect("loopback has ports");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("someone connects");
        stream.write_all(words).expect("it is read");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    address
}

#[test]
fn a_peer_of_another_version_is_told_from_one_that_fails() {
    let _watchdog = watchdog("version mismatch");
    let node = node(None);
    let mut client = client(&node, localhost());
    // A hello of versions 7.0 to 7.9 (C4); nothing after the versions is read.
    let address = fake_peer(b"\x08\0\x01\0PTSC\x00\x07\x09\x07");
    let error = failure(client.connect_and_wait(address, PATIENCE));
    assert!(matches!(error, SessionError::VersionMismatch { .. }), "{error:?}");
    assert!(!error.retry_may_succeed());
    let address = fake_peer(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    let error = failure(client.connect_and_wait(address, PATIENCE));
    assert!(matches!(error, SessionError::PeerFailed(_)), "{error:?}");
    assert!(!error.retry_may_succeed());
}

#[test]
fn a_silent_peer_times_out() {
    let _watchdog = watchdog("silent peer");
    let heartbeat = Duration::from_millis(20);
    let failure_timeout = Duration::from_millis(100);
    let config = NodeConfig { heartbeat, failure_timeout, ..NodeConfig::default() };
    let node = Node::start(config).expect("threads are to be had");
    let mut client = client(&node, localhost());
    let error = failure(client.connect_and_wait(fake_peer(b""), PATIENCE));
    let silent = petasos_endpoint::FailureReason::Timeout;
    assert_eq!(error, SessionError::PeerFailed(silent));
    assert!(error.retry_may_succeed());
}

#[test]
fn strangers_do_not_disturb_a_server() {
    let _watchdog = watchdog("strangers");
    let server_node = node(Some(localhost()));
    let _server = Server::start(&server_node, localhost());
    let address = server_node.local_address().expect("it listens");
    for words in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\x16\x03\x01\x02\0\x01", b"\xff\xff\xff\xff"] {
        let mut stranger = TcpStream::connect(address).expect("it listens");
        stranger.write_all(words).expect("the socket takes it");
        let end = stranger.read_to_end(&mut Vec::new());
        assert!(end.is_err() || end.is_ok_and(|bytes| bytes == 0), "a stranger is told nothing");
    }
    let client_node = node(None);
    let mut client = client(&client_node, localhost());
    let session = client.connect_and_wait(address, PATIENCE).expect("the server is up");
    echoes(&mut client, session);
}

#[test]
fn connections_beyond_the_limit_are_closed_and_others_served() {
    let _watchdog = watchdog("connection limit");
    let listen = Some(SocketAddr::new(localhost(), 0));
    let config = NodeConfig { listen, connections_max: 1, ..NodeConfig::default() };
    let server_node = Node::start(config).expect("loopback has ports");
    let _server = Server::start(&server_node, localhost());
    let address = server_node.local_address().expect("it listens");
    let (first_node, second_node) = (node(None), node(None));
    let mut first = client(&first_node, localhost());
    let session = first.connect_and_wait(address, PATIENCE).expect("there is room for one");
    let mut second = client(&second_node, localhost());
    let error = failure(second.connect_and_wait(address, PATIENCE));
    assert!(matches!(error, SessionError::PeerFailed(_)), "{error:?}");
    echoes(&mut first, session);
    drop(first_node);
    // The place is free as soon as the server has noticed.
    while second.connect_and_wait(address, PATIENCE).is_err() {}
}

/// A connection from another address of this host, which says nothing.
fn silent(from: [u8; 4], to: SocketAddr) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("there are sockets");
    bind(&socket, &SocketAddr::from((from, 0))).expect("all of 127.0.0.0/8 is this host");
    connect(&socket, &to).expect("the node listens");
    TcpStream::from(socket)
}

/// Issue 10: all connections could come from one address, so that nobody else had any.
#[test]
fn issue_10_one_address_leaves_connections_to_others() {
    let _watchdog = watchdog("connections per address");
    let listen = Some(SocketAddr::new(localhost(), 0));
    let limits = NodeConfig { connections_max: 4, ..NodeConfig::default() };
    let config = NodeConfig { listen, connections_per_address_max: 2, ..limits };
    let server_node = Node::start(config).expect("loopback has ports");
    let _server = Server::start(&server_node, localhost());
    let address = server_node.local_address().expect("it listens");
    let _hostile: Vec<TcpStream> = (0..20).map(|_| silent([127, 0, 0, 2], address)).collect();
    while server_node.stats().address_connections_refused < 18 {
        std::thread::yield_now();
    }
    let client_node = node(None);
    let mut client = client(&client_node, localhost());
    let session = client.connect_and_wait(address, PATIENCE).expect("there is room for others");
    echoes(&mut client, session);
}

/// Issue 10: one address could begin handshakes without end.
#[test]
fn issue_10_one_address_begins_no_more_handshakes_than_its_rate() {
    let _watchdog = watchdog("handshakes per address");
    let listen = Some(SocketAddr::new(localhost(), 0));
    let config = NodeConfig { listen, handshakes_per_second: 3, ..NodeConfig::default() };
    let server_node = Node::start(config).expect("loopback has ports");
    let _server = Server::start(&server_node, localhost());
    let address = server_node.local_address().expect("it listens");
    while server_node.stats().handshakes_refused == 0 {
        drop(silent([127, 0, 0, 2], address));
    }
    let client_node = node(None);
    let mut client = client(&client_node, localhost());
    let session = client.connect_and_wait(address, PATIENCE).expect("others have their own rate");
    echoes(&mut client, session);
}

#[test]
fn sessions_fail_with_their_server_and_can_be_had_again() {
    let _watchdog = watchdog("restart");
    let first = node(Some(localhost()));
    let address = first.local_address().expect("it listens");
    let server = Server::start(&first, localhost());
    let client_node = node(None);
    let mut client = client(&client_node, localhost());
    let session = client.connect_and_wait(address, PATIENCE).expect("the server is up");
    echoes(&mut client, session);
    server.stop();
    drop(first);
    start(&mut client, session, ECHO, 1);
    assert!(client.run_for(PATIENCE, |state, _| !state.list.is_empty()));
    let (_, outcome) = client.state_mut().list.pop().expect("the call has ended");
    assert!(matches!(outcome, Err(CallError::PeerFailed | CallError::SessionClosed)));
    assert_eq!(client.context().session_state(session), SessionState::Failed);
    let error = client.context().session_error(session).expect("the node knows why");
    assert!(matches!(error, SessionError::PeerEnded | SessionError::ClosedByPeer), "{error:?}");
    client.close_session(session);
    let again = NodeConfig { listen: Some(address), ..NodeConfig::default() };
    let second = Node::start(again).expect("the port is free again");
    let _server = Server::start(&second, localhost());
    let session = client.connect_and_wait(address, PATIENCE).expect("the server is back");
    echoes(&mut client, session);
}

#[test]
fn a_draining_server_refuses_sessions_and_requests() {
    let _watchdog = watchdog("draining");
    let server_node = node(Some(localhost()));
    let address = server_node.local_address().expect("it listens");
    let _server = Server::start(&server_node, localhost());
    let client_node = node(None);
    let mut client = client(&client_node, localhost());
    let session = client.connect_and_wait(address, PATIENCE).expect("the server is up");
    echoes(&mut client, session);
    server_node.drain();
    // The drain and the call take different ways; the endpoint learns of it within moments.
    while call(&mut client, session, ECHO) != Err(CallError::Draining) {}
    let error = failure(client.connect_and_wait(address, PATIENCE));
    assert_eq!(error, SessionError::RefusedBy(RefuseCode::Draining));
    assert!(!error.retry_may_succeed());
}

#[test]
fn sessions_are_spread_over_the_endpoints_of_a_server() {
    let _watchdog = watchdog("many sessions");
    let server_node = node(Some(localhost()));
    let address = server_node.local_address().expect("it listens");
    let servers: Vec<_> = (0..3).map(|_| Server::start(&server_node, localhost())).collect();
    let client_node = node(None);
    let mut clients: Vec<_> = (0..2).map(|_| client(&client_node, localhost())).collect();
    for client in &mut clients {
        let sessions: Vec<_> =
            (0..60).map(|_| client.connect(address).expect("there is room")).collect();
        let wanted = sessions.clone();
        assert!(client.run_for(PATIENCE, |_, cx| {
            wanted.iter().all(|session| cx.session_state(*session) == SessionState::Ready)
        }));
        for session in sessions {
            echoes(client, session);
        }
    }
    let served: Vec<_> = servers.into_iter().map(Server::stop).collect();
    assert_eq!(served, [40, 40, 40]);
}

#[test]
fn a_closed_session_is_closed_at_the_server_too() {
    let _watchdog = watchdog("disconnect");
    let config = EndpointConfig { sessions_max: 1, ..EndpointConfig::default() };
    let server_node = node(Some(localhost()));
    let address = server_node.local_address().expect("it listens");
    let mut server = endpoint_at(localhost(), config, ());
    server.register(ECHO, echo);
    server.attach(&server_node).expect("the node runs");
    let stop = std::sync::Arc::new(petasos_base::sync::AtomicBool::new(false));
    let client_node = node(None);
    let stopped = stop.clone();
    let clients = std::thread::spawn(move || {
        let mut client = client(&client_node, localhost());
        let first = client.connect_and_wait(address, PATIENCE).expect("there is room for one");
        echoes(&mut client, first);
        let full = SessionError::RefusedBy(RefuseCode::SessionsFull);
        assert_eq!(failure(client.connect_and_wait(address, PATIENCE)), full);
        client.close_session(first);
        // Requests and commands keep their order on the way, so there is room now.
        let second = client.connect_and_wait(address, PATIENCE).expect("there is room again");
        echoes(&mut client, second);
        // A client whose process ends without closing its sessions makes room as well.
        drop(client_node);
        let node = node(None);
        let mut third = crate::common::client(&node, localhost());
        while third.connect_and_wait(address, PATIENCE).is_err() {}
        stopped.store(true, petasos_base::sync::Ordering::Release);
    });
    while !stop.load(petasos_base::sync::Ordering::Acquire) && !clients.is_finished() {
        server.run_for(Duration::from_millis(20), |_, _| false);
    }
    clients.join().expect("the clients are content");
}

#[test]
fn an_endpoint_that_leaves_closes_its_sessions_at_both_ends() {
    let _watchdog = watchdog("detach");
    let server_node = node(Some(localhost()));
    let address = server_node.local_address().expect("it listens");
    let server = Server::start(&server_node, localhost());
    let client_node = node(None);
    let mut client = client(&client_node, localhost());
    let session = client.connect_and_wait(address, PATIENCE).expect("the server is up");
    echoes(&mut client, session);
    // The process lives on, only the endpoint goes.
    server.stop();
    let failed = |cx: &mut petasos_endpoint::Context<Outcomes>| {
        cx.session_error(session) == Some(SessionError::ClosedByPeer)
    };
    assert!(client.run_for(PATIENCE, |_, cx| failed(cx)));
    let error = failure(client.connect_and_wait(address, PATIENCE));
    assert_eq!(error, SessionError::RefusedBy(RefuseCode::SessionsFull));
}

#[test]
fn an_adaptive_loop_sleeps_and_wakes() {
    let _watchdog = watchdog("adaptive sleep");
    let server_node = node(Some(localhost()));
    let address = server_node.local_address().expect("it listens");
    let _server = Server::start(&server_node, localhost());
    let client_node = node(None);
    let mut client = client(&client_node, localhost());
    // The outcome of the set-up comes by mail, those of the calls by packets.
    let session = client.connect_and_wait(address, PATIENCE).expect("the server is up");
    for _ in 0..200 {
        echoes(&mut client, session);
        client.run_for(Duration::from_millis(1), |_, _| false);
    }
    let stats = client.stats().event_loop;
    assert!(stats.sleeps >= 200, "it slept between calls: {stats:?}");
}
