//! A channel's servers and sessions: connecting, backing off, growing, shrinking, and waiting.

mod driver;

use core::time::Duration;

use petasos_base::{Rng, Time};
use petasos_call::balance::Balance;
use petasos_call::channel::{
    Action, CallOptions, ChannelConfig, ChannelCore, PeerState, Pick, PickError, SESSIONS_MAX,
    SessionIndex,
};
use petasos_call::{Code, Status};

use driver::*;

#[test]
fn nothing_is_connected_before_the_first_call() {
    let mut driver = Driver::new(Balance::RoundRobin, 2);
    assert_eq!(driver.actions(0), []);
    assert_eq!(driver.core.next_timeout(), Time::NEVER);
    assert_eq!(driver.state(1, 0), PeerState::Idle);
    let ticket = driver.wait(CallOptions::default(), 5);
    assert_eq!(driver.connects(5), [(1, 32), (2, 32)]);
    assert_eq!(driver.state(1, 5), PeerState::Connecting);
    let session = driver.connected(2, 32, 6);
    assert_eq!(driver.state(2, 6), PeerState::Ready);
    assert_eq!(driver.outcome(6), Some((ticket, Ok(session))));
    assert_eq!(driver.outcome(6), None);
}

#[test]
fn a_channel_can_connect_without_a_call() {
    let mut driver = Driver::new(Balance::PickFirst, 1);
    driver.core.connect();
    assert_eq!(driver.connects(0), [(1, 32)]);
    assert!(!driver.core.is_ready());
    driver.connected(1, 32, 1);
    assert!(driver.core.is_ready());
}

#[test]
fn pick_first_tries_one_after_the_other_and_stays_with_the_first() {
    let mut driver = Driver::new(Balance::PickFirst, 3);
    let ticket = driver.wait(CallOptions::default(), 0);
    assert_eq!(driver.connects(0), [(1, 32)]);
    driver.failed(1);
    assert_eq!(driver.outcome(1), None, "two others are left");
    assert_eq!(driver.connects(1), [(2, 32)]);
    let session = driver.connected(2, 32, 2);
    assert_eq!(driver.outcome(2), Some((ticket, Ok(session))));
    assert_eq!(driver.connects(10_000), []);
    assert_eq!(driver.state(1, 10_000), PeerState::Idle);
}

#[test]
fn calls_fail_while_all_servers_back_off_unless_they_wait_for_ready() {
    let mut driver = Driver::new(Balance::RoundRobin, 2);
    let hasty = driver.wait(CallOptions::default(), 0);
    let patient = driver.wait(PATIENT, 0);
    driver.connects(0);
    driver.failed(1);
    assert_eq!(driver.outcome(1), None, "the other may still connect");
    driver.failed(2);
    let error = PickError::Unreachable { servers: 2, last: address(2) };
    assert_eq!(driver.outcome(2), Some((hasty, Err(error))));
    assert_eq!(driver.outcome(2), None);
    assert_eq!(driver.pick(CallOptions::default(), 3), Pick::Fail(error));
    assert_eq!(Status::from(error).code(), Code::Unavailable);
    assert_eq!(driver.state(1, 3), PeerState::BackingOff);
    // New attempts do not change that; only success does.
    assert_eq!(driver.connects(1500).len(), 2);
    assert_eq!(driver.pick(CallOptions::default(), 1500), Pick::Fail(error));
    let session = driver.connected(1, 32, 1600);
    assert_eq!(driver.outcome(1600), Some((patient, Ok(session))));
    driver.session(1600);
}

#[test]
fn connects_back_off_as_grpc_does() {
    let mut driver = Driver::new(Balance::PickFirst, 1);
    driver.wait(PATIENT, 0);
    let (mut now, mut base) = (0, 1000.0f64);
    for _ in 0..14 {
        assert_eq!(driver.connects(now), [(1, 32)]);
        driver.failed(1);
        assert_eq!(driver.connects(now + 3), []);
        let next = driver.timeout_ms() + 1;
        let wait = (next - now) as f64;
        assert!((base * 0.79..=base * 1.21 + 1.0).contains(&wait), "{wait} after {base}");
        (now, base) = (next, (base * 1.6).min(120_000.0));
    }
    driver.connects(now);
    let session = driver.connected(1, 32, now);
    driver.core.handle_lost(session, at(now + 60_000));
    assert_eq!(driver.connects(now + 60_000), [(1, 32)], "at once after a long life");
    driver.failed(1);
    driver.connects(now + 60_001);
    let wait = driver.timeout_ms() - now - 60_000;
    assert!((790..=1210).contains(&wait), "from the start again: {wait}");
}

