//! The part of a turn that concerns unary calls: sending them, and handling their outcomes.

use petasos_base::Time;
use petasos_buf::MsgBuf;
use petasos_call::balance::Report;
use petasos_call::channel::{Avoid, CallOptions};
use petasos_call::{BoundMethod, Failure, ResponseHead, Status};
use petasos_endpoint::{
    CallError, CallSettings, Completion, Context, EnqueueError, Payload, PeerKey, Refused,
    SessionId,
};
use petasos_message::{buffer, recycle};
use petasos_rpc::recode::{unpacked_response, unpacked_short_response};
use petasos_rpc::settings::RetryMode;

use super::attempts;
use super::work::{Work, with_work};
use crate::buffers::{free, kept_with_attached};
use crate::calls::Stage;
use crate::channels::{NextStep, Slot, Who};
use crate::dispatcher::Dispatcher;
use crate::due::Due;
use crate::head::CallHead;
use crate::keys::ChannelSession;
use crate::local::Local;
use crate::remote::Outcome;
use crate::retries::{Answer, Ended};
use crate::unpacking::{self, Unpacking};

/// R6, R7: offsets of the fields in heads that are written or read here.
const TIME_LEFT_AT: usize = 4;
const CODEC_AT: usize = 1;

impl Work<'_> {
    #[inline]
    pub(super) fn send_all(&mut self, cx: &mut Context<Dispatcher>) {
        let mut outbox = core::mem::take(self.sent);
        core::mem::swap(&mut outbox, &mut self.calls.outbox);
        for place in outbox.drain(..) {
            self.send(cx, place);
        }
        *self.sent = outbox;
        while let Some((channel, ticket)) = self.calls.abandoned.pop() {
            self.channels.abandon(channel, ticket);
        }
    }

    /// Sends the call in `place`, or makes it wait.
    #[inline(always)]
    fn send(&mut self, cx: &mut Context<Dispatcher>, place: u32) {
        let call = self.calls.at(place);
        let CallHead { channel, service, method, .. } = call.head;
        if call.is_plain()
            && let Some(entry) = self.channels.entry(channel)
            && let Some((number, id, method)) = entry.take_usual(service, method)
        {
            match cx.enqueue_request(id, method, call.take_request(), on_done, u64::from(place)) {
                // Uses local values, and not the memory that was just written.
                Ok(sent) => call.sent(number, id.call(sent.number()), cx.now()),
                Err(refused) => {
                    let session = ChannelSession { channel, number, id };
                    self.refused(cx, place, session, refused);
                }
            }
            return;
        }
        if call.stage == Stage::Queued {
            let head = call.head;
            self.send_any(cx, place, &head);
        }
    }

    #[inline(never)]
    fn send_any(&mut self, cx: &mut Context<Dispatcher>, place: u32, head: &CallHead) {
        if head.deadline <= cx.now() {
            // R10: the deadline has passed, so the call is not sent.
            return self.fail_call(place, Failure::Timeout.status());
        }
        if head.retry_mode == RetryMode::Hedged {
            return self.hedge(cx, place, head);
        }
        let avoid = match head.retry_mode {
            RetryMode::Plain => Avoid::NOTHING,
            _ => self.avoided(head.channel, place),
        };
        let entry = self.channels.entry(head.channel).filter(|_| avoid.is_empty());
        match entry.and_then(|entry| entry.take_leased(head.service, head.method)) {
            Some((number, id, method)) => {
                let session = ChannelSession { channel: head.channel, number, id };
                self.start(cx, place, head, session, method);
            }
            None => self.pick(cx, place, head, avoid),
        }
    }

    /// Asks the channel for a session for the call in `place`.
    #[inline(never)]
    fn pick(&mut self, cx: &mut Context<Dispatcher>, place: u32, head: &CallHead, avoid: Avoid) {
        let &CallHead { wait_for_ready, deadline, .. } = head;
        let options = CallOptions { wait_for_ready, deadline, avoid };
        let who = Who::Call(self.calls.key(place));
        match self.channels.pick(head.channel, options, who, cx.now()) {
            Slot::Taken(session) => self.dispatch(cx, place, head, session),
            Slot::Wait(ticket) => self.calls.at(place).stage = Stage::Waiting(ticket),
            Slot::Fail(status) => self.fail_call(place, status),
        }
    }

    /// Sends a call that has a slot in a session, or makes it wait for its bind.
    fn dispatch(
        &mut self,
        cx: &mut Context<Dispatcher>,
        place: u32,
        head: &CallHead,
        session: ChannelSession,
    ) {
        let entry = self.channels.entry(head.channel).expect("a call with a slot has a channel");
        match entry.next_step(session.number, head.service, head.method) {
            NextStep::Send(method) => self.start(cx, place, head, session, method),
            NextStep::Bind => self.bind_first(cx, place, head, session),
            NextStep::Fail(status) => {
                self.channels.release(session, None, cx.now());
                self.fail_call(place, status);
            }
        }
    }

    #[cold]
    fn bind_first(
        &mut self,
        cx: &mut Context<Dispatcher>,
        place: u32,
        head: &CallHead,
        session: ChannelSession,
    ) {
        self.calls.at(place).unbind(session.number);
        let call = self.calls.key(place);
        if head.deadline != Time::NEVER {
            let due = Due::Call { call, at: head.deadline };
            self.deadlines.insert(cx.now(), head.deadline, due);
        }
        let who = Who::Call(call);
        if let Err(status) = self.channels.wait_for_bind(cx, session, head.service, who) {
            self.bind_refused(cx, session, who, status);
        }
    }

    #[inline(never)]
    fn start(
        &mut self,
        cx: &mut Context<Dispatcher>,
        place: u32,
        head: &CallHead,
        session: ChannelSession,
        method: BoundMethod,
    ) {
        let mut request = self.calls.at(place).take_request();
        if head.recode.is_needed(&method) {
            request.flatten();
            if head.recode.is_left_to_caller() {
                self.channels.release(session, None, cx.now());
                return self.calls.give_back(place, request);
            }
            request = match head.recode.request(&request, &method) {
                Ok(request) => request,
                Err(status) => {
                    self.channels.release(session, None, cx.now());
                    return self.fail_call(place, status);
                }
            };
        }
        let (now, tag) = (cx.now(), u64::from(place));
        let mut settings = CallSettings::default();
        if head.deadline != Time::NEVER {
            let left = head.deadline - now;
            let left_us = left.as_nanos().div_ceil(1000);
            let left_us = u32::try_from(left_us).unwrap_or(u32::MAX);
            request.as_mut_slice()[TIME_LEFT_AT..TIME_LEFT_AT + 4]
                .copy_from_slice(&left_us.to_le_bytes());
            settings.timeout = Some(left);
        }
        let (id, number, routing) = (session.id, method.number, head.routing);
        let started = match id.is_group() {
            true => cx.enqueue_routed(id, number, request, on_done, tag, &settings, routing),
            false => cx.enqueue_with(id, number, request, on_done, tag, &settings),
        };
        match started {
            Ok(sent) => self.calls.at(place).sent(session.number, sent, now),
            Err(refused) => self.refused(cx, place, session, refused),
        }
    }

    /// Handles a call that the endpoint did not accept.
    #[cold]
    fn refused(
        &mut self,
        cx: &Context<Dispatcher>,
        place: u32,
        session: ChannelSession,
        refused: Refused,
    ) {
        let failure = match refused.error {
            EnqueueError::NoSuchSession | EnqueueError::SessionFailed => {
                if session.id.is_group() {
                    self.channels.release(session, None, cx.now());
                }
                self.lose(session, cx.now());
                // The call was not sent, so another session may take it.
                return self.calls.requeue(place, refused.request);
            }
            EnqueueError::TooLarge { .. } => Failure::RequestTooLarge,
            EnqueueError::BacklogFull { .. } | EnqueueError::TooManyBytes { .. } => {
                Failure::TooMuch
            }
            _ => Failure::NotConnected,
        };
        self.channels.release(session, None, cx.now());
        self.on_attempt_end(cx, place, Ended::below(failure, Some(refused.request), None));
    }

    /// A call that waited for a slot or for a bind continues in this session of a channel.
    #[cold]
    pub(super) fn go(&mut self, cx: &mut Context<Dispatcher>, session: ChannelSession, who: Who) {
        match who {
            Who::Call(call) if self.calls.is_waiting(call) => {
                let head = self.calls.head(call.place());
                self.dispatch(cx, call.place(), &head, session);
            }
            Who::Ask(ask) if self.channels.is_asked(ask) => self.channels.answer(cx, session, ask),
            _ => self.channels.release(session, None, cx.now()),
        }
    }

    /// A call that waited fails.
    #[cold]
    pub(super) fn fail(&mut self, who: Who, status: Status) {
        match who {
            Who::Call(call) if self.calls.is_waiting(call) => self.fail_call(call.place(), status),
            Who::Call(_) => {}
            Who::Ask(ask) => self.channels.refuse_ask(ask, status),
        }
    }

    /// Fails the call in `place`, which cannot be sent and no longer waits.
    #[cold]
    pub(super) fn fail_call(&mut self, place: u32, status: Status) {
        let request = self.calls.take_back(place);
        self.calls.failed.push((place, status, request));
    }

    /// Asks for another session for a call whose session is gone.
    #[cold]
    pub(super) fn start_anew(&mut self, who: Who) {
        match who {
            Who::Call(call) if self.calls.is_waiting(call) => self.calls.start_anew(call.place()),
            Who::Call(_) => {}
            Who::Ask(ask) => self.channels.ask_again(ask),
        }
    }
}

