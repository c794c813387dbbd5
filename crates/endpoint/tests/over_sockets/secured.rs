//! Nodes with TLS over real sockets: who is let in, what the others are told, and what is sealed
//! (C16, C18, C19).

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use petasos_endpoint::{
    CallError, CertificateFlaw, Clock, ConnectAndWaitError, Credentials, Endpoint, EndpointConfig,
    FailureReason, Fault, HandshakeFailure, KeyLife, LocalConfig, LocalIo, MsgBuf, Node,
    NodeConfig, NodeError, Pem, SessionError, SessionId, TlsConfig,
};

use crate::certificates::{Authority, Folder, secured_node, start};
use crate::common::*;

const CLIENT: &str = "spiffe://test/client";
const SERVER: &str = "server.test";

fn address(node: &Node) -> SocketAddr {
    node.local_address().expect("it listens")
}

/// Why no session can be had at `server`.
fn failure(node: &Node, server: SocketAddr) -> SessionError {
    let mut client = client(node, localhost());
    match client.connect_and_wait(server, PATIENCE) {
        Err(ConnectAndWaitError::Failed(error)) => error,
        other => panic!("{other:?} is not a failure of set-up"),
    }
}

/// That a client with these credentials is served.
fn is_served(pem: Pem, server: SocketAddr) {
    let node = secured_node(false, pem, None);
    let mut client = client(&node, localhost());
    let session = client.connect_and_wait(server, PATIENCE).expect("it is let in");
    echoes(&mut client, session);
}

/// TLS without a list.
fn unlisted(pem: Pem) -> TlsConfig {
    TlsConfig { credentials: Credentials::Pem(pem), allow: None }
}

fn theirs(flaw: CertificateFlaw) -> SessionError {
    SessionError::Tls(HandshakeFailure::Theirs(flaw))
}

fn ours(flaw: CertificateFlaw) -> SessionError {
    SessionError::Tls(HandshakeFailure::Ours(flaw))
}

#[test]
fn c16_c18_c19_sessions_over_tls_are_sealed_and_know_their_peers() {
    let _watchdog = watchdog("sealed session");
    let authority = Authority::new("one");
    let server_node = secured_node(true, authority.pem(SERVER), Some(&[CLIENT]));
    let server = Server::start_with(&server_node, localhost(), |endpoint| {
        endpoint.register(2, |_, cx, request| {
            let names = cx.peer(&request.handle).map(|peer| peer.names.join(" "));
            cx.respond_with(request.handle, names.unwrap_or_default().as_bytes());
        });
    });
    let node = secured_node(false, authority.pem(CLIENT), Some(&[SERVER]));
    let mut client = client(&node, localhost());
    let session = client.connect_and_wait(address(&server_node), PATIENCE).expect("it is let in");
    assert!(client.context().is_sealed(session));
    assert_eq!(client.context().session_peer(session).expect("it has proved it").names, [SERVER]);
    echoes(&mut client, session);
    assert_eq!(call(&mut client, session, 2), Ok(CLIENT.as_bytes().to_vec()));
    let other = client.connect_and_wait(address(&server_node), PATIENCE).expect("a second one");
    echoes(&mut client, other);
    assert_eq!(client.stats().event_loop.seals_broken, 0);
    assert_eq!(server.stop(), 2);
}

#[test]
fn c18_strangers_are_told_why_and_cost_nobody_else_anything() {
    let _watchdog = watchdog("strangers");
    let (authority, other) = (Authority::new("one"), Authority::new("other"));
    let server_node = secured_node(true, authority.pem(SERVER), Some(&[CLIENT]));
    let _server = Server::start(&server_node, localhost());
    let server = address(&server_node);
    let cases = [
        (authority.trusted_by(other.pem(CLIENT)), ours(CertificateFlaw::UnknownAuthority)),
        (authority.expired(CLIENT), ours(CertificateFlaw::Expired)),
        (authority.pem("other.test"), ours(CertificateFlaw::NotAllowed)),
        (other.trusted_by(authority.pem(CLIENT)), theirs(CertificateFlaw::UnknownAuthority)),
    ];
    for (pem, expected) in cases {
        let node = secured_node(false, pem, None);
        let error = failure(&node, server);
        assert_eq!(error, expected, "{error}");
        assert!(!error.retry_may_succeed());
        is_served(authority.pem(CLIENT), server);
    }
    assert_eq!(ours(CertificateFlaw::Expired).fault(), Fault::Client);
    assert_eq!(theirs(CertificateFlaw::Expired).fault(), Fault::Server);
}

