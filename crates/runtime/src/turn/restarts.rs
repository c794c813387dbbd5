//! Restarts streams in another session (R20): those that certainly have not begun, and those of
//! which nothing was delivered, if their policy allows a retry.
//!
//! A server that drains or is overloaded refuses a stream's first exchange, and a session may be
//! lost before that exchange was sent. Failed exchanges return their requests, so nothing has to be
//! kept for this case: the records of the requests are sent again, in a session with another server
//! if there is one. A retry policy also applies to streams that ended with an error and to lost
//! sessions. For those, requests that were answered are kept ([`StreamRetry`]).
//!
//! Messages are not encoded again. So the new session must accept the encoding that the messages
//! already have. Otherwise the stream fails as if there were no restart.

use petasos_base::Time;
use petasos_buf::MsgBuf;
use petasos_call::channel::Avoid;
use petasos_call::policy::{AttemptEnd, Fate, Pushback, Step};
use petasos_call::stream::{CallerSegment, Open};
use petasos_call::{Answer, Code, Failure, Metadata, PREVIOUS_ATTEMPTS, Status};
use petasos_endpoint::{Context, SessionParams};
use petasos_rpc::request::TAIL_BYTES_LIMIT;
use std::sync::Arc;

use super::work::{leave_session, time_left_us};
use crate::channels::{Channels, Granted};
use crate::dispatcher::Dispatcher;
use crate::lease::Lease;
use crate::local::Local;
use crate::streams::{Caller, EncodedMessage, Half, Restart, StreamKey, StreamRetry, Streams};

/// The maximum number of restarts of a stream.
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
    let caller = streams.caller(place).expect("an exchange belongs to a caller's half");
    // Only segment 0, the first exchange, starts a handler.
    let has_not_run = caller.calls[0].is_none() && Fate::from(failure.retry()) == Fate::NotRun;
    let (restarts, overloaded) = caller.restarts;
    // After overload, at most one other server is tried, to spare servers that stay overloaded.
    let is_spent = restarts == RESTARTS_MAX || overloaded && failure == Failure::Overloaded;
    if !has_not_run || is_spent || caller.code.is_some() || !caller.stream.is_unanswered() {
        return Err(request);
    }
    caller.restarts = (restarts + 1, overloaded || failure == Failure::Overloaded);
    let avoid = add_session(local, caller, Avoid::NOTHING);
    let sent = [Some(request), caller.overtaking.take()].into_iter().flatten().collect();
    let restart = Restart { sent, avoid, is_paused: false, ask: None };
    come_away(local, streams, place, restart, session_lives);
    Ok(())
}

/// Called after an answer was handled. If the answer ends the call and nothing was delivered, the
/// policy may allow a retry.
pub(super) fn on_answered(local: &Local, streams: &mut Streams, place: u32) {
    let caller = streams.caller(place).expect("an exchange belongs to a caller's half");
    if caller.stream.has_begun() {
        settle(caller);
    }
    let ended = caller.stream.end().filter(|_| caller.code.is_none());
    let Some((code, pushback)) = ended.map(|end| (end.code(), Pushback::of(end.metadata()))) else {
        return;
    };
    let end = AttemptEnd { code, fate: Fate::Answered, pushback };
    if goes_on(local, caller, end) {
        try_again(local, streams, place, None, true);
    }
}

/// Handles an attempt that was lost with its session. Returns the request unless the call
/// continues.
pub(super) fn on_lost(
    local: &Local,
    streams: &mut Streams,
    place: u32,
    request: MsgBuf,
    failure: Failure,
) -> Result<(), MsgBuf> {
    let caller = streams.caller(place).expect("an exchange belongs to a caller's half");
    // Requests that certainly have not run were already restarted without the policy.
    let fate = match Fate::from(failure.retry()) {
        Fate::NotRun => Fate::Unknown,
        fate => fate,
    };
    let (code, pushback) = (failure.status().code(), Pushback::Unsaid);
    let end = AttemptEnd { code, fate, pushback };
    let is_open = caller.code.is_none() && caller.stream.end().is_none();
    if !is_open || caller.stream.has_begun() || !goes_on(local, caller, end) {
        return Err(request);
    }
    try_again(local, streams, place, Some(request), false);
    Ok(())
}

/// Whether the policy allows another attempt; otherwise `end` is the call's outcome.
fn goes_on(local: &Local, caller: &mut Caller, end: AttemptEnd) -> bool {
    let Some(retry) = &mut caller.retry else { return false };
    let mut channels = local.channels.borrow_mut();
    let goes_on = decide(&mut channels, caller.target.channel, retry, end, local.now());
    if !goes_on {
        settle(caller);
    }
    goes_on
}

fn decide(
    channels: &mut Channels,
    channel: u32,
    retry: &mut StreamRetry,
    end: AttemptEnd,
    now: Time,
) -> bool {
    let Some((budget, rng)) = channels.budget(channel) else { return false };
    if !retry.is_settled() {
        return retry.goes_on(end, (budget, rng), now);
    }
    if end.code == Code::Ok {
        budget.on_success();
    }
    false
}