#[test]
fn a_server_that_loses_each_connection_is_asked_once_a_second() {
    let mut driver = Driver::new(Balance::PickFirst, 1);
    driver.core.connect();
    driver.connects(0);
    let session = driver.connected(1, 32, 10);
    driver.core.handle_lost(session, at(20));
    assert_eq!(driver.connects(20), []);
    assert!(matches!(driver.pick(CallOptions::default(), 20), Pick::Fail(_)));
    assert_eq!(driver.timeout_ms(), 1000);
    assert_eq!(driver.connects(1000), [(1, 32)]);
}

#[test]
fn another_session_is_opened_when_the_first_waiting_call_has_waited_a_millisecond() {
    let mut driver = Driver::new(Balance::PickFirst, 1);
    driver.core.connect();
    driver.connects(0);
    driver.connected(1, 2, 0);
    let running = [driver.session(1), driver.session(1)];
    let first = driver.wait(CallOptions::default(), 1);
    let second = driver.wait(CallOptions::default(), 1);
    assert_eq!(driver.connects(1), []);
    assert_eq!(driver.timeout_ms(), 2);
    assert_eq!(driver.connects(2), [(1, 64)]);
    assert_eq!(driver.connects(9), [], "one at a time");
    driver.ended(running[0], 9);
    assert_eq!(driver.outcome(9), Some((first, Ok(running[0]))), "first come, first served");
    let more = driver.connected(1, 4, 10);
    assert_eq!(driver.outcome(10), Some((second, Ok(more))));
    assert_eq!(driver.core.sessions(driver.peer(1)), 2);
    driver.ended(running[1], 11);
    assert_eq!(driver.session(11), running[1], "the first session is filled first");
}

/// Calls that have to wait, each until the one before it has ended, `gap_ns` later. After how many
/// another session is asked for.
fn grows_after(gap_ns: u64) -> Option<u64> {
    let mut driver = Driver::new(Balance::PickFirst, 1);
    driver.core.connect();
    driver.connects(0);
    let session = driver.connected(1, 1, 0);
    driver.session(0);
    (0..50).find(|&turn| {
        let [now, later] = [turn, turn + 1].map(|turn| Time::from_nanos(turn * gap_ns));
        let Pick::Wait(_) = driver.core.pick(CallOptions::default(), now, &mut Rng::new(1)) else {
            panic!("the slot is taken")
        };
        let action = driver.core.poll_action(now);
        driver.core.handle_ended(session, None, later);
        assert!(driver.core.poll_waiting(later, &mut Rng::new(1)).is_some());
        matches!(action, Some(Action::Connect { slots: 64, .. }))
    })
}

#[test]
fn another_session_is_opened_when_calls_wait_again_and_again_for_a_millisecond() {
    assert_eq!([MS / 10, MS / 2].map(grows_after), [Some(10), Some(2)]);
    assert_eq!(grows_after(2 * MS), None, "that is now and then");
}

#[test]
fn a_call_that_waits_is_not_overtaken() {
    let mut driver = Driver::new(Balance::PowerOfTwo, 1);
    driver.core.connect();
    driver.connects(0);
    let session = driver.connected(1, 1, 0);
    driver.session(0);
    let first = driver.wait(CallOptions::default(), 1);
    driver.ended(session, 2);
    let second = driver.wait(CallOptions::default(), 2);
    assert_eq!(driver.outcome(2), Some((first, Ok(session))));
    driver.core.handle_abandoned(second);
    driver.ended(session, 3);
    assert_eq!(driver.outcome(3), None);
    assert_eq!(driver.core.waiting(), 0);
    assert_eq!(driver.session(3), session);
}

#[test]
fn sessions_grow_to_their_most_and_shrink_to_one() {
    let mut driver = Driver::new(Balance::PickFirst, 1);
    driver.core.connect();
    driver.connects(0);
    let mut sessions = vec![driver.connected(1, 1, 0)];
    driver.session(0);
    let mut now = 1;
    for _ in 0..SESSIONS_MAX + 3 {
        driver.wait(CallOptions::default(), now);
        now += 2;
        for (port, _) in driver.connects(now) {
            sessions.push(driver.connected(port, 1, now));
        }
        while driver.outcome(now).is_some() {}
    }
    assert_eq!(sessions.len(), SESSIONS_MAX);
    assert_eq!(driver.core.waiting(), 4);
    assert_eq!(driver.core.next_timeout().nanos_since(at(now)).min(MS), MS, "no busy loop");
    // The waiting calls run, then all sessions fall idle.
    sessions.iter().for_each(|&session| driver.ended(session, now));
    while let Some((_, picked)) = driver.outcome(now) {
        driver.ended(picked.expect("there is room"), now);
    }
    let mut closed = 0;
    while driver.core.next_timeout() != Time::NEVER {
        now = now.max(driver.timeout_ms()) + 1;
        closed += driver.actions(now).len();
    }
    assert!(now < 25_000);
    assert_eq!(closed, SESSIONS_MAX - 1);
    assert_eq!(driver.core.sessions(driver.peer(1)), 1);
    assert_eq!(driver.session(now), sessions[0]);
}

