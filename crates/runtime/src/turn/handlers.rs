//! Drives the handlers' halves: exchanges are requests that are held until they are answered.

use core::time::Duration;

use petasos_call::stream::{
    Arrival, CallerSegment, Open, SegmentError, ServerEvent, ServerSegment, ServerStream,
};
use petasos_call::{Codec, Metadata, Status};
use petasos_endpoint::{
    Context, Payload, RejectCode, Request, RequestHandle, RequestKey, ServerSessionId,
};
use petasos_rpc::request::{CallParts, TAIL_BYTES_LIMIT, with_trace};

use crate::buffers::{free, respond_in};
use crate::dispatcher::{Dispatcher, DispatcherParts, Handling, WAITING_MAX, has_room};
use crate::due::Due;
use crate::stream_handle::StreamHandle;
use crate::streams::{
    EncodedMessage, Form, Half, Keeper, Server, Side, StreamKey, Streams, extent,
};

/// Answers of at most this many bytes are built on the stack.
const SHORT_BYTES_MAX: usize = 128;
/// The interval at which all served streams are checked.
const SWEEP: Duration = Duration::from_secs(1);

/// The endpoint's handler of all methods with streams.
pub(crate) fn dispatch(
    dispatcher: &mut Dispatcher,
    cx: &mut Context<Dispatcher>,
    request: Request<'_>,
) {
    take(dispatcher, cx, request, None);
}

/// The endpoint's handler of methods with streams that were withdrawn: streams go on, and none
/// begins.
pub(crate) fn refuse(
    dispatcher: &mut Dispatcher,
    cx: &mut Context<Dispatcher>,
    request: Request<'_>,
) {
    take(dispatcher, cx, request, Some(RejectCode::Draining));
}

/// Handles an exchange. `refusal` says why no stream may begin, if none may.
fn take(
    dispatcher: &mut Dispatcher,
    cx: &mut Context<Dispatcher>,
    request: Request<'_>,
    refusal: Option<RejectCode>,
) {
    let Request { handle, method, payload } = request;
    if handle.key().session().is_group() {
        // The exchanges of a stream would go to any workers.
        free(cx, payload);
        return cx.reject(handle, RejectCode::UnknownMethod);
    }
    dispatcher.parts.local.set_turn(Some(cx.now()));
    let of = (u32::from(method) - 1, refusal);
    if let Some(place) = arrive(&mut dispatcher.parts, cx, of, handle, payload) {
        advance(dispatcher, cx, place);
    }
}

/// Handles an exchange that arrived. Returns the stream that accepted it.
fn arrive(
    parts: &mut DispatcherParts,
    cx: &mut Context<Dispatcher>,
    (kind, refusal): (u32, Option<RejectCode>),
    handle: RequestHandle,
    payload: Payload<'_>,
) -> Option<u32> {
    let local = parts.local;
    let session = handle.key().session();
    let has_room = has_room(&payload);
    let parsed = parsed(cx, payload);
    let streams = &mut *local.streams.borrow_mut();
    let known = streams.served(session, || slots_of(cx, session))?;
    let arrival = match &parsed {
        Ok(segment) => known.classify(segment),
        Err(error) => known.classify_malformed(error),
    };
    let place = match arrival {
        Arrival::Stream(place) => place,
        Arrival::Answer(answer) => {
            parts.note_malformed(u64::from(parsed.is_err()));
            write(cx, handle, &answer);
            return None;
        }
        Arrival::New => {
            let too_many = (streams.handlers >= WAITING_MAX).then_some(RejectCode::Overloaded);
            if let Some(code) = refusal.or(parts.refusal(cx, has_room)).or(too_many) {
                cx.reject(handle, code);
                return None;
            }
            let number = parsed.as_ref().map_or(0, |segment| segment.stream);
            add(parts, cx, streams, kind, session, number)
        }
    };
    let server = streams.server(place).expect("sessions know servers' halves");
    match parsed {
        Ok(segment) if !has_room => {
            let full = Status::resource_exhausted("the server has no room for the message");
            server.stream.handle_malformed(segment.number, handle, full);
        }
        Ok(segment) => {
            let taken = server.stream.handle_exchange(segment, handle);
            parts.note_malformed(u64::from(taken.is_err()));
        }
        Err(error) => {
            parts.note_malformed(1);
            server.stream.handle_malformed(error.number, handle, error.why.into());
        }
    }
    Some(place)
}

