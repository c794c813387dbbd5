//! A process in the place of another one at the same address (C22).

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use petasos_base::sync::{AtomicUsize, Ordering};
use petasos_control::RefuseCode;
use petasos_endpoint::{
    Clock, ConnectAndWaitError, Credentials, Node, NodeConfig, Pem, SessionError, SessionState,
    TlsConfig,
};

use crate::certificates::Authority;
use crate::common::*;
use crate::control_peers::Raw;

fn config(pem: Option<Pem>) -> NodeConfig {
    let tls = pem.map(|pem| TlsConfig { credentials: Credentials::Pem(pem), allow: None });
    NodeConfig { tls, ..NodeConfig::default() }
}

fn server_node(pem: Option<Pem>) -> (Node, SocketAddr) {
    let listen = Some(SocketAddr::new(localhost(), 0));
    let node = Node::start(NodeConfig { listen, ..config(pem) }).expect("loopback has ports");
    let address = node.local_address().expect("it listens");
    (node, address)
}

/// A node in the place of `node`, which has not handed over yet.
fn successor_of(node: &Node, pem: Option<Pem>) -> Node {
    let listener = node.share_listener().expect("descriptors").expect("it listens");
    Node::adopt(config(pem), listener).expect("the listener is good")
}

fn succeeds(server_pem: Option<Pem>, client_pem: Option<Pem>) {
    let (first, address) = server_node(server_pem.clone());
    let first_server = Server::start(&first, localhost());
    let client_node = Node::start(config(client_pem)).expect("threads are to be had");
    let mut client = client(&client_node, localhost());
    let session = client.connect_and_wait(address, PATIENCE).expect("the server is up");
    assert!(!client.context().is_succeeded(session));

    let second = successor_of(&first, server_pem);
    assert_eq!(second.local_address(), Some(address));
    let second_server = Server::start(&second, localhost());
    // Until it hands over, the first has all.
    let before = client.connect_and_wait(address, PATIENCE).expect("the server is up");
    echoes(&mut client, before);
    first.hand_over();
    assert!(client.run_for(PATIENCE, |_, cx| cx.is_succeeded(session) && cx.is_succeeded(before)));
    assert!(first.share_listener().expect("descriptors").is_none(), "it has none any more");
    // Who dials now waits in the socket.
    let after = client.connect(address).expect("there is room");
    client.run_for(Duration::from_millis(50), |_, _| false);
    assert_eq!(client.context().session_state(after), SessionState::Connecting);
    second.accept();
    client.run_for(PATIENCE, |_, cx| cx.session_state(after) != SessionState::Connecting);
    assert_eq!(client.context().session_error(after), None);
    for _ in 0..3 {
        echoes(&mut client, session);
        echoes(&mut client, after);
    }
    assert!(!client.context().is_succeeded(after));
    assert_eq!(first_server.stop(), 4);
    drop(first);
    // The end of the first is the end of its sessions alone.
    let failed = |state| state == SessionState::Failed;
    client.run_for(PATIENCE, |_, cx| failed(cx.session_state(session)));
    assert!(failed(client.context().session_state(before)));
    echoes(&mut client, after);
    // Nothing is kept of it.
    assert!(client.run_for(PATIENCE, |_, cx| !cx.is_succeeded(session)));
    assert_eq!(second_server.stop(), 4);
}

#[test]
fn c22_sessions_go_on_and_new_ones_are_the_successors() {
    let _watchdog = watchdog("a successor");
    succeeds(None, None);
}

#[test]
fn c22_over_tls_too() {
    let _watchdog = watchdog("a successor over TLS");
    let authority = Authority::new("one");
    succeeds(Some(authority.pem("server.test")), Some(authority.pem("client.test")));
}

/// The successor proves who it is, as any server does.
#[test]
fn c22_a_successor_without_a_certificate_is_refused_and_ends_no_session() {
    let _watchdog = watchdog("a successor that proves nothing");
    let (authority, other) = (Authority::new("one"), Authority::new("other"));
    let (first, address) = server_node(Some(authority.pem("server.test")));
    let _first_server = Server::start(&first, localhost());
    let client_node = Node::start(config(Some(authority.pem("client.test"))));
    let client_node = client_node.expect("threads are to be had");
    let mut client = client(&client_node, localhost());
    let session = client.connect_and_wait(address, PATIENCE).expect("the server is up");
    let second = successor_of(&first, Some(other.pem("server.test")));
    let _second_server = Server::start(&second, localhost());
    first.hand_over();
    second.accept();
    assert!(client.run_for(PATIENCE, |_, cx| cx.is_succeeded(session)));
    let refused = client.connect_and_wait(address, PATIENCE);
    assert!(matches!(refused, Err(ConnectAndWaitError::Failed(SessionError::Tls(_)))));
    echoes(&mut client, session);
}

/// A server that says on each connection that it has a successor, and accepts all.
fn always_succeeded() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has ports");
    let address = listener.local_addr().expect("it is bound");
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = accepted.clone();
    std::thread::spawn(move || {
        for (number, socket) in (1..).zip(listener.incoming().map_while(Result::ok)) {
            count.fetch_add(1, Ordering::Relaxed);
            std::thread::spawn(move || Raw::answer(socket, number).announce_successor());
        }
    });
    (address, accepted)
}

#[test]
fn c22_connections_to_processes_that_always_have_successors_are_few() {
    let _watchdog = watchdog("successors without end");
    let (address, accepted) = always_succeeded();
    let client_node = Node::start(config(None)).expect("threads are to be had");
    let mut client = client(&client_node, localhost());
    for attempt in 1..=20 {
        let refused = client.connect_and_wait(address, PATIENCE);
        let draining = SessionError::RefusedBy(RefuseCode::Draining);
        let Err(ConnectAndWaitError::Failed(why)) = refused else { panic!("{refused:?}") };
        assert_eq!(why, draining);
        // An attempt goes on to one successor; and four predecessors are kept.
        assert_eq!(accepted.load(Ordering::Relaxed), (2 * attempt).min(5));
    }
}

/// A server that leaves after it has announced its successor, so that it is dialled again.
#[test]
fn c22_an_attempt_goes_from_one_process_to_the_next_once() {
    let _watchdog = watchdog("successors that leave");
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has ports");
    let address = listener.local_addr().expect("it is bound");
    let client_node = Node::start(config(None)).expect("threads are to be had");
    let mut client = client(&client_node, localhost());
    let session = client.connect(address).expect("there is room");
    for incarnation in [1, 2] {
        Raw::accept(&listener, incarnation).succeeded_and_gone();
    }
    client.run_for(PATIENCE, |_, cx| cx.session_state(session) != SessionState::Connecting);
    let draining = SessionError::RefusedBy(RefuseCode::Draining);
    assert_eq!(client.context().session_error(session), Some(draining));
    listener.set_nonblocking(true).expect("it is a socket");
    let (clock, begun) = (Clock::system(), Clock::system().now());
    while clock.now() < begun + Duration::from_millis(100) {
        assert!(listener.accept().is_err(), "nobody dials for it again");
        std::thread::sleep(Duration::from_millis(5));
    }
}
