//! Each rule by itself, with peers that break it.

use super::super::*;
use super::applications::Blob;
use crate::{Code, Codec, Encoding, Malformed, Metadata, Status};

type Caller = CallerStream<Blob>;
type Server = ServerStream<Blob, u32>;

const BYTES_MAX: usize = 1 << 20;

fn message(index: u32, bytes: usize) -> Message<Blob> {
    let body = Blob { stream: 1, index, bytes };
    Message { encoding: Encoding::Protobuf, codec: Codec::IDENTITY, body }
}

fn caller() -> Caller {
    CallerStream::new(1, Open::default(), BYTES_MAX)
}

/// A caller whose stream has begun, with exchange 0 under way.
fn begun() -> Caller {
    let mut caller = caller();
    assert!(caller.poll_exchange().is_some_and(|segment| segment.open.is_some()));
    caller
}

/// A server whose handler has started on exchange 0, held under handle 0.
fn held(receive: bool) -> Server {
    let mut server = Server::new(BYTES_MAX);
    server.handle_exchange(exchange(0, receive), 0).unwrap();
    assert_eq!(server.poll_event(), Some(ServerEvent::Open(Open::default())));
    assert_eq!(server.poll_answer(), None);
    server
}

fn exchange(number: u16, receive: bool) -> CallerSegment<Blob> {
    let mut segment = CallerSegment::bare(1, number, receive);
    segment.open = (number == 0).then(Open::default);
    segment
}

fn saying(mut segment: CallerSegment<Blob>, index: u32, bytes: usize) -> CallerSegment<Blob> {
    segment.messages.push(message(index, bytes));
    segment
}

fn answering(number: u16, index: u32, bytes: usize) -> ServerSegment<Blob> {
    let mut segment = ServerSegment::bare(number, true);
    segment.messages.push(message(index, bytes));
    segment
}

/// Indices of a segment's messages.
fn said(messages: &Messages<Blob>) -> Vec<u32> {
    messages.iter().map(|message| message.body.index).collect()
}

fn ended_with(caller: &mut Caller) -> Code {
    let Some(CallerEvent::End(status)) = caller.poll_event() else { panic!("it has ended") };
    assert_eq!(caller.poll_event(), None);
    status.code()
}

#[test]
fn r18_one_message_each_way_at_a_time_costs_two_packets_and_numbers_wrap() {
    let mut caller = caller();
    let mut server = Server::new(BYTES_MAX);
    for round in 0..70_000 {
        caller.send(message(round, 32));
        let segment = caller.poll_exchange().unwrap();
        assert_eq!((caller.poll_exchange(), segment.number), (None, round as u16));
        server.handle_exchange(segment, round).unwrap();
        if round == 0 {
            assert_eq!(server.poll_event(), Some(ServerEvent::Open(Open::default())));
        }
        assert_eq!(server.poll_event(), Some(ServerEvent::Message(message(round, 32))));
        server.send(message(round, 32));
        let (handle, answer) = server.poll_answer().unwrap();
        assert_eq!((handle, answer.number), (round, round as u16));
        // The next message goes before anything else, so nothing bare is sent in between.
        caller.handle_answer(answer).unwrap();
        assert_eq!(caller.poll_event(), Some(CallerEvent::Message(message(round, 32))));
    }
}

#[test]
fn r18_at_rest_one_exchange_is_held_and_nothing_goes_round() {
    let mut caller = caller();
    caller.send(message(0, 100));
    caller.close();
    let first = caller.poll_exchange().unwrap();
    assert!(first.close && caller.poll_exchange().is_none(), "all in one segment");
    let mut server = Server::new(BYTES_MAX);
    server.handle_exchange(first, 0).unwrap();
    while server.poll_event().is_some() {}
    assert_eq!(server.poll_answer(), None);
    server.head(Metadata::new());
    server.send(message(0, 10));
    let (_, answer) = server.poll_answer().unwrap();
    assert!(answer.head.is_some() && answer.messages.len() == 1);
    caller.handle_answer(answer).unwrap();
    let permit = caller.poll_exchange().unwrap();
    assert_eq!(permit, CallerSegment::bare(1, 1, true));
    assert_eq!(caller.poll_exchange(), None);
    server.handle_exchange(permit, 1).unwrap();
    assert_eq!((server.poll_event(), server.poll_answer()), (None, None));
}