/// Settles a call: it will not be retried any more.
pub(super) fn settle(caller: &mut Caller) {
    if let Some(retry) = &mut caller.retry
        && !retry.is_settled()
    {
        retry.settle();
        caller.stream.keep_queue(false);
    }
}

fn try_again(
    local: &Local,
    streams: &mut Streams,
    place: u32,
    request: Option<MsgBuf>,
    session_lives: bool,
) {
    let caller = streams.caller(place).expect("an exchange belongs to a caller's half");
    caller.stream.rewind();
    let retry = caller.retry.as_mut().expect("a call that its policy retries has a retry state");
    let mut sent = retry.take();
    sent.extend(request.into_iter().chain(caller.overtaking.take()));
    let avoid = retry.state.avoid;
    let avoid = add_session(local, caller, avoid);
    caller.retry.as_mut().expect("the retry state was just found").state.avoid = avoid;
    let restart = Restart { sent, avoid, is_paused: true, ask: None };
    come_away(local, streams, place, restart, session_lives);
}

/// Adds the servers of the call's current session to those to be avoided.
fn add_session(local: &Local, caller: &Caller, mut avoid: Avoid) -> Avoid {
    if let Some(Lease(session)) = caller.lease {
        let mut channels = local.channels.borrow_mut();
        let session = channels.index_of(session);
        session.into_iter().for_each(|session| avoid.add(session));
    }
    avoid
}

/// Leaves a session for another one.
fn come_away(
    local: &Local,
    streams: &mut Streams,
    place: u32,
    restart: Restart,
    session_lives: bool,
) {
    let caller = streams.caller(place).expect("an exchange belongs to a caller's half");
    caller.restart = Some(Box::new(restart));
    let under_way = caller.calls;
    streams.cancels.extend(under_way.into_iter().flatten());
    leave_session(local, streams, place, session_lives);
    ask(local, streams, place);
}

/// The server of the call's session drains (C13), so other calls must avoid it from now on.
pub(super) fn avoid_from_now_on(local: &Local, streams: &mut Streams, place: u32) {
    let caller = streams.caller(place).expect("an exchange belongs to a caller's half");
    if let Some(Lease(session)) = caller.lease {
        local.channels.borrow_mut().drained(session, local.now());
    }
}

/// Handles another request that was returned to a restarting call.
pub(super) fn came_back(local: &Local, streams: &mut Streams, place: u32, request: MsgBuf) {
    let caller = streams.caller(place).expect("an exchange belongs to a caller's half");
    caller.restart.as_mut().expect("the call is restarting").sent.push(request);
    ask(local, streams, place);
}

/// Asks for a session again for a call that has had none yet, if its next attempt is due.
pub(super) fn is_due_in_queue(local: &Local, streams: &mut Streams, key: StreamKey) {
    let tag = streams.next_tag();
    let half = &mut streams.at(key.place).half;
    let Half::Queued(queued) = half else { return };
    let Some(retry) = queued.retry.as_mut().filter(|_| queued.ask.is_none()) else { return };
    let channel = queued.target.channel;
    match poll(local, retry, channel) {
        Step::Send => {
            let (target, deadline) = (queued.target, queued.deadline);
            let ask = local.ask_for_session(&target, deadline, Avoid::NOTHING, tag);
            queued.ask = Some(ask);
            streams.asks.insert(tag, key.place);
        }
        Step::Wait(at) => streams.fresh.push((key, at)),
        Step::GiveUp | Step::Expired => {
            *half = Half::Failed(Failure::Timeout.status());
            streams.wake_later(key.place);
        }
    }
    streams.mark(key.place);
}

fn poll(local: &Local, retry: &mut StreamRetry, channel: u32) -> Step {
    let mut channels = local.channels.borrow_mut();
    let budget = channels.budget(channel).map(|(budget, _)| budget);
    budget.map_or(Step::Expired, |budget| retry.state.poll(budget, local.now()))
}

/// Restarts a call if its next attempt is due.
pub(super) fn is_due(local: &Local, streams: &mut Streams, place: u32) {
    let waits = |restart: &Restart| restart.is_paused;
    let caller = streams.caller(place);
    if caller.is_some_and(|caller| caller.restart.as_deref().is_some_and(waits)) {
        ask(local, streams, place);
    }
}

