//! Calls to a group of workers, by rosters that tests make.

use std::time::Duration;

use petasos_base::Rng;
use petasos_endpoint::{CallError, CallSettings, GroupError, RejectCode, SessionState};
use petasos_wire::Kind;

use crate::grouped::*;
use crate::joined::*;

#[test]
fn a_whole_request_is_answered_in_one_round_trip_and_leaves_nothing_behind() {
    let mut group = Grouped::new(2);
    group.call(ECHO, b"hello", 1, WHOLE);
    group.run(5);
    assert_eq!(*group.outcome(1), Ok(b"hello".to_vec()));
    // A first packet, its answer, and the feedback.
    let kinds: Vec<_> = group.kinds.iter().filter(|kind| **kind != Kind::Feedback).collect();
    assert_eq!(kinds, [&Kind::Routed, &Kind::Response]);
    let stats = group.members[0].endpoint.stats();
    assert_eq!((stats.taken.whole, stats.taken.left, stats.taken.kept), (1, 1, 0));
    assert_eq!(stats.given.requests, 1);
    assert_eq!(group.client.stats().pairs.completed, 1);
    assert_eq!(group.members[0].told.expect("it is told").settled, 1);
    group.assert_quiet();
}

#[test]
fn a_call_that_may_run_once_asks_first_and_is_confirmed_to_one_worker() {
    let mut group = Grouped::new(2);
    group.call(ECHO, b"once", 1, ONCE);
    group.run_ms(5);
    assert_eq!(*group.outcome(1), Ok(b"once".to_vec()));
    let expected = [Kind::Routed, Kind::Ready, Kind::Request, Kind::Response, Kind::Done];
    let kinds: Vec<_> = group.kinds.iter().filter(|kind| **kind != Kind::Feedback).collect();
    assert_eq!(kinds, expected.iter().collect::<Vec<_>>());
    let stats = group.members[0].endpoint.stats();
    assert_eq!((stats.taken.claims, stats.taken.confirmed, stats.taken.kept), (1, 1, 1));
    assert_eq!(group.handled(), 1);
    group.assert_quiet();
}

#[test]
fn plain_calls_to_the_session_are_calls_that_run_once() {
    let mut group = Grouped::new(1);
    let session = group.session;
    let cx = group.client.context();
    assert!(session.is_group() && !session.is_external());
    assert_eq!((cx.session_state(session), cx.session_slots(session)), (SessionState::Ready, 256));
    cx.enqueue_request(session, ECHO, request_of(b"plain"), keep, 1).expect("it is ready");
    group.run_ms(5);
    assert_eq!(*group.outcome(1), Ok(b"plain".to_vec()));
    assert_eq!(group.client.stats().pairs.bound, 1);
    group.assert_quiet();
}

#[test]
fn one_lost_or_repeated_packet_changes_nothing() {
    for fate in [Fate::IsLost, Fate::ArrivesTwice] {
        for (routing, bytes) in [(WHOLE, 30), (ONCE, 30), (ONCE, 5_000)] {
            for harmed in 0..14 {
                let mut group = Grouped::new(2);
                group.call(ECHO, &pattern(bytes), 1, routing);
                let judge = |at, _| if at == harmed { fate } else { Fate::Arrives };
                group.run_with(300, judge);
                let what = format!("{fate:?} {harmed} of {bytes} bytes");
                assert_eq!(*group.outcome(1), Ok(pattern(bytes)), "{what}");
                if routing == ONCE {
                    assert_eq!(group.handled(), 1, "{what}");
                }
                group.run_ms(2500);
                group.assert_quiet();
            }
        }
    }
}

#[test]
fn calls_end_well_on_a_bad_network() {
    for seed in 0..12 {
        let mut group = Grouped::new(3);
        let mut rng = Rng::new(seed);
        for tag in 0..40 {
            let routing = if tag % 3 == 0 { WHOLE } else { ONCE };
            let bytes = [0, 8, 1024, 1025, 20_000][tag as usize % 5];
            group.call(ECHO, &pattern(bytes), tag, routing);
            group.run_with(2, |_, _| fate_of(&mut rng));
        }
        group.run_with(2_000, |_, _| fate_of(&mut rng));
        group.run_ms(5_000);
        for tag in 0..40 {
            let bytes = [0, 8, 1024, 1025, 20_000][tag as usize % 5];
            match group.outcome(tag) {
                Ok(response) => assert_eq!(*response, pattern(bytes), "seed {seed}"),
                Err(error) => panic!("seed {seed}: call {tag} of {bytes} bytes: {error:?}"),
            }
        }
        group.assert_quiet();
    }
}

