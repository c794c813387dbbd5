//! Asking for sessions.

use core::time::Duration;

use super::pair::{ACCEPTOR, DIALLER, Pair};
use super::{encoded, grant, hello, params};
use crate::*;

fn answered(id: u64, result: Result<AcceptParams, ConnectFailure>) -> Vec<Event> {
    vec![Event::ConnectAnswered { id, result }]
}

#[test]
fn c7_c9_a_connect_is_requested_and_answered() {
    let mut pair = Pair::open().seeded(3, 5);
    pair.dialler.connection.connect(1, params(3), pair.now).unwrap();
    pair.transfer();
    let requested = Event::ConnectRequested { id: 1, params: params(3) };
    assert_eq!(pair.acceptor.take_events(), [requested]);
    pair.acceptor.connection.reply(1, Ok(grant(5))).unwrap();
    pair.transfer();
    assert_eq!(pair.dialler.take_events(), answered(1, Ok(grant(5))));
}

#[test]
fn c7_the_acceptor_may_ask_as_well() {
    let mut pair = Pair::open();
    pair.acceptor.connection.connect(1, params(3), pair.now).unwrap();
    pair.transfer();
    pair.dialler.connection.reply(1, Err(RefuseCode::SessionsFull)).unwrap();
    pair.transfer();
    let refused = Err(ConnectFailure::Refused(RefuseCode::SessionsFull));
    assert_eq!(pair.acceptor.take_events(), answered(1, refused));
}

#[test]
fn c7_only_who_knows_addresses_of_a_kind_gets_one() {
    for (carrier, known, other) in [
        (Carrier::Tcp, Capabilities::TCP, Capabilities::FABRIC),
        (Carrier::Fabric, Capabilities::FABRIC, Capabilities::TCP),
    ] {
        let address = DataAddress { carrier, ..params(3).address };
        let asked = ConnectParams { address, ..params(3) };
        let knows = |side, what| {
            let one = hello(side);
            Hello { capabilities: one.capabilities.with(what), ..one }
        };
        let open = |what| {
            let mut pair = Pair::with(knows(DIALLER, what), knows(ACCEPTOR, what));
            pair.transfer();
            pair.dialler.take_events();
            pair.acceptor.take_events();
            pair
        };
        let mut pair = open(other);
        let refused = pair.dialler.connection.connect(1, asked, pair.now);
        assert_eq!(refused, Err(ConnectError::UnknownCarrier(carrier)));
        let mut pair = open(known);
        assert_eq!(pair.dialler.connection.connect(1, asked, pair.now), Ok(()));
        pair.transfer();
        let requested = Event::ConnectRequested { id: 1, params: asked };
        assert_eq!(pair.acceptor.take_events(), [requested]);
    }
}

#[test]
fn c9_an_endpoint_that_does_not_exist_is_refused_at_once() {
    let mut pair = Pair::open();
    let asked = ConnectParams { target: Target::Index(4), ..params(3) };
    pair.dialler.connection.connect(1, asked, pair.now).unwrap();
    pair.transfer();
    assert_eq!(pair.acceptor.take_events(), []);
    let refused = Err(ConnectFailure::Refused(RefuseCode::NoSuchEndpoint));
    assert_eq!(pair.dialler.take_events(), answered(1, refused));
}

#[test]
fn c8_an_unanswered_connect_times_out_while_the_peer_lives() {
    let mut pair = Pair::open();
    pair.dialler.connection.connect(1, params(3), pair.now).unwrap();
    pair.pass(Config::default().connect_timeout - Duration::from_nanos(1));
    assert_eq!(pair.dialler.take_events(), []);
    pair.pass(Duration::from_nanos(1));
    assert_eq!(pair.dialler.take_events(), answered(1, Err(ConnectFailure::TimedOut)));
    assert!(pair.dialler.connection.is_open());
}

#[test]
fn c8_a_late_grant_is_given_back() {
    let mut pair = Pair::open();
    pair.dialler.connection.connect(1, params(3), pair.now).unwrap();
    pair.pass(Duration::from_secs(3));
    pair.dialler.take_events();
    pair.acceptor.take_events();
    pair.acceptor.connection.reply(1, Ok(grant(5))).unwrap();
    pair.transfer();
    let session = grant(5).server_ref();
    assert_eq!(pair.acceptor.take_events(), [Event::Disconnected { session }]);
    assert_eq!(pair.dialler.take_events(), [Event::DisconnectAnswered { session }]);
    assert_eq!(pair.dialler.connection.counters().grants_late, 1);
}

