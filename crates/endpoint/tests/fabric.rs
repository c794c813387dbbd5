//! A session over libfabric hears packets from its peer's address only, and sends nothing to a port
//! that it has not heard from (W32).
#![cfg(feature = "fabric")]

mod common;

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use common::*;
use petasos_control::{AcceptParams, Carrier};
use petasos_endpoint::{
    Backend, Cipher, Clock, Endpoint, EndpointConfig, Identity, MsgBuf, RefuseCode, SessionId,
    SessionSecret, SessionSecurity, Switch,
};
use petasos_netio_fabric::message::Writer;
use petasos_netio_fabric::{FabricConfig, FabricIo, FabricStats};
use petasos_wire::{Header, Kind};

fn any() -> SocketAddr {
    SocketAddr::new(localhost(), 0)
}

/// The provider that tests have; its messages are datagrams of UDP.
fn udp_with(fusing: &Switch) -> Backend {
    let (provider, fusing) = (Some("udp".to_owned()), fusing.clone());
    let config = FabricConfig { provider, fusing, ..FabricConfig::default() };
    FabricIo::bind(any(), &config).expect("loopback has ports").into()
}

struct World {
    client: Endpoint<Outcomes>,
    server: Endpoint<usize>,
    stranger: UdpSocket,
}

impl World {
    fn new() -> World {
        World::with(&Switch::default())
    }

    fn with(fusing: &Switch) -> World {
        let config = EndpointConfig::default;
        let client =
            Endpoint::new(config(), udp_with(fusing), Clock::system(), Outcomes::default());
        let mut server = Endpoint::new(config(), udp_with(fusing), Clock::system(), 0usize);
        server.register(ECHO, |count, cx, request| {
            *count += 1;
            echo(count, cx, request);
        });
        let stranger = UdpSocket::bind(any()).expect("loopback has ports");
        World { client, server, stranger }
    }

    /// A session of the client with the server.
    fn session(&mut self) -> SessionId {
        let to = self.server.local_address();
        let offer = self.client.open_session(to, None).expect("it is there");
        let offer = offer.expect("there is room");
        let granted = self.server.accept_session(&offer.params, localhost(), None);
        let granted = granted.expect("it accepts");
        self.client.establish_session(&offer, &granted, localhost()).expect("there is a way");
        offer.session
    }

    fn client_stats(&self) -> FabricStats {
        let Backend::Fabric(io) = self.client.io() else { panic!("it is over a fabric") };
        io.fabric_stats()
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
    let (mut writer, mut message) = (Writer::default(), [0; 100]);
    writer.push(&mut message, [&forged, &[]]);
    world.stranger.send_to(&message[..writer.len()], to).expect("loopback takes it");
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

/// Requests of two sessions, as two applications of a service have them: small ones beside a large
/// one, in one turn.
fn small_beside_large(world: &mut World, sessions: [SessionId; 2]) {
    let large: Vec<u8> = (0..20_000).map(|at| (at % 251) as u8).collect();
    for round in 0..50 {
        start(&mut world.client, sessions[0], ECHO, round);
        let request = MsgBuf::from_slice(&large);
        let context = world.client.context();
        let queued = context.enqueue_request(sessions[1], ECHO, request, collect, 1000 + round);
        queued.expect("there is room");
        start(&mut world.client, sessions[1], ECHO, 2000 + round);
        start(&mut world.client, sessions[0], ECHO, 3000 + round);
        while world.client.state().list.len() < 4 {
            world.server.run_once();
            world.client.run_once();
        }
        for (tag, outcome) in world.client.state_mut().list.drain(..) {
            let expected = match tag / 1000 {
                1 => large.clone(),
                _ => tag.to_le_bytes().to_vec(),
            };
            assert!(outcome == Ok(expected), "{tag}");
        }
    }
    assert_eq!(*world.server.state() % 200, 0, "each has run once");
}

#[test]
fn w34_packets_of_several_sessions_share_messages_if_they_may() {
    let _watchdog = watchdog("fused");
    let fusing = Switch::default();
    let mut world = World::with(&fusing);
    let sessions = [world.session(), world.session()];
    small_beside_large(&mut world, sessions);
    let fused = world.client_stats();
    assert!(fused.tx_fused >= 100, "{fused:?}");
    assert_eq!(fused.rx_malformed, 0);
    fusing.set(false);
    small_beside_large(&mut world, sessions);
    let each = world.client_stats();
    assert_eq!(each.tx_fused, fused.tx_fused);
    let more = each.tx_messages - fused.tx_messages;
    assert!(more > fused.tx_messages, "{more} instead of {}", fused.tx_messages);
    assert_eq!(world.client.stats().event_loop.wrong_origin, 0);
}

#[test]
fn c7_peers_agree_that_their_packets_are_in_messages() {
    let mut world = World::new();
    let to = world.server.local_address();
    let offer = world.client.open_session(to, None).expect("it is there").expect("there is room");
    assert_eq!(offer.params.address.carrier, Carrier::Fabric);
    for carrier in [Carrier::Datagrams, Carrier::Tcp] {
        let mut other = offer.params;
        other.address.carrier = carrier;
        let refused = world.server.accept_session(&other, localhost(), None);
        assert_eq!(refused.err(), Some(RefuseCode::IncompatibleParameters), "{carrier:?}");
    }
}
