//! Control connections that break, and others that take their place (C6, C12, C21).

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use petasos_control::Ticket;
use petasos_endpoint::{
    CallError, Clock, Credentials, EndpointConfig, Node, NodeConfig, Pem, SessionError,
    SessionState, TlsConfig,
};
use petasos_netio_udp::{UdpConfig, UdpIo};

use crate::certificates::Authority;
use crate::common::*;
use crate::control_peers::{Mode, Proxy, Raw};

/// Never answers.
const SILENT: u16 = 2;
const HOST: [u8; 4] = [127, 0, 0, 1];

fn tls(pem: Pem) -> TlsConfig {
    TlsConfig { credentials: Credentials::Pem(pem), allow: None }
}

fn server_node(change: impl FnOnce(&mut NodeConfig)) -> Node {
    let listen = Some(SocketAddr::new(localhost(), 0));
    let mut config = NodeConfig { listen, ..NodeConfig::default() };
    change(&mut config);
    Node::start(config).expect("loopback has ports")
}

fn address(node: &Node) -> SocketAddr {
    node.local_address().expect("it listens")
}

fn serve(node: &Node, sessions_per_peer_max: u32) -> Server {
    let config = EndpointConfig { sessions_per_peer_max, ..EndpointConfig::default() };
    let udp = || {
        let io = UdpIo::bind(SocketAddr::new(localhost(), 0), UdpConfig::default());
        io.expect("loopback has ports").into()
    };
    Server::start_over(node, udp, config, |endpoint| endpoint.register(SILENT, |_, _, _| {}))
}

fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Issue 10: sessions failed with their control connection, and so did the calls on them.
fn cut_and_restored(pem: Option<(Pem, Pem)>) {
    let (server_pem, client_pem) = pem.unzip();
    let node = server_node(|config| config.tls = server_pem.map(tls));
    let _server = serve(&node, 100);
    let proxy = Proxy::to(address(&node));
    let client_tls = client_pem.map(tls);
    let client_node = Node::start(NodeConfig { tls: client_tls, ..NodeConfig::default() });
    let client_node = client_node.expect("threads are to be had");
    let mut client = client(&client_node, localhost());
    let session = client.connect_and_wait(proxy.address, PATIENCE).expect("the server is up");
    let clock = Clock::system();
    for cut in 1..=5 {
        proxy.set(Mode::Closed);
        proxy.cut();
        // Packets do not travel through the proxy.
        let end = clock.now() + Duration::from_millis(50);
        while clock.now() < end {
            echoes(&mut client, session);
        }
        proxy.set(Mode::Open);
        until(|| node.stats().connections_resumed == cut);
        echoes(&mut client, session);
        assert_eq!(client.context().session_error(session), None);
    }
    // The connection is as good as any: it opens sessions and closes them.
    let another = client.connect_and_wait(proxy.address, PATIENCE).expect("the server is up");
    echoes(&mut client, another);
    assert_eq!(node.stats().resumptions_refused, 0);
}

#[test]
fn issue_10_c21_a_connection_that_is_cut_and_restored_fails_no_call() {
    let _watchdog = watchdog("cut and restored");
    cut_and_restored(None);
}

#[test]
fn issue_10_c21_over_tls_too() {
    let _watchdog = watchdog("cut and restored over TLS");
    let authority = Authority::new("one");
    cut_and_restored(Some((authority.pem("server.test"), authority.pem("client.test"))));
}

#[test]
fn issue_10_c21_one_that_is_restored_late_fails_its_calls_and_says_so() {
    let _watchdog = watchdog("restored late");
    let grace = Duration::from_millis(100);
    let node = server_node(|config| config.resume_grace = grace);
    let _server = serve(&node, 100);
    let proxy = Proxy::to(address(&node));
    let config = NodeConfig { resume_grace: grace, ..NodeConfig::default() };
    let client_node = Node::start(config).expect("threads are to be had");
    let mut client = client(&client_node, localhost());
    let session = client.connect_and_wait(proxy.address, PATIENCE).expect("the server is up");
    proxy.set(Mode::Closed);
    proxy.cut();
    assert_eq!(call(&mut client, session, SILENT), Err(CallError::PeerFailed));
    assert_eq!(client.context().session_state(session), SessionState::Failed);
    let error = client.context().session_error(session).expect("the node knows why");
    assert_eq!(error, SessionError::ConnectionLost);
    assert!(error.retry_may_succeed());
    proxy.set(Mode::Open);
    let session = client.connect_and_wait(proxy.address, PATIENCE).expect("the way is back");
    echoes(&mut client, session);
    assert_eq!(node.stats().connections_resumed, 0);
}

