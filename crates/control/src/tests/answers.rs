//! Answers outlive the connection that they were given on.

use super::pair::{DIALLER, Pair};
use super::{encoded, grant, hello, params};
use crate::*;

/// A pair whose acceptor has granted connect 1, and the answers it has then.
fn granted() -> (Pair, Answers) {
    let mut pair = Pair::open();
    pair.dialler.connection.connect(1, params(3), pair.now).unwrap();
    pair.transfer();
    pair.acceptor.take_events();
    pair.acceptor.connection.reply(1, Ok(grant(5))).unwrap();
    let answers = pair.acceptor.connection.take_answers();
    (pair, answers)
}

#[test]
fn c12_a_connect_repeated_on_the_next_connection_is_answered_alike() {
    let (_, answers) = granted();
    let mut next = Pair::new();
    // Hello and both connects arrive in one piece, before the acceptor can say whom it knows.
    let mut bytes = encoded(&Message::Hello(hello(DIALLER)));
    Message::Connect { connect_id: 1, params: params(3) }.encode(&mut bytes);
    Message::Connect { connect_id: 2, params: params(4) }.encode(&mut bytes);
    next.acceptor.connection.handle_bytes(&bytes, next.now);
    assert!(matches!(next.acceptor.connection.poll_event(), Some(Event::PeerHello { .. })));
    assert!(next.acceptor.connection.inherit_answers(answers));
    let requested = Event::ConnectRequested { id: 2, params: params(4) };
    assert_eq!(next.acceptor.take_events(), [requested], "only the new one is requested");
    let output = next.acceptor.take_output();
    let reply = encoded(&Message::ConnectReply { connect_id: 1, result: Ok(grant(5)) });
    assert!(output.ends_with(&reply));
    next.acceptor
        .connection
        .handle_bytes(&encoded(&Message::Connect { connect_id: 1, params: params(3) }), next.now);
    assert_eq!(next.acceptor.take_events(), []);
    assert_eq!(next.acceptor.take_output(), reply, "and so it is from then on");
}

#[test]
fn c12_inherited_answers_join_those_given_since() {
    let (_, earlier) = granted();
    let mut next = Pair::open();
    next.dialler.connection.connect(2, params(4), next.now).unwrap();
    next.transfer();
    next.acceptor.connection.reply(2, Ok(grant(6))).unwrap();
    assert!(next.acceptor.connection.inherit_answers(earlier));
    let answers = next.acceptor.connection.take_answers();
    assert_eq!(answers.get(1), Some(Ok(grant(5))));
    assert_eq!(answers.get(2), Some(Ok(grant(6))));
}

#[test]
fn c6_answers_to_another_incarnation_are_not_inherited() {
    let (_, answers) = granted();
    let mut next = Pair::with(hello(DIALLER + 1), hello(1));
    assert!(!next.acceptor.connection.inherit_answers(answers.clone()), "no hello yet");
    next.transfer();
    assert!(!next.acceptor.connection.inherit_answers(answers));
    assert!(!next.acceptor.connection.inherit_answers(Answers::default()));
    next.acceptor.take_events();
    next.dialler.connection.connect(1, params(3), next.now).unwrap();
    next.transfer();
    assert_eq!(next.acceptor.take_events().len(), 1, "a new process's connect 1 is another");
}

#[test]
fn c12_the_answer_that_granted_a_session_is_forgotten_with_it() {
    for by_client in [true, false] {
        let (mut pair, answers) = granted();
        assert!(pair.acceptor.connection.inherit_answers(answers));
        pair.transfer();
        match by_client {
            true => pair.dialler.connection.disconnect(grant(5).server_ref()).unwrap(),
            false => pair.acceptor.connection.disconnect(params(3).client_ref()).unwrap(),
        }
        pair.transfer();
        pair.acceptor.take_events();
        pair.dialler.connection.connect(1, params(3), pair.now).unwrap();
        pair.transfer();
        let requested = Event::ConnectRequested { id: 1, params: params(3) };
        assert_eq!(pair.acceptor.take_events(), [requested], "by client: {by_client}");
    }
}

#[test]
fn c12_a_disconnect_of_this_processs_client_end_leaves_answers_alone() {
    let (mut pair, answers) = granted();
    assert!(pair.acceptor.connection.inherit_answers(answers));
    // The same numbers, but naming the acceptor's *client* end of some other session.
    let session = SessionRef { role: SessionRole::Client, ..params(3).client_ref() };
    pair.acceptor.connection.handle_bytes(&encoded(&Message::Disconnect(session)), pair.now);
    assert_eq!(pair.acceptor.connection.take_answers().get(1), Some(Ok(grant(5))));
}

#[test]
fn c12_the_oldest_answer_goes_first() {
    let mut answers = Answers::to(DIALLER);
    for id in 0..=OUTSTANDING_MAX as u64 {
        let session = id as u32;
        answers.remember(id, params(session).client_ref(), Ok(grant(session)));
    }
    assert_eq!(answers.get(0), None);
    assert_eq!(answers.get(1), Some(Ok(grant(1))));
    answers.forget(&grant(1).server_ref());
    assert_eq!(answers.get(1), None);
    answers.forget(&params(2).client_ref());
    assert_eq!(answers.get(2), None);
    assert_eq!(answers.get(3), Some(Ok(grant(3))));
}