fn fate_of(rng: &mut Rng) -> Fate {
    match rng.below(100) {
        0..4 => Fate::IsLost,
        4..8 => Fate::ArrivesTwice,
        _ => Fate::Arrives,
    }
}

#[test]
fn a_handler_that_takes_long_is_waited_for() {
    let mut group = Grouped::new(1);
    group.call(HOLD, b"slow", 1, WHOLE);
    group.run_ms(10_000);
    assert!(!group.is_over(1));
    assert_eq!(group.client.stats().pairs.bound, 1, "the worker has said that it runs");
    assert_eq!(group.client.stats().pairs.first_packets, 1);
    let held = group.members[0].endpoint.state_mut().held.pop();
    let (handle, request) = held.expect("the handler runs");
    let cx = group.members[0].endpoint.context();
    assert!(cx.is_wanted(&handle));
    cx.respond_with(handle, &request);
    group.run_ms(5);
    assert_eq!(*group.outcome(1), Ok(b"slow".to_vec()));
    assert_eq!(group.handled(), 1);
    group.assert_quiet();
}

#[test]
fn cancelled_calls_are_given_up_at_the_worker() {
    for routing in [WHOLE, ONCE] {
        let mut group = Grouped::new(1);
        let call = group.call(HOLD, b"slow", 1, routing);
        group.run_ms(10);
        assert!(group.client.context().cancel(call));
        assert!(!group.client.context().cancel(call));
        group.run_ms(5);
        assert_eq!(*group.outcome(1), Err(CallError::Cancelled));
        let worker = &mut group.members[0].endpoint;
        let (handle, _) = worker.state_mut().held.pop().expect("the handler runs");
        assert_eq!(worker.state().abandoned, [handle.key()]);
        assert!(!worker.context().is_wanted(&handle));
        // The number is the handler's until it has ended (RT18).
        group.probe(0);
        group.run_ms(5);
        assert_eq!(group.members[0].told.expect("it is asked").settled, 1, "the probe alone");
        group.members[0].endpoint.context().respond_with(handle, b"nobody wants this");
        group.run_ms(5);
        group.assert_quiet();
    }
}

#[test]
fn a_call_that_is_cancelled_while_it_asks_leaves_nothing_for_long() {
    let mut group = Grouped::new(1);
    let call = group.call(ECHO, b"never mind", 1, ONCE);
    group.run(1);
    assert!(group.client.context().cancel(call));
    group.run_ms(100);
    assert_eq!(*group.outcome(1), Err(CallError::Cancelled));
    assert_eq!((group.handled(), group.client.stats().pairs.cancels), (0, 1));
    group.assert_quiet();
}

#[test]
fn timeouts_end_calls_that_ask_and_calls_that_have_a_worker() {
    let mut group = Grouped::new(1);
    let settings =
        CallSettings { timeout: Some(Duration::from_millis(50)), ..CallSettings::default() };
    group.call_with(HOLD, b"slow", 1, WHOLE, &settings);
    group.call_with(HOLD, b"slow", 2, ONCE, &settings);
    group.run_ms(40);
    // Nobody hears of this one.
    group.call_with(ECHO, b"lost", 3, ONCE, &settings);
    let lost = |_, kind| if kind == Kind::Routed { Fate::IsLost } else { Fate::Arrives };
    group.run_with(100, lost);
    for tag in 1..4 {
        assert_eq!(*group.outcome(tag), Err(CallError::Timeout));
    }
    assert_eq!(group.members[0].endpoint.state().abandoned.len(), 2);
    for (handle, _) in std::mem::take(&mut group.members[0].endpoint.state_mut().held) {
        group.members[0].endpoint.context().respond_with(handle, b"late");
    }
    group.run_ms(5);
    group.assert_quiet();
}

