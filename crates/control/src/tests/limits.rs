//! Bounds on memory, against good peers and bad ones.

use petasos_base::Time;

use super::local::beside;
use super::pair::{ACCEPTOR, DIALLER, Pair, Side};
use super::{encoded, grant, params};
use crate::*;

fn ids() -> impl Iterator<Item = u64> {
    0..OUTSTANDING_MAX as u64
}

#[test]
fn c8_requests_are_limited_until_they_are_answered() {
    let mut pair = Pair::open();
    for id in ids() {
        pair.transfer();
        pair.dialler.connection.connect(id, params(id as u32), pair.now).unwrap();
    }
    let full = pair.dialler.connection.connect(u64::MAX, params(3), pair.now);
    assert_eq!(full, Err(ConnectError::TooManyOutstanding));
    let full = pair.dialler.connection.disconnect(grant(5).server_ref());
    assert_eq!(full, Err(DisconnectError::TooManyOutstanding));
    pair.transfer();
    pair.acceptor.connection.reply(0, Ok(grant(5))).unwrap();
    pair.transfer();
    pair.dialler.connection.connect(u64::MAX, params(3), pair.now).unwrap();
}

#[test]
fn c8_a_peer_with_too_many_requests_is_cut_off() {
    let mut pair = Pair::open();
    for id in 0..=OUTSTANDING_MAX as u64 {
        assert!(pair.acceptor.connection.is_open());
        let bytes = encoded(&Message::Connect { connect_id: id, params: params(3) });
        pair.acceptor.connection.handle_bytes(&bytes, pair.now);
    }
    let reason = FailureReason::Protocol(ProtocolError::TooManyOutstanding);
    assert_eq!(pair.acceptor.take_events().last(), Some(&Event::PeerFailed(reason)));
}

#[test]
fn c15_unsent_bytes_turn_new_requests_down_until_they_are_sent() {
    let mut pair = Pair::open();
    let config = Config::default();
    let mut connects = 0;
    let turned_down = loop {
        let unsent = pair.dialler.connection.poll_output().map_or(0, <[u8]>::len);
        assert!(unsent < config.output_bytes_max + FRAME_BYTES_MAX);
        let session = SessionRef { session: connects, ..grant(5).server_ref() };
        // A ping's answer takes room too, without being counted among the requests.
        let ping = encoded(&Message::Ping { nonce: connects.into() });
        (0..6).for_each(|_| pair.dialler.connection.handle_bytes(&ping, pair.now));
        match pair.dialler.connection.disconnect(session) {
            Ok(()) => connects += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(turned_down, DisconnectError::Backlogged);
    let refused = pair.dialler.connection.connect(1, params(3), pair.now);
    assert_eq!(refused, Err(ConnectError::Backlogged));
    pair.dialler.take_output();
    pair.dialler.connection.connect(1, params(3), pair.now).unwrap();
}

#[test]
fn c15_a_good_peer_that_reads_late_is_owed_every_answer() {
    let config = Config { output_bytes_max: 4096, ..Config::default() };
    let mut side = Side::new(config, Role::Acceptor, beside(ACCEPTOR));
    side.connection.handle_bytes(&encoded(&Message::Hello(beside(DIALLER))), Time::ZERO);
    let turned_down = (0..).find_map(|session| {
        let session = SessionRef { session, ..params(3).client_ref() };
        side.connection.disconnect(session).err()
    });
    assert_eq!(turned_down, Some(DisconnectError::Backlogged));
    let ip = Some("2001:db8::1".parse().unwrap());
    let local = ip.map(|ip| core::net::SocketAddr::new(ip, 1));
    let longest = AcceptParams { address: DataAddress::udp(1, ip), local, ..grant(5) };
    for id in ids() {
        let offer = LocalOffer { name: local.unwrap(), credits: 32, payload_bytes_max: 1448 };
        let params = ConnectParams { local: Some(offer), ..params(3) };
        let bytes = encoded(&Message::Connect { connect_id: id, params });
        side.connection.handle_bytes(&bytes, Time::ZERO);
        side.connection.reply(id, Ok(longest)).unwrap();
    }
    side.connection.handle_bytes(&encoded(&Message::Ping { nonce: 1 }), Time::ZERO);
    assert!(side.connection.is_open());
}

#[test]
fn c15_a_peer_that_never_reads_is_cut_off() {
    let mut pair = Pair::open();
    let ping = encoded(&Message::Ping { nonce: 1 });
    let config = Config::default();
    while pair.acceptor.connection.is_open() {
        pair.acceptor.connection.handle_bytes(&ping, pair.now);
        let unsent = pair.acceptor.connection.poll_output().map_or(0, <[u8]>::len);
        assert!(unsent <= config.output_bytes_max + OWED_BYTES_MAX);
    }
    let reason = FailureReason::Protocol(ProtocolError::NotReading);
    assert_eq!(pair.acceptor.take_events(), [Event::PeerFailed(reason)]);
    assert!(pair.acceptor.connection.is_finished(), "its output is given up");
}

#[test]
fn c15_output_is_taken_in_any_portions() {
    let mut pair = Pair::open().seeded(9, 7);
    for id in ids() {
        pair.dialler.connection.connect(id, params(id as u32), pair.now).unwrap();
        if id % 100 == 99 {
            pair.transfer();
        }
        pair.transfer_piece(true);
    }
    pair.transfer();
    let expected: Vec<_> =
        ids().map(|id| Event::ConnectRequested { id, params: params(id as u32) }).collect();
    assert_eq!(pair.acceptor.take_events(), expected);
}
