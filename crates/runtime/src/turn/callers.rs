//! Drives the halves of calls: their exchanges are requests of the endpoint.

use petasos_base::Time;
use petasos_call::stream::{CallerStream, Open, ServerSegment};
use petasos_call::{Answer, Codec, Failure, Status, TailError};
use petasos_endpoint::{
    CallError, Completion, Context, EnqueueError, Payload, Refused, SessionParams,
};
use petasos_message::{buffer, recycle};
use petasos_rpc::request::TAIL_BYTES_LIMIT;

use super::work::failure_of;
use crate::channels::Granted;
use crate::dispatcher::{Dispatcher, DispatcherParts};
use crate::local::Local;
use crate::streams::{Caller, EncodedMessage, Form, Half, Keeper, Key, Queued, Streams, extent};

/// R19: cancels exchanges that nobody wants.
pub(super) fn cancel(local: &Local, cx: &mut Context<Dispatcher>) {
    loop {
        let Some(call) = local.streams.borrow_mut().cancels.pop() else { return };
        cx.cancel(call);
    }
}

/// The half of a call that was granted a session.
pub(super) fn begin(
    cx: &Context<Dispatcher>,
    queued: Queued,
    granted: Granted,
    (number, epoch): (u32, u32),
    params: &SessionParams,
) -> Caller {
    let Queued { metadata, trace, deadline, codec, .. } = queued;
    let Granted { session, method, lease } = granted;
    let time_left_us = match deadline {
        Time::NEVER => 0,
        deadline => deadline.nanos_since(cx.now()).div_ceil(1000).max(1),
    };
    let answer = Answer { native: method.native_response, codec };
    let open = Open { time_left_us, answer, metadata, trace };
    let form = Form {
        native: method.native_request,
        codec: if method.codecs.contains(codec) { codec } else { Codec::IDENTITY },
        bytes_max: params.request_bytes_max as usize,
        unpacked_bytes_max: params.response_bytes_max as usize,
    };
    Caller {
        stream: CallerStream::new(number, open, form.bytes_max),
        session,
        lease: Some(lease),
        method: method.number,
        form,
        calls: [None; 2],
        epoch,
        code: None,
    }
}

/// R18: sends the exchanges that are due.
pub(super) fn send(local: &Local, cx: &mut Context<Dispatcher>, place: u32) {
    let streams = &mut *local.streams.borrow_mut();
    let Some(caller) = streams.caller(place) else { return };
    let mut failed = None;
    while let Some(segment) = caller.stream.poll_exchange() {
        let buf = match segment.into_lone() {
            Ok((head, message)) => message.behind(head),
            Err(segment) => {
                let mut buf = buffer(segment.bytes());
                segment.write(buf.as_mut_slice(), EncodedMessage::copy_to);
                buf
            }
        };
        let index = usize::from(caller.calls[0].is_some());
        let (session, tag) = (caller.session, caller.tag(place, index));
        match cx.enqueue_request(session, caller.method, buf, on_answer, tag) {
            Ok(call) => caller.calls[index] = Some(call),
            Err(Refused { request, error }) => {
                recycle(request);
                failed = Some(error);
                break;
            }
        }
    }
    let has_room = caller.stream.can_send();
    if let Some(error) = failed {
        let gone = matches!(error, EnqueueError::NoSuchSession | EnqueueError::SessionFailed);
        fail(local, streams, place, refused(error).status(), !gone);
        streams.mark(place);
        streams.wake_later(place);
    } else if has_room {
        streams.wake_writer_later(place);
    }
    streams.settle(local, place);
}

/// R12: an exchange that was not started.
fn refused(error: EnqueueError) -> Failure {
    match error {
        EnqueueError::TooLarge { .. } => Failure::RequestTooLarge,
        EnqueueError::BacklogFull { .. } | EnqueueError::TooManyBytes { .. } => Failure::TooMuch,
        _ => Failure::NotConnected,
    }
}