#[test]
fn silence_ends_calls_and_says_whether_they_may_have_run() {
    let mut group = Grouped::new(1);
    group.call(ECHO, b"one", 1, WHOLE);
    group.call(ECHO, b"two", 2, ONCE);
    group.run_with(5_000, |_, _| Fate::IsLost);
    assert_eq!(*group.outcome(1), Err(CallError::PeerFailed));
    assert_eq!(*group.outcome(2), Err(CallError::NotSent), "only a claim was sent");
    let stats = group.client.stats().pairs;
    assert_eq!((stats.unanswered, stats.first_packets), (2, 8), "four sendings each");
    // Bound, and then nothing for two seconds.
    group.call(HOLD, b"three", 3, ONCE);
    group.run_ms(10);
    group.run_with(2_500, |_, _| Fate::IsLost);
    assert_eq!(*group.outcome(3), Err(CallError::PeerFailed));
}

#[test]
fn a_worker_that_leaves_the_roster_fails_its_calls() {
    let mut group = Grouped::new(2);
    group.call(HOLD, b"one", 1, ONCE);
    group.call(HOLD, b"two", 2, ONCE);
    group.run_ms(10);
    group.client.remove_group_member(group.session, 1);
    group.run_ms(5);
    assert_eq!(*group.outcome(1), Err(CallError::PeerFailed));
    assert!(!group.is_over(2), "the other worker has this one");
    // A claim is answered by a worker that is not in the roster: it is not heard.
    group.next = 0;
    group.call(ECHO, b"three", 3, ONCE);
    group.run(5);
    assert!(!group.is_over(3));
    assert!(group.client.stats().event_loop.wrong_origin > 0);
    group.run_ms(100);
    assert_eq!(*group.outcome(3), Ok(b"three".to_vec()), "the repetition went to the other");
}

#[test]
fn an_attachment_that_ends_lets_bound_calls_go_on() {
    let mut group = Grouped::new(1);
    group.call(HOLD, b"bound", 1, ONCE);
    group.run_ms(10);
    let lost = |_, kind| if kind == Kind::Routed { Fate::IsLost } else { Fate::Arrives };
    group.call(ECHO, b"asks", 2, ONCE);
    group.run_with(1, lost);
    let session = group.session;
    group.client.detach_group(session).expect("it is attached");
    assert!(group.client.detach_group(session).is_err());
    group.run(2);
    assert_eq!(*group.outcome(2), Err(CallError::NotSent));
    assert_eq!(group.client.context().session_state(session), SessionState::Unknown);
    let refused = group.client.context().enqueue_request(session, ECHO, request_of(b""), keep, 9);
    assert!(refused.is_err());
    let (handle, request) = group.members[0].endpoint.state_mut().held.pop().expect("it runs");
    group.members[0].endpoint.context().respond_with(handle, &request);
    group.run_ms(5);
    assert_eq!(*group.outcome(1), Ok(b"bound".to_vec()));
    group.assert_quiet();
}

/// RT38: at once, not after a timeout; and only within a group.
#[test]
fn calls_that_ask_move_to_another_router() {
    let mut group = Grouped::new(2);
    group.call(HOLD, b"bound", 1, ONCE);
    group.run_ms(10);
    let lost = |_, kind| if kind == Kind::Routed { Fate::IsLost } else { Fate::Arrives };
    group.call(ECHO, b"whole", 2, WHOLE);
    group.call(ECHO, &pattern(3_000), 3, ONCE);
    group.run_with(1, lost);
    let [before, wrong] = [group.session, group.attach_again(1025)];
    let other = group.client.move_group_calls(before, wrong);
    assert!(matches!(other, Err(GroupError::OtherGroup)), "{other:?}");
    let next = group.attach_again(PAYLOAD as u16);
    group.client.move_group_calls(before, next).expect("both are attached");
    group.client.detach_group(before).expect("it is attached");
    assert!(group.client.move_group_calls(before, next).is_err());
    group.run_ms(3);
    assert_eq!(*group.outcome(2), Ok(b"whole".to_vec()));
    assert_eq!(*group.outcome(3), Ok(pattern(3_000)));
    let (handle, request) = group.members[0].endpoint.state_mut().held.pop().expect("it runs");
    group.members[0].endpoint.context().respond_with(handle, &request);
    group.run_ms(5);
    assert_eq!(*group.outcome(1), Ok(b"bound".to_vec()), "what is bound stays as it is");
    group.session = next;
    group.call(ECHO, b"new", 4, ONCE);
    group.run_ms(5);
    assert_eq!(*group.outcome(4), Ok(b"new".to_vec()));
    group.assert_quiet();
}

