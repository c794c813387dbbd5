//! Streams with more exchanges under way than their own two.

use super::super::window::WIDTH_OWN;
use super::super::*;
use super::applications::Blob;
use crate::{Codec, Encoding, Malformed, Status};

type Server = ServerStream<Blob, u16>;

const BYTES_MAX: usize = 1 << 20;
const LONG: usize = 64 << 10;

fn message(bytes: usize) -> Message<Blob> {
    let body = Blob { stream: 1, index: 0, bytes };
    Message { encoding: Encoding::Protobuf, codec: Codec::IDENTITY, body }
}

/// A caller whose first exchange was answered.
fn begun() -> CallerStream<Blob> {
    let mut caller = CallerStream::new(1, Open::default(), BYTES_MAX);
    assert!(caller.poll_exchange(99).is_some_and(|segment| segment.open.is_some()));
    let mut answer = ServerSegment::bare(0, true);
    answer.messages.push(message(1));
    caller.handle_answer(answer).unwrap();
    caller
}

fn exchange(number: u16, under_way: u8, bytes: usize) -> CallerSegment<Blob> {
    let mut segment = CallerSegment::bare(1, number, true);
    segment.open = (number == 0).then(Open::default);
    segment.under_way = under_way;
    segment.messages.push(message(bytes));
    segment
}

fn answering(number: u16, bytes: usize) -> ServerSegment<Blob> {
    let mut segment = ServerSegment::bare(number, true);
    segment.messages.push(message(bytes));
    segment
}

/// The exchanges that are due now.
fn due(caller: &mut CallerStream<Blob>, lent: u32) -> Vec<CallerSegment<Blob>> {
    std::iter::from_fn(|| caller.poll_exchange(lent)).collect()
}

#[test]
fn r14_streams_that_open_at_once_find_half_the_slots() {
    let mut numbers = StreamNumbers::new(32);
    numbers.open();
    let lent = numbers.available(0);
    numbers.lend(0, lent);
    let own = u32::from(WIDTH_OWN);
    let free = 32 - lent - own;
    assert_eq!((lent, free / own), (16, 7), "seven more streams wait for nothing");
}

#[test]
fn r14_slots_that_no_stream_needs_are_lent() {
    let mut numbers = StreamNumbers::new(8);
    assert_eq!(numbers.available(0), 4, "half are kept for others");
    numbers.open();
    assert_eq!(numbers.available(0), 4);
    numbers.lend(0, 3);
    assert_eq!((numbers.available(0), numbers.available(3), numbers.lent()), (1, 4, 3));
    numbers.lend(3, 4);
    (0..2).for_each(|_| assert!(numbers.open().is_some(), "what is lent keeps no stream out"));
    assert_eq!((numbers.available(0), numbers.available(4)), (0, 0), "all are to be given back");
    numbers.lend(4, 0);
    assert_eq!(numbers.available(0), 0, "all are the streams' own");
    (0..3).for_each(|_| numbers.close());
    assert_eq!(numbers.available(0), 4);
}

#[test]
fn r14_slots_that_others_need_are_given_back_one_by_one() {
    let mut caller = begun();
    (0..60).for_each(|_| caller.send(message(10_000)));
    assert_eq!((due(&mut caller, 14).len(), caller.lent()), (16, 14));
    // Other streams were opened.
    for number in 1..=14 {
        caller.handle_answer(ServerSegment::bare(number, true)).unwrap();
        assert!(due(&mut caller, 0).is_empty(), "the slot is not the stream's any more");
        assert_eq!(caller.lent(), 14 - u32::from(number));
    }
    caller.handle_answer(ServerSegment::bare(15, true)).unwrap();
    assert_eq!(due(&mut caller, 0).len(), 1, "of its own");
    // Permits do not keep a message from the slot that is left for it.
    let mut permitted = begun();
    while permitted.poll_event().is_some() {}
    for number in 1..=4 {
        assert!(!due(&mut permitted, 99).is_empty());
        let more = ServerSegment { more: true, ..answering(number, 8) };
        permitted.handle_answer(more).unwrap();
    }
    assert!(!due(&mut permitted, 99).is_empty() && permitted.lent() > 2);
    permitted.send(message(8));
    assert!(due(&mut permitted, 0).len() == 1, "it takes none that is lent");
}