/// Called when a call has ended.
fn on_done(dispatcher: &mut Dispatcher, cx: &mut Context<Dispatcher>, done: Completion<'_>) {
    let (local, place) = (dispatcher.parts.local, done.tag as u32);
    // Examined in place and not moved: reading a whole value that was just written in pieces stalls
    // until the writes have completed.
    if let Ok(Payload::Frame(response)) = done.result
        && response.get(CODEC_AT).is_none_or(|codec| *codec == 0)
    {
        let mut calls = local.calls.borrow_mut();
        let call = calls.at(place);
        if call.ends_with_response() {
            let report = || report_of(response, call.since, cx.now());
            local.channels.borrow_mut().ended(call.session(done.session), cx.now(), report);
            let waiter = call.end(Ok(in_buffer(done.request, response)));
            drop(calls);
            return local.finished(place, waiter);
        }
    }
    on_otherwise(dispatcher, cx, done);
}

/// A request's buffer with a larger capacity than this is not reused for the response.
const SPARE_BYTES_MAX: usize = 4096;

/// Copies a response to a pooled buffer: that of the request, if it has room.
#[inline(always)]
fn in_buffer(request: MsgBuf, response: &[u8]) -> MsgBuf {
    let mut buf = request;
    buf.rewind();
    if !(response.len()..=SPARE_BYTES_MAX).contains(&buf.capacity()) {
        recycle(buf);
        buf = buffer(response.len());
    }
    buf.copy_from(response);
    buf
}

