//! Another process at the acceptor's address (C22): who says so, to whom, and how often.

use super::pair::{ACCEPTOR, DIALLER, Pair};
use super::{encoded, grant, hello, params};
use crate::*;

fn misplaced(events: &[Event]) -> bool {
    let error = ProtocolError::SuccessorMisplaced;
    events.contains(&Event::PeerFailed(FailureReason::Protocol(error)))
}

#[test]
fn c22_a_dialler_hears_of_a_successor_once_and_what_it_has_goes_on() {
    let mut pair = Pair::open();
    pair.dialler.connection.connect(1, params(3), pair.now).unwrap();
    pair.transfer();
    pair.acceptor.take_events();
    pair.acceptor.connection.announce_successor();
    pair.acceptor.connection.announce_successor();
    pair.transfer();
    assert_eq!(pair.dialler.take_events(), [Event::PeerDraining, Event::PeerSucceeded]);
    let refused = pair.dialler.connection.connect(2, params(4), pair.now);
    assert_eq!(refused, Err(ConnectError::PeerDraining));
    pair.acceptor.connection.reply(1, Ok(grant(5))).unwrap();
    pair.transfer();
    let answered = Event::ConnectAnswered { id: 1, result: Ok(grant(5)) };
    assert_eq!(pair.dialler.take_events(), [answered]);
}

#[test]
fn c22_one_that_is_accepted_late_is_told_after_the_hello() {
    let mut pair = Pair::with(hello(DIALLER), hello(ACCEPTOR));
    pair.acceptor.connection.announce_successor();
    pair.transfer();
    let events = pair.dialler.take_events();
    assert_eq!(events[1..], [Event::PeerDraining, Event::PeerSucceeded]);
}

#[test]
fn c22_a_peer_of_version_1_2_hears_that_the_process_drains() {
    let versions = VersionRange { newest: Version { major: 1, minor: 2 }, ..SUPPORTED };
    let mut pair = Pair::with(Hello { versions, ..hello(DIALLER) }, hello(ACCEPTOR));
    pair.transfer();
    let sent = pair.acceptor.connection.counters().frames_sent;
    pair.acceptor.connection.announce_successor();
    pair.transfer();
    assert_eq!(pair.dialler.take_events().last(), Some(&Event::PeerDraining));
    assert_eq!(pair.acceptor.connection.counters().frames_sent, sent + 1);
}

#[test]
fn c22_a_dialler_announces_none() {
    let mut pair = Pair::open();
    pair.dialler.connection.announce_successor();
    pair.transfer();
    assert_eq!(pair.acceptor.take_events(), [], "its address is nobody's to dial");
    pair.acceptor.connection.handle_bytes(&encoded(&Message::Successor), pair.now);
    assert!(misplaced(&pair.acceptor.take_events()));
}

#[test]
fn c22_a_second_successor_ends_the_connection() {
    let mut pair = Pair::open();
    let twice = encoded(&Message::Successor).repeat(2);
    pair.dialler.connection.handle_bytes(&twice, pair.now);
    assert!(misplaced(&pair.dialler.take_events()));
}