/// The attempts to take up the connection break as well, right behind the server's hello.
#[test]
fn c21_attempts_that_break_are_repeated_within_the_grace() {
    let _watchdog = watchdog("attempts that break");
    let node = server_node(|config| config.resume_grace = PATIENCE);
    let _server = serve(&node, 100);
    let proxy = Proxy::to(address(&node));
    let config = NodeConfig { resume_grace: PATIENCE, ..NodeConfig::default() };
    let client_node = Node::start(config).expect("threads are to be had");
    let mut client = client(&client_node, localhost());
    let session = client.connect_and_wait(proxy.address, PATIENCE).expect("the server is up");
    proxy.set(Mode::Brief);
    proxy.cut();
    let clock = Clock::system();
    let end = clock.now() + Duration::from_millis(1500);
    while clock.now() < end {
        echoes(&mut client, session);
    }
    proxy.set(Mode::Open);
    until(|| node.stats().connections_resumed > 0);
    echoes(&mut client, session);
    assert_eq!(client.context().session_error(session), None);
}

/// A connection that may be the one that was lost. The node may hear of it before it hears of that
/// one's end, and refuses it then.
fn dial_for_lost(node: &Node, incarnation: u64, pem: Option<&Pem>) -> Raw {
    loop {
        match Raw::dial(HOST, address(node), incarnation, pem) {
            Some(raw) => return raw,
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// The node has room for one connection, which is lost.
fn comes_back(node: &Node, pem: Option<&Pem>) {
    let (raw, ticket) = with_session(node, 7, pem);
    let dial = || Raw::dial(HOST, address(node), 7, pem);
    assert!(dial().is_none(), "the first stands");
    drop(raw);
    let mut other = dial_for_lost(node, 7, pem);
    assert!(other.ask(2).is_err(), "it has shown no ticket");
    assert!(dial().is_none(), "there is no room for two more");
    drop(other);
    let mut right = dial_for_lost(node, 7, pem);
    assert!(right.resume(ticket));
    right.ask(3).expect("it has its place");
    assert!(dial().is_none(), "nothing is lost any more");
}

/// Connections are cut when there is no room for one more: those that were cut come back all the
/// same, and nobody else comes in with them.
#[test]
fn c21_a_full_node_takes_its_own_connections_back() {
    let _watchdog = watchdog("back into a full node");
    let limits: [fn(&mut NodeConfig); 2] =
        [|config| config.connections_max = 1, |config| config.connections_per_address_max = 1];
    for limit in limits {
        let node = server_node(|config| {
            config.resume_grace = PATIENCE;
            limit(config);
        });
        let _server = serve(&node, 100);
        comes_back(&node, None);
    }
}

#[test]
fn c21_a_full_name_takes_its_own_connections_back() {
    let _watchdog = watchdog("back to a full name");
    let authority = Authority::new("one");
    let node = server_node(|config| {
        config.tls = Some(tls(authority.pem("server.test")));
        (config.resume_grace, config.connections_per_name_max) = (PATIENCE, 1);
    });
    let _server = serve(&node, 100);
    comes_back(&node, Some(&authority.pem("alice")));
}

#[test]
fn c21_what_resumes_nothing_leaves_a_full_node_after_the_grace() {
    let _watchdog = watchdog("a full node");
    let node = server_node(|config| {
        (config.resume_grace, config.connections_max) = (Duration::from_secs(1), 1);
    });
    let _server = serve(&node, 100);
    drop(with_session(&node, 7, None));
    let mut other = dial_for_lost(&node, 8, None);
    assert!(other.is_left(), "it was there for nothing else");
    until(|| Raw::dial(HOST, address(&node), 8, None).is_some_and(|mut raw| raw.ask(1).is_ok()));
}

/// The connection that shows a ticket breaks with it: what was answered before is not forgotten.
#[test]
fn c12_c21_a_resume_that_breaks_grants_no_second_session() {
    let _watchdog = watchdog("a resume that breaks");
    let node = server_node(|config| config.resume_grace = PATIENCE);
    let _server = serve(&node, 1);
    for round in 0..20 {
        let (raw, first) = with_session(&node, 7 + round, None);
        drop(raw);
        let mut brief = Raw::dial(HOST, address(&node), 7 + round, None).expect("there is room");
        let second = brief.ticket.expect("it was given");
        brief.show(first);
        drop(brief);
        // Which of them is good depends on whether the server has read the resume before the end.
        let mut raw = Raw::dial(HOST, address(&node), 7 + round, None).expect("there is room");
        assert!(raw.resume(second) || raw.resume(first));
        raw.ask(1).expect("it is the answer to the first");
        raw.leave();
    }
}

/// The server's answer to a connect is lost with the connection. It has room for one more session.
fn answer_lost(pem: Option<(Pem, Pem)>, drains: bool) {
    let (server_pem, client_pem) = pem.unzip();
    let node = server_node(|config| config.tls = server_pem.map(tls));
    let _server = serve(&node, 2);
    let proxy = Proxy::to(address(&node));
    let config = NodeConfig { tls: client_pem.map(tls), ..NodeConfig::default() };
    let client_node = Node::start(config).expect("threads are to be had");
    let mut client = client(&client_node, localhost());
    let first = client.connect_and_wait(proxy.address, PATIENCE).expect("the server is up");
    proxy.set(Mode::Mute);
    let second = client.connect(proxy.address).expect("there is room");
    client.run_for(Duration::from_millis(100), |_, _| false);
    if drains {
        node.drain();
    }
    proxy.set(Mode::Open);
    proxy.cut();
    client.run_for(PATIENCE, |_, cx| cx.session_state(second) != SessionState::Connecting);
    assert_eq!(client.context().session_error(second), None);
    if !drains {
        echoes(&mut client, first);
        echoes(&mut client, second);
    }
    assert_eq!(node.stats().connections_resumed, 1);
}

#[test]
fn c12_a_connect_whose_answer_is_lost_grants_one_session() {
    let _watchdog = watchdog("lost answer");
    answer_lost(None, false);
}

#[test]
fn c12_a_server_that_drains_repeats_its_answer() {
    let _watchdog = watchdog("lost answer of a server that drains");
    answer_lost(None, true);
}

#[test]
fn c12_c19_over_tls_it_is_given_back_and_asked_for_anew() {
    let _watchdog = watchdog("lost answer over TLS");
    let authority = Authority::new("one");
    answer_lost(Some((authority.pem("server.test"), authority.pem("client.test"))), false);
}

/// A client that has a session, and its ticket.
fn with_session(node: &Node, incarnation: u64, pem: Option<&Pem>) -> (Raw, Ticket) {
    let mut raw = Raw::dial(HOST, address(node), incarnation, pem).expect("there is room");
    raw.ask(1).expect("there is room");
    let ticket = raw.ticket.expect("it was given");
    (raw, ticket)
}

#[test]
fn c21_only_the_same_peer_resumes_and_once() {
    let _watchdog = watchdog("tickets");
    let node = server_node(|config| config.resume_grace = PATIENCE);
    let _server = serve(&node, 100);
    let dial = |from, incarnation| {
        Raw::dial(from, address(&node), incarnation, None).expect("there is room")
    };
    let (raw, ticket) = with_session(&node, 7, None);
    drop(raw);
    let mut guesser = dial(HOST, 7);
    assert!(!guesser.resume(Ticket::new([0; 16])), "a guess");
    assert!(!guesser.resume(guesser.ticket.expect("it was given")), "its own");
    assert!(!dial(HOST, 8).resume(ticket), "another process");
    assert!(!dial([127, 0, 0, 2], 7).resume(ticket), "another address");
    assert_eq!((node.stats().resumptions_refused, node.stats().connections_resumed), (4, 0));
    let mut right = dial(HOST, 7);
    let next = right.ticket.expect("it was given");
    assert!(right.resume(ticket), "those have taken nothing from the right one");
    assert!(!dial(HOST, 7).resume(ticket), "a ticket is good once");
    // The answer to a resume may be lost: the ticket of that connection is good then. And one that
    // still stands at the server may have broken elsewhere.
    assert!(dial(HOST, 7).resume(next));
    assert_eq!((node.stats().resumptions_refused, node.stats().connections_resumed), (5, 2));
}

#[test]
fn c21_over_tls_only_the_same_names_resume() {
    let _watchdog = watchdog("tickets and names");
    let authority = Authority::new("one");
    let node = server_node(|config| {
        config.tls = Some(tls(authority.pem("server.test")));
        config.resume_grace = PATIENCE;
    });
    let _server = serve(&node, 100);
    let (raw, ticket) = with_session(&node, 7, Some(&authority.pem("alice")));
    drop(raw);
    let dial = |pem: &Pem| Raw::dial(HOST, address(&node), 7, Some(pem)).expect("there is room");
    assert!(!dial(&authority.pem("mallory")).resume(ticket));
    assert_eq!(node.stats().resumptions_refused, 1);
    assert!(dial(&authority.pem("alice")).resume(ticket), "with a renewed certificate");
}

#[test]
fn c21_what_has_ended_is_not_resumed() {
    let _watchdog = watchdog("ended");
    let node = server_node(|config| config.resume_grace = Duration::from_millis(50));
    let _server = serve(&node, 100);
    let (raw, left) = with_session(&node, 7, None);
    raw.leave();
    let (raw, lost) = with_session(&node, 7, None);
    drop(raw);
    std::thread::sleep(Duration::from_millis(300));
    let mut late = Raw::dial(HOST, address(&node), 7, None).expect("there is room");
    assert!(!late.resume(lost), "after the grace");
    assert!(!late.resume(left), "after a goodbye");
    late.ask(2).expect("new sessions can be had");
}

/// Found by the simulator: if an answer is lost and the new ticket with it, the old one is not good
/// any more, and the dialler has no other.
#[test]
fn c21_a_ticket_is_shown_once_the_new_one_is_heard() {
    let _watchdog = watchdog("the new ticket");
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has ports");
    let server = listener.local_addr().expect("it is bound");
    let client_node = Node::start(NodeConfig { resume_grace: PATIENCE, ..NodeConfig::default() });
    let client_node = client_node.expect("threads are to be had");
    let mut client = client(&client_node, localhost());
    client.connect(server).expect("there is room");
    let (ticket, next) = (Ticket::new([1; 16]), Ticket::new([2; 16]));
    let mut first = Raw::accept(&listener, 7);
    first.give_ticket(ticket);
    assert_eq!(first.shown_within(Duration::from_millis(50)), None, "nothing was lost");
    drop(first);
    let mut second = Raw::accept(&listener, 7);
    assert_eq!(second.shown_within(Duration::from_millis(200)), None, "it has heard no other");
    second.give_ticket(next);
    assert_eq!(second.shown_within(PATIENCE), Some(ticket));
    // The answer is lost.
    drop(second);
    let mut third = Raw::accept(&listener, 7);
    third.give_ticket(Ticket::new([3; 16]));
    assert_eq!(third.shown_within(PATIENCE), Some(next), "the newer one first");
}

#[test]
fn c21_lost_connections_count_for_their_holder() {
    let _watchdog = watchdog("lost connections");
    what_is_lost_counts(2);
}

#[test]
fn c21_sessions_of_lost_connections_count_for_their_holder() {
    let _watchdog = watchdog("sessions of lost connections");
    what_is_lost_counts(100);
}

/// Two connections with a session each are lost, where two sessions are allowed.
fn what_is_lost_counts(connections: usize) {
    let grace = Duration::from_millis(500);
    let node = server_node(|config| {
        (config.resume_grace, config.connections_per_address_max) = (grace, connections);
    });
    let _server = serve(&node, 2);
    for _ in 0..2 {
        drop(with_session(&node, 7, None));
    }
    let (clock, begin) = (Clock::system(), Clock::system().now());
    let asks = || {
        let raw = Raw::dial(HOST, address(&node), 7, None);
        raw.is_some_and(|mut raw| raw.ask(1).is_ok())
    };
    assert!(!asks(), "what is lost makes no room for more");
    // In the end it is given back.
    until(asks);
    assert!(clock.now() > begin + grace / 2);
}