#[test]
fn c12_a_timed_out_connect_repeated_takes_the_answer_that_is_still_owed() {
    let mut pair = Pair::open();
    pair.dialler.connection.connect(1, params(3), pair.now).unwrap();
    pair.pass(Duration::from_secs(3));
    assert_eq!(pair.dialler.take_events().len(), 1);
    let other = pair.dialler.connection.connect(1, params(4), pair.now);
    assert_eq!(other, Err(ConnectError::IdInUse));
    pair.dialler.connection.connect(1, params(3), pair.now).unwrap();
    pair.transfer();
    assert_eq!(pair.acceptor.take_events().len(), 1, "one request for two attempts");
    pair.acceptor.connection.reply(1, Ok(grant(5))).unwrap();
    pair.transfer();
    assert_eq!(pair.dialler.take_events(), answered(1, Ok(grant(5))));
    assert_eq!(pair.dialler.connection.counters().grants_late, 0);
}

#[test]
fn c12_an_answered_connect_repeated_is_answered_alike() {
    let mut pair = Pair::open();
    for result in [Ok(grant(5)), Err(RefuseCode::Internal)] {
        let id = u64::from(result.is_ok());
        pair.dialler.connection.connect(id, params(3), pair.now).unwrap();
        pair.transfer();
        pair.acceptor.take_events();
        pair.acceptor.connection.reply(id, result).unwrap();
        pair.transfer();
        let first = pair.dialler.take_events();
        pair.dialler.connection.connect(id, params(3), pair.now).unwrap();
        pair.transfer();
        assert_eq!(pair.acceptor.take_events(), [], "no second request");
        assert_eq!(pair.dialler.take_events(), first);
    }
    assert_eq!(pair.acceptor.connection.counters().connects_repeated, 2);
}

#[test]
fn c12_a_connect_repeated_before_its_answer_is_one_request() {
    let mut pair = Pair::open();
    let bytes = encoded(&Message::Connect { connect_id: 1, params: params(3) });
    pair.acceptor.connection.handle_bytes(&bytes, pair.now);
    pair.acceptor.connection.handle_bytes(&bytes, pair.now);
    assert_eq!(pair.acceptor.take_events().len(), 1);
}

#[test]
fn c8_a_reply_that_was_not_asked_for_is_an_error() {
    for message in [
        Message::ConnectReply { connect_id: 9, result: Ok(grant(5)) },
        Message::DisconnectReply(grant(5).server_ref()),
        Message::Pong { nonce: 0 },
    ] {
        let mut pair = Pair::open();
        pair.dialler.connection.handle_bytes(&encoded(&message), pair.now);
        let reason = FailureReason::Protocol(ProtocolError::UnexpectedReply);
        assert_eq!(pair.dialler.take_events(), [Event::PeerFailed(reason)]);
    }
}

#[test]
fn c9_a_grant_beyond_what_was_asked_is_an_error_on_both_sides() {
    let over = |carrier| {
        let address = DataAddress { carrier, ..grant(5).address };
        AcceptParams { address, ..grant(5) }
    };
    let beyond = [
        (over(Carrier::Tcp), "address"),
        (over(Carrier::Fabric), "address"),
        (AcceptParams { slots: 16, ..grant(5) }, "slots"),
        (AcceptParams { credits: 33, ..grant(5) }, "credits"),
        (AcceptParams { payload_bytes: 1449, ..grant(5) }, "payload_bytes"),
        (AcceptParams { request_bytes_max: (1 << 23) + 1, ..grant(5) }, "request_bytes_max"),
        (AcceptParams { response_bytes_max: (1 << 22) + 1, ..grant(5) }, "response_bytes_max"),
        (AcceptParams { endpoint: 3, ..grant(5) }, "endpoint"),
    ];
    for (result, field) in beyond {
        let mut pair = Pair::open();
        pair.dialler.connection.connect(1, params(3), pair.now).unwrap();
        pair.transfer();
        let refused = pair.acceptor.connection.reply(1, Ok(result));
        assert_eq!(refused, Err(ReplyError::InvalidField(field)));
        let forged = encoded(&Message::ConnectReply { connect_id: 1, result: Ok(result) });
        pair.dialler.connection.handle_bytes(&forged, pair.now);
        let mut expected = answered(1, Err(ConnectFailure::PeerFailed));
        let reason = FailureReason::Protocol(ProtocolError::ExceedsProposal(field));
        expected.push(Event::PeerFailed(reason));
        assert_eq!(pair.dialler.take_events(), expected);
    }
}

#[test]
fn misused_commands_name_the_mistake() {
    let mut pair = Pair::new();
    let early = pair.dialler.connection.connect(1, params(3), pair.now);
    assert_eq!(early, Err(ConnectError::NotOpen));
    pair.transfer();
    let asked = ConnectParams { slots: 5, ..params(3) };
    let invalid = pair.dialler.connection.connect(1, asked, pair.now);
    assert_eq!(invalid, Err(ConnectError::InvalidField("slots")));
    pair.dialler.connection.connect(1, params(3), pair.now).unwrap();
    let again = pair.dialler.connection.connect(1, params(3), pair.now);
    assert_eq!(again, Err(ConnectError::IdInUse));
    let unknown = pair.acceptor.connection.reply(2, Ok(grant(5)));
    assert_eq!(unknown, Err(ReplyError::UnknownConnect));
}