#[test]
fn r15_a_stream_is_as_wide_as_its_session_lends_once_it_is_answered() {
    let mut new = CallerStream::new(1, Open::default(), BYTES_MAX);
    (0..40).for_each(|_| new.send(message(LONG)));
    assert_eq!(due(&mut new, 99).len(), 2, "it may have to begin anew");
    for (lent, expected) in [(0, 2), (3, 5), (14, 15), (99, 15), (u32::MAX, 15)] {
        let mut caller = begun();
        (0..40).for_each(|_| caller.send(message(LONG)));
        let due = due(&mut caller, lent);
        // 16 of 64 KiB with their heads are more than 1 MiB.
        assert_eq!(due.len(), expected);
        assert_eq!(caller.lent() as usize, expected - 2);
        let under_way: Vec<_> = due.iter().map(|segment| segment.under_way).collect();
        assert_eq!(under_way, (0..expected as u8).collect::<Vec<_>>());
    }
    let mut caller = begun();
    (0..40).for_each(|_| caller.send(message(10_000)));
    assert_eq!(due(&mut caller, 99).len(), usize::from(WIDTH_MAX));
}

#[test]
fn r17_what_goes_beyond_two_segments_is_bounded_together() {
    let mut server = Server::new(1 << 30);
    server.handle_exchange(exchange(0, 0, 1), 0).unwrap();
    let half = WIDE_BYTES_MAX / 2 - 16;
    server.handle_exchange(exchange(1, 1, half), 1).unwrap();
    let beyond = server.handle_exchange(exchange(2, 2, half + 1), 2);
    assert_eq!(beyond, Err(Malformed::Flow));
    let mut two = Server::new(1 << 30);
    two.handle_exchange(exchange(0, 0, 8 << 20), 0).unwrap();
    two.handle_exchange(exchange(1, 1, 8 << 20), 1).unwrap();
    let third = two.handle_exchange(exchange(2, 2, 1), 2);
    assert_eq!(third, Err(Malformed::Flow), "two of any length, and then nothing");
    let mut parked = Server::new(1 << 30);
    parked.handle_exchange(exchange(3, 3, half), 3).unwrap();
    parked.handle_exchange(exchange(2, 2, 9), 2).unwrap();
    let beyond = parked.handle_exchange(exchange(1, 1, half), 1);
    assert_eq!(beyond, Err(Malformed::Flow), "what came early counts");
    let mut bare = Server::new(1 << 30);
    bare.handle_exchange(exchange(0, 0, 1), 0).unwrap();
    let mut early = exchange(2, 2, 0);
    early.messages = Messages::new();
    bare.handle_exchange(early, 2).unwrap();
    bare.handle_exchange(exchange(1, 1, 8 << 20), 1).expect("the early one has no messages");
}

#[test]
fn r17_a_caller_judges_answers_likewise() {
    let mut caller = begun();
    while caller.poll_event().is_some() {}
    // The server has more: the caller sends it bare exchanges.
    for number in 1..=3 {
        assert!(!due(&mut caller, 99).is_empty());
        let mut answer = ServerSegment { more: true, ..ServerSegment::bare(number, true) };
        answer.messages.push(message(8));
        caller.handle_answer(answer).unwrap();
    }
    let bare = due(&mut caller, 99);
    assert!(bare.iter().all(|segment| segment.messages.is_empty() && segment.receive));
    let last = bare.last().expect("exchanges").number;
    let mut answer = |number, bytes| {
        let mut answer = ServerSegment::bare(number, true);
        answer.messages.push(message(bytes));
        caller.handle_answer(answer)
    };
    assert_eq!((answer(last, WIDE_BYTES_MAX), answer(last - 1, 8)), (Ok(()), Ok(())));
    assert_eq!(answer(last - 2, 8), Err(Malformed::Flow));
}