#[test]
fn c18_a_client_judges_its_server() {
    let _watchdog = watchdog("servers judged");
    let authority = Authority::new("one");
    let client_of = |allow: Option<&[&str]>| secured_node(false, authority.pem(CLIENT), allow);
    let expired = secured_node(true, authority.expired(SERVER), None);
    let error = failure(&client_of(None), address(&expired));
    assert_eq!(error, theirs(CertificateFlaw::Expired));
    let good = secured_node(true, authority.pem(SERVER), None);
    let error = failure(&client_of(Some(&["other.test"])), address(&good));
    assert_eq!(error, theirs(CertificateFlaw::NotAllowed));
    // Its certificate is for 127.0.0.1.
    let listen = Some(SocketAddr::from(([127, 0, 0, 2], 0)));
    let tls = Some(unlisted(authority.pem(SERVER)));
    let config = NodeConfig { listen, tls, ..NodeConfig::default() };
    let elsewhere = Node::start(config).expect("all of 127/8 is loopback");
    let error = failure(&client_of(None), address(&elsewhere));
    assert_eq!(error, theirs(CertificateFlaw::WrongAddress));
}

#[test]
fn c16_plaintext_and_tls_do_not_mix() {
    let _watchdog = watchdog("plaintext and TLS");
    let authority = Authority::new("one");
    let secured = secured_node(true, authority.pem(SERVER), None);
    let _server = Server::start(&secured, localhost());
    let error = failure(&node(None), address(&secured));
    assert_eq!(error, SessionError::Tls(HandshakeFailure::Demanded), "{error}");
    is_served(authority.pem(CLIENT), address(&secured));
    let plain = node(Some(localhost()));
    let _server = Server::start(&plain, localhost());
    let error = failure(&secured_node(false, authority.pem(CLIENT), None), address(&plain));
    assert_eq!(error, SessionError::Tls(HandshakeFailure::Ended), "{error}");
}

#[test]
fn c16_off_loopback_plaintext_takes_consent() {
    let any = Some(SocketAddr::from(([0, 0, 0, 0], 0)));
    let refused = Node::start(NodeConfig { listen: any, ..NodeConfig::default() });
    assert!(matches!(refused, Err(NodeError::Plaintext(address)) if Some(address) == any));
    let consent = NodeConfig { listen: any, plaintext: true, ..NodeConfig::default() };
    assert!(Node::start(consent).is_ok());
    let authority = Authority::new("one");
    let tls = Some(unlisted(authority.pem(SERVER)));
    let tls = NodeConfig { listen: any, tls, ..NodeConfig::default() };
    assert!(Node::start(tls).is_ok());
    // An address for documentation, to which nothing is sent.
    let elsewhere = SocketAddr::from(([192, 0, 2, 1], 7411));
    let node = node(None);
    let mut client = client(&node, IpAddr::from([0, 0, 0, 0]));
    let begun = client.connect_and_wait(elsewhere, PATIENCE);
    let Err(ConnectAndWaitError::Failed(error)) = begun else { panic!("{begun:?}") };
    assert_eq!(error, SessionError::Plaintext(elsewhere));
    assert_eq!((error.fault(), error.retry_may_succeed()), (Fault::Client, false));
}

#[test]
fn c16_packets_stay_on_this_host_as_words_do() {
    let _watchdog = watchdog("data address");
    let node = node(Some(localhost()));
    let any = IpAddr::from([0, 0, 0, 0]);
    let mut server = endpoint_at(any, EndpointConfig::default(), 0usize);
    server.register(ECHO, echo);
    server.attach(&node).expect("the node runs");
    // A control connection from this host that wants packets sent to another.
    let mut stream = TcpStream::connect(address(&node)).expect("it listens");
    let hello = b"\x17\0\x01\0PTSC\x00\x01\x01\x01\x07\0\0\0\0\0\0\0\x01\0\x01\0\0\0\0";
    let connect = b"\x29\0\x02\0\
        \x01\0\0\0\0\0\0\0\xff\xff\0\0\0\0\0\0\x05\0\0\0\0\0\x01\0\0\0\x01\0\x08\0\0\x04\x08\0\
        \x50\0\x04\xc0\0\x02\x01";
    stream.write_all(hello).and_then(|()| stream.write_all(connect)).expect("it reads");
    let answered = |bytes: &[u8]| bytes.windows(4).position(|frame| frame == b"\x09\0\x03\0");
    stream.set_read_timeout(Some(Duration::from_millis(10))).expect("it is a socket");
    let (mut bytes, mut part) = (Vec::new(), [0; 512]);
    let code = loop {
        server.run_for(Duration::from_millis(1), |_, _| false);
        let count = stream.read(&mut part).unwrap_or(0);
        bytes.extend_from_slice(&part[..count]);
        if let Some(at) = answered(&bytes).filter(|at| bytes.len() >= at + 13) {
            break bytes[at + 12];
        }
    };
    assert_eq!(code, 5, "not authorised");
}

