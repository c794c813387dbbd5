//! Streams that certainly have not begun, and begin anew in another session (R20).
//!
//! A server that drains or is overloaded refuses a stream's first exchange, and a session may be
//! gone before that has left. Requests come back with their failures, so nothing is kept for this:
//! their records go again, in the session of another server if there is one.
//!
//! Messages are not encoded again. So a session does only if it takes the form that the messages
//! are in; otherwise the stream fails as if this were not tried.

use petasos_buf::MsgBuf;
use petasos_call::channel::Avoid;
use petasos_call::policy::Fate;
use petasos_call::stream::{CallerSegment, Open};
use petasos_call::{Answer, Failure, Status};
use petasos_endpoint::{Context, SessionParams};
use petasos_rpc::request::TAIL_BYTES_LIMIT;
use std::sync::Arc;

use super::work::{leave_session, time_left_us};
use crate::channels::Granted;
use crate::dispatcher::Dispatcher;
use crate::lease::Lease;
use crate::local::Local;
use crate::streams::{Caller, EncodedMessage, Restart, Streams};

/// A stream is begun anew so often at most: each time another session was not what it seemed.
const RESTARTS_MAX: u8 = 8;

/// Begins a call anew, if it certainly has not run and may. Gives the request back otherwise.
pub(super) fn begin(
    local: &Local,
    streams: &mut Streams,
    place: u32,
    request: MsgBuf,
    failure: Failure,
    session_lives: bool,
) -> Result<(), MsgBuf> {
    let caller = streams.caller(place).expect("the exchange was a call's");
    // Segment 0 alone starts a handler, and is the first exchange.
    let has_not_run = caller.calls[0].is_none() && Fate::from(failure.retry()) == Fate::NotRun;
    let (restarts, overloaded) = caller.restarts;
    // Once elsewhere: a server that stays overloaded is spared.
    let is_spent = restarts == RESTARTS_MAX || overloaded && failure == Failure::Overloaded;
    if !has_not_run || is_spent || caller.code.is_some() || !caller.stream.is_unanswered() {
        return Err(request);
    }
    caller.restarts = (restarts + 1, overloaded || failure == Failure::Overloaded);
    let mut avoid = Avoid::NOTHING;
    if let Some(Lease { channel, number, id }) = caller.lease {
        let mut channels = local.channels.borrow_mut();
        let session = channels.entry(channel).and_then(|entry| entry.index_of(number, id));
        session.into_iter().for_each(|session| avoid.add(session));
    }
    let sent = [Some(request), caller.overtaking.take()].into_iter().flatten().collect();
    caller.restart = Some(Box::new(Restart { sent, avoid, ask: None }));
    let under_way = caller.calls;
    streams.cancels.extend(under_way.into_iter().flatten());
    leave_session(local, streams, place, session_lives);
    ask(local, streams, place);
    Ok(())
}

/// The server of a call's session drains (C13): others go elsewhere at once.
pub(super) fn avoid_from_now_on(local: &Local, streams: &mut Streams, place: u32) {
    let caller = streams.caller(place).expect("the exchange was a call's");
    if let Some(Lease { channel, number, id }) = caller.lease {
        local.channels.borrow_mut().drained(channel, number, id, local.now());
    }
}

/// Another request of a call that begins anew is back.
pub(super) fn came_back(local: &Local, streams: &mut Streams, place: u32, request: MsgBuf) {
    let caller = streams.caller(place).expect("the exchange was a call's");
    caller.restart.as_mut().expect("it begins anew").sent.push(request);
    ask(local, streams, place);
}

/// Asks for a session, once all requests are back.
fn ask(local: &Local, streams: &mut Streams, place: u32) {
    let tag = streams.next_tag();
    let caller = streams.caller(place).expect("only calls begin anew");
    if caller.calls.iter().any(Option::is_some) {
        return;
    }
    let (target, deadline) = (caller.target, caller.deadline);
    let restart = caller.restart.as_mut().expect("it begins anew");
    let number = local.ask_for_session(&target, deadline, restart.avoid, tag);
    restart.ask = Some((number, tag));
    streams.asks.insert(tag, place);
}

/// A call that waits to begin anew has a session, or there is none. Gives what is not needed.
pub(super) fn go_on(
    streams: &mut Streams,
    cx: &Context<Dispatcher>,
    place: u32,
    granted: Result<Granted, Status>,
) -> Option<Lease> {
    let caller = streams.caller(place).expect("only calls begin anew");
    let restart = caller.restart.take().expect("it begins anew");
    let (status, lease) = match granted.map(|granted| resume(streams, cx, place, *restart, granted))
    {
        Ok(Ok(())) => return None,
        Ok(Err(lease)) => {
            let text = "the call's server took no streams, and no other takes it as it is";
            (Status::unavailable(text), Some(lease))
        }
        Err(status) => (status, None),
    };
    let caller = streams.caller(place).expect("only calls begin anew");
    caller.code = Some(status.code());
    caller.stream.handle_failure(status, false);
    lease
}

fn resume(
    streams: &mut Streams,
    cx: &Context<Dispatcher>,
    place: u32,
    restart: Restart,
    granted: Granted,
) -> Result<(), Lease> {
    let params = cx.session_params(granted.session);
    let caller = streams.caller(place).expect("only calls begin anew");
    let fits = params.is_some_and(|params| takes_its_form(caller, &granted, &params));
    let Some((mut open, sent)) = records(restart.sent).filter(|_| fits) else {
        return Err(granted.lease);
    };
    let lives = |id| cx.session_params(id).is_some();
    let slots = params.map_or(0, |params| params.slots);
    let Some(number) = streams.slots.take(granted.session, slots, lives) else {
        return Err(granted.lease);
    };
    let epoch = streams.next_epoch();
    let caller = streams.caller(place).expect("only calls begin anew");
    open.time_left_us = time_left_us(cx, caller.deadline);
    open.answer = Answer { native: granted.method.native_response, ..open.answer };
    caller.stream.restart(number, open, sent);
    (caller.session, caller.lease) = (granted.session, Some(granted.lease));
    (caller.method, caller.epoch) = (granted.method.number, epoch);
    Ok(())
}

/// Whether what was encoded for another session can be sent in this one.
fn takes_its_form(caller: &Caller, granted: &Granted, params: &SessionParams) -> bool {
    let form = &caller.form;
    (granted.method.native_request || !form.native)
        && granted.method.codecs.contains(form.codec)
        && params.request_bytes_max as usize >= form.bytes_max
}

/// What requests have had, in order: how the call opens, and its segments.
fn records(requests: Vec<MsgBuf>) -> Option<(Open, Vec<CallerSegment<EncodedMessage>>)> {
    let mut sent: Vec<_> = requests.into_iter().filter_map(read).collect();
    sent.sort_by_key(|segment| segment.number);
    let open = sent.first_mut()?.open.take()?;
    Some((open, sent))
}

fn read(mut request: MsgBuf) -> Option<CallerSegment<EncodedMessage>> {
    request.flatten();
    let segment = CallerSegment::parse(&request, TAIL_BYTES_LIMIT).ok()?;
    let request = Arc::new(request);
    Some(segment.map(|range| EncodedMessage::Shared(request.clone(), range)))
}
