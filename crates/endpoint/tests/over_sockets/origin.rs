//! Where a session's packets come from: a frame that came by another way, or from another address,
//! is not heard, whatever tag it carries (W32); and where they go (C20).

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

use petasos_control::AcceptParams;
use petasos_endpoint::{
    Backend, Cipher, Clock, Endpoint, EndpointConfig, Identity, LocalConfig, LocalIo, Node,
    RefuseCode, SessionId, SessionOffer, SessionSecret, SessionSecurity, SessionState,
};
use petasos_netio_udp::{UdpConfig, UdpIo};
use petasos_wire::{Header, Kind};

use crate::certificates::{Authority, secured_node};
use crate::common::*;

fn any() -> SocketAddr {
    SocketAddr::new(localhost(), 0)
}

fn with_rings() -> Backend {
    LocalIo::bind(any(), &LocalConfig::default()).expect("loopback has ports").into()
}

fn without_rings() -> Backend {
    UdpIo::bind(any(), UdpConfig::default()).expect("loopback has ports").into()
}

/// A client and a server with a session between them, and a stranger's socket.
struct World {
    client: Endpoint<Outcomes>,
    server: Endpoint<usize>,
    session: SessionId,
    offer: SessionOffer,
    granted: AcceptParams,
    stranger: UdpSocket,
}

/// A server that counts the runs of its handler.
fn counting(config: EndpointConfig, io: Backend) -> Endpoint<usize> {
    let mut server = Endpoint::new(config, io, Clock::system(), 0);
    server.register(ECHO, |count, cx, request| {
        *count += 1;
        echo(count, cx, request);
    });
    server
}

impl World {
    fn new(io: fn() -> Backend) -> World {
        World::with_server(io, EndpointConfig::default())
    }

    fn with_server(io: fn() -> Backend, config: EndpointConfig) -> World {
        let own = EndpointConfig::default();
        let mut client = Endpoint::new(own, io(), Clock::system(), Outcomes::default());
        let mut server = counting(config, io());
        let to = server.local_address();
        let offer = client.open_session(to, None).expect("it is there").expect("there is room");
        let granted = server.accept_session(&offer.params, localhost(), None).expect("it accepts");
        client.establish_session(&offer, &granted, localhost()).expect("there is a way");
        let stranger = UdpSocket::bind(any()).expect("loopback has ports");
        World { session: offer.session, client, server, offer, granted, stranger }
    }

    /// A session that two nodes with TLS have set up. They do not tell the tag that the server has
    /// granted. It is that of another server which grants its first session by the same seed.
    fn over_tls(io: fn() -> Backend, nodes: &[Node; 2]) -> World {
        let config = EndpointConfig { seed: Some(7), ..EndpointConfig::default() };
        let World { offer, granted, stranger, .. } = World::with_server(io, config.clone());
        let mut server = counting(config, io());
        server.attach(&nodes[0]).expect("the node runs");
        let own = EndpointConfig::default();
        let mut client = Endpoint::new(own, io(), Clock::system(), Outcomes::default());
        client.attach(&nodes[1]).expect("the node runs");
        let to = nodes[0].local_address().expect("it listens");
        let session = client.connect(to).expect("there is room");
        while client.context().session_state(session) != SessionState::Ready {
            client.run_once();
            server.run_once();
            assert_eq!(client.context().session_error(session), None);
        }
        World { client, server, session, offer, granted, stranger }
    }

    /// Both loops, until what was sent to them has come.
    fn turn(&mut self) {
        for _ in 0..2000 {
            self.server.run_once();
            self.client.run_once();
        }
    }

    /// A true call, which is served all the same.
    fn echoes(&mut self) {
        start(&mut self.client, self.session, ECHO, 7);
        while self.client.state().list.is_empty() {
            self.turn();
        }
        let (_, outcome) = self.client.state_mut().list.pop().expect("it has ended");
        assert_eq!(outcome, Ok(7u64.to_le_bytes().to_vec()));
    }

    /// The first request of the session, with the right tag.
    fn forged_request(&self) -> [u8; 24] {
        let AcceptParams { session, tag, .. } = self.granted;
        let request = u64::from(self.granted.slots);
        let header = Header::for_session(session, tag).with_request(Kind::Request, request, 0);
        header.with_client(0, 0, ECHO).to_bytes()
    }
}

#[test]
fn w32_a_session_over_rings_hears_no_datagram() {
    let _watchdog = watchdog("rings only");
    let mut world = World::new(with_rings);
    assert!(world.granted.local.is_some(), "both are on this host");
    let forged = world.forged_request();
    world.stranger.send_to(&forged, world.server.local_address()).expect("loopback takes it");
    world.turn();
    assert_eq!(*world.server.state(), 0, "the handler has not run");
    assert_eq!(world.server.stats().event_loop.wrong_origin, 1);
    world.echoes();
    assert_eq!(*world.server.state(), 1);
}