#[test]
fn c19_rings_are_not_sealed_but_know_their_peers() {
    let _watchdog = watchdog("rings");
    let authority = Authority::new("one");
    let server_node = secured_node(true, authority.pem(SERVER), None);
    let open = || {
        let at = SocketAddr::new(localhost(), 0);
        LocalIo::bind(at, &LocalConfig::default()).expect("loopback has ports")
    };
    let io = move || open().into();
    let _server = Server::start_over(&server_node, io, EndpointConfig::default(), |_| {});
    let node = secured_node(false, authority.pem(CLIENT), None);
    let io = open();
    if !io.has_rings() {
        return petasos_skips::skip("rings", "this host has no shared memory");
    }
    let state = Outcomes::default();
    let mut client = Endpoint::new(EndpointConfig::default(), io, Clock::system(), state);
    client.attach(&node).expect("the node runs");
    let session = client.connect_and_wait(address(&server_node), PATIENCE).expect("it is let in");
    echoes(&mut client, session);
    assert!(!client.context().is_sealed(session));
    assert_eq!(client.context().session_peer(session).expect("it has proved it").names, [SERVER]);
}

#[test]
fn certificates_are_read_again_and_sessions_outlive_them() {
    let _watchdog = watchdog("reloaded certificates");
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let folder = Folder::new("secured");
    let files = Credentials::Files(folder.write(&old.pem(SERVER)));
    let server_node = start(true, files, None).expect("the files are good");
    let _server = Server::start(&server_node, localhost());
    let old_node = secured_node(false, old.pem(CLIENT), None);
    let mut first = client(&old_node, localhost());
    let session = first.connect_and_wait(address(&server_node), PATIENCE).expect("it is let in");
    folder.write(&new.pem(SERVER));
    let new_node = secured_node(false, new.pem(CLIENT), None);
    let mut second = client(&new_node, localhost());
    // The server looks once a second.
    while second.connect_and_wait(address(&server_node), PATIENCE).is_err() {
        std::thread::sleep(Duration::from_millis(50));
    }
    echoes(&mut first, session);
    let error = failure(&secured_node(false, old.pem(CLIENT), None), address(&server_node));
    assert_eq!(error, theirs(CertificateFlaw::UnknownAuthority));
}

#[test]
fn keys_change_under_load() {
    let _watchdog = watchdog("rotation");
    let authority = Authority::new("one");
    let config = || EndpointConfig { key_life: KeyLife::of_log2(10), ..EndpointConfig::default() };
    let server_node = secured_node(true, authority.pem(SERVER), None);
    let io = || {
        let udp = petasos_netio_udp::UdpIo::bind(SocketAddr::new(localhost(), 0), <_>::default());
        udp.expect("loopback has ports").into()
    };
    let server = Server::start_over(&server_node, io, config(), |_| {});
    let node = secured_node(false, authority.pem(CLIENT), None);
    let mut client = endpoint_at(localhost(), config(), Outcomes::default());
    client.attach(&node).expect("the node runs");
    let session = client.connect_and_wait(address(&server_node), PATIENCE).expect("it is let in");
    for round in 0..500 {
        (0..16)
            .for_each(|call| crate::common::start(&mut client, session, ECHO, round * 16 + call));
        assert!(client.run_for(PATIENCE, |state, _| state.list.len() == 16), "round {round}");
        assert!(
            client
                .state_mut()
                .list
                .drain(..)
                .all(|(tag, outcome)| { outcome == Ok(tag.to_le_bytes().to_vec()) })
        );
    }
    let stats = client.stats();
    assert!(stats.client.request_packets >= 8000, "eight keys or more");
    assert_eq!(stats.event_loop.seals_broken, 0);
    assert_eq!(server.stop(), 8000);
}