/// Parses a received exchange.
fn parsed(
    cx: &mut Context<Dispatcher>,
    payload: Payload<'_>,
) -> Result<CallerSegment<EncodedMessage>, SegmentError> {
    let parsed = CallerSegment::parse(&payload, TAIL_BYTES_LIMIT);
    let messages = parsed.as_ref().map_or((0, 0), |segment| extent(&segment.messages));
    let mut keeper = Keeper::new(cx, payload, messages);
    let segment = parsed.map(|segment| segment.map(|range| keeper.keep(range)));
    keeper.end(cx);
    segment
}

/// How many calls a served session carries.
fn slots_of(cx: &Context<Dispatcher>, session: ServerSessionId) -> Option<u32> {
    cx.served_params(session).map(|params| params.slots)
}

fn add(
    parts: &mut DispatcherParts,
    cx: &Context<Dispatcher>,
    streams: &mut Streams,
    kind: u32,
    session: ServerSessionId,
    number: u32,
) -> u32 {
    let params = cx.served_params(session);
    let form = Form {
        native: false,
        codec: Codec::IDENTITY,
        bytes_max: params.map_or(0, |params| params.response_bytes_max as usize),
        unpacked_bytes_max: params.map_or(0, |params| params.request_bytes_max as usize),
        peer: cx.served_peer_key(session),
    };
    let half = Half::Server(Box::new(Server {
        stream: ServerStream::new(form.bytes_max),
        session,
        number,
        kind,
        form,
        slot: None,
        has_begun: false,
        trailers: Metadata::new(),
        ending: None,
        over: None,
    }));
    let StreamKey { place, .. } = streams.add(half, false);
    if let Some(known) = streams.served(session, || slots_of(cx, session)) {
        known.insert(number, place);
    }
    if !core::mem::replace(&mut streams.is_swept, true) {
        let at = cx.now() + SWEEP;
        parts.deadlines.insert(cx.now(), at, Due::Sweep { at });
    }
    streams.handlers += 1;
    place
}

/// Starts the handler of a new stream, drops the handler of a stream that is no longer wanted, and
/// wakes a waiting one.
fn advance(dispatcher: &mut Dispatcher, cx: &mut Context<Dispatcher>, place: u32) {
    let local = dispatcher.parts.local;
    let mut begun = None;
    let dropped = {
        let streams = &mut *local.streams.borrow_mut();
        let entry = streams.at(place);
        let Half::Server(server) = &mut entry.half else { return };
        let is_reset = server.stream.poll_reset();
        if is_reset {
            server.over = Some(Status::cancelled("the caller gave the call up"));
        } else if !server.has_begun
            && let Some(ServerEvent::Open(open)) = server.stream.poll_event()
        {
            server.has_begun = true;
            (server.form.native, server.form.codec) = (open.answer.native, open.answer.codec);
            (entry.reader.is_held, entry.writer.is_held) = (true, true);
            begun = Some((server.kind, server.form, open));
        }
        let dropped =
            if is_reset { server.slot.take().map(|slot| (server.kind, slot)) } else { None };
        streams.mark(place);
        streams.wake_later(place);
        dropped
    };
    if let Some((kind, slot)) = dropped {
        dispatcher.methods[kind as usize].abandon(&mut dispatcher.parts, cx, slot);
    }
    if let Some((kind, form, open)) = begun {
        start(dispatcher, cx, place, kind, form, open);
    }
}

fn start(
    dispatcher: &mut Dispatcher,
    cx: &mut Context<Dispatcher>,
    place: u32,
    kind: u32,
    form: Form,
    open: Open,
) {
    let local = dispatcher.parts.local;
    let key = local.streams.borrow_mut().key(place);
    let session = local.streams.borrow_mut().session_of(place);
    let origin = session.map(|session| dispatcher.parts.origin(cx, session)).unwrap_or_default();
    let left = Duration::from_micros(open.time_left_us);
    let timeout = (!left.is_zero()).then_some(left);
    let extensions = with_trace(open.trace);
    let handling = Handling {
        key,
        requests: StreamHandle::new(local, key, Side::Reader, form),
        responses: StreamHandle::new(local, key, Side::Writer, form),
        call_parts: CallParts { metadata: open.metadata, timeout, extensions, origin },
    };
    dispatcher.methods[kind as usize].open(&mut dispatcher.parts, cx, handling);
}

