//! Drives the callers' halves: their exchanges are requests of the endpoint.

use petasos_buf::MsgBuf;
use petasos_call::stream::{CallerStream, Open, ServerSegment, WIDTH_MAX};
use petasos_call::{Answer, Codec, Failure, Malformed, Retry, Status};
use petasos_endpoint::{
    CallError, Completion, Context, EnqueueError, Payload, Refused, SessionParams,
};
use petasos_message::{buffer, recycle};
use petasos_rpc::request::TAIL_BYTES_LIMIT;

use super::restarts;
use super::work::{failure_of, leave_session, time_left_us};
use crate::channels::Granted;
use crate::dispatcher::{Dispatcher, DispatcherParts};
use crate::local::Local;
use crate::streams::{
    Caller, EncodedMessage, Form, Half, Keeper, Queued, StreamKey, Streams, extent,
};

/// R19: cancels exchanges that are no longer wanted.
pub(super) fn cancel(local: &Local, cx: &mut Context<Dispatcher>) {
    loop {
        let Some(call) = local.streams.borrow_mut().cancels.pop() else { return };
        cx.cancel(call);
    }
}

/// Makes the half of a call that was granted a session.
pub(super) fn begin(
    cx: &Context<Dispatcher>,
    queued: Queued,
    granted: Granted,
    number: u32,
    epoch: u32,
    params: &SessionParams,
) -> Caller {
    let Queued { mut metadata, trace, deadline, codec, target, retry, .. } = queued;
    restarts::note_previous(retry.as_deref(), &mut metadata);
    let Granted { session, method, lease } = granted;
    let time_left_us = time_left_us(cx, deadline);
    let answer = Answer { native: method.native_response, codec };
    let open = Open { time_left_us, answer, metadata, trace };
    let form = Form {
        native: method.native_request,
        codec: if method.codecs.contains(codec) { codec } else { Codec::IDENTITY },
        bytes_max: params.request_bytes_max as usize,
        unpacked_bytes_max: params.response_bytes_max as usize,
        peer: cx.session_peer_key(session),
    };
    Caller {
        stream: CallerStream::new(number, open, form.bytes_max),
        session,
        lease: Some(lease),
        method: method.number,
        form,
        calls: [None; WIDTH_MAX as usize],
        lent: 0,
        epoch,
        code: None,
        target,
        deadline,
        restarts: (0, false),
        restart: None,
        retry,
        overtaking: None,
    }
}

/// R18: sends the exchanges that are due.
pub(super) fn send(local: &Local, cx: &mut Context<Dispatcher>, place: u32) {
    let streams = &mut *local.streams.borrow_mut();
    let Some((caller, slots)) = streams.caller_and_slots(place) else { return };
    if caller.restart.is_some() {
        return;
    }
    let mut failed = None;
    let lent = slots.available(caller.session, caller.lent);
    while let Some(segment) = caller.stream.poll_exchange(lent) {
        let index = usize::from(segment.number % WIDTH_MAX);
        let buf = match segment.into_lone() {
            Ok((head, message)) => message.behind(head),
            Err(segment) => {
                let mut buf = buffer(segment.bytes());
                segment.write(buf.as_mut_slice(), EncodedMessage::copy_to);
                buf
            }
        };
        if caller.retry.as_mut().is_some_and(|retry| !retry.on_sent(buf.len())) {
            caller.stream.keep_queue(false);
        }
        let (session, tag) = (caller.session, caller.tag(place, index));
        match cx.enqueue_request(session, caller.method, buf, on_answer, tag) {
            Ok(call) => caller.calls[index] = Some(call),
            Err(Refused { request, error }) => {
                failed = Some((request, error));
                break;
            }
        }
    }
    if caller.stream.lent() != caller.lent {
        slots.lend(caller.session, caller.lent, caller.stream.lent());
        caller.lent = caller.stream.lent();
    }
    let has_room = caller.stream.can_send();
    if let Some((request, error)) = failed {
        let gone = matches!(error, EnqueueError::NoSuchSession | EnqueueError::SessionFailed);
        failed_with(local, streams, place, request, refused(error), !gone);
        streams.mark(place);
        streams.wake_later(place);
    } else if has_room {
        streams.wake_writer_later(place);
    }
    streams.settle(local, place);
}

/// R12: the failure of an exchange that was not started.
fn refused(error: EnqueueError) -> Failure {
    match error {
        EnqueueError::TooLarge { .. } => Failure::RequestTooLarge,
        EnqueueError::BacklogFull { .. } | EnqueueError::TooManyBytes { .. } => Failure::TooMuch,
        _ => Failure::NotConnected,
    }
}

/// Called when an exchange has ended.
fn on_answer(dispatcher: &mut Dispatcher, cx: &mut Context<Dispatcher>, done: Completion<'_>) {
    let parts = &mut dispatcher.parts;
    let local = parts.local;
    let Completion { tag, request, result, .. } = done;
    let (place, index) = (tag as u32, (tag >> 60) as usize);
    let result = result.map(|payload| parsed(cx, payload, index));
    let streams = &mut *local.streams.borrow_mut();
    let caller = streams.caller(place).filter(|caller| caller.tag(place, index) == tag);
    // If there is none, the exchange was cancelled.
    let Some(caller) = caller else { return recycle(request) };
    caller.calls[index] = None;
    if caller.restart.is_some() {
        return restarts::came_back(local, streams, place, request);
    }
    match result {
        Ok(answer) => {
            match index {
                // The first exchange may still be refused; then both requests go to another server.
                1 if caller.stream.is_unanswered() => caller.overtaking = Some(request),
                _ => caller.is_answered(request),
            }
            if index == 0
                && let Some(request) = caller.overtaking.take()
            {
                caller.is_answered(request);
            }
            take(parts, streams, place, answer);
        }
        Err(error) => {
            let gone = [CallError::PeerFailed, CallError::SessionClosed, CallError::NotSent];
            let lives = !gone.contains(&error);
            failed_with(local, streams, place, request, failure_of(error), lives);
        }
    }
    let is_over = streams.caller(place).is_some_and(|caller| caller.code.is_some());
    streams.mark(place);
    streams.wake_reader_later(place);
    if is_over {
        streams.wake_writer_later(place);
    }
}

