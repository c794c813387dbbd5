//! Sessions whose calls a carrier brings to their servers.

use std::time::Duration;

use petasos_endpoint::{
    CallError, CallId, CallSettings, Context, EnqueueError, ExternalAnswer, ExternalEvent,
    ExternalLimits, Payload, RejectCode, RequestKey, SessionError, SessionId, SessionState,
};

use crate::joined::*;

const LIMITS: ExternalLimits = ExternalLimits { slots: 8, message_bytes_max: 1 << 20 };

/// A client with an external session that is ready.
fn carried() -> (Joined, SessionId) {
    let mut pair = Joined::new();
    let cx = pair.client.context();
    let session = cx.open_external(LIMITS);
    assert_eq!(cx.session_state(session), SessionState::Connecting);
    cx.establish_external(session);
    assert_eq!((cx.session_state(session), cx.session_slots(session)), (SessionState::Ready, 8));
    (pair, session)
}

fn begin(pair: &mut Joined, session: SessionId, tag: u64) -> CallId {
    let cx = pair.client.context();
    cx.enqueue_request(session, 7, request_of(b"hello"), keep, tag).expect("it is ready")
}

fn next_call(pair: &mut Joined) -> CallId {
    match pair.client.context().poll_external() {
        Some(ExternalEvent::Call { call, method: 7 }) => call,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_call_goes_to_its_carrier_and_ends_in_its_continuation() {
    let (mut pair, session) = carried();
    let calls = [1, 2].map(|tag| begin(&mut pair, session, tag));
    for call in calls {
        assert_eq!(next_call(&mut pair), call);
        let request = pair.client.context().external_request(call).expect("it runs");
        assert_eq!(request.as_slice(), b"hello");
    }
    let (state, cx) = pair.client.split();
    Context::finish_external(state, cx, calls[1], Ok(Payload::Frame(b"two")));
    Context::finish_external(state, cx, calls[0], Err(CallError::Overloaded));
    // What is over is over.
    Context::finish_external(state, cx, calls[1], Ok(Payload::Frame(b"again")));
    assert_eq!(
        pair.client.state().outcomes,
        [(2, Ok(b"two".to_vec())), (1, Err(CallError::Overloaded))]
    );
    assert!(pair.client.context().external_request(calls[0]).is_none());
    assert_eq!(pair.client.unfinished(), (0, 0));
}

#[test]
fn a_carrier_learns_of_calls_that_are_cancelled_or_late() {
    let (mut pair, session) = carried();
    let cancelled = begin(&mut pair, session, 1);
    let timeout = Some(Duration::from_millis(5));
    let settings = CallSettings { timeout, ..CallSettings::default() };
    let cx = pair.client.context();
    let late = cx.enqueue_with(session, 7, request_of(b"late"), keep, 2, &settings);
    let late = late.expect("it is ready");
    assert_eq!([next_call(&mut pair), next_call(&mut pair)], [cancelled, late]);
    assert!(pair.client.context().cancel(cancelled));
    assert!(!pair.client.context().cancel(cancelled));
    pair.run(1);
    assert_eq!(*pair.outcome(1), Err(CallError::Cancelled));
    pair.run_ms(10);
    assert_eq!(*pair.outcome(2), Err(CallError::Timeout));
    for call in [cancelled, late] {
        let told = pair.client.context().poll_external();
        assert!(matches!(told, Some(ExternalEvent::Cancel(told)) if told == call), "{told:?}");
    }
    // Nothing is left that could be late.
    assert!(pair.client.context().poll_external().is_none());
}

#[test]
fn a_session_that_is_not_ready_takes_no_calls() {
    let mut pair = Joined::new();
    let cx = pair.client.context();
    let session = cx.open_external(LIMITS);
    let refused = |cx: &mut Context<Client>, bytes: &[u8]| {
        let refused = cx.enqueue_request(session, 7, request_of(bytes), keep, 0);
        refused.map_err(|refused| refused.error)
    };
    assert_eq!(refused(cx, b"x"), Err(EnqueueError::NotReady));
    cx.establish_external(session);
    let bytes_max = LIMITS.message_bytes_max;
    let long = vec![0; bytes_max as usize + 1];
    assert_eq!(refused(cx, &long), Err(EnqueueError::TooLarge { bytes_max }));
    cx.fail_external(session, "nobody is there");
    assert_eq!(refused(cx, b"x"), Err(EnqueueError::SessionFailed));
    assert_eq!(cx.session_error(session), Some(SessionError::Carrier("nobody is there".into())));
    pair.client.close_session(session);
    let cx = pair.client.context();
    assert_eq!(refused(cx, b"x"), Err(EnqueueError::NoSuchSession));
    assert_eq!(cx.session_state(session), SessionState::Unknown);
    let again = cx.open_external(LIMITS);
    assert!(again != session && again.place() == session.place());
}

#[test]
fn the_calls_of_a_session_that_fails_or_is_closed_end() {
    for fails in [true, false] {
        let (mut pair, session) = carried();
        let call = begin(&mut pair, session, 1);
        match fails {
            true => pair.client.context().fail_external(session, "it is gone"),
            false => pair.client.close_session(session),
        }
        pair.run(1);
        let error = if fails { CallError::PeerFailed } else { CallError::SessionClosed };
        assert_eq!(*pair.outcome(1), Err(error));
        assert_eq!(next_call(&mut pair), call);
        let cx = pair.client.context();
        assert!(matches!(cx.poll_external(), Some(ExternalEvent::Cancel(_))));
        assert_eq!(matches!(cx.poll_external(), Some(ExternalEvent::Closed(_))), !fails);
    }
}

fn deliver(pair: &mut Joined, number: u64, method: u16, bytes: &[u8]) -> Option<RequestKey> {
    let (state, cx) = pair.server.split();
    Context::deliver_external(state, cx, number, method, Payload::Frame(bytes))
}

fn answer(pair: &mut Joined) -> Option<(u64, Result<Vec<u8>, RejectCode>)> {
    let cx = pair.server.context();
    let ExternalEvent::Answer(number, answer) = cx.poll_external()? else { panic!("no answer") };
    Some(match answer {
        ExternalAnswer::Response(response) => {
            let bytes = response.to_vec();
            cx.free(response);
            (number, Ok(bytes))
        }
        ExternalAnswer::Rejected(code) => (number, Err(code)),
    })
}

#[test]
fn delivered_requests_run_handlers_whose_answers_come_back() {
    let mut pair = Joined::new();
    assert_eq!(deliver(&mut pair, 1, ECHO, b"x"), None, "nothing is served yet");
    let session = pair.server.context().serve_external(LIMITS);
    assert_eq!(pair.server.context().served_params(session).map(|params| params.slots), Some(8));
    deliver(&mut pair, 11, ECHO, b"short").expect("it is served");
    deliver(&mut pair, 12, HOLD, b"later");
    deliver(&mut pair, 13, NOBODY, b"");
    deliver(&mut pair, 15, PANIC, b"");
    deliver(&mut pair, 14, LONG, &100_000_u32.to_le_bytes());
    assert_eq!(answer(&mut pair), Some((11, Ok(b"short".to_vec()))));
    assert_eq!(answer(&mut pair), Some((13, Err(RejectCode::UnknownMethod))));
    assert_eq!(answer(&mut pair), Some((15, Err(RejectCode::HandlerFailed))));
    let long = answer(&mut pair).expect("it was answered").1.expect("with bytes");
    assert_eq!((long.len(), long[300]), (100_000, 44));
    assert!(answer(&mut pair).is_none());
    assert_eq!(pair.server.unfinished(), (1, 0));
    let (server, cx) = pair.server.split();
    let (handle, bytes) = server.held.pop().expect("it is held");
    assert!(cx.is_wanted(&handle));
    cx.respond_with(handle, &bytes);
    assert_eq!(answer(&mut pair), Some((12, Ok(b"later".to_vec()))));
    assert_eq!(pair.server.unfinished(), (0, 0));
}

#[test]
fn a_handler_is_told_when_nobody_waits() {
    let mut pair = Joined::new();
    pair.server.on_abandoned(|server, _, key| server.abandoned.push(key));
    let session = pair.server.context().serve_external(LIMITS);
    let keys = [1, 2].map(|number| deliver(&mut pair, number, HOLD, b"x").expect("it is served"));
    pair.server.context().abandon_external(keys[0]);
    pair.run(1);
    assert_eq!(pair.server.state().abandoned, keys[..1]);
    let next = pair.server.context().serve_external(LIMITS);
    pair.run(1);
    assert_eq!(pair.server.state().abandoned, keys);
    assert!(next != session && next.place() == session.place());
    // Late answers go nowhere, and no ordinary session has got them.
    let (server, cx) = pair.server.split();
    for (handle, bytes) in server.held.drain(..) {
        assert!(!cx.is_wanted(&handle));
        cx.respond_with(handle, &bytes);
    }
    assert!(answer(&mut pair).is_none());
    assert_eq!(pair.server.context().served_params(session), None);
}
