//! Sessions beside the network, between processes of one place.

use core::net::SocketAddr;

use super::pair::{ACCEPTOR, DIALLER, Pair};
use super::{decoded, encoded, grant, hello, params};
use crate::*;

const HERE: Place = Place { boot: [7; 16], namespace: 4_026_531_840 };

/// A process of one certain place.
pub(super) fn beside(incarnation: u64) -> Hello {
    at(Some(HERE), incarnation)
}

fn at(place: Option<Place>, incarnation: u64) -> Hello {
    let hello = hello(incarnation);
    let capabilities = hello.capabilities.with(Capabilities::LOCAL);
    Hello { place, capabilities, ..hello }
}

fn name(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn offering() -> ConnectParams {
    let local = LocalOffer { name: name(1), credits: 512, payload_bytes_max: 16_000 };
    ConnectParams { local: Some(local), ..params(3) }
}

/// What the acceptor is asked, if both say hello as given.
fn asked(dialler: Hello, acceptor: Hello) -> ConnectParams {
    let mut pair = Pair::with(dialler, acceptor);
    pair.transfer();
    pair.dialler.connection.connect(1, offering(), pair.now).unwrap();
    pair.transfer();
    match pair.acceptor.take_events().pop() {
        Some(Event::ConnectRequested { params, .. }) => params,
        other => panic!("{other:?} is no request"),
    }
}

#[test]
fn c17_names_are_exchanged_in_one_place() {
    let mut pair = Pair::with(beside(DIALLER), beside(ACCEPTOR));
    pair.transfer();
    pair.dialler.take_events();
    pair.acceptor.take_events();
    pair.dialler.connection.connect(1, offering(), pair.now).unwrap();
    pair.transfer();
    let requested = Event::ConnectRequested { id: 1, params: offering() };
    assert_eq!(pair.acceptor.take_events(), [requested]);
    // The local part's window holds, not the connect's.
    let local =
        AcceptParams { local: Some(name(2)), credits: 512, payload_bytes: 16_000, ..grant(5) };
    pair.acceptor.connection.reply(1, Ok(local)).unwrap();
    pair.transfer();
    let answered = Event::ConnectAnswered { id: 1, result: Ok(local) };
    assert_eq!(pair.dialler.take_events(), [answered]);
}

#[test]
fn c17_nothing_local_is_asked_across_places_or_of_those_who_do_not_know_it() {
    let elsewhere = [
        None,
        Some(Place { namespace: HERE.namespace + 1, ..HERE }),
        Some(Place { boot: [8; 16], ..HERE }),
    ];
    for place in elsewhere {
        assert_eq!(asked(beside(DIALLER), at(place, ACCEPTOR)), params(3));
        assert_eq!(asked(at(place, DIALLER), beside(ACCEPTOR)), params(3));
    }
    assert_eq!(asked(at(None, DIALLER), at(None, ACCEPTOR)), params(3), "unknown is no place");
    let deaf = Hello { capabilities: hello(1).capabilities, ..beside(ACCEPTOR) };
    assert_eq!(asked(beside(DIALLER), deaf), params(3));
    assert_eq!(asked(beside(DIALLER), beside(ACCEPTOR)), offering());
}

#[test]
fn c17_a_local_part_from_elsewhere_is_ignored() {
    let mut pair = Pair::with(hello(DIALLER), beside(ACCEPTOR));
    pair.transfer();
    pair.acceptor.take_events();
    let bytes = encoded(&Message::Connect { connect_id: 1, params: offering() });
    pair.acceptor.connection.handle_bytes(&bytes, pair.now);
    let requested = Event::ConnectRequested { id: 1, params: params(3) };
    assert_eq!(pair.acceptor.take_events(), [requested]);
    let local = AcceptParams { local: Some(name(2)), ..grant(5) };
    let refused = pair.acceptor.connection.reply(1, Ok(local));
    assert_eq!(refused, Err(ReplyError::InvalidField("local")));
}

#[test]
fn c17_a_grant_by_names_that_nobody_offered_ends_the_connection() {
    let mut pair = Pair::open();
    pair.dialler.connection.connect(1, offering(), pair.now).unwrap();
    let local = AcceptParams { local: Some(name(2)), ..grant(5) };
    let bytes = encoded(&Message::ConnectReply { connect_id: 1, result: Ok(local) });
    pair.dialler.connection.handle_bytes(&bytes, pair.now);
    let reason = FailureReason::Protocol(ProtocolError::ExceedsProposal("local"));
    assert_eq!(pair.dialler.take_events().pop(), Some(Event::PeerFailed(reason)));
}

#[test]
fn c17_a_server_without_a_name_grants_the_network_window() {
    let limits = ServerLimits {
        slots_max: 8,
        credits_max: 4095,
        payload_bytes_max: 65_000,
        request_bytes_max: 1 << 28,
        response_bytes_max: 1 << 28,
    };
    let server = grant(9).server_ref();
    let granted = |local| offering().accept(&limits, server, grant(9).address, local).unwrap();
    let window = |grant: AcceptParams| (grant.local, grant.credits, grant.payload_bytes);
    assert_eq!(window(granted(None)), (None, 32, 1448));
    assert_eq!(window(granted(Some(name(2)))), (Some(name(2)), 512, 16_000));
    let unasked = params(3).accept(&limits, server, grant(9).address, Some(name(2))).unwrap();
    assert_eq!(window(unasked), (None, 32, 1448));
}

#[test]
fn c17_names_are_whole_addresses_and_windows_are_checked() {
    let unusable = [
        LocalOffer { name: "0.0.0.0:1".parse().unwrap(), credits: 1, payload_bytes_max: 1024 },
        LocalOffer { name: name(0), credits: 1, payload_bytes_max: 1024 },
        LocalOffer { name: name(1), credits: 0, payload_bytes_max: 1024 },
        LocalOffer { name: name(1), credits: 1, payload_bytes_max: 1023 },
    ];
    for local in unusable {
        let params = ConnectParams { local: Some(local), ..params(3) };
        let bytes = encoded(&Message::Connect { connect_id: 1, params });
        assert!(matches!(decoded(&bytes), Err(Malformed::Value(_))), "{local:?}");
    }
    let accepted = AcceptParams { local: Some(name(2)), ..grant(5) };
    let mut bytes = encoded(&Message::ConnectReply { connect_id: 1, result: Ok(accepted) });
    let family = bytes.len() - 5;
    bytes.truncate(family + 1);
    bytes[0] -= 4;
    bytes[family] = 0;
    assert_eq!(decoded(&bytes), Err(Malformed::Value("local")));
}

#[test]
fn c17_a_hello_of_version_1_0_has_no_place() {
    let bytes = encoded(&Message::Hello(beside(1)));
    for cut in 1..=24 {
        let mut bytes = bytes[..bytes.len() - cut].to_vec();
        bytes[0] -= cut as u8;
        let without = Hello { place: None, ..beside(1) };
        assert_eq!(decoded(&bytes), Ok(Message::Hello(without)), "{cut} bytes less");
    }
}