/// Handles a call that failed, may be retried, or has a compressed or long response.
#[inline(never)]
fn on_otherwise(dispatcher: &mut Dispatcher, cx: &mut Context<Dispatcher>, done: Completion<'_>) {
    let Completion { tag, session, request, result } = done;
    let at = (tag as u32, session);
    match result {
        Ok(payload) => on_answered(dispatcher, cx, at, request, payload),
        Err(error) => attempts::on_failed(&mut dispatcher.parts, cx, at, request, error),
    }
}

/// Handles the response of a call that is compressed or long, or may be retried.
fn on_answered(
    dispatcher: &mut Dispatcher,
    cx: &mut Context<Dispatcher>,
    (place, session): (u32, SessionId),
    request: MsgBuf,
    payload: Payload<'_>,
) {
    let local = dispatcher.parts.local;
    let (request, outcome) = {
        let calls = &mut *local.calls.borrow_mut();
        let request = match calls.retry_mode(place) {
            RetryMode::Plain => {
                recycle(request);
                None
            }
            _ => Some(request),
        };
        let of_call = calls.session_of(place, session);
        let channels = &mut *local.channels.borrow_mut();
        let report = || report_of(&payload, calls.at(place).since, cx.now());
        channels.ended(of_call, cx.now(), report);
        let outcome = if payload.get(CODEC_AT).is_some_and(|codec| *codec != 0) {
            let limit = cx.session_params(session).map(|it| it.response_bytes_max);
            let limit = limit.unwrap_or(0) as usize;
            let unpacked = unpack(&payload, limit, cx.session_peer_key(session));
            free(cx, payload);
            match unpacked {
                Unpacked::Done(outcome) => outcome,
                Unpacked::Later(unpacking) => {
                    calls.retries.unpacks(place);
                    return finish_later(local, (place, session), request, unpacking);
                }
            }
        } else {
            // Whoever waits for it reads messages where they lie.
            Ok(kept_with_attached(cx, payload).unwrap_or_else(|payload| {
                let mut buf = buffer(payload.len());
                petasos_buf::copy_short(buf.as_mut_slice(), &payload);
                free(cx, payload);
                buf
            }))
        };
        (request, outcome)
    };
    match request {
        None => local.finish(place, outcome),
        Some(request) => {
            let answer = Answer { place, session, request, outcome };
            with_work(&mut dispatcher.parts, |work| work.on_answer(cx, answer));
        }
    }
}

