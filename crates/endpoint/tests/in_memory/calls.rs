//! What an application sees of calls: answers, errors, limits, and that buffers come back.

use std::time::Duration;

use petasos_endpoint::{
    CallError, CallSettings, CongestionConfig, EnqueueError, RejectCode, SessionState,
};
use petasos_netio::{Ecn, PacketIo};

use crate::joined::*;

#[test]
fn messages_of_every_size_come_back() {
    let mut pair = Joined::new();
    let sizes = [0, 1, 7, 8, 31, 32, 33, 487, 488, 489, 1447, 1448, 1449, 2896, 10_000, 1_000_000];
    for (tag, size) in sizes.into_iter().enumerate() {
        pair.call(ECHO, &pattern(size), tag as u64);
        pair.run(4 + size as u64 / 20_000);
        assert_eq!(pair.outcome(tag as u64).as_deref(), Ok(&*pattern(size)), "{size} bytes");
    }
    assert_eq!(pair.server.state().handled, sizes.len() as u64);
}

#[test]
fn buffers_are_conserved() {
    let mut pair = Joined::new();
    for tag in 0..200 {
        pair.call(ECHO, &pattern(tag as usize * 97), tag);
    }
    pair.run(400);
    assert_eq!(pair.client.state().outcomes.len(), 200);
    assert_eq!(pair.client.memory().pool.lent_bytes, 0, "the client holds nothing");
    let session = pair.session;
    pair.client.close_session(session);
    pair.server.fail_peer(1);
    assert_eq!(pair.server.memory().pool.lent_bytes, 0, "retained responses came back");
}

#[test]
fn an_unknown_method_is_the_callers_error() {
    let mut pair = Joined::new();
    pair.call(NOBODY, b"x", 1);
    pair.call(ECHO, b"y", 2);
    pair.run(5);
    assert_eq!(*pair.outcome(1), Err(CallError::UnknownMethod));
    assert!(CallError::UnknownMethod.retry_is_safe());
    assert_eq!(pair.outcome(2).as_deref(), Ok(&b"y"[..]), "no other call is lost");
    assert_eq!(pair.server.stats().event_loop.unknown_methods, 1);
}

#[test]
fn a_panicking_handler_answers_an_error_and_the_loop_goes_on() {
    let mut pair = Joined::new();
    pair.call(ECHO, b"before", 1);
    pair.call(PANIC, b"x", 2);
    pair.call(ECHO, b"after", 3);
    pair.call(PANIC, &pattern(5000), 4);
    pair.run(10);
    assert_eq!(*pair.outcome(2), Err(CallError::HandlerFailed));
    assert_eq!(*pair.outcome(4), Err(CallError::HandlerFailed));
    assert!(!CallError::HandlerFailed.retry_is_safe());
    assert_eq!(pair.outcome(1).as_deref(), Ok(&b"before"[..]));
    assert_eq!(pair.outcome(3).as_deref(), Ok(&b"after"[..]), "frames of the same batch are kept");
    assert_eq!(pair.server.stats().event_loop.panics, 2);
}

#[test]
fn limits_on_size_are_told_apart() {
    let small = |config: &mut petasos_endpoint::EndpointConfig| {
        config.session.message_bytes_max = 10_000;
    };
    let mut pair = Joined::with(|_| {}, small);
    let session = pair.session;
    let cx = pair.client.context();
    let refused = cx.enqueue_request(session, ECHO, request_of(&pattern(10_001)), keep, 1);
    let refused = refused.unwrap_err();
    assert_eq!(refused.error, EnqueueError::TooLarge { bytes_max: 10_000 });
    assert_eq!(refused.request.len(), 10_001, "the buffer comes back");
    let settings = CallSettings { response_bytes_max: Some(99), ..CallSettings::default() };
    pair.call_with(LONG, &100u32.to_le_bytes(), 2, &settings);
    pair.call_with(LONG, &5000u32.to_le_bytes(), 3, &settings);
    pair.call_with(LONG, &99u32.to_le_bytes(), 4, &settings);
    pair.call(LONG, &10_001u32.to_le_bytes(), 5);
    pair.run(10);
    assert_eq!(*pair.outcome(2), Err(CallError::ResponseTooLarge));
    assert_eq!(*pair.outcome(3), Err(CallError::ResponseTooLarge));
    assert_eq!(pair.outcome(4).as_ref().unwrap().len(), 99);
    assert_eq!(*pair.outcome(5), Err(CallError::HandlerFailed), "the server's own fault");
}