/// R20: handles a failed exchange. The stream restarts, or fails.
#[cold]
fn failed_with(
    local: &Local,
    streams: &mut Streams,
    place: u32,
    request: MsgBuf,
    failure: Failure,
    session_lives: bool,
) {
    if failure == Failure::Draining {
        restarts::avoid_from_now_on(local, streams, place);
    }
    let begun = restarts::begin(local, streams, place, request, failure, session_lives);
    let begun = begun.or_else(|request| match session_lives {
        true => Err(request),
        false => restarts::on_lost(local, streams, place, request, failure),
    });
    if let Err(request) = begun {
        recycle(request);
        fail(local, streams, place, failure, session_lives);
    }
}

/// What was received as the answer to the exchange at `index`, or how the call ends if it is none.
fn parsed(
    cx: &mut Context<Dispatcher>,
    payload: Payload<'_>,
    index: usize,
) -> Result<ServerSegment<EncodedMessage>, Status> {
    let parsed = ServerSegment::parse(&payload, TAIL_BYTES_LIMIT).map_err(Status::from);
    let parsed = parsed.and_then(|segment| match segment.answers(index) {
        true => Ok(segment),
        false => Err(Malformed::Number.into()),
    });
    let messages = parsed.as_ref().map_or((0, 0), |segment| extent(&segment.messages));
    let mut keeper = Keeper::new(cx, payload, messages);
    let segment = parsed.map(|segment| segment.map(|range| keeper.keep(range)));
    keeper.end(cx);
    segment
}

/// Handles an answer.
fn take(
    parts: &mut DispatcherParts,
    streams: &mut Streams,
    place: u32,
    answer: Result<ServerSegment<EncodedMessage>, Status>,
) {
    let caller = streams.caller(place).expect("an exchange belongs to a caller's half");
    match answer {
        Ok(segment) => {
            let taken = caller.stream.handle_answer(segment);
            if taken.is_ok() && caller.retry.is_some() {
                restarts::on_answered(parts.local, streams, place);
            }
            let caller = streams.caller(place).expect("an exchange belongs to a caller's half");
            caller.code = caller.code.or(caller.stream.end().map(Status::code));
            if taken.is_err() {
                parts.note_malformed(1);
                streams.cancel_calls(place);
            }
        }
        Err(status) => {
            parts.note_malformed(1);
            let _ = streams.give_up(place, status);
        }
    }
}

/// R20: fails the stream because an exchange failed.
fn fail(local: &Local, streams: &mut Streams, place: u32, failure: Failure, session_lives: bool) {
    streams.cancel_calls(place);
    let caller = streams.caller(place).expect("an exchange belongs to a caller's half");
    let status = status_of(failure, caller.stream.may_have_run());
    caller.code = caller.code.or(Some(status.code()));
    caller.stream.handle_failure(status, session_lives);
    if !session_lives {
        leave_session(local, streams, place, false);
    }
}

/// R12, R20: the status that a stream fails with. The handler may have run even if the failed
/// exchange has not. In that case the status must not claim that the request did not run.
fn status_of(failure: Failure, may_have_run: bool) -> Status {
    let status = failure.status();
    if may_have_run && matches!(failure.retry(), Retry::Safe | Retry::Elsewhere) {
        return Status::new(status.code(), format!("after the stream began: {}", status.message()));
    }
    status
}

/// R10: ends a call whose deadline has passed.
pub(super) fn expire(local: &Local, key: StreamKey) {
    let streams = &mut *local.streams.borrow_mut();
    let Some(entry) = streams.get(key) else { return };
    match &entry.half {
        Half::Caller(caller) if local.now() < caller.deadline => {
            return restarts::is_due(local, streams, key.place);
        }
        Half::Queued(queued) if local.now() < queued.deadline => {
            return restarts::is_due_in_queue(local, streams, key);
        }
        _ => {}
    }
    let is_open = match &entry.half {
        Half::Queued(_) => true,
        Half::Caller(caller) => caller.code.is_none(),
        _ => false,
    };
    if is_open {
        // R10: if the ask is granted nevertheless, the session is given back.
        let ask = streams.give_up(key.place, Status::deadline_exceeded("the deadline has passed"));
        streams.wake_later(key.place);
        if let Some(ask) = ask {
            local.channels.borrow_mut().withdraw(ask);
        }
    }
}

impl Caller {
    /// Keeps a request that was answered for as long as the call may be retried.
    fn is_answered(&mut self, request: MsgBuf) {
        match &mut self.retry {
            Some(retry) => retry.keep(request),
            None => recycle(request),
        }
    }

    /// The tag of an exchange: its index, its epoch in 28 bits, and its place.
    fn tag(&self, place: u32, index: usize) -> u64 {
        (index as u64) << 60 | u64::from(self.epoch) << 32 | u64::from(place)
    }
}

impl Streams {
    /// Gives a call's seat back once its half has ended.
    fn settle(&mut self, local: &Local, place: u32) {
        let Some(caller) = self.caller(place) else { return };
        if caller.stream.is_over() {
            leave_session(local, self, place, true);
        }
        self.free_if_over(place);
    }
}
