//! Streams that begin anew (R20).

use super::super::*;
use super::rules::{answering, caller, message, said};
use crate::Status;

#[test]
fn r20_a_stream_that_has_not_begun_begins_anew_with_all_its_messages() {
    let mut caller = caller();
    (0..2).for_each(|index| caller.send(message(index, 8)));
    let first = caller.poll_exchange(0).expect("it opens");
    caller.send(message(2, 8));
    let second = caller.poll_exchange(0).expect("two may be under way");
    caller.send(message(3, 8));
    caller.close();
    assert_eq!((said(&first.messages), said(&second.messages)), (vec![0, 1], vec![2]));
    assert!(caller.is_unanswered());
    let metadata = first.open.clone().expect("it is the first").metadata;
    let open = Open { time_left_us: 7, metadata, ..Open::default() };
    caller.restart(9, open.clone(), vec![first, second]);
    let anew = caller.poll_exchange(0).expect("it opens");
    assert_eq!((anew.stream, anew.number, anew.open), (9, 0, Some(open)));
    assert_eq!((said(&anew.messages), anew.close), (vec![0, 1, 2, 3], true));
    caller.handle_answer(answering(0, 5, 8)).unwrap();
    assert!(!caller.is_unanswered(), "it has begun");
}

#[test]
fn r20_only_a_stream_with_one_exchange_has_certainly_not_run() {
    let mut caller = caller();
    let first = caller.poll_exchange(0).expect("it opens");
    assert!(!caller.may_have_run(), "if the server rejects that");
    caller.send(message(0, 8));
    let second = caller.poll_exchange(0).expect("two may be under way");
    assert!(caller.may_have_run(), "the first may have arrived");
    caller.restart(2, Open::default(), vec![first, second]);
    assert!(!caller.may_have_run(), "it begins anew");
}

#[test]
fn r20_a_stream_that_ended_with_nothing_delivered_may_begin_anew() {
    let mut caller = caller();
    caller.keep_queue(true);
    caller.send(message(0, 8));
    let first = caller.poll_exchange(0).expect("it opens");
    caller.send(message(1, 8));
    caller.handle_answer(ServerSegment::refusal(0, Status::unavailable("not now"))).unwrap();
    assert!(!caller.has_begun() && !caller.is_open() && caller.end().is_some());
    caller.rewind();
    assert!(caller.is_open() && caller.end().is_none() && caller.poll_event().is_none());
    caller.restart(2, Open::default(), vec![first]);
    let anew = caller.poll_exchange(0).expect("it opens");
    assert_eq!((anew.stream, said(&anew.messages)), (2, vec![0, 1]), "the queue was kept");
}

#[test]
fn r20_a_stream_that_was_closed_begins_anew_closed() {
    let mut caller = caller();
    caller.close();
    let first = caller.poll_exchange(0).expect("it opens");
    assert!(first.close);
    caller.restart(2, Open::default(), vec![first]);
    assert!(caller.poll_exchange(0).is_some_and(|anew| anew.close && anew.open.is_some()));
}
