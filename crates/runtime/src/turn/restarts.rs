//! Streams that begin anew in another session (R20): those that certainly have not begun, and those
//! of which nothing was delivered, if their policy tries them again.
//!
//! A server that drains or is overloaded refuses a stream's first exchange, and a session may be
//! gone before that has left. Requests come back with their failures, so nothing is kept for this:
//! their records go again, in the session of another server if there is one. A policy also judges
//! ends and lost sessions; for that, requests that were answered are kept ([`StreamRetry`]).
//!
//! Messages are not encoded again. So a session does only if it takes the form that the messages
//! are in; otherwise the stream fails as if this were not tried.

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
    let avoid = add_session(local, caller, Avoid::NOTHING);
    let sent = [Some(request), caller.overtaking.take()].into_iter().flatten().collect();
    let restart = Restart { sent, avoid, is_paused: false, ask: None };
    come_away(local, streams, place, restart, session_lives);
    Ok(())
}

/// An answer was handled. If it ends the call with nothing delivered, its policy may try it again.
pub(super) fn on_answered(local: &Local, streams: &mut Streams, place: u32) {
    let caller = streams.caller(place).expect("the exchange was a call's");
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

/// A session is gone, and with it an attempt, whose request comes back unless the call goes on.
pub(super) fn on_lost(
    local: &Local,
    streams: &mut Streams,
    place: u32,
    request: MsgBuf,
    failure: Failure,
) -> Result<(), MsgBuf> {
    let caller = streams.caller(place).expect("the exchange was a call's");
    // What has certainly not run has had its restarts.
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

/// Whether a call's policy tries it again; otherwise this is its outcome.
fn goes_on(local: &Local, caller: &mut Caller, end: AttemptEnd) -> bool {
    let Some(retry) = &mut caller.retry else { return false };
    let mut channels = local.channels.borrow_mut();
    let goes_on = judge(&mut channels, caller.target.channel, retry, end, local.now());
    if !goes_on {
        settle(caller);
    }
    goes_on
}

fn judge(
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

/// A call is not tried again any more.
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
    let caller = streams.caller(place).expect("the exchange was a call's");
    caller.stream.rewind();
    let retry = caller.retry.as_mut().expect("its policy said so");
    let mut sent = retry.take();
    sent.extend(request.into_iter().chain(caller.overtaking.take()));
    let avoid = retry.state.avoid;
    let avoid = add_session(local, caller, avoid);
    caller.retry.as_mut().expect("it was just there").state.avoid = avoid;
    let restart = Restart { sent, avoid, is_paused: true, ask: None };
    come_away(local, streams, place, restart, session_lives);
}

/// Where a call is, beside where it was.
fn add_session(local: &Local, caller: &Caller, mut avoid: Avoid) -> Avoid {
    if let Some(Lease(session)) = caller.lease {
        let mut channels = local.channels.borrow_mut();
        let session = channels.index_of(session);
        session.into_iter().for_each(|session| avoid.add(session));
    }
    avoid
}

/// Leaves a session for another.
fn come_away(
    local: &Local,
    streams: &mut Streams,
    place: u32,
    restart: Restart,
    session_lives: bool,
) {
    let caller = streams.caller(place).expect("the exchange was a call's");
    caller.restart = Some(Box::new(restart));
    let under_way = caller.calls;
    streams.cancels.extend(under_way.into_iter().flatten());
    leave_session(local, streams, place, session_lives);
    ask(local, streams, place);
}

/// The server of a call's session drains (C13): others go elsewhere at once.
pub(super) fn avoid_from_now_on(local: &Local, streams: &mut Streams, place: u32) {
    let caller = streams.caller(place).expect("the exchange was a call's");
    if let Some(Lease(session)) = caller.lease {
        local.channels.borrow_mut().drained(session, local.now());
    }
}

/// Another request of a call that begins anew is back.
pub(super) fn came_back(local: &Local, streams: &mut Streams, place: u32, request: MsgBuf) {
    let caller = streams.caller(place).expect("the exchange was a call's");
    caller.restart.as_mut().expect("it begins anew").sent.push(request);
    ask(local, streams, place);
}

/// The time may have come at which a call that has had no session yet is to ask for one again.
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

/// The time may have come at which a call is to be tried again.
pub(super) fn is_due(local: &Local, streams: &mut Streams, place: u32) {
    let waits = |restart: &Restart| restart.is_paused;
    let caller = streams.caller(place);
    if caller.is_some_and(|caller| caller.restart.as_deref().is_some_and(waits)) {
        ask(local, streams, place);
    }
}

/// Asks for a session, once all requests are back and the policy says so.
fn ask(local: &Local, streams: &mut Streams, place: u32) {
    let tag = streams.next_tag();
    let caller = streams.caller(place).expect("only calls begin anew");
    if caller.calls.iter().any(Option::is_some) {
        return;
    }
    let (target, deadline) = (caller.target, caller.deadline);
    let restart = caller.restart.as_mut().expect("it begins anew");
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

/// A call that waits to begin anew has a session, or there is none. Gives what is not needed.
pub(super) fn go_on(
    streams: &mut Streams,
    channels: &mut Channels,
    cx: &Context<Dispatcher>,
    place: u32,
    granted: Result<Granted, Status>,
) -> Option<Lease> {
    let caller = streams.caller(place).expect("only calls begin anew");
    let restart = caller.restart.take().expect("it begins anew");
    let granted = match granted {
        Ok(granted) => granted,
        Err(status) => {
            fail_or_wait(streams, channels, cx, place, restart, status);
            return None;
        }
    };
    let lease = resume(streams, cx, place, *restart, granted).err()?;
    let text = "the call's server took no streams, and no other takes it as it is";
    end(streams, place, Status::unavailable(text));
    Some(lease)
}

/// No session is there for a call. To the policy that is an answer, as it is of unary calls.
fn fail_or_wait(
    streams: &mut Streams,
    channels: &mut Channels,
    cx: &Context<Dispatcher>,
    place: u32,
    mut restart: Box<Restart>,
    status: Status,
) {
    let caller = streams.caller(place).expect("only calls begin anew");
    let channel = caller.target.channel;
    if !waits(channels, channel, caller.retry.as_deref_mut(), &status, cx.now()) {
        return end(streams, place, status);
    }
    (restart.is_paused, restart.ask) = (true, None);
    caller.restart = Some(restart);
    let key = streams.key(place);
    streams.fresh.push((key, cx.now()));
}

/// Whether a call that has found no session waits for its next attempt.
pub(super) fn waits(
    channels: &mut Channels,
    channel: u32,
    retry: Option<&mut StreamRetry>,
    status: &Status,
    now: Time,
) -> bool {
    let (fate, pushback) = (Fate::Answered, Pushback::Unsaid);
    let end = AttemptEnd { code: status.code(), fate, pushback };
    retry.is_some_and(|retry| judge(channels, channel, retry, end, now))
}

/// A call does not begin anew after all.
fn end(streams: &mut Streams, place: u32, status: Status) {
    let caller = streams.caller(place).expect("only calls begin anew");
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
    let caller = streams.caller(place).expect("only calls begin anew");
    let fits = params.is_some_and(|params| takes_its_form(caller, &granted, &params));
    let Some((mut open, sent)) = records(restart.sent).filter(|_| fits) else {
        return Err(granted.lease);
    };
    let slots = params.map_or(0, |params| params.slots);
    let Some(number) = streams.slots.take(granted.session, slots) else {
        return Err(granted.lease);
    };
    let epoch = streams.next_epoch();
    let caller = streams.caller(place).expect("only calls begin anew");
    open.time_left_us = time_left_us(cx, caller.deadline);
    open.answer = Answer { native: granted.method.native_response, ..open.answer };
    note_previous(caller.retry.as_deref(), &mut open.metadata);
    caller.stream.restart(number, open, sent);
    (caller.session, caller.lease) = (granted.session, Some(granted.lease));
    (caller.method, caller.epoch) = (granted.method.number, epoch);
    Ok(())
}

/// Tells the server how many attempts went before, those aside that have not run.
pub(super) fn note_previous(retry: Option<&StreamRetry>, metadata: &mut Metadata) {
    let attempts = retry.map_or(1, |retry| retry.state.plan.attempts());
    if attempts > 1 {
        metadata.remove(PREVIOUS_ATTEMPTS);
        let noted = metadata.append(PREVIOUS_ATTEMPTS, &(attempts - 1).to_string());
        noted.expect("it may be");
    }
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