/// Starts decompressing a response. If the call may be retried, the turn decides what follows.
#[cold]
fn finish_later(
    local: &'static Local,
    (place, session): (u32, SessionId),
    request: Option<MsgBuf>,
    unpacking: Unpacking<Outcome>,
) {
    local.spawn(Box::pin(async move {
        let outcome = unpacking.await;
        match request {
            None => local.finish(place, outcome),
            Some(request) => {
                let answer = Answer { place, session, request, outcome };
                local.calls.borrow_mut().retries.answers.push(answer);
            }
        }
    }));
}

/// The outcome of decompressing a response.
enum Unpacked {
    Done(Outcome),
    Later(Unpacking<Outcome>),
}

#[cold]
fn unpack(response: &[u8], limit: usize, server: PeerKey) -> Unpacked {
    match unpacked_short_response(response, limit).transpose() {
        Some(outcome) => Unpacked::Done(outcome),
        None => {
            let response = MsgBuf::from_slice(response);
            match unpacking::start(server, move || unpacked_response(&response, limit)) {
                Ok(unpacking) => Unpacked::Later(unpacking),
                Err(busy) => Unpacked::Done(Err(busy.into())),
            }
        }
    }
}

/// Reports a response's load to the balancer (R7).
#[cold]
fn report_of(response: &[u8], since: Time, now: Time) -> Option<Report> {
    let head = ResponseHead::parse(*response.first_chunk()?).ok()?;
    // A server that fails quickly must not be rated as a fast one.
    let is_ok = head.code == petasos_call::Code::Ok;
    is_ok.then_some(Report { latency: now - since, load: Some(head.load) })
}

impl Work<'_> {
    /// Tells the session's channel about a failed call.
    #[cold]
    pub(super) fn call_failed(
        &mut self,
        cx: &Context<Dispatcher>,
        place: u32,
        id: SessionId,
        error: CallError,
    ) {
        let session = self.calls.session_of(place, id);
        match error {
            // What one worker says, or its end, says nothing of the group.
            _ if id.is_group() => {}
            CallError::PeerFailed | CallError::SessionClosed | CallError::NotSent => {
                return self.lose(session, cx.now());
            }
            CallError::Draining => self.channels.drained(session, cx.now()),
            _ => {}
        }
        self.channels.ended(session, cx.now(), || None);
    }
}