#[test]
fn r18_the_older_of_two_held_is_answered_after_the_handler_has_run() {
    let mut server = held(true);
    server.handle_exchange(saying(exchange(1, true), 0, 8), 1).unwrap();
    assert_eq!(server.poll_event(), Some(ServerEvent::Message(message(0, 8))));
    server.send(message(0, 8));
    let (handle, answer) = server.poll_answer().unwrap();
    assert_eq!((handle, said(&answer.messages)), (0, vec![0]), "the reply travels in it");
    assert_eq!(server.poll_answer(), None, "the younger one is the permit");
    server.handle_exchange(saying(exchange(2, true), 1, 8), 2).unwrap();
    assert_eq!(server.poll_answer(), Some((1, ServerSegment::bare(1, true))));
}

#[test]
fn r18_messages_wait_for_receive_and_an_end_waits_for_messages() {
    let mut server = held(false);
    server.send(message(0, 8));
    server.end(Status::ok());
    assert_eq!(server.poll_answer(), None);
    server.handle_exchange(exchange(1, true), 1).unwrap();
    assert_eq!(server.poll_answer(), Some((0, ServerSegment::bare(0, true))));
    let (handle, answer) = server.poll_answer().unwrap();
    assert_eq!((handle, said(&answer.messages), answer.ended), (1, vec![0], true));
    assert!(answer.end.is_some() && server.is_over());
    let mut bare = held(false);
    bare.end(Status::ok());
    assert!(bare.poll_answer().is_some_and(|(_, answer)| answer.end.is_some()));
}

#[test]
fn r17_receive_is_cleared_at_128_kib_and_set_again_below_64() {
    let mut caller = begun();
    for (number, bytes) in [(0, FLOW_BYTES_MAX / 2 - 8), (1, 8), (2, FLOW_BYTES_MAX / 2 - 32)] {
        caller.handle_answer(answering(number, 0, bytes)).unwrap();
        assert!(caller.poll_exchange().unwrap().receive, "still below, records included");
    }
    caller.handle_answer(answering(3, 0, 0)).unwrap();
    assert_eq!(caller.held_bytes(), FLOW_BYTES_MAX);
    assert!(!caller.poll_exchange().unwrap().receive);
    for left in [FLOW_BYTES_MAX / 2, FLOW_BYTES_MAX / 2 - 16] {
        assert_eq!(caller.poll_exchange(), None);
        caller.poll_event();
        assert_eq!(caller.held_bytes(), left);
    }
    let permit = caller.poll_exchange().expect("the bit is set again: a second exchange");
    assert!(permit.receive && permit.messages.is_empty());
    assert_eq!(caller.poll_exchange(), None);
}

#[test]
fn r17_r18_send_is_cleared_and_an_answer_says_when_it_is_set() {
    let mut server = held(true);
    server.handle_exchange(saying(exchange(1, true), 0, FLOW_BYTES_MAX), 1).unwrap();
    let (_, answer) = server.poll_answer().unwrap();
    assert!(!answer.send);
    assert_eq!(server.poll_answer(), None);
    assert!(matches!(server.poll_event(), Some(ServerEvent::Message(_))));
    assert_eq!(server.poll_answer(), Some((1, ServerSegment::bare(1, true))));
    let mut caller = begun();
    caller.send(message(0, 8));
    assert!(caller.poll_exchange().is_some(), "allowed before the first answer");
    caller.handle_answer(ServerSegment::bare(0, false)).unwrap();
    caller.send(message(1, 8));
    caller.close();
    assert_eq!(caller.poll_exchange(), None);
    caller.handle_answer(ServerSegment::bare(1, true)).unwrap();
    assert!(caller.poll_exchange().is_some_and(|segment| segment.close));
}

