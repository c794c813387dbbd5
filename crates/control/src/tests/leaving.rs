//! Draining and closing.

use super::pair::{ACCEPTOR, DIALLER, Pair};
use super::{grant, hello, params};
use crate::*;

#[test]
fn c13_a_draining_process_refuses_but_answers_what_it_was_asked() {
    let mut pair = Pair::open();
    pair.dialler.connection.connect(1, params(3), pair.now).unwrap();
    pair.transfer();
    pair.acceptor.take_events();
    pair.acceptor.connection.drain();
    pair.acceptor.connection.drain();
    // Sent before the dialler has heard of it.
    pair.dialler.connection.connect(2, params(4), pair.now).unwrap();
    pair.transfer();
    assert_eq!(pair.acceptor.take_events(), []);
    let result = Err(ConnectFailure::Refused(RefuseCode::Draining));
    let expected = [Event::PeerDraining, Event::ConnectAnswered { id: 2, result }];
    assert_eq!(pair.dialler.take_events(), expected);
    let refused = pair.dialler.connection.connect(3, params(4), pair.now);
    assert_eq!(refused, Err(ConnectError::PeerDraining));
    pair.acceptor.connection.reply(1, Ok(grant(5))).unwrap();
    pair.transfer();
    let answered = Event::ConnectAnswered { id: 1, result: Ok(grant(5)) };
    assert_eq!(pair.dialler.take_events(), [answered]);
}

#[test]
fn c13_a_process_may_drain_before_the_hello() {
    let mut pair = Pair::with(hello(DIALLER), hello(ACCEPTOR));
    pair.acceptor.connection.drain();
    pair.transfer();
    let events = pair.dialler.take_events();
    assert_eq!(events.last(), Some(&Event::PeerDraining));
    assert_eq!(events.len(), 2);
}

#[test]
fn c13_bye_ends_both_ends() {
    let mut pair = Pair::open();
    pair.dialler.connection.connect(1, params(3), pair.now).unwrap();
    pair.dialler.connection.close(ByeReason::Shutdown);
    let closed = |by_peer| Event::Closed { reason: ByeReason::Shutdown, by_peer };
    let unanswered = Event::ConnectAnswered { id: 1, result: Err(ConnectFailure::Closed) };
    assert_eq!(pair.dialler.take_events(), [unanswered, closed(false)]);
    assert!(!pair.dialler.connection.is_finished(), "the bye is not sent yet");
    pair.transfer();
    assert!(pair.dialler.connection.is_finished() && pair.acceptor.connection.is_finished());
    let events = pair.acceptor.take_events();
    assert_eq!(events.last(), Some(&closed(true)));
    pair.acceptor.connection.handle_eof(pair.now);
    pair.acceptor.connection.close(ByeReason::Idle);
    assert_eq!(pair.acceptor.take_events(), [], "nothing follows the last event");
    let late = pair.acceptor.connection.reply(1, Ok(grant(5)));
    assert_eq!(late, Err(ReplyError::NotOpen));
    let late = pair.acceptor.connection.disconnect(grant(5).server_ref());
    assert_eq!(late, Err(DisconnectError::NotOpen));
}

#[test]
fn c5_an_acceptor_closed_before_the_hello_says_nothing() {
    let mut pair = Pair::new();
    pair.acceptor.connection.close(ByeReason::Shutdown);
    assert!(pair.acceptor.connection.is_finished());
}
