//! Each rule by itself, with peers that break it.

use super::super::flow::LONE_BYTES_MIN;
use super::super::*;
use super::applications::Blob;
use crate::{Code, Codec, Encoding, Malformed, Metadata, Status};

type Caller = CallerStream<Blob>;
type Server = ServerStream<Blob, u32>;

const BYTES_MAX: usize = 1 << 20;

pub fn message(index: u32, bytes: usize) -> Message<Blob> {
    let body = Blob { stream: 1, index, bytes };
    Message { encoding: Encoding::Protobuf, codec: Codec::IDENTITY, body }
}

pub fn caller() -> Caller {
    CallerStream::new(1, Open::default(), BYTES_MAX)
}

/// A caller whose stream has begun, with exchange 0 under way.
fn begun() -> Caller {
    let mut caller = caller();
    assert!(caller.poll_exchange(0).is_some_and(|segment| segment.open.is_some()));
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
    segment.under_way = u8::from(number != 0);
    segment
}

fn saying(mut segment: CallerSegment<Blob>, index: u32, bytes: usize) -> CallerSegment<Blob> {
    segment.messages.push(message(index, bytes));
    segment
}

pub fn answering(number: u16, index: u32, bytes: usize) -> ServerSegment<Blob> {
    let mut segment = ServerSegment::bare(number, true);
    segment.messages.push(message(index, bytes));
    segment
}

/// Indices of a segment's messages.
pub fn said(messages: &Messages<Blob>) -> Vec<u32> {
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
        let segment = caller.poll_exchange(0).unwrap();
        assert_eq!((caller.poll_exchange(0), segment.number), (None, round as u16));
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
    let first = caller.poll_exchange(0).unwrap();
    assert!(first.close && caller.poll_exchange(0).is_none(), "all in one segment");
    let mut server = Server::new(BYTES_MAX);
    server.handle_exchange(first, 0).unwrap();
    while server.poll_event().is_some() {}
    assert_eq!(server.poll_answer(), None);
    server.head(Metadata::new());
    server.send(message(0, 10));
    let (_, answer) = server.poll_answer().unwrap();
    assert!(answer.head.is_some() && answer.messages.len() == 1);
    caller.handle_answer(answer).unwrap();
    let bare = caller.poll_exchange(0).unwrap();
    assert_eq!(bare, CallerSegment::bare(1, 1, true));
    assert_eq!(caller.poll_exchange(0), None);
    server.handle_exchange(bare, 1).unwrap();
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
    assert_eq!(server.poll_answer(), None, "the younger one is the bare one");
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
    let waits = ServerSegment { more: true, ..ServerSegment::bare(0, true) };
    assert_eq!(server.poll_answer(), Some((0, waits)));
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
        assert!(caller.poll_exchange(0).unwrap().receive, "still below, records included");
    }
    caller.handle_answer(answering(3, 0, 0)).unwrap();
    assert_eq!(caller.held_bytes(), FLOW_BYTES_MAX);
    assert!(!caller.poll_exchange(0).unwrap().receive);
    for left in [FLOW_BYTES_MAX / 2, FLOW_BYTES_MAX / 2 - 16] {
        assert_eq!(caller.poll_exchange(0), None);
        caller.poll_event();
        assert_eq!(caller.held_bytes(), left);
    }
    let bare = caller.poll_exchange(0).expect("the bit is set again: a second exchange");
    assert!(bare.receive && bare.messages.is_empty());
    assert_eq!(caller.poll_exchange(0), None);
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
    assert!(caller.poll_exchange(0).is_some(), "allowed before the first answer");
    caller.handle_answer(ServerSegment::bare(0, false)).unwrap();
    caller.send(message(1, 8));
    caller.close();
    assert_eq!(caller.poll_exchange(0), None);
    caller.handle_answer(ServerSegment::bare(1, true)).unwrap();
    assert!(caller.poll_exchange(0).is_some_and(|segment| segment.close));
}

#[test]
fn r17_empty_messages_count_with_their_records() {
    let mut caller = begun();
    let mut answer = ServerSegment::bare(0, true);
    answer.messages.extend((0..FLOW_BYTES_MAX as u32 / 8).map(|index| message(index, 0)));
    caller.handle_answer(answer).unwrap();
    assert!(!caller.poll_exchange(0).unwrap().receive);
}