#[test]
fn r17_empty_messages_count_with_their_records() {
    let mut caller = begun();
    let mut answer = ServerSegment::bare(0, true);
    answer.messages.extend((0..FLOW_BYTES_MAX as u32 / 8).map(|index| message(index, 0)));
    caller.handle_answer(answer).unwrap();
    assert!(!caller.poll_exchange().unwrap().receive);
}

#[test]
fn r17_a_caller_that_never_reads_stops_the_server_and_nothing_circulates() {
    let mut caller = caller();
    let mut server = Server::new(BYTES_MAX);
    let (mut exchanges, mut sent) = (0, 0);
    loop {
        let before = (exchanges, sent);
        while let Some(segment) = caller.poll_exchange() {
            server.handle_exchange(segment, exchanges).unwrap();
            exchanges += 1;
        }
        while server.poll_event().is_some() {}
        while server.can_send() {
            server.send(message(sent, 10_000));
            sent += 1;
        }
        while let Some((_, answer)) = server.poll_answer() {
            caller.handle_answer(answer).unwrap();
        }
        if before == (exchanges, sent) {
            break;
        }
    }
    assert!(caller.held_bytes() <= FLOW_BYTES_MAX + 2 * FLOW_BYTES_MAX);
    assert!(exchanges <= 4, "{exchanges}");
}

#[test]
fn r17_messages_against_the_bits_are_malformed() {
    let mut server = held(true);
    server.handle_exchange(saying(exchange(1, true), 0, FLOW_BYTES_MAX), 1).unwrap();
    assert!(!server.poll_answer().unwrap().1.send);
    let against = server.handle_exchange(saying(exchange(2, true), 1, 8), 2);
    assert_eq!(against, Err(Malformed::Flow), "sent with that answer");
    let mut server = held(true);
    server.send(message(0, 8));
    assert!(server.poll_answer().unwrap().1.send);
    for (number, bytes) in [(1, FLOW_BYTES_MAX), (2, 8)] {
        // The second was perhaps sent before the first one's answer came.
        server.handle_exchange(saying(exchange(number, true), 0, bytes), 0).unwrap();
        server.send(message(0, 8));
        assert!(!server.poll_answer().unwrap().1.send);
    }
    let against = server.handle_exchange(saying(exchange(3, true), 1, 8), 3);
    assert_eq!(against, Err(Malformed::Flow));
    let mut caller = begun();
    caller.handle_answer(answering(0, 0, FLOW_BYTES_MAX)).unwrap();
    assert!(!caller.poll_exchange().unwrap().receive);
    assert_eq!(caller.handle_answer(answering(1, 1, 8)), Err(Malformed::Flow));
    assert_eq!(ended_with(&mut caller), Code::Internal);
}

#[test]
fn r16_segments_have_one_long_message_or_many_in_128_kib() {
    let mut caller = CallerStream::new(1, Open::default(), 300 << 10);
    for (index, bytes) in [(0, 200 << 10), (1, 8), (2, 100 << 10), (3, 20 << 10), (4, 20 << 10)] {
        caller.send(message(index, bytes));
    }
    let first = caller.poll_exchange().unwrap();
    assert!(first.open.is_some());
    assert_eq!(said(&first.messages), [0]);
    let second = caller.poll_exchange().unwrap();
    assert_eq!(
        (said(&second.messages), second.bytes()),
        (vec![1, 2, 3], 8 + 16 + 8 + (120 << 10) + 8)
    );
    let mut narrow = CallerStream::new(1, Open::default(), 1016);
    narrow.send(message(0, 1000));
    narrow.close();
    let parts: Vec<_> = std::iter::from_fn(|| narrow.poll_exchange()).collect();
    assert!(parts[0].messages.is_empty() && parts[0].open.is_some());
    assert_eq!((said(&parts[1].messages), parts[1].close), (vec![0], false), "the session's limit");
}