/// It is not sealed, and a datagram that it heard would have its peer's name.
#[test]
fn w32_a_session_over_rings_with_an_identity_hears_no_datagram() {
    let _watchdog = watchdog("rings with an identity");
    let authority = Authority::new("one");
    let nodes = [true, false].map(|listens| secured_node(listens, authority.pem("a.test"), None));
    let mut world = World::over_tls(with_rings, &nodes);
    assert!(world.granted.local.is_some(), "both are on this host");
    let client = world.client.context();
    assert!(!client.is_sealed(world.session), "it goes over rings");
    let peer = client.session_peer(world.session).expect("it has proved its name");
    assert_eq!(peer.names, ["a.test"]);
    let forged = world.forged_request();
    world.stranger.send_to(&forged, world.server.local_address()).expect("loopback takes it");
    world.turn();
    assert_eq!(*world.server.state(), 0, "the handler has not run");
    assert_eq!(world.server.stats().event_loop.wrong_origin, 1, "the tag was right");
    world.echoes();
    assert_eq!(*world.server.state(), 1);
}

#[test]
fn w32_a_session_over_the_network_hears_its_peers_address_only() {
    let _watchdog = watchdog("address only");
    let mut world = World::new(without_rings);
    let forged = world.forged_request();
    world.stranger.send_to(&forged, world.server.local_address()).expect("loopback takes it");
    world.turn();
    assert_eq!(*world.server.state(), 0, "the handler has not run");
    assert_eq!(world.server.stats().event_loop.wrong_origin, 1);
    // A reset with the client's tag would end its calls.
    let own = world.offer.params;
    let reset = Header::for_session(own.session, own.tag).with_request(Kind::Reset, 8, 0);
    world.stranger.send_to(&reset.to_bytes(), world.client.local_address()).expect("it is taken");
    world.echoes();
    assert_eq!(world.client.stats().event_loop.wrong_origin, 1);
    assert_eq!(*world.server.state(), 1);
}

/// What TLS would give both ends.
fn security() -> SessionSecurity {
    let identity = Identity { names: vec!["peer.test".to_owned()], certificate: Vec::new() };
    let secret = SessionSecret::new(Cipher::Aes128Gcm, [1; 32]);
    SessionSecurity { identity: Arc::new(identity), secret }
}

/// Its peer could ask from one port, and have the answers sent to another, of somebody else behind
/// the same address.
#[test]
fn w32_a_sealed_session_sends_nothing_to_a_port_that_it_has_not_heard_from() {
    let mut world = World::new(without_rings);
    let to = world.server.local_address();
    let offer = world.client.open_secured(to, None).expect("it is there").expect("there is room");
    let mut aimed = offer.params;
    aimed.address.port = world.stranger.local_addr().expect("it is bound").port();
    let granted = world.server.accept_secured(&aimed, localhost(), None, Some(security()));
    let granted = granted.expect("any port of the own address may be named");
    let ready = world.client.establish_secured(&offer, &granted, localhost(), Some(security()));
    assert!(ready.expect("there is a way"));
    start(&mut world.client, offer.session, ECHO, 7);
    world.turn();
    world.stranger.set_nonblocking(true).expect("a socket can be asked");
    let heard = world.stranger.recv(&mut [0; 2048]).map_err(|error| error.kind());
    assert_eq!(heard, Err(ErrorKind::WouldBlock), "nothing was aimed at the stranger");
    assert!(world.server.stats().event_loop.wrong_origin > 0);
    assert_eq!(*world.server.state(), 0, "the handler has not run");
    world.echoes();
}

#[test]
fn c20_a_session_is_not_aimed_at_another_host() {
    let mut world = World::new(without_rings);
    let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
    let mut params = world.offer.params;
    params.address.ip = Some(ip("127.0.0.2"));
    // The documentation's network (RFC 5737) stands for a client elsewhere.
    for (count, security) in [(1, None), (2, Some(security()))] {
        let refused = world.server.accept_secured(&params, ip("192.0.2.7"), None, security);
        assert_eq!(refused.err(), Some(RefuseCode::NotAuthorised), "over TLS as well");
        assert_eq!(world.server.stats().event_loop.foreign_addresses, count);
    }
    // The connection's own address, also as IPv6 writes it, and loopback seen from loopback.
    for client in ["127.0.0.2", "::ffff:127.0.0.2", "127.0.0.1"] {
        assert!(world.server.accept_session(&params, ip(client), None).is_ok(), "{client}");
    }
}