/// R18: sends the answers that are due.
pub(super) fn answer(dispatcher: &mut Dispatcher, cx: &mut Context<Dispatcher>, place: u32) {
    let streams = &mut *dispatcher.parts.local.streams.borrow_mut();
    let Some(server) = streams.server(place) else { return };
    while let Some((handle, segment)) = server.stream.poll_answer() {
        match segment.into_lone() {
            Ok((head, message)) => respond_in(cx, handle, message.behind(head)),
            Err(segment) => write(cx, handle, &segment),
        }
    }
    let has_room = server.stream.can_send();
    let over = (server.stream.is_over() && server.number != 0)
        .then(|| (server.session, core::mem::take(&mut server.number)));
    if has_room {
        streams.wake_writer_later(place);
    }
    if let Some((session, number)) = over {
        streams.handlers -= 1;
        let known = streams.served.get_mut(session.place()).and_then(Option::as_mut);
        if let Some(known) = known.filter(|known| known.session == session) {
            known.streams.remove(number);
        }
        streams.free_if_over(place);
    }
}

fn write(
    cx: &mut Context<Dispatcher>,
    handle: RequestHandle,
    segment: &ServerSegment<EncodedMessage>,
) {
    let bytes = segment.bytes();
    if bytes <= SHORT_BYTES_MAX {
        let mut short = [0; SHORT_BYTES_MAX];
        segment.write(&mut short[..bytes], EncodedMessage::copy_to);
        return cx.respond_with(handle, &short[..bytes]);
    }
    match cx.response_buffer(&handle, bytes) {
        Ok(mut response) => {
            segment.write(response.as_mut_slice(), EncodedMessage::copy_to);
            cx.respond(handle, response);
        }
        // R12: the caller gives up the stream. The handler may have run, so the stream is not
        // retried.
        Err(_) => cx.reject(handle, RejectCode::HandlerFailed),
    }
}

/// R11: handles a held exchange that is no longer wanted. Returns whether it belonged to a stream.
pub(super) fn abandon(dispatcher: &mut Dispatcher, cx: &mut Context<Dispatcher>, key: RequestKey) {
    let session = key.session();
    let found = {
        let streams = &mut *dispatcher.parts.local.streams.borrow_mut();
        let known = streams.served.get(session.place()).and_then(Option::as_ref);
        let places: Vec<u32> = match known.filter(|known| known.session == session) {
            Some(known) => known.streams.keys().collect(),
            None => return,
        };
        let is_it = |handle: &RequestHandle| handle.key() == key;
        let mut holds =
            |place: &u32| streams.server(*place).is_some_and(|server| server.stream.holds(is_it));
        let found = places.into_iter().find(|place| holds(place));
        if let Some(server) = found.and_then(|place| streams.server(place)) {
            server.stream.handle_abandoned(is_it);
        }
        found
    };
    if let Some(place) = found {
        advance(dispatcher, cx, place);
    }
}

/// Ends the streams of sessions that are gone: those that held nothing were not told. Others give
/// back the slots that they have had no use for (R18).
#[cold]
pub(super) fn sweep(dispatcher: &mut Dispatcher, cx: &mut Context<Dispatcher>) {
    let mut lost;
    {
        let streams = &mut *dispatcher.parts.local.streams.borrow_mut();
        lost = core::mem::take(&mut streams.orphans);
        for place in &mut streams.served {
            let Some(served) = place else { continue };
            if cx.served_params(served.session).is_none() {
                lost.extend(served.streams.keys());
                *place = None;
            }
        }
        for place in &lost {
            if let Some(server) = streams.server(*place) {
                server.stream.handle_abandoned(|_| true);
            }
        }
        streams.release_spare();
        streams.is_swept = streams.handlers > 0;
        if streams.is_swept {
            let at = cx.now() + SWEEP;
            dispatcher.parts.deadlines.insert(cx.now(), at, Due::Sweep { at });
        }
    }
    for place in lost {
        advance(dispatcher, cx, place);
    }
}

/// The loop ends, and with it all running handlers. Returns how many there were.
#[cold]
pub(super) fn cut_off(dispatcher: &mut Dispatcher, cx: &mut Context<Dispatcher>) -> usize {
    let running = dispatcher.parts.local.streams.borrow_mut().running();
    for task in &running {
        dispatcher.methods[task.kind as usize].cut_off(&mut dispatcher.parts, cx, task.slot);
    }
    running.len()
}