/// Short calls leave in one step when slots are free again, a longer one among them does not.
#[test]
fn calls_that_wait_leave_in_order_and_count_once() {
    let mut pair = Joined::new();
    let bytes = |tag| if tag == 20 { 600 } else { 32 };
    for tag in 0..40 {
        pair.call(ECHO, &pattern(bytes(tag)), tag);
    }
    pair.run(40);
    let outcomes = core::mem::take(&mut pair.client.state_mut().outcomes);
    let tags: Vec<u64> = outcomes.iter().map(|(tag, _)| *tag).collect();
    assert_eq!(tags, Vec::from_iter(0..40), "slots are taken in the order of the calls");
    for (tag, outcome) in outcomes {
        assert_eq!(outcome, Ok(pattern(bytes(tag))));
    }
    let stats = pair.client.stats().client;
    assert_eq!((stats.calls, stats.calls_completed, stats.request_packets), (40, 40, 40));
    assert_eq!(stats.retransmissions, 0);
    assert_eq!(pair.server.state().handled, 40);
}

#[test]
fn a_full_backlog_refuses_and_loses_nothing() {
    let mut pair = Joined::with(|config| config.backlog_max = 3, |_| {});
    for tag in 0..11 {
        pair.call(HOLD, b"x", tag);
    }
    let session = pair.session;
    let cx = pair.client.context();
    let refused = cx.enqueue_request(session, ECHO, request_of(b"y"), keep, 99).unwrap_err();
    assert_eq!(refused.error, EnqueueError::BacklogFull { calls_max: 3 });
    for _ in 0..11 {
        pair.run(3);
        let (server, cx) = pair.server.split();
        for (handle, bytes) in server.held.drain(..) {
            cx.respond_with(handle, &bytes);
        }
    }
    pair.run(3);
    let outcomes = &pair.client.state().outcomes;
    assert!(outcomes.len() == 11 && outcomes.iter().all(|(_, outcome)| outcome.is_ok()));
}

#[test]
fn bytes_in_progress_are_bounded() {
    let mut pair = Joined::with(|config| config.request_bytes_in_flight_max = 1000, |_| {});
    pair.call(HOLD, &pattern(600), 1);
    let session = pair.session;
    let cx = pair.client.context();
    let refused = cx.enqueue_request(session, ECHO, request_of(&pattern(500)), keep, 2);
    assert_eq!(refused.unwrap_err().error, EnqueueError::TooManyBytes { bytes_max: 1000 });
    pair.run(3);
    let (server, cx) = pair.server.split();
    let (handle, _) = server.held.pop().unwrap();
    cx.respond_with(handle, b"done");
    pair.run(3);
    pair.call(ECHO, &pattern(1000), 3);
    pair.run(5);
    assert!(pair.outcome(3).is_ok(), "the bytes of ended calls count no more");
}

#[test]
fn a_stuck_handler_costs_its_own_call_only() {
    let mut pair = Joined::new();
    let settings =
        CallSettings { timeout: Some(Duration::from_millis(50)), ..CallSettings::default() };
    pair.call_with(HOLD, b"stuck", 1, &settings);
    pair.call(ECHO, b"quick", 2);
    pair.run_ms(48);
    assert!(pair.outcome(2).is_ok() && !pair.is_over(1));
    pair.run_ms(5);
    assert_eq!(*pair.outcome(1), Err(CallError::Timeout));
    let (server, cx) = pair.server.split();
    let (handle, _) = server.held.pop().unwrap();
    assert!(!cx.is_wanted(&handle), "the server was told");
    cx.respond_with(handle, b"too late");
    pair.run(3);
    assert_eq!(pair.client.state().outcomes.len(), 2, "a late answer is no answer");
    assert_eq!(pair.client.memory().pool.lent_bytes, 0);
}

#[test]
fn a_cancelled_call_ends_at_once_and_exactly_once() {
    let mut pair = Joined::new();
    let session = pair.session;
    let cx = pair.client.context();
    let call = cx.enqueue_request(session, HOLD, request_of(&pattern(3000)), keep, 1).unwrap();
    pair.run(3);
    assert!(pair.client.context().cancel(call));
    assert!(!pair.client.context().cancel(call), "it is over");
    pair.run(3);
    assert_eq!(*pair.outcome(1), Err(CallError::Cancelled));
    let (server, cx) = pair.server.split();
    let (handle, _) = server.held.pop().unwrap();
    assert!(!cx.is_wanted(&handle));
}