/// RT34, RT36: the same worker at the same address is no news.
#[test]
fn a_worker_that_is_told_again_keeps_its_calls() {
    let mut group = Grouped::new(1);
    group.call(HOLD, b"bound", 1, ONCE);
    group.run_ms(10);
    let at = group.members[0].endpoint.local_address();
    group.client.set_group_member(group.session, 1, at).expect("it is reached");
    group.run_ms(2);
    assert!(!group.is_over(1));
    // At another address it is another.
    let elsewhere = petasos_netio::memory::MemoryIo::address(9);
    group.client.set_group_member(group.session, 1, elsewhere).expect("it is reached");
    group.run_ms(2);
    assert_eq!(*group.outcome(1), Err(CallError::PeerFailed));
}

/// RT9: a ready has nothing behind it, also where it leaves with packets that are a little longer.
#[test]
fn readies_are_not_padded() {
    let mut group = Grouped::new(1);
    for tag in 0..20 {
        group.call(ECHO, &pattern(100), tag, WHOLE);
        group.call(ECHO, b"short", 100 + tag, ONCE);
        group.run(6);
        assert!(group.is_over(tag) && group.is_over(100 + tag), "nothing is repeated");
    }
    assert_eq!(group.client.stats().pairs.void, 0);
    group.assert_quiet();
}

/// A worker's session owes nothing once its request is gone, and the client may be gone with it.
#[test]
fn a_client_that_leaves_in_the_middle_of_a_request_does_no_harm() {
    let mut group = Grouped::new(1);
    let call = group.call(ECHO, &pattern(50_000), 1, ONCE);
    group.run(3);
    let id = group.members[0].id;
    group.members[0].endpoint.remove_group_client(id, 5);
    // Parts of the request, and that it is given up, come in one batch.
    group.run_between(|group| {
        assert!(group.client.context().cancel(call));
        group.client.send_now();
    });
    group.run_ms(5);
    assert_eq!(*group.outcome(1), Err(CallError::Cancelled));
    assert_eq!((group.handled(), group.members[0].endpoint.stats().taken.cancelled), (0, 1));
    group.assert_quiet();
}

/// RT15: a handler that passes on what a router has told it has run all the same.
#[test]
fn what_a_handler_says_is_not_taken_for_a_router_that_has_not_asked_it() {
    let mut group = Grouped::new(1);
    for (tag, code) in [(1, RejectCode::QueueFull), (2, RejectCode::NoWorker)] {
        group.call(HOLD, b"deep", tag, ONCE);
        group.run_ms(5);
        let (handle, _) = group.members[0].endpoint.state_mut().held.pop().expect("it runs");
        group.members[0].endpoint.context().reject(handle, code);
        group.run_ms(5);
        let outcome = group.outcome(tag).clone().expect_err("it was rejected");
        assert!(!outcome.retry_is_safe(), "{outcome:?}");
    }
    group.run_ms(2_500);
    group.assert_quiet();
}

#[test]
fn closing_ends_every_call() {
    let mut group = Grouped::new(1);
    group.call(HOLD, b"bound", 1, ONCE);
    group.run_ms(10);
    group.call(ECHO, b"asks", 2, WHOLE);
    group.client.close_session(group.session);
    group.run_ms(5);
    for tag in [1, 2] {
        assert_eq!(*group.outcome(tag), Err(CallError::SessionClosed));
    }
    assert_eq!(group.members[0].endpoint.state().abandoned.len(), 1, "the worker is told");
}