#[test]
fn r15_segments_are_handled_in_order_of_number() {
    let mut server = Server::new(BYTES_MAX);
    server.handle_exchange(saying(exchange(1, true), 1, 8), 1).unwrap();
    assert_eq!((server.poll_event(), server.poll_answer()), (None, None));
    server.handle_exchange(saying(exchange(0, true), 0, 8), 0).unwrap();
    assert_eq!(server.poll_event(), Some(ServerEvent::Open(Open::default())));
    assert_eq!(server.poll_event(), Some(ServerEvent::Message(message(0, 8))));
    assert_eq!(server.poll_event(), Some(ServerEvent::Message(message(1, 8))));
    let mut caller = begun();
    caller.send(message(0, 8));
    caller.poll_exchange().unwrap();
    caller.handle_answer(answering(1, 1, 8)).unwrap();
    assert_eq!((caller.poll_event(), caller.held_bytes()), (None, 8));
    caller.handle_answer(answering(0, 0, 8)).unwrap();
    assert_eq!(caller.poll_event(), Some(CallerEvent::Message(message(0, 8))));
    assert_eq!(caller.poll_event(), Some(CallerEvent::Message(message(1, 8))));
}

#[test]
fn r15_a_number_that_cannot_be_ends_the_stream() {
    for number in [2, 3, u16::MAX] {
        let mut server = held(true);
        assert_eq!(server.handle_exchange(exchange(number, true), 9), Err(Malformed::Number));
        assert_eq!(server.poll_event(), Some(ServerEvent::Reset));
        let (handle, answer) = server.poll_answer().unwrap();
        assert_eq!((handle, answer.end.unwrap().code()), (0, Code::Internal));
        assert_eq!(server.poll_answer(), Some((9, ServerSegment::over(number))));
        assert!(server.is_over());
    }
    for number in [1, 2, u16::MAX] {
        let mut caller = begun();
        let answer = ServerSegment::bare(number, true);
        assert_eq!(caller.handle_answer(answer), Err(Malformed::Number));
        assert_eq!(ended_with(&mut caller), Code::Internal);
        assert!(caller.poll_exchange().is_some_and(|segment| segment.reset));
    }
    let mut server = held(true);
    server.handle_exchange(exchange(1, true), 1).unwrap();
    assert_eq!(server.handle_exchange(exchange(2, true), 2), Err(Malformed::Number), "three held");
    let mut twice = Server::new(BYTES_MAX);
    twice.handle_exchange(exchange(1, true), 1).unwrap();
    assert_eq!(twice.handle_exchange(exchange(1, true), 2), Err(Malformed::Number));
}

#[test]
fn r16_records_that_come_at_the_wrong_time_end_the_stream() {
    let mut second = exchange(1, true);
    second.open = Some(Open::default());
    assert_eq!(held(true).handle_exchange(second, 1), Err(Malformed::Record));
    let mut first = exchange(0, true);
    first.open = None;
    assert_eq!(Server::new(BYTES_MAX).handle_exchange(first, 0), Err(Malformed::Record));
    let mut closed = held(true);
    closed.handle_exchange(CallerSegment { close: true, ..exchange(1, true) }, 1).unwrap();
    assert!(closed.poll_answer().is_some());
    let more = closed.handle_exchange(saying(exchange(2, true), 0, 8), 2);
    assert_eq!(more, Err(Malformed::Record));
    let mut caller = begun();
    caller.handle_answer(answering(0, 0, 8)).unwrap();
    caller.poll_exchange().unwrap();
    let late = ServerSegment { head: Some(Metadata::new()), ..ServerSegment::bare(1, true) };
    assert_eq!(caller.handle_answer(late), Err(Malformed::Record));
}

#[test]
fn r16_a_head_goes_first_or_not_at_all() {
    let mut server = held(true);
    server.send(message(0, 8));
    assert!(server.poll_answer().is_some());
    server.head(Metadata::new());
    server.handle_exchange(exchange(1, true), 1).unwrap();
    assert_eq!(server.poll_answer(), None);
}