#[test]
fn a_failed_peer_ends_every_call_and_returns_every_buffer() {
    let mut pair = Joined::new();
    for tag in 0..20 {
        pair.call(HOLD, &pattern(tag as usize * 1000), tag);
    }
    pair.call(LONG, &300_000u32.to_le_bytes(), 20);
    pair.run(2);
    pair.client.fail_peer(1);
    pair.run(2);
    for tag in 0..=20 {
        // Eight had a slot each; the others waited behind them.
        let error = if tag < 8 { CallError::PeerFailed } else { CallError::NotSent };
        assert_eq!(*pair.outcome(tag), Err(error), "{tag}");
    }
    assert_eq!(pair.client.memory().pool.lent_bytes, 0);
    let session = pair.session;
    assert_eq!(pair.client.context().session_state(session), SessionState::Failed);
    let cx = pair.client.context();
    let refused = cx.enqueue_request(session, ECHO, request_of(b"x"), keep, 30).unwrap_err();
    assert_eq!(refused.error, EnqueueError::SessionFailed);
    pair.client.close_session(session);
    assert_eq!(pair.client.context().session_state(session), SessionState::Unknown);
    let session = connect(&mut pair.client, &mut pair.server);
    pair.session = session;
    pair.call(ECHO, b"again", 31);
    pair.run(4);
    assert_eq!(pair.outcome(31).as_deref(), Ok(&b"again"[..]), "the session can be recreated");
}

#[test]
fn what_was_never_sent_says_so() {
    let mut pair = Joined::new();
    // Its packets are made at the end of a turn, which does not come.
    pair.call(ECHO, &pattern(100_000), 1);
    pair.client.fail_peer(1);
    pair.run(2);
    assert_eq!(*pair.outcome(1), Err(CallError::NotSent));
    assert!(CallError::NotSent.retry_is_safe());
    let session = connect(&mut pair.client, &mut pair.server);
    pair.session = session;
    // One of these packets is on its way, whatever becomes of it.
    pair.call(ECHO, &pattern(100_000), 2);
    pair.client.run_once();
    pair.client.close_session(session);
    pair.run(2);
    assert_eq!(*pair.outcome(2), Err(CallError::SessionClosed));
    assert!(!CallError::SessionClosed.retry_is_safe());
    assert_eq!(pair.client.memory().pool.lent_bytes, 0);
}

#[test]
fn a_draining_server_finishes_what_runs_and_refuses_the_rest() {
    let mut pair = Joined::new();
    pair.call(HOLD, b"first", 1);
    pair.run(3);
    pair.server.drain();
    pair.call(ECHO, b"second", 2);
    pair.run(3);
    assert_eq!(*pair.outcome(2), Err(CallError::Draining));
    assert!(CallError::Draining.retry_is_safe());
    let (server, cx) = pair.server.split();
    let (handle, bytes) = server.held.pop().unwrap();
    cx.respond_with(handle, &bytes);
    pair.run(3);
    assert_eq!(pair.outcome(1).as_deref(), Ok(&b"first"[..]));
    assert_eq!(pair.server.unfinished(), (0, 0));
}

#[test]
fn a_handler_can_decline() {
    let mut pair = Joined::new();
    pair.call(HOLD, b"x", 1);
    pair.run(3);
    let (server, cx) = pair.server.split();
    let (handle, _) = server.held.pop().unwrap();
    cx.reject(handle, RejectCode::Overloaded);
    pair.run(3);
    assert_eq!(*pair.outcome(1), Err(CallError::Overloaded));
}

#[test]
fn memory_that_runs_out_is_an_error_of_that_call() {
    let tiny = |config: &mut petasos_endpoint::EndpointConfig| config.pool.lent_bytes_max = 20_000;
    let mut pair = Joined::with(tiny, |_| {});
    pair.call(LONG, &300_000u32.to_le_bytes(), 1);
    pair.call(LONG, &100u32.to_le_bytes(), 2);
    pair.run(10);
    assert_eq!(*pair.outcome(1), Err(CallError::OutOfMemory));
    assert!(pair.outcome(2).is_ok());
    let mut pair = Joined::with(|_| {}, tiny);
    pair.call(ECHO, &pattern(300_000), 1);
    pair.call(ECHO, b"x", 2);
    pair.run(10);
    assert_eq!(*pair.outcome(1), Err(CallError::Overloaded), "the server did not run it");
    assert!(pair.outcome(2).is_ok());
}