#[test]
fn r17_a_caller_that_never_reads_stops_the_server_and_nothing_circulates() {
    let mut caller = caller();
    let mut server = Server::new(BYTES_MAX);
    let (mut exchanges, mut sent) = (0, 0);
    loop {
        let before = (exchanges, sent);
        while let Some(segment) = caller.poll_exchange(0) {
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
    // Each message is a segment.
    let messages = u32::try_from(FLOW_BYTES_MAX / 10_000).unwrap();
    assert!(exchanges <= messages + 4, "{exchanges}");
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
    assert!(!caller.poll_exchange(0).unwrap().receive);
    assert_eq!(caller.handle_answer(answering(1, 1, 8)), Err(Malformed::Flow));
    assert_eq!(ended_with(&mut caller), Code::Internal);
}

#[test]
fn r16_segments_have_one_long_message_or_many_in_32_kib() {
    let mut caller = CallerStream::new(1, Open::default(), 300 << 10);
    let short = LONE_BYTES_MIN - 1;
    let sizes = [200 << 10, short, short, short, short, LONE_BYTES_MIN, 8];
    (0..).zip(sizes).for_each(|(index, bytes)| caller.send(message(index, bytes)));
    // Four short ones would be 32 KiB, but for what is before them.
    let expected: [&[u32]; 5] = [&[0], &[1, 2, 3], &[4], &[5], &[6]];
    for indices in expected {
        let segment = caller.poll_exchange(0).expect("there are messages left");
        caller.handle_answer(ServerSegment::bare(segment.number, true)).unwrap();
        assert_eq!(said(&segment.messages), indices);
    }
    let mut narrow = CallerStream::new(1, Open::default(), 1016);
    narrow.send(message(0, 1000));
    narrow.close();
    let parts: Vec<_> = std::iter::from_fn(|| narrow.poll_exchange(0)).collect();
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
    caller.poll_exchange(0).unwrap();
    caller.handle_answer(answering(1, 1, 8)).unwrap();
    assert_eq!((caller.poll_event(), caller.held_bytes()), (None, 16));
    caller.handle_answer(answering(0, 0, 8)).unwrap();
    assert_eq!(caller.poll_event(), Some(CallerEvent::Message(message(0, 8))));
    assert_eq!(caller.poll_event(), Some(CallerEvent::Message(message(1, 8))));
}

#[test]
fn r15_a_number_that_cannot_be_ends_the_stream() {
    for number in [WIDTH_MAX, WIDTH_MAX + 1, u16::MAX] {
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
        assert!(caller.poll_exchange(0).is_some_and(|segment| segment.reset));
    }
    // The third answer of sixteen, whoever asked for it.
    let late = ServerSegment::<Vec<u8>>::bare(WIDTH_MAX + 2, true);
    assert!(late.answers(2) && !late.answers(1) && !late.answers(18));
    for (number, under_way) in [(1, 0), (1, 16), (1, u8::MAX)] {
        let told = CallerSegment { under_way, ..exchange(number, true) };
        let told = held(true).handle_exchange(told, 1);
        assert_eq!(told, Err(Malformed::Number), "one is under way, and 15 at most");
    }
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
    caller.poll_exchange(0).unwrap();
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
    caller.poll_exchange(0).unwrap();
    caller.reset(Status::deadline_exceeded(""));
    assert_eq!(ended_with(&mut caller), Code::DeadlineExceeded);
    let reset = caller.poll_exchange(0).unwrap();
    assert_eq!(reset, CallerSegment { reset: true, ..CallerSegment::bare(1, 2, false) });
    caller.handle_answer(answering(1, 1, 8)).unwrap();
    assert!(caller.poll_event().is_none() && !caller.is_over());
    caller.handle_answer(ServerSegment::over(reset.number)).unwrap();
    assert!(caller.is_over() && caller.poll_exchange(0).is_none());
    let mut twice = begun();
    twice.reset(Status::cancelled(""));
    assert!(twice.poll_exchange(0).is_some());
    twice.reset(Status::cancelled("and the reset was cancelled, too"));
    assert!(twice.poll_exchange(0).is_some_and(|segment| segment.reset));
    let mut unheard = self::caller();
    unheard.reset(Status::cancelled(""));
    assert!(unheard.is_over() && unheard.poll_exchange(0).is_none());
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
    caller.poll_exchange(0).unwrap();
    caller.handle_answer(ServerSegment::refusal(0, Status::not_found("no"))).unwrap();
    caller.send(message(1, 8));
    assert_eq!((caller.poll_exchange(0), caller.is_over()), (None, false));
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
    assert!(caller.is_over() && caller.poll_exchange(0).is_none());
    let mut rejected = begun();
    rejected.handle_failure(Status::resource_exhausted("full"), true);
    for _ in 0..3 {
        assert!(rejected.poll_exchange(0).is_some_and(|segment| segment.reset));
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
    server.handle_exchange(caller.poll_exchange(0).unwrap(), 0).unwrap();
    assert_eq!(server.poll_event(), Some(ServerEvent::Open(open)));
}