#[test]
fn r19_a_reset_is_handled_whatever_its_number() {
    let mut server = held(true);
    server.send(message(0, 8));
    let reset = CallerSegment { reset: true, ..CallerSegment::bare(1, 5, false) };
    server.handle_exchange(reset, 5).unwrap();
    assert_eq!(server.poll_event(), Some(ServerEvent::Reset));
    assert_eq!(server.poll_answer(), Some((0, ServerSegment::over(0))));
    assert_eq!(server.poll_answer(), Some((5, ServerSegment::over(5))));
    assert!(server.is_over() && server.poll_event().is_none());
}

#[test]
fn r19_who_gives_up_sends_a_reset_and_hears_no_more() {
    let mut caller = begun();
    caller.handle_answer(answering(0, 0, 8)).unwrap();
    caller.poll_exchange().unwrap();
    caller.reset(Status::deadline_exceeded(""));
    assert_eq!(ended_with(&mut caller), Code::DeadlineExceeded);
    let reset = caller.poll_exchange().unwrap();
    assert_eq!(reset, CallerSegment { reset: true, ..CallerSegment::bare(1, 2, false) });
    caller.handle_answer(answering(1, 1, 8)).unwrap();
    assert!(caller.poll_event().is_none() && !caller.is_over());
    caller.handle_answer(ServerSegment::over(reset.number)).unwrap();
    assert!(caller.is_over() && caller.poll_exchange().is_none());
    let mut twice = begun();
    twice.reset(Status::cancelled(""));
    assert!(twice.poll_exchange().is_some());
    twice.reset(Status::cancelled("and the reset was cancelled, too"));
    assert!(twice.poll_exchange().is_some_and(|segment| segment.reset));
    let mut unheard = self::caller();
    unheard.reset(Status::cancelled(""));
    assert!(unheard.is_over() && unheard.poll_exchange().is_none());
}

#[test]
fn r19_an_abandoned_exchange_ends_the_stream_and_the_other_is_answered() {
    let mut server = held(true);
    server.handle_exchange(exchange(1, true), 1).unwrap();
    server.handle_abandoned(|handle| *handle == 0);
    assert_eq!(server.poll_event(), Some(ServerEvent::Reset));
    assert_eq!(server.poll_answer(), Some((1, ServerSegment::over(1))));
    assert_eq!(server.poll_answer(), None);
}

#[test]
fn r19_an_unexpected_end_is_unavailable() {
    let mut caller = begun();
    caller.handle_answer(ServerSegment::over(0)).unwrap();
    assert_eq!(ended_with(&mut caller), Code::Unavailable);
    assert!(caller.is_over());
}

#[test]
fn r19_after_an_end_nothing_is_sent_and_what_is_under_way_is_awaited() {
    let mut caller = begun();
    caller.send(message(0, 8));
    caller.poll_exchange().unwrap();
    caller.handle_answer(ServerSegment::refusal(0, Status::not_found("no"))).unwrap();
    caller.send(message(1, 8));
    assert_eq!((caller.poll_exchange(), caller.is_over()), (None, false));
    caller.handle_answer(ServerSegment::over(1)).unwrap();
    assert!(caller.is_over());
    assert_eq!(ended_with(&mut caller), Code::NotFound);
}

#[test]
fn r19_an_end_of_the_servers_own_drops_what_is_not_sent() {
    let mut server = held(false);
    server.send(message(0, 8));
    server.abort(Status::deadline_exceeded(""));
    let (_, answer) = server.poll_answer().unwrap();
    assert!(answer.messages.is_empty());
    assert_eq!(answer.end.unwrap().code(), Code::DeadlineExceeded);
}

