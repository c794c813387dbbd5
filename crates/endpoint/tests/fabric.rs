//! A session over libfabric hears packets from its peer's address only, and sends nothing to a port
//! that it has not heard from (W32).
#![cfg(feature = "fabric")]

mod common;

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use common::*;
use petasos_control::AcceptParams;
use petasos_endpoint::{
    Backend, Cipher, Clock, Endpoint, EndpointConfig, Identity, SessionSecret, SessionSecurity,
};
use petasos_netio_fabric::{FabricConfig, FabricIo};
use petasos_wire::{Header, Kind};

fn any() -> SocketAddr {
    SocketAddr::new(localhost(), 0)
}

/// The provider that tests have; its packets are those of UDP.
fn udp() -> Backend {
    let config = FabricConfig { provider: Some("udp".to_owned()), ..FabricConfig::default() };
    FabricIo::bind(any(), &config).expect("loopback has ports").into()
}

struct World {
    client: Endpoint<Outcomes>,
    server: Endpoint<usize>,
    stranger: UdpSocket,
}

impl World {
    fn new() -> World {
        let config = EndpointConfig::default;
        let client = Endpoint::new(config(), udp(), Clock::system(), Outcomes::default());
        let mut server = Endpoint::new(config(), udp(), Clock::system(), 0usize);
        server.register(ECHO, |count, cx, request| {
            *count += 1;
            echo(count, cx, request);
        });
        let stranger = UdpSocket::bind(any()).expect("loopback has ports");
        World { client, server, stranger }
    }

    /// Both loops, until what was sent to them has come.
    fn turn(&mut self) {
        for _ in 0..2000 {
            self.server.run_once();
            self.client.run_once();
        }
    }
}

#[test]
fn w32_a_session_over_libfabric_hears_its_peers_address_only() {
    let _watchdog = watchdog("address only");
    let mut world = World::new();
    let to = world.server.local_address();
    let offer = world.client.open_session(to, None).expect("it is there").expect("there is room");
    let granted = world.server.accept_session(&offer.params, localhost(), None);
    let granted = granted.expect("it accepts");
    world.client.establish_session(&offer, &granted, localhost()).expect("there is a way");
    let AcceptParams { session, tag, slots, .. } = granted;
    let header = Header::for_session(session, tag).with_request(Kind::Request, slots.into(), 0);
    let forged = header.with_client(0, 0, ECHO).to_bytes();
    world.stranger.send_to(&forged, to).expect("loopback takes it");
    world.turn();
    assert_eq!(*world.server.state(), 0, "the handler has not run");
    assert_eq!(world.server.stats().event_loop.wrong_origin, 1);
    // A true call is served all the same.
    start(&mut world.client, offer.session, ECHO, 7);
    while world.client.state().list.is_empty() {
        world.turn();
    }
    let (_, outcome) = world.client.state_mut().list.pop().expect("it has ended");
    assert_eq!(outcome, Ok(7u64.to_le_bytes().to_vec()));
    assert_eq!(*world.server.state(), 1);
}

/// What TLS would give both ends.
fn security() -> Option<SessionSecurity> {
    let identity = Identity { names: vec!["peer.test".to_owned()], certificate: Vec::new() };
    let secret = SessionSecret::new(Cipher::Aes128Gcm, [1; 32]);
    Some(SessionSecurity { identity: Arc::new(identity), secret })
}

/// Its peer could ask from one port, and have the answers sent to another.
#[test]
fn w32_a_session_over_libfabric_is_not_aimed_at_another_port() {
    let mut world = World::new();
    let to = world.server.local_address();
    let offer = world.client.open_secured(to, None).expect("it is there").expect("there is room");
    let mut aimed = offer.params;
    aimed.address.port = world.stranger.local_addr().expect("it is bound").port();
    let granted = world.server.accept_secured(&aimed, localhost(), None, security());
    let granted = granted.expect("any port of the own address may be named");
    let ready = world.client.establish_secured(&offer, &granted, localhost(), security());
    assert!(ready.expect("there is a way"));
    start(&mut world.client, offer.session, ECHO, 7);
    world.turn();
    world.stranger.set_nonblocking(true).expect("a socket can be asked");
    let heard = world.stranger.recv(&mut [0; 2048]).map_err(|error| error.kind());
    assert_eq!(heard, Err(ErrorKind::WouldBlock), "nothing was aimed at the stranger");
    assert!(world.server.stats().event_loop.wrong_origin > 0);
    assert_eq!(*world.server.state(), 0, "the handler has not run");
}