#[test]
fn what_is_no_tls_ends_its_own_connection_only() {
    let _watchdog = watchdog("hostile bytes");
    let authority = Authority::new("one");
    let server_node = secured_node(true, authority.pem(SERVER), None);
    let _server = Server::start(&server_node, localhost());
    let mut seed = 7u64;
    for length in [1, 5, 6, 100, 5000, 70_000] {
        let junk: Vec<u8> = (0..length)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 56) as u8
            })
            .collect();
        // As it is, and as a record of the handshake.
        for start in [&b""[..], b"\x16\x03\x01\x40\0", b"\x17\x03\x03\xff\xff"] {
            let mut stream = TcpStream::connect(address(&server_node)).expect("it listens");
            // It may end the connection at any byte.
            let _ = stream.write_all(start).and_then(|()| stream.write_all(&junk));
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        }
    }
    is_served(authority.pem(CLIENT), address(&server_node));
}

#[test]
fn a_peer_that_dies_or_falls_silent_within_the_handshake_is_given_up() {
    let _watchdog = watchdog("silent peer");
    let authority = Authority::new("one");
    let listener = TcpListener::bind((localhost(), 0)).expect("loopback has ports");
    let silent = listener.local_addr().expect("it is bound");
    let node = Node::start(NodeConfig {
        tls: Some(unlisted(authority.pem(CLIENT))),
        heartbeat: Duration::from_millis(50),
        failure_timeout: Duration::from_millis(200),
        ..NodeConfig::default()
    });
    let node = node.expect("threads are to be had");
    assert_eq!(failure(&node, silent), SessionError::PeerFailed(FailureReason::Timeout));
    let dies = std::thread::spawn(move || {
        // The first connection has been given up.
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().expect("someone connects");
            let _ = stream.read(&mut [0; 64]);
        }
    });
    let error = failure(&node, silent);
    let dead = SessionError::PeerFailed(FailureReason::Reset);
    let ended = SessionError::Tls(HandshakeFailure::Ended);
    assert!(error == ended || error == dead, "{error}");
    assert!(error.retry_may_succeed());
    dies.join().expect("it does not panic");
}

/// Set in the server's process: where its certificate is.
const FOLDER: &str = "PETASOS_TEST_CERTIFICATES";

/// Not a test of its own: what the server's process runs.
#[test]
fn child_server() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let files = Credentials::Files(Folder::files(folder.as_ref()));
    let node = start(true, files, None).expect("the parent has written the files");
    let _server = Server::start(&node, localhost());
    tell_parent(&node);
}

#[test]
fn a_killed_server_fails_its_sealed_sessions() {
    let _watchdog = watchdog("killed server");
    let authority = Authority::new("one");
    let folder = Folder::new("killed");
    folder.write(&authority.pem(SERVER));
    let mut command = this_program("secured::child_server");
    command.env(FOLDER, folder.path());
    let mut server = ServerProcess::start(command).expect("the test can run itself");
    let node = secured_node(false, authority.pem(CLIENT), None);
    let mut client = client(&node, localhost());
    let session = client.connect_and_wait(server.address, PATIENCE).expect("it is let in");
    echoes(&mut client, session);
    enqueue_long(&mut client, session);
    client.run_for(Duration::from_millis(2), |_, _| false);
    server.kill();
    assert!(client.run_for(PATIENCE, |state, _| state.list.len() == 4), "every call ends");
    for (_, outcome) in client.state_mut().list.drain(..) {
        assert!(outcome.is_ok() || outcome == Err(CallError::PeerFailed), "whole or failed");
    }
    assert!(client.run_for(PATIENCE, |_, cx| cx.session_error(session).is_some()));
    let error = client.context().session_error(session).expect("it was just there");
    let dead = [FailureReason::Eof, FailureReason::Reset].map(SessionError::PeerFailed);
    assert!(dead.contains(&error), "{error:?}");
    client.close_session(session);
    assert_eq!(client.memory().pool.lent_bytes, 0, "every buffer has come back");
}

fn enqueue_long(client: &mut Endpoint<Outcomes>, session: SessionId) {
    for tag in 0..4 {
        let request = MsgBuf::new(16 << 20);
        let call = client.context().enqueue_request(session, ECHO, request, collect, tag);
        call.expect("there is room");
    }
}