#[test]
fn r20_a_failed_exchange_ends_the_stream_and_the_server_is_told_if_it_can_be() {
    let mut caller = begun();
    caller.handle_failure(Status::unavailable("gone"), false);
    assert_eq!(ended_with(&mut caller), Code::Unavailable);
    assert!(caller.is_over() && caller.poll_exchange().is_none());
    let mut rejected = begun();
    rejected.handle_failure(Status::resource_exhausted("full"), true);
    for _ in 0..3 {
        assert!(rejected.poll_exchange().is_some_and(|segment| segment.reset));
        rejected.handle_failure(Status::resource_exhausted("full"), true);
    }
    assert_eq!(ended_with(&mut rejected), Code::ResourceExhausted);
    rejected.handle_failure(Status::unavailable("gone"), false);
    assert!(rejected.is_over());
}

#[test]
fn r20_the_time_left_travels_in_the_open_record() {
    let open = Open { time_left_us: 5_000_000_000, ..Open::default() };
    let mut caller = CallerStream::new(1, open.clone(), BYTES_MAX);
    let mut server = Server::new(BYTES_MAX);
    server.handle_exchange(caller.poll_exchange().unwrap(), 0).unwrap();
    assert_eq!(server.poll_event(), Some(ServerEvent::Open(open)));
}

#[test]
fn r20_a_stream_that_has_not_begun_begins_anew_with_all_its_messages() {
    let mut caller = caller();
    (0..2).for_each(|index| caller.send(message(index, 8)));
    let first = caller.poll_exchange().expect("it opens");
    caller.send(message(2, 8));
    let second = caller.poll_exchange().expect("two may be under way");
    caller.send(message(3, 8));
    caller.close();
    assert_eq!((said(&first.messages), said(&second.messages)), (vec![0, 1], vec![2]));
    assert!(caller.is_unanswered());
    let metadata = first.open.clone().expect("it is the first").metadata;
    let open = Open { time_left_us: 7, metadata, ..Open::default() };
    caller.restart(9, open.clone(), vec![first, second]);
    let anew = caller.poll_exchange().expect("it opens");
    assert_eq!((anew.stream, anew.number, anew.open), (9, 0, Some(open)));
    assert_eq!((said(&anew.messages), anew.close), (vec![0, 1, 2, 3], true));
    caller.handle_answer(answering(0, 5, 8)).unwrap();
    assert!(!caller.is_unanswered(), "it has begun");
}

#[test]
fn r20_only_a_stream_with_one_exchange_has_certainly_not_run() {
    let mut caller = caller();
    let first = caller.poll_exchange().expect("it opens");
    assert!(!caller.may_have_run(), "if the server rejects that");
    caller.send(message(0, 8));
    let second = caller.poll_exchange().expect("two may be under way");
    assert!(caller.may_have_run(), "the first may have arrived");
    caller.restart(2, Open::default(), vec![first, second]);
    assert!(!caller.may_have_run(), "it begins anew");
}

#[test]
fn r20_a_stream_that_ended_with_nothing_delivered_may_begin_anew() {
    let mut caller = caller();
    caller.keep_queue(true);
    caller.send(message(0, 8));
    let first = caller.poll_exchange().expect("it opens");
    caller.send(message(1, 8));
    caller.handle_answer(ServerSegment::refusal(0, Status::unavailable("not now"))).unwrap();
    assert!(!caller.has_begun() && !caller.is_open() && caller.end().is_some());
    caller.rewind();
    assert!(caller.is_open() && caller.end().is_none() && caller.poll_event().is_none());
    caller.restart(2, Open::default(), vec![first]);
    let anew = caller.poll_exchange().expect("it opens");
    assert_eq!((anew.stream, said(&anew.messages)), (2, vec![0, 1]), "the queue was kept");
}

#[test]
fn r20_a_stream_that_was_closed_begins_anew_closed() {
    let mut caller = caller();
    caller.close();
    let first = caller.poll_exchange().expect("it opens");
    assert!(first.close);
    caller.restart(2, Open::default(), vec![first]);
    assert!(caller.poll_exchange().is_some_and(|anew| anew.close && anew.open.is_some()));
}
