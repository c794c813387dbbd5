//! A connection in the place of one that broke (C21): what may be said, and when.

use super::pair::Pair;
use super::{grant, hello, params};
use crate::*;

const TICKET: Ticket = Ticket::new([7; 16]);

fn failed(events: &[Event], error: ProtocolError) -> bool {
    events.contains(&Event::PeerFailed(FailureReason::Protocol(error)))
}

#[test]
fn c21_a_ticket_is_given_and_shown_on_the_next_connection() {
    let mut pair = Pair::open();
    assert!(!pair.dialler.connection.give_ticket(TICKET), "the acceptor gives tickets");
    assert!(pair.acceptor.connection.give_ticket(TICKET));
    assert!(!pair.acceptor.connection.give_ticket(TICKET), "one a connection");
    pair.transfer();
    assert_eq!(pair.dialler.take_events(), [Event::Ticket(TICKET)]);
    let mut next = Pair::open();
    assert!(next.dialler.connection.resume(TICKET));
    assert!(!next.dialler.connection.resume(TICKET), "one at a time");
    next.transfer();
    assert_eq!(next.acceptor.take_events(), [Event::ResumeRequested(TICKET)]);
    next.acceptor.connection.answer_resume(true);
    next.transfer();
    assert_eq!(next.dialler.take_events(), [Event::ResumeAnswered { accepted: true }]);
}

#[test]
fn c21_a_peer_of_version_1_1_gets_no_ticket() {
    let newest = Version { major: 1, minor: 1 };
    let versions = VersionRange { newest, ..SUPPORTED };
    let mut pair = Pair::with(Hello { versions, ..hello(1) }, hello(2));
    pair.transfer();
    assert!(pair.acceptor.connection.is_open());
    assert!(!pair.acceptor.connection.give_ticket(TICKET));
}

#[test]
fn c21_tickets_cannot_be_tried_without_end() {
    let mut pair = Pair::open();
    for _ in 0..RESUMES_MAX {
        assert!(pair.dialler.connection.resume(TICKET));
        pair.transfer();
        pair.acceptor.connection.answer_resume(false);
        pair.transfer();
    }
    assert!(!pair.dialler.connection.resume(TICKET));
    let mut bytes = Vec::new();
    Message::Resume(TICKET).encode(&mut bytes);
    pair.acceptor.connection.handle_bytes(&bytes, pair.now);
    assert!(failed(&pair.acceptor.take_events(), ProtocolError::TooManyOutstanding));
}

#[test]
fn c21_resumption_out_of_place_ends_the_connection() {
    // After a connect, the connection has sessions of its own.
    let mut asked = Pair::open();
    asked.dialler.connection.connect(1, params(1), asked.now).expect("it is open");
    asked.dialler.connection.resume(TICKET);
    asked.transfer();
    let misplaced = ProtocolError::ResumptionMisplaced;
    assert!(failed(&asked.acceptor.take_events(), misplaced));
    // A connection takes another one's place once.
    let mut twice = Pair::open();
    for _ in 0..2 {
        twice.dialler.connection.resume(TICKET);
        twice.transfer();
        twice.acceptor.connection.answer_resume(true);
        twice.transfer();
    }
    assert!(failed(&twice.acceptor.take_events(), misplaced));
    let mut unasked = Vec::new();
    Message::Resumed { accepted: true }.encode(&mut unasked);
    let mut pair = Pair::open();
    pair.dialler.connection.handle_bytes(&unasked, pair.now);
    assert!(failed(&pair.dialler.take_events(), ProtocolError::UnexpectedReply));
}

#[test]
fn c21_what_was_asked_of_a_router_cannot_be_resumed_away() {
    let mut pair = super::groups::open();
    assert_eq!(pair.dialler.connection.attach(1, super::group_golden::attach()), Ok(()));
    assert!(pair.dialler.connection.resume(TICKET));
    pair.transfer();
    assert!(failed(&pair.acceptor.take_events(), ProtocolError::ResumptionMisplaced));
}

#[test]
fn c21_what_was_asked_and_not_answered_is_known_after_the_end() {
    let mut pair = Pair::open();
    let connection = &mut pair.dialler.connection;
    connection.connect(1, params(1), pair.now).expect("it is open");
    let far = grant(1).server_ref();
    connection.disconnect(far).expect("it is open");
    connection.handle_reset(pair.now);
    let unanswered = connection.take_unanswered();
    assert_eq!(unanswered.connects, [(1, params(1))]);
    assert_eq!(unanswered.disconnects, [far]);
    assert!(connection.take_unanswered().connects.is_empty());
}