/// The continuation of exchanges.
fn on_answer(dispatcher: &mut Dispatcher, cx: &mut Context<Dispatcher>, done: Completion<'_>) {
    let parts = &mut dispatcher.parts;
    let local = parts.local;
    recycle(done.request);
    let result = done.result.map(|payload| parsed(cx, payload));
    let streams = &mut *local.streams.borrow_mut();
    let (place, index) = (done.tag as u32, (done.tag >> 63) as usize);
    let caller = streams.caller(place).filter(|caller| caller.tag(place, index) == done.tag);
    // Otherwise it was cancelled.
    if let Some(caller) = caller {
        caller.calls[index] = None;
        match result {
            Ok(answer) => take(parts, streams, place, answer),
            Err(error) => {
                let gone = [CallError::PeerFailed, CallError::SessionClosed, CallError::NotSent];
                let gone = gone.contains(&error);
                fail(local, streams, place, failure_of(error).status(), !gone);
            }
        }
        let is_over = streams.caller(place).is_some_and(|caller| caller.code.is_some());
        streams.mark(place);
        streams.wake_reader_later(place);
        if is_over {
            streams.wake_writer_later(place);
        }
    }
}

/// What was received as an answer.
fn parsed(
    cx: &mut Context<Dispatcher>,
    payload: Payload<'_>,
) -> Result<ServerSegment<EncodedMessage>, TailError> {
    let parsed = ServerSegment::parse(&payload, TAIL_BYTES_LIMIT);
    let messages = parsed.as_ref().map_or((0, 0), |segment| extent(&segment.messages));
    let mut keeper = Keeper::new(cx, payload, messages);
    let segment = parsed.map(|segment| segment.map(|range| keeper.keep(range)));
    keeper.end(cx);
    segment
}

/// An answer came.
fn take(
    parts: &mut DispatcherParts,
    streams: &mut Streams,
    place: u32,
    answer: Result<ServerSegment<EncodedMessage>, TailError>,
) {
    let caller = streams.caller(place).expect("the exchange was a call's");
    match answer {
        Ok(segment) => {
            let taken = caller.stream.handle_answer(segment);
            caller.code = caller.code.or(caller.stream.end().map(Status::code));
            if taken.is_err() {
                parts.note_malformed(1);
                streams.cancel_calls(place);
            }
        }
        Err(error) => {
            parts.note_malformed(1);
            let _ = streams.give_up(place, error.into());
        }
    }
}

/// R20: an exchange failed.
fn fail(local: &Local, streams: &mut Streams, place: u32, status: Status, session_lives: bool) {
    streams.cancel_calls(place);
    let caller = streams.caller(place).expect("the exchange was a call's");
    caller.code = caller.code.or(Some(status.code()));
    caller.stream.handle_failure(status, session_lives);
    if !session_lives && let Some(lease) = caller.lease.take() {
        let session = caller.session;
        streams.slots.leave(session);
        local.channels.borrow_mut().lose_lease(lease);
    }
}

/// R10: a call's time is up.
pub(super) fn expire(local: &Local, key: Key) {
    let streams = &mut *local.streams.borrow_mut();
    let Some(entry) = streams.get(key) else { return };
    let is_open = match &entry.half {
        Half::Queued(_) => true,
        Half::Caller(caller) => caller.code.is_none(),
        _ => false,
    };
    if is_open {
        // R10: an ask that is granted all the same is given back.
        let ask = streams.give_up(key.place, Status::deadline_exceeded("the time was up"));
        streams.wake_later(key.place);
        if let Some(ask) = ask {
            local.channels.borrow_mut().withdraw(ask);
        }
    }
}

impl Caller {
    /// Names an exchange.
    fn tag(&self, place: u32, index: usize) -> u64 {
        (index as u64) << 63 | u64::from(self.epoch) << 32 | u64::from(place)
    }
}

impl Streams {
    /// Gives a call's seat back once its half is over.
    fn settle(&mut self, local: &Local, place: u32) {
        let Some(caller) = self.caller(place) else { return };
        if caller.stream.is_over()
            && let Some(lease) = caller.lease.take()
        {
            let session = caller.session;
            self.slots.leave(session);
            local.channels.borrow_mut().give_back(lease, local.now());
        }
        self.free_if_over(place);
    }
}