#[test]
fn r18_bare_exchanges_grow_while_more_waits_and_are_given_back() {
    let mut caller = begun();
    let mut server = Server::new(BYTES_MAX);
    let mut open = exchange(0, 0, 0);
    open.messages = Messages::new();
    server.handle_exchange(open, 0).unwrap();
    server.send(message(1));
    assert!(server.poll_answer().is_some());
    let mut held_max = 0;
    for _ in 0..60 {
        while server.can_send() {
            server.send(message(10_000));
        }
        for segment in due(&mut caller, 99) {
            let number = segment.number;
            server.handle_exchange(segment, number).unwrap();
        }
        let mut answers = 0;
        while let Some((_, answer)) = server.poll_answer() {
            caller.handle_answer(answer).unwrap();
            answers += 1;
        }
        held_max = held_max.max(answers);
        while caller.poll_event().is_some() {}
    }
    assert!(held_max > 8, "a server with much to say gets many exchanges: {held_max}");
    // It has nothing more to say.
    settle(&mut caller, &mut server);
    assert!(server.has_spare() && caller.lent() > 0);
    server.release_spare();
    settle(&mut caller, &mut server);
    assert_eq!((server.has_spare(), caller.lent()), (false, 0));
    assert!(due(&mut caller, 99).is_empty(), "one is held, and nothing goes round");
}

#[test]
fn r18_short_messages_are_put_together_rather_than_sent_side_by_side() {
    let mut caller = begun();
    let mut send = |bytes| {
        caller.send(message(bytes));
        due(&mut caller, 99).iter().map(|segment| segment.messages.len()).collect::<Vec<_>>()
    };
    assert_eq!((send(8), send(8)), (vec![1], vec![1]), "two go at once");
    assert_eq!((send(2000), send(2000), send(4000)), (vec![], vec![], vec![]));
    assert_eq!(send(1000), [4], "8 KiB are worth another exchange");
}

#[test]
fn r18_bare_exchanges_leave_room_for_a_message() {
    let mut caller = begun();
    while caller.poll_event().is_some() {}
    for number in 1..=20 {
        due(&mut caller, 5);
        let mut answer = ServerSegment { more: true, ..ServerSegment::bare(number, true) };
        answer.messages.push(message(10_000));
        caller.handle_answer(answer).unwrap();
        while caller.poll_event().is_some() {}
    }
    let lent = caller.lent();
    assert_eq!((due(&mut caller, 5).len(), lent, caller.lent()), (1, 4, 5), "six exchanges");
    // Other streams have what is left of the session.
    caller.send(message(8));
    let sent = due(&mut caller, 5);
    assert!(sent.len() == 1 && !sent[0].messages.is_empty());
    assert_eq!(caller.lent(), 5, "it was the stream's own");
}

#[test]
fn r14_an_asked_for_exchange_with_records_gives_a_lent_slot_back() {
    let mut caller = begun();
    while caller.poll_event().is_some() {}
    for number in 1..=2 {
        due(&mut caller, 5);
        let more = ServerSegment { more: true, ..answering(number, 10_000) };
        caller.handle_answer(more).unwrap();
        while caller.poll_event().is_some() {}
    }
    assert!(due(&mut caller, 5).iter().all(CallerSegment::is_bare));
    caller.handle_answer(ServerSegment { more: true, ..ServerSegment::bare(3, true) }).unwrap();
    let kept = caller.lent();
    caller.send(message(8));
    let sent = caller.poll_exchange(0).expect("it takes no further slot");
    assert!(sent.receive && !sent.messages.is_empty());
    assert_eq!(caller.lent() + 1, kept);
}

/// What is due goes to the server.
fn exchange_all(caller: &mut CallerStream<Blob>, server: &mut Server, lent: u32) {
    for segment in due(caller, lent) {
        let number = segment.number;
        server.handle_exchange(segment, number).unwrap();
    }
}

/// What is due goes to the caller. Gives how many answers that are.
fn answer_all(caller: &mut CallerStream<Blob>, server: &mut Server) -> usize {
    let answers: Vec<_> = std::iter::from_fn(|| server.poll_answer()).collect();
    let count = answers.len();
    answers.into_iter().for_each(|(_, answer)| caller.handle_answer(answer).unwrap());
    count
}

/// Until neither has anything to send.
fn settle(caller: &mut CallerStream<Blob>, server: &mut Server) {
    for _ in 0..1000 {
        let exchanges = due(caller, 99);
        let is_quiet = exchanges.is_empty();
        for segment in exchanges {
            let number = segment.number;
            server.handle_exchange(segment, number).unwrap();
        }
        let answers: Vec<_> = std::iter::from_fn(|| server.poll_answer()).collect();
        if is_quiet && answers.is_empty() {
            return;
        }
        answers.into_iter().for_each(|(_, answer)| caller.handle_answer(answer).unwrap());
        while caller.poll_event().is_some() {}
    }
    panic!("something goes round");
}