#[test]
fn a_refused_growth_leaves_the_server_ready_and_waits() {
    let mut driver = Driver::new(Balance::PickFirst, 1);
    driver.core.connect();
    driver.connects(0);
    let session = driver.connected(1, 1, 0);
    driver.session(2000);
    let ticket = driver.wait(CallOptions::default(), 2000);
    assert_eq!(driver.connects(2001), [(1, 64)]);
    driver.failed(1);
    assert_eq!(driver.outcome(2002), None);
    assert_eq!(driver.state(1, 2002), PeerState::Ready);
    assert_eq!(driver.connects(2700), [], "it has refused a moment ago");
    assert_eq!(driver.connects(3300), [(1, 64)]);
    driver.ended(session, 3300);
    assert_eq!(driver.outcome(3300), Some((ticket, Ok(session))));
}

/// A server that restarts is dialled at once, also if the channel has just grown.
#[test]
fn a_server_that_was_connected_for_long_has_not_failed_because_the_channel_has_grown() {
    for has_grown in [true, false] {
        let mut driver = Driver::new(Balance::PickFirst, 1);
        driver.core.connect();
        driver.connects(0);
        let mut sessions = vec![driver.connected(1, 1, 0)];
        let running = driver.session(5000);
        let ticket = driver.wait(CallOptions::default(), 5000);
        assert_eq!(driver.connects(5001), [(1, 64)]);
        match has_grown {
            true => sessions.push(driver.connected(1, 1, 5002)),
            false => driver.failed(1),
        }
        driver.core.handle_abandoned(ticket);
        driver.ended(running, 5003);
        sessions.iter().for_each(|session| driver.core.handle_lost(*session, at(5004)));
        let ticket = driver.wait(CallOptions::default(), 5004);
        assert_eq!(driver.connects(5004), [(1, 32)]);
        let session = driver.connected(1, 1, 5005);
        assert_eq!(driver.outcome(5005), Some((ticket, Ok(session))));
    }
}

#[test]
fn deadlines_pass_while_calls_wait() {
    let mut driver = Driver::new(Balance::PickFirst, 1);
    let until = |ms| CallOptions { deadline: at(ms), ..PATIENT };
    assert_eq!(driver.pick(until(3), 3), Pick::Fail(PickError::DeadlineExceeded));
    let late = driver.wait(until(90), 3);
    let early = driver.wait(until(50), 3);
    driver.wait(PATIENT, 3);
    driver.connects(3);
    assert_eq!(driver.timeout_ms(), 50);
    assert_eq!(driver.outcome(49), None);
    assert_eq!(driver.outcome(50), Some((early, Err(PickError::DeadlineExceeded))));
    assert_eq!(driver.outcome(89), None);
    assert_eq!(driver.outcome(95), Some((late, Err(PickError::DeadlineExceeded))));
    assert_eq!((driver.outcome(9999), driver.core.waiting()), (None, 1));
}

#[test]
fn only_so_many_calls_wait() {
    let config = ChannelConfig { waiting_max: 2, ..ChannelConfig::default() };
    let mut driver = Driver::with(config, 1);
    let first = driver.wait(PATIENT, 0);
    driver.wait(PATIENT, 0);
    assert_eq!(driver.pick(PATIENT, 0), Pick::Fail(PickError::TooManyWaiting));
    driver.core.handle_abandoned(first);
    driver.wait(PATIENT, 0);
}

#[test]
fn streams_take_half_of_a_sessions_slots() {
    let config = ChannelConfig { streams: true, ..ChannelConfig::default() };
    let mut driver = Driver::with(config, 1);
    driver.core.connect();
    driver.connects(0);
    driver.connected(1, 5, 0);
    driver.session(0);
    driver.session(0);
    driver.wait(CallOptions::default(), 0);
}