#[test]
fn stray_bytes_are_counted_by_kind_and_do_no_harm() {
    let mut pair = Joined::new();
    let (server, client) = (0, 1);
    for bytes in [&[][..], &[1], &[0x11; 23], &[0x00; 24], &[0x12; 24], &[0xff; 64]] {
        for port in [server, client] {
            if !bytes.is_empty() {
                pair.hub.deliver(port, bytes, Ecn::NotCapable);
            }
        }
    }
    let mut unknown = [0u8; 24];
    unknown[0] = 0x11;
    unknown[2] = 0xff;
    pair.hub.deliver(server, &unknown, Ecn::NotCapable);
    unknown[2] = 0;
    pair.hub.deliver(server, &unknown, Ecn::NotCapable);
    pair.call(ECHO, b"x", 1);
    pair.run(4);
    assert!(pair.outcome(1).is_ok());
    let stats = pair.server.stats();
    assert_eq!(stats.event_loop.malformed_short, 2);
    assert_eq!(stats.event_loop.malformed_version, 3);
    assert_eq!(stats.event_loop.unknown_session, 1);
    assert_eq!(stats.server.inconsistent, 1, "a wrong tag");
}

#[test]
fn w12_a_checksum_catches_what_the_transport_let_through() {
    let mut pair = Joined::captured(|config| {
        config.session.checksum = true;
        // One loss in five, and turns that are longer than any target: not what this is about.
        config.congestion = Some(CongestionConfig::none());
    });
    let mut damaged = 0;
    for (tag, size) in [0, 1, 32, 484, 485, 1444, 1445, 20_000].into_iter().enumerate() {
        pair.call(ECHO, &pattern(size), tag as u64);
        pair.run_relayed(60, |at, bytes| {
            // One packet in five, in the header, the payload or the checksum itself.
            if at % 5 == 3 {
                let len = bytes.len();
                bytes[at * 7 % len] ^= 1 << (at % 8);
                damaged += 1;
            }
        });
        assert_eq!(pair.outcome(tag as u64).as_deref(), Ok(&*pattern(size)), "{size} bytes");
    }
    let caught = |stats: petasos_endpoint::EndpointStats| {
        let counts = stats.event_loop;
        counts.malformed_checksum
            + counts.malformed_version
            + counts.malformed_other
            + counts.malformed_kind
            + counts.unknown_session
            + stats.client.inconsistent
            + stats.server.inconsistent
    };
    assert_eq!(caught(pair.client.stats()) + caught(pair.server.stats()), damaged);
    assert!(pair.server.stats().event_loop.malformed_checksum > 0);
}

#[test]
fn w7_messages_of_nearly_equal_length_travel_in_one_train() {
    let mut pair = Joined::new();
    for (tag, size) in [80, 0, 33, 79, 80, 1, 81, 12].into_iter().enumerate() {
        pair.call(ECHO, &pattern(size), tag as u64);
    }
    pair.client.run_once();
    let before = pair.client.io().stats();
    assert_eq!((before.tx_frames, pair.hub.waiting_trains(0)), (8, 2), "81 bytes open a second");
    pair.run(3);
    for (tag, size) in [80, 0, 33, 79, 80, 1, 81, 12].into_iter().enumerate() {
        assert_eq!(pair.outcome(tag as u64).as_deref(), Ok(&*pattern(size)), "not a byte more");
    }
}

#[test]
fn w26_long_messages_get_a_share_of_the_queue_in_both_directions_and_lose_it_by_silence() {
    let mut pair =
        Joined::with(|config| config.congestion = Some(CongestionConfig::none()), |_| {});
    // The most packets that either end has sent in a round of the loops, in which the client has
    // two turns, and the client in its first.
    let most_in_a_turn = |pair: &mut Joined, tag: u64| {
        pair.call(ECHO, &pattern(200_000), tag);
        let (mut first, mut most) = (None, [0; 2]);
        for _ in 0..200 {
            let sent =
                |pair: &Joined| [pair.client.io(), pair.server.io()].map(|io| io.stats().tx_frames);
            let before = sent(pair);
            pair.run(1);
            let after = sent(pair);
            first = first.or(Some(after[0] - before[0]));
            most = [0, 1].map(|end: usize| most[end].max(after[end] - before[end]));
        }
        assert!(pair.outcome(tag).is_ok());
        (first.expect("there were turns"), most)
    };
    for tag in 0..2 {
        let (first, most) = most_in_a_turn(&mut pair, tag);
        assert!((8..=24).contains(&first), "{first} packets in two turns, out of the blue");
        assert!(most.iter().all(|most| *most > 32), "{most:?} packets in a turn");
        // The client forgets after 8 ms, the server after 32 at most.
        pair.run_ms(60);
    }
}