#[test]
fn r19_all_that_is_under_way_is_answered_when_a_wide_stream_ends() {
    let mut caller = begun();
    (0..40).for_each(|_| caller.send(message(10_000)));
    let exchanges = due(&mut caller, 99);
    let mut server = Server::new(BYTES_MAX);
    let mut open = exchange(0, 0, 0);
    open.messages = Messages::new();
    server.handle_exchange(open, 0).unwrap();
    server.send(message(1));
    assert!(server.poll_answer().is_some());
    // The last one overtakes all others.
    for segment in exchanges.into_iter().rev() {
        let number = segment.number;
        server.handle_exchange(segment, number).unwrap();
    }
    server.abort(Status::unavailable("it drains"));
    while let Some((_, answer)) = server.poll_answer() {
        caller.handle_answer(answer).unwrap();
    }
    assert!(server.is_over() && caller.is_over());
    assert_eq!(caller.lent(), 0);
}

#[test]
fn r14_a_stream_that_is_over_has_no_slots() {
    let ended = || {
        let mut caller = begun();
        (0..40).for_each(|_| caller.send(message(10_000)));
        assert_eq!(due(&mut caller, 99).len(), usize::from(WIDTH_MAX));
        caller.handle_answer(ServerSegment::refusal(1, Status::not_found("no"))).unwrap();
        assert_eq!((caller.is_over(), caller.lent()), (false, 13));
        // It waits for others.
        caller.handle_answer(answering(3, 8)).unwrap();
        while caller.poll_event().is_some() {}
        caller
    };
    for session_lives in [false, true] {
        let mut failed = ended();
        failed.handle_failure(Status::unavailable("lost"), session_lives);
        assert_eq!((failed.is_over(), failed.lent(), failed.held_bytes()), (true, 0, 0));
    }
    let mut malformed = ended();
    assert_eq!(malformed.handle_answer(answering(99, 8)), Err(Malformed::Number));
    assert_eq!((malformed.is_over(), malformed.lent(), malformed.held_bytes()), (true, 0, 0));
}

#[test]
fn r18_an_exchange_that_was_asked_for_finds_a_slot() {
    for lent_max in [3, 4, 14] {
        let (mut caller, mut server) = (begun(), Server::new(BYTES_MAX));
        let mut open = exchange(0, 0, 0);
        open.messages = Messages::new();
        server.handle_exchange(open, 0).unwrap();
        server.send(message(1));
        assert!(server.poll_answer().is_some());
        // The server has much to say at first, and gets exchanges for it.
        for round in 0..100 {
            while round < 60 && server.can_send() {
                server.send(message(10_000));
            }
            exchange_all(&mut caller, &mut server, lent_max);
            answer_all(&mut caller, &mut server);
            while caller.poll_event().is_some() {}
        }
        // Then two messages are as much as may be under way. A third waits; the caller reads none.
        (0..3).for_each(|_| server.send(message(600 << 10)));
        assert_eq!(answer_all(&mut caller, &mut server), 3, "it asks for an exchange");
        let lent = caller.lent();
        exchange_all(&mut caller, &mut server, lent);
        // Other streams have what is left of the session when it does.
        while caller.poll_event().is_some() {}
        let lent = caller.lent();
        exchange_all(&mut caller, &mut server, lent);
        server.release_spare();
        answer_all(&mut caller, &mut server);
        assert!(matches!(caller.poll_event(), Some(CallerEvent::Message(_))), "{lent_max}: stuck");
    }
}

#[test]
fn r16_an_open_record_that_overtakes_others_is_not_kept() {
    let mut server = Server::new(BYTES_MAX);
    let early = CallerSegment { open: Some(Open::default()), ..exchange(3, 3, 8) };
    assert_eq!(server.handle_exchange(early, 3), Err(Malformed::Record));
    assert_eq!(server.held_bytes(), 0);
}

#[test]
fn r18_more_is_said_when_as_much_waited_as_is_queued() {
    for (bytes, more) in [(FLOW_BYTES_MAX - 16, false), (FLOW_BYTES_MAX, true)] {
        let mut server = Server::new(BYTES_MAX);
        server.handle_exchange(exchange(0, 0, 8), 0).unwrap();
        server.send(message(bytes));
        let (_, answer) = server.poll_answer().expect("a message is due");
        assert_eq!((answer.messages.len(), answer.more), (1, more), "the handler had to wait");
    }
}