/// Asks for a session, once all requests were returned and the policy allows the attempt.
fn ask(local: &Local, streams: &mut Streams, place: u32) {
    let tag = streams.next_tag();
    let caller = streams.caller(place).expect("only callers' halves restart");
    if caller.calls.iter().any(Option::is_some) {
        return;
    }
    let (target, deadline) = (caller.target, caller.deadline);
    let restart = caller.restart.as_mut().expect("the call is restarting");
    if restart.is_paused
        && let Some(retry) = &mut caller.retry
    {
        match poll(local, retry, target.channel) {
            Step::Send => restart.is_paused = false,
            Step::Wait(at) => {
                let key = streams.key(place);
                streams.fresh.push((key, at));
                return streams.mark(place);
            }
            Step::GiveUp | Step::Expired => return end(streams, place, Failure::Timeout.status()),
        }
    }
    restart.ask = Some(local.ask_for_session(&target, deadline, restart.avoid, tag));
    streams.asks.insert(tag, place);
}

/// A restarting call was given a session, or there is none. Returns a lease that is not needed.
pub(super) fn go_on(
    streams: &mut Streams,
    channels: &mut Channels,
    cx: &Context<Dispatcher>,
    place: u32,
    granted: Result<Granted, Status>,
) -> Option<Lease> {
    let caller = streams.caller(place).expect("only callers' halves restart");
    let restart = caller.restart.take().expect("the call is restarting");
    let granted = match granted {
        Ok(granted) => granted,
        Err(status) => {
            fail_or_wait(streams, channels, cx, place, restart, status);
            return None;
        }
    };
    let lease = resume(streams, cx, place, *restart, granted).err()?;
    let text = "the call's server accepts no streams, and no other server accepts its encoding";
    end(streams, place, Status::unavailable(text));
    Some(lease)
}

/// No session was found for a call. The policy treats that like an answer, as for unary calls.
fn fail_or_wait(
    streams: &mut Streams,
    channels: &mut Channels,
    cx: &Context<Dispatcher>,
    place: u32,
    mut restart: Box<Restart>,
    status: Status,
) {
    let caller = streams.caller(place).expect("only callers' halves restart");
    let channel = caller.target.channel;
    if !waits(channels, channel, caller.retry.as_deref_mut(), &status, cx.now()) {
        return end(streams, place, status);
    }
    (restart.is_paused, restart.ask) = (true, None);
    caller.restart = Some(restart);
    let key = streams.key(place);
    streams.fresh.push((key, cx.now()));
}

/// Whether a call for which no session was found waits for its next attempt.
pub(super) fn waits(
    channels: &mut Channels,
    channel: u32,
    retry: Option<&mut StreamRetry>,
    status: &Status,
    now: Time,
) -> bool {
    let (fate, pushback) = (Fate::Answered, Pushback::Unsaid);
    let end = AttemptEnd { code: status.code(), fate, pushback };
    retry.is_some_and(|retry| decide(channels, channel, retry, end, now))
}

/// Ends a call that cannot be restarted after all.
fn end(streams: &mut Streams, place: u32, status: Status) {
    let caller = streams.caller(place).expect("only callers' halves restart");
    caller.restart = None;
    caller.code = Some(status.code());
    caller.stream.handle_failure(status, false);
    streams.mark(place);
    streams.wake_later(place);
}

fn resume(
    streams: &mut Streams,
    cx: &Context<Dispatcher>,
    place: u32,
    restart: Restart,
    granted: Granted,
) -> Result<(), Lease> {
    let params = cx.session_params(granted.session);
    let caller = streams.caller(place).expect("only callers' halves restart");
    let fits = params.is_some_and(|params| takes_its_form(caller, &granted, &params));
    let Some((mut open, sent)) = records(restart.sent).filter(|_| fits) else {
        return Err(granted.lease);
    };
    let slots = params.map_or(0, |params| params.slots);
    let Some(number) = streams.slots.take(granted.session, slots) else {
        return Err(granted.lease);
    };
    let epoch = streams.next_epoch();
    let caller = streams.caller(place).expect("only callers' halves restart");
    open.time_left_us = time_left_us(cx, caller.deadline);
    open.answer = Answer { native: granted.method.native_response, ..open.answer };
    note_previous(caller.retry.as_deref(), &mut open.metadata);
    caller.stream.restart(number, open, sent);
    (caller.session, caller.lease) = (granted.session, Some(granted.lease));
    (caller.method, caller.epoch) = (granted.method.number, epoch);
    Ok(())
}

/// Tells the server the number of previous attempts, without those that have not run.
pub(super) fn note_previous(retry: Option<&StreamRetry>, metadata: &mut Metadata) {
    let attempts = retry.map_or(1, |retry| retry.state.plan.attempts());
    if attempts > 1 {
        metadata.remove(PREVIOUS_ATTEMPTS);
        let noted = metadata.append(PREVIOUS_ATTEMPTS, &(attempts - 1).to_string());
        noted.expect("the key and value are valid");
    }
}

/// Whether messages that were encoded for another session can be sent in this one.
fn takes_its_form(caller: &Caller, granted: &Granted, params: &SessionParams) -> bool {
    let form = &caller.form;
    (granted.method.native_request || !form.native)
        && granted.method.codecs.contains(form.codec)
        && params.request_bytes_max as usize >= form.bytes_max
}

/// The contents of the requests in order: the start of the call, and its segments.
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
