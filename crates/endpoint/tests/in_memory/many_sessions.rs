//! Endpoints with so many sessions that they look ahead of their packets: the same happens as
//! with few, whatever was hinted.

use petasos_base::Rng;
use petasos_endpoint::{CallError, SessionId};

use crate::joined::*;

/// More than an endpoint takes for few.
const SESSIONS: usize = 700;

fn wide() -> (Joined, Vec<SessionId>) {
    let mut pair = Joined::new();
    let sessions = (0..SESSIONS).map(|_| connect(&mut pair.client, &mut pair.server)).collect();
    (pair, sessions)
}

fn call(pair: &mut Joined, session: SessionId, method: u16, request: &[u8], tag: u64) {
    pair.session = session;
    pair.call(method, request, tag);
}

#[test]
fn calls_on_sessions_picked_at_random_end_once_each() {
    let (mut pair, sessions) = wide();
    let mut rng = Rng::new(11);
    let mut next = sessions[0];
    for tag in 0..4_000u64 {
        let session = next;
        next = sessions[rng.below(SESSIONS as u64) as usize];
        if tag % 3 != 0 {
            // Some calls come unannounced.
            pair.client.context().will_call(next);
        }
        // Of one packet, and now and then of several.
        let len = if tag % 50 == 0 { 5_000 } else { 8 + (tag % 300) as usize };
        let mut request = pattern(len);
        request[..8].copy_from_slice(&tag.to_le_bytes());
        call(&mut pair, session, ECHO, &request, tag);
        if tag % 64 == 63 {
            pair.run(3);
        }
    }
    pair.run_ms(20);
    assert_eq!(pair.client.state().outcomes.len(), 4_000);
    for (tag, outcome) in &pair.client.state().outcomes {
        let response = outcome.as_ref().expect("the hub loses nothing");
        assert_eq!(response[..8], tag.to_le_bytes());
    }
    assert_eq!(pair.server.state().handled, 4_000);
}

#[test]
fn a_panic_in_the_middle_of_a_batch_costs_its_call_only() {
    let (mut pair, sessions) = wide();
    for (tag, session) in sessions.iter().take(40).enumerate() {
        let method = if tag % 10 == 5 { PANIC } else { ECHO };
        call(&mut pair, *session, method, b"together", tag as u64);
    }
    pair.run_ms(20);
    for tag in 0..40 {
        let failed = matches!(pair.outcome(tag), Err(CallError::HandlerFailed));
        assert_eq!(failed, tag % 10 == 5, "call {tag}: {:?}", pair.outcome(tag));
    }
    assert_eq!(pair.server.stats().event_loop.panics, 4);
    assert_eq!(pair.server.state().handled, 40);
}

#[test]
fn hints_about_sessions_that_are_gone_do_nothing() {
    let (mut pair, sessions) = wide();
    for session in &sessions[..10] {
        pair.client.context().will_call(*session);
    }
    pair.client.close_session(sessions[3]);
    for session in &sessions[..10] {
        pair.client.context().will_call(*session);
    }
    call(&mut pair, sessions[4], ECHO, b"still there", 1);
    pair.run_ms(5);
    assert_eq!(pair.outcome(1).as_deref(), Ok(&b"still there"[..]));
}

#[test]
fn timers_of_many_sessions_repeat_what_was_lost() {
    let (mut pair, sessions) = wide();
    for (tag, session) in sessions.iter().enumerate() {
        call(&mut pair, *session, HOLD, b"waits", tag as u64);
    }
    // Long enough for every session's timer, more than once.
    pair.run_ms(30);
    let held = std::mem::take(&mut pair.server.state_mut().held);
    assert_eq!(held.len(), SESSIONS, "at most once, whatever was repeated");
    assert!(pair.client.stats().client.retransmissions >= SESSIONS as u64);
    for (handle, request) in held {
        pair.server.context().respond_with(handle, &request);
    }
    pair.run_ms(30);
    assert!((0..SESSIONS as u64).all(|tag| pair.outcome(tag).is_ok()));
}