#[test]
fn a_session_without_slots_is_a_failed_one() {
    let mut driver = Driver::new(Balance::PickFirst, 1);
    let ticket = driver.wait(CallOptions::default(), 0);
    driver.connects(0);
    let peer = driver.peer(1);
    assert_eq!(driver.core.handle_connected(peer, 0, at(1)), None);
    assert!(matches!(driver.outcome(1), Some((failed, Err(_))) if failed == ticket));
    assert_eq!(driver.connects(2), []);
    assert_eq!(driver.connects(1000), [(1, 32)]);
}

#[test]
fn a_draining_session_gets_no_calls_and_closes_after_its_last() {
    let mut driver = Driver::new(Balance::PickFirst, 1);
    driver.core.connect();
    driver.connects(0);
    let session = driver.connected(1, 8, 0);
    driver.session(5000);
    driver.core.handle_draining(session, at(5000));
    assert!(!driver.core.is_ready());
    assert_eq!(driver.connects(5000), [(1, 32)], "perhaps another process listens there");
    let fresh = driver.connected(1, 8, 5001);
    assert_eq!(driver.session(5002), fresh);
    assert_eq!(driver.actions(5003), []);
    driver.ended(session, 5003);
    assert_eq!(driver.actions(5003), [Action::Close(session)]);
}

#[test]
fn a_server_with_a_successor_is_tried_again_soon_and_fails_no_call() {
    let mut driver = Driver::new(Balance::PickFirst, 1);
    driver.core.connect();
    driver.connects(0);
    let mut session = driver.connected(1, 8, 0);
    // One successor after the other, each long before a server that drains would be tried again.
    for round in 1..20 {
        let begun = (round - 1) * 50;
        assert_eq!(driver.session(begun + 1), session);
        driver.core.handle_succeeded(session);
        driver.core.handle_succeeded(session);
        let ticket = driver.wait(CallOptions::default(), begun + 1);
        assert_eq!(driver.connects(begun + 1), [], "not without pause");
        assert_eq!(driver.connects(begun + 50), [(1, 32)]);
        let fresh = driver.connected(1, 8, begun + 50);
        assert!(matches!(driver.outcome(begun + 50), Some((same, Ok(_))) if same == ticket));
        driver.ended(fresh, begun + 50);
        driver.ended(session, begun + 50);
        assert_eq!(driver.actions(begun + 50), [Action::Close(session)]);
        session = fresh;
    }
}

#[test]
fn a_removed_server_finishes_its_calls() {
    let mut driver = Driver::new(Balance::RoundRobin, 2);
    driver.core.connect();
    driver.connects(0);
    let removed = driver.connected(1, 8, 0);
    let kept = driver.connected(2, 8, 0);
    assert_eq!([driver.session(0), driver.session(0)], [removed, kept]);
    driver.core.handle_addresses(&[address(2), address(3)], at(1));
    assert_eq!(driver.core.find(&address(1)), None);
    assert_eq!(driver.connects(1), [(3, 32)]);
    assert!((0..5).all(|_| driver.session(1) == kept));
    driver.ended(removed, 2);
    assert_eq!(driver.actions(2), [Action::Close(removed)]);
    driver.ended(removed, 3);
    assert_eq!(driver.actions(3), [], "what is gone is ignored");
}

#[test]
fn a_server_that_comes_back_keeps_its_sessions() {
    let mut driver = Driver::new(Balance::PickFirst, 1);
    driver.core.connect();
    driver.connects(0);
    let session = driver.connected(1, 8, 0);
    driver.session(0);
    driver.core.handle_addresses(&[], at(1));
    assert_eq!(driver.pick(CallOptions::default(), 1), Pick::Fail(PickError::NoAddress));
    driver.core.handle_addresses(&[address(1)], at(2));
    assert_eq!(driver.session(2), session);
    assert_eq!(driver.connects(2), []);
}

#[test]
fn a_connect_that_is_not_wanted_any_more_is_refused() {
    let mut driver = Driver::new(Balance::PickFirst, 1);
    driver.core.connect();
    driver.connects(0);
    let peer = driver.peer(1);
    driver.core.handle_addresses(&[address(2)], at(1));
    assert_eq!(driver.core.handle_connected(peer, 8, at(2)), None);
    assert_eq!(driver.core.handle_connected(peer, 8, at(3)), None);
    driver.core.handle_failed(peer, &mut Rng::new(1));
    assert_eq!(driver.connects(3), [(2, 32)]);
}