#[test]
fn rejections_of_the_router_and_of_workers_are_told_apart() {
    let mut group = Grouped::new(1);
    let codes = [
        (RejectCode::QueueFull, CallError::QueueFull),
        (RejectCode::NoWorker, CallError::NoWorker),
        (RejectCode::UnknownPolicy, CallError::UnknownPolicy),
        (RejectCode::Again, CallError::Again),
        (RejectCode::Expired, CallError::Expired),
    ];
    for (at, (code, error)) in codes.into_iter().enumerate() {
        group.rejects = Some(code);
        let tag = at as u64;
        group.call(ECHO, b"no", tag, if at % 2 == 0 { WHOLE } else { ONCE });
        group.run_ms(2);
        assert_eq!(*group.outcome(tag), Err(error));
        assert!(error.retry_is_safe());
    }
    group.rejects = None;
    for (tag, routing) in [(10, WHOLE), (11, ONCE)] {
        group.call(NOBODY, b"what", tag, routing);
        group.call(PANIC, b"boom", 10 + tag, routing);
        group.run_ms(10);
        assert_eq!(*group.outcome(tag), Err(CallError::UnknownMethod));
        assert_eq!(*group.outcome(10 + tag), Err(CallError::HandlerFailed));
    }
    assert_eq!(group.members[0].endpoint.stats().event_loop.panics, 2);
    // RT20: these are its own; that it has no such method is not.
    assert_eq!(group.members[0].failed, 2);
    group.members[0].endpoint.drain();
    for (tag, routing) in [(30, WHOLE), (31, ONCE)] {
        group.call(ECHO, b"late", tag, routing);
        group.run_ms(5);
        assert_eq!(*group.outcome(tag), Err(CallError::Draining));
    }
    group.run_ms(2_500);
    group.assert_quiet();
}

#[test]
fn more_calls_than_the_router_lets_ask_are_refused() {
    let mut group = Grouped::new(1);
    for tag in 0..256 {
        group.call(ECHO, b"many", tag, WHOLE);
    }
    let session = group.session;
    let refused = group.client.context().enqueue_request(session, ECHO, request_of(b"x"), keep, 9);
    let refused = refused.expect_err("as many ask as the router lets");
    assert_eq!(refused.request.as_slice(), b"x", "the buffer comes back");
    group.run_ms(20);
    assert_eq!(group.handled(), 256);
    group.assert_quiet();
}

#[test]
fn responses_for_which_there_is_no_memory_end_their_calls() {
    let small =
        |config: &mut petasos_endpoint::EndpointConfig| config.pool.lent_bytes_max = 1 << 16;
    let mut group = Grouped::with(1, small, |_| {});
    group.call(LONG, &200_000u32.to_le_bytes(), 1, WHOLE);
    group.run_ms(20);
    assert_eq!(*group.outcome(1), Err(CallError::OutOfMemory));
    group.call(ECHO, b"short", 2, WHOLE);
    group.run_ms(20);
    assert_eq!(*group.outcome(2), Ok(b"short".to_vec()));
    group.assert_quiet();
    // The same at the worker: the request is not run.
    let mut group = Grouped::with(1, |_| {}, small);
    group.call(ECHO, &pattern(200_000), 1, ONCE);
    group.run_ms(50);
    assert_eq!(*group.outcome(1), Err(CallError::Overloaded));
    assert_eq!(group.handled(), 0);
    assert!(group.members[0].endpoint.stats().event_loop.assemblies_refused > 0);
    group.run_ms(2_500);
    group.assert_quiet();
}

#[test]
fn a_draining_worker_says_so() {
    let mut group = Grouped::new(1);
    let id = group.members[0].id;
    group.members[0].endpoint.set_membership_n(id, 0).expect("it is there");
    group.run(3);
    assert_eq!(group.members[0].told.expect("it is told at once").bound, 0);
    group.members[0].endpoint.leave_group(id).expect("it is there");
    assert!(group.members[0].endpoint.leave_group(id).is_err());
    group.call(ECHO, b"gone", 1, ONCE);
    group.run_ms(5_000);
    assert_eq!(*group.outcome(1), Err(CallError::NotSent));
}

/// A client's responses are its own, and those of ordinary sessions are theirs: both kinds of calls
/// go on in one endpoint.
#[test]
fn sessions_and_groups_share_an_endpoint() {
    let mut group = Grouped::new(1);
    let worker = &mut group.members[0].endpoint;
    let session = connect(&mut group.client, worker);
    for tag in 0..20 {
        group.call(
            ECHO,
            &pattern(tag as usize * 300),
            tag,
            if tag % 2 == 0 { WHOLE } else { ONCE },
        );
        let request = request_of(&pattern(tag as usize * 299));
        let cx = group.client.context();
        cx.enqueue_request(session, ECHO, request, keep, 100 + tag).expect("it is ready");
    }
    group.run_ms(100);
    for tag in 0..20 {
        assert_eq!(*group.outcome(tag), Ok(pattern(tag as usize * 300)));
        assert_eq!(*group.outcome(100 + tag), Ok(pattern(tag as usize * 299)));
    }
}