#[test]
fn names_are_looked_up_at_first_every_half_minute_and_after_failures() {
    let config = ChannelConfig { resolves: true, ..ChannelConfig::default() };
    let mut driver = Driver { core: ChannelCore::new(config), rng: Rng::new(1) };
    let ticket = driver.wait(CallOptions::default(), 0);
    assert_eq!(driver.actions(0), [Action::Resolve]);
    assert_eq!(driver.actions(5), []);
    driver.core.handle_unresolved(at(5), &mut driver.rng);
    assert_eq!(driver.outcome(5), Some((ticket, Err(PickError::NoAddress))));
    assert_eq!(driver.actions(700), []);
    assert_eq!(driver.actions(1300), [Action::Resolve]);
    driver.core.handle_resolved(&[address(1), address(1)], at(1301));
    assert_eq!(driver.connects(1301), [(1, 32)]);
    let session = driver.connected(1, 8, 1302);
    assert_eq!(driver.actions(31_300), []);
    assert_eq!(driver.actions(31_301), [Action::Resolve]);
    driver.core.handle_resolved(&[address(1)], at(31_302));
    driver.core.handle_lost(session, at(31_310));
    assert_eq!(driver.connects(31_310), [(1, 32)]);
    assert_eq!(driver.actions(32_301), [Action::Resolve], "a second after the last one");
}

#[test]
fn lookups_may_be_closer_together_after_failures_and_then_are_not() {
    let lookup_gap = Duration::from_millis(20);
    let config = ChannelConfig { resolves: true, lookup_gap, ..ChannelConfig::default() };
    let mut driver = Driver { core: ChannelCore::new(config), rng: Rng::new(1) };
    driver.core.connect();
    assert_eq!(driver.actions(0), [Action::Resolve]);
    let mut last = 0;
    // Each has another address, whose server fails at once.
    for (number, gap) in (1..).zip([20, 40, 80, 160, 320, 640, 1000, 1000]) {
        driver.core.handle_resolved(&[address(number)], at(last));
        assert_eq!(driver.connects(last), [(number, 32)]);
        driver.failed(number);
        assert_eq!(driver.actions(last + gap - 1), [], "{gap} ms");
        last += gap;
        assert_eq!(driver.actions(last), [Action::Resolve], "{gap} ms");
    }
    // One that has worked for a while is another matter.
    driver.core.handle_resolved(&[address(90)], at(last));
    assert_eq!(driver.connects(last), [(90, 32)]);
    let session = driver.connected(90, 8, last);
    driver.core.handle_lost(session, at(last + 5000));
    let found = driver.actions(last + 5000);
    assert!(found.contains(&Action::Resolve), "{found:?}");
    driver.core.handle_resolved(&[address(91)], at(last + 5000));
    assert_eq!(driver.connects(last + 5000), [(91, 32)]);
    driver.failed(91);
    assert_eq!(driver.actions(last + 5020), [Action::Resolve]);
}

#[test]
fn hedges_avoid_the_server_they_come_from() {
    let mut driver = Driver::new(Balance::PowerOfTwo, 2);
    driver.core.connect();
    driver.connects(0);
    let (one, other) = (driver.connected(1, 40, 0), driver.connected(2, 40, 0));
    for _ in 0..20 {
        let avoid = CallOptions { avoid: one.into(), ..CallOptions::default() };
        assert_eq!(driver.pick(avoid, 0), Pick::Session(other));
    }
    driver.core.handle_lost(other, at(1));
    let avoid = CallOptions { avoid: one.into(), ..CallOptions::default() };
    assert_eq!(driver.pick(avoid, 1), Pick::Session(one), "rather that one than none");
}

#[test]
fn probes_go_to_connected_servers_and_take_a_slot() {
    let mut driver = Driver::new(Balance::Prequal, 2);
    driver.core.connect();
    driver.connects(0);
    let sessions = [driver.connected(1, 2, 0), driver.connected(2, 2, 0)];
    driver.session(0);
    let session = |action: Action| match action {
        Action::Probe(session) if sessions.contains(&session) => session,
        other => panic!("only probes of the sessions were expected, not {other:?}"),
    };
    let probes: Vec<SessionIndex> = driver.actions(0).into_iter().map(session).collect();
    assert!((1..=2).contains(&probes.len()), "one of each server at most");
    for _ in 0..3 - probes.len() {
        driver.session(0);
    }
    let waits = driver.wait(CallOptions::default(), 0);
    driver.core.handle_probed(probes[0], None, at(1), &mut driver.rng);
    assert_eq!(driver.outcome(1), Some((waits, Ok(probes[0]))));
    driver.core.handle_lost(probes[0], at(2));
    assert_eq!(driver.actions(2000).len(), 1, "a connect, and no probe of what is lost or full");
}
