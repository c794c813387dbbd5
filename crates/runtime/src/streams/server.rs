//! Drives the halves of handlers: exchanges are requests that are held until they are answered.

use core::time::Duration;

use petasos_call::stream::{
    Arrival, CallerSegment, Open, SegmentError, ServerEvent, ServerSegment, ServerStream,
    SessionStreams,
};
use petasos_call::{Code, Codec, Metadata, Status};
use petasos_endpoint::{Context, Payload, RejectCode, Request, RequestHandle, RequestKey};
use petasos_rpc::request::{CallParts, TAIL_BYTES_LIMIT, with_trace};

use super::encoded::{EncodedMessage, Keeper, extent};
use super::handle::StreamHandle;
use super::table::{Form, Half, Key, Served, Server, Side, Streams};
use crate::dispatcher::{Dispatcher, DispatcherParts, Due, WAITING_MAX, respond_in};

/// Answers of so many bytes are built on the stack.
const SHORT_BYTES_MAX: usize = 128;
/// How often streams are looked at whose sessions may be gone.
const SWEEP: Duration = Duration::from_secs(1);

/// What a handler starts with.
pub struct Handling {
    /// The stream's place in the table.
    pub key: Key,
    /// What the handler reads.
    pub requests: StreamHandle,
    /// What it writes.
    pub responses: StreamHandle,
    /// What goes with the call.
    pub beside: CallParts,
}

/// The endpoint's handler of methods with streams.
pub(crate) fn dispatch(
    dispatcher: &mut Dispatcher,
    cx: &mut Context<Dispatcher>,
    request: Request<'_>,
) {
    let Request { handle, method, payload } = request;
    dispatcher.parts.local.set_turn(Some(cx.now()));
    let kind = u32::from(method) - 1;
    if let Some(place) = arrive(&mut dispatcher.parts, cx, kind, handle, payload) {
        advance(dispatcher, cx, place);
    }
}

/// An exchange arrived; gives the stream that took it.
fn arrive(
    parts: &mut DispatcherParts,
    cx: &mut Context<Dispatcher>,
    kind: u32,
    handle: RequestHandle,
    payload: Payload<'_>,
) -> Option<u32> {
    let local = parts.local;
    let session = handle.key().session();
    let parsed = parsed(cx, payload);
    let streams = &mut *local.streams.borrow_mut();
    let known = streams.served(cx, session)?;
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
            if let Some(code) = refusal(parts, cx, streams) {
                cx.reject(handle, code);
                return None;
            }
            let number = parsed.as_ref().map_or(0, |segment| segment.stream);
            add(parts, cx, streams, kind, session, number)
        }
    };
    let server = streams.server(place).expect("sessions know servers' halves");
    match parsed {
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

/// What was received as an exchange.
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

/// Why no stream may begin.
fn refusal(
    parts: &DispatcherParts,
    cx: &Context<Dispatcher>,
    streams: &Streams,
) -> Option<RejectCode> {
    match () {
        () if cx.is_draining() => Some(RejectCode::Draining),
        () if parts.is_full() || streams.handlers >= WAITING_MAX => Some(RejectCode::Overloaded),
        () => None,
    }
}

fn add(
    parts: &mut DispatcherParts,
    cx: &Context<Dispatcher>,
    streams: &mut Streams,
    kind: u32,
    session: (u32, u32),
    number: u32,
) -> u32 {
    let params = cx.served_params(session);
    let form = Form {
        native: false,
        codec: Codec::IDENTITY,
        bytes_max: params.map_or(0, |params| params.response_bytes_max as usize),
        unpacked_bytes_max: params.map_or(0, |params| params.request_bytes_max as usize),
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
    let Key { place, .. } = streams.add(half, false);
    if let Some(known) = streams.served(cx, session) {
        known.insert(number, place);
    }
    if !core::mem::replace(&mut streams.is_swept, true) {
        let at = cx.now() + SWEEP;
        parts.deadlines.insert(cx.now(), at, Due::Sweep { at });
    }
    streams.handlers += 1;
    place
}

/// Starts the handler of a stream that has begun, drops that of one that is not wanted any more,
/// and wakes one that waits.
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
        beside: CallParts { metadata: open.metadata, timeout, extensions, origin },
    };
    dispatcher.methods[kind as usize].open(&mut dispatcher.parts, cx, handling);
}

/// R18: gives the answers that are due.
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
    if let Some(((index, generation), number)) = over {
        streams.handlers -= 1;
        let known = streams.served.get_mut(index as usize).and_then(Option::as_mut);
        if let Some(known) = known.filter(|known| known.generation == generation) {
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
        // R12: the caller gives the stream up. Its handler may have run, so it is not tried again.
        Err(_) => cx.reject(handle, RejectCode::HandlerFailed),
    }
}

/// R11: an exchange that is held is not wanted any more. Says whether it was one of a stream.
pub(crate) fn abandon(dispatcher: &mut Dispatcher, cx: &mut Context<Dispatcher>, key: RequestKey) {
    let (index, generation) = key.session();
    let found = {
        let streams = &mut *dispatcher.parts.local.streams.borrow_mut();
        let known = streams.served.get(index as usize).and_then(Option::as_ref);
        let places: Vec<u32> = match known.filter(|known| known.generation == generation) {
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

/// Ends the streams of sessions that are gone: those that held nothing were not told.
#[cold]
pub(crate) fn sweep(dispatcher: &mut Dispatcher, cx: &mut Context<Dispatcher>) {
    let mut lost;
    {
        let streams = &mut *dispatcher.parts.local.streams.borrow_mut();
        lost = core::mem::take(&mut streams.orphans);
        for (index, place) in (0..).zip(&mut streams.served) {
            let Some(served) = place else { continue };
            if cx.served_params((index, served.generation)).is_none() {
                lost.extend(served.streams.keys());
                *place = None;
            }
        }
        for place in &lost {
            if let Some(server) = streams.server(*place) {
                server.stream.handle_abandoned(|_| true);
            }
        }
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

/// The loop ends: so do the handlers that still run. How many there were.
#[cold]
pub(crate) fn cut_off(dispatcher: &mut Dispatcher, cx: &mut Context<Dispatcher>) -> usize {
    let running = dispatcher.parts.local.streams.borrow_mut().running();
    for (kind, slot) in &running {
        dispatcher.methods[*kind as usize].cut_off(&mut dispatcher.parts, cx, *slot);
    }
    super::turn(dispatcher, cx);
    running.len()
}

impl Streams {
    /// Whether no stream is served.
    pub(crate) fn is_idle(&self) -> bool {
        self.handlers == 0
    }

    /// The session of a handler's half.
    fn session_of(&mut self, place: u32) -> Option<(u32, u32)> {
        self.server(place).map(|server| server.session)
    }

    /// The handlers that run: methods and slots.
    fn running(&mut self) -> Vec<(u32, u32)> {
        let slot = |half: &Half| match half {
            Half::Server(server) => server.slot.map(|slot| (server.kind, slot)),
            _ => None,
        };
        self.halves().filter_map(slot).collect()
    }

    /// What is known of a session that is served; nothing if it is gone.
    fn served(
        &mut self,
        cx: &Context<Dispatcher>,
        (index, generation): (u32, u32),
    ) -> Option<&mut SessionStreams<u32>> {
        let at = index as usize;
        if self.served.len() <= at {
            self.served.resize_with(at + 1, || None);
        }
        let is_known = self.served[at].as_ref().is_some_and(|s| s.generation == generation);
        if !is_known {
            let slots = cx.served_params((index, generation))?.slots;
            let streams = SessionStreams::new(slots);
            let earlier = self.served[at].replace(Served { generation, streams });
            // Of an earlier session in its place; their handlers end with the next sweep.
            let lost =
                earlier.into_iter().flat_map(|served| served.streams.keys().collect::<Vec<_>>());
            self.orphans.extend(lost);
        }
        self.served[at].as_mut().map(|served| &mut served.streams)
    }

    /// The handler of a stream waits in this slot.
    pub fn handler_waits(&mut self, key: Key, slot: u32) {
        if let Some(Half::Server(server)) = self.get(key).map(|entry| &mut entry.half) {
            server.slot = Some(slot);
        }
    }

    /// The handler of a stream is done. The end comes behind all that it has sent.
    pub fn handler_ended(&mut self, key: Key, result: Result<(), Status>) {
        let Some(entry) = self.get(key) else { return };
        let Half::Server(server) = &mut entry.half else { return };
        if entry.writer.remote.as_ref().is_some_and(|remote| remote.handler_ended()) {
            (server.slot, server.ending) = (None, Some(result));
            return;
        }
        self.end_after_handler(key, result);
    }

    /// A handler's mailbox has nothing that is still to be sent.
    pub(super) fn sent_all(&mut self, key: Key) {
        if let Some(Half::Server(server)) = self.get(key).map(|entry| &mut entry.half)
            && let Some(result) = server.ending.take()
        {
            self.end_after_handler(key, result);
        }
    }

    fn end_after_handler(&mut self, key: Key, result: Result<(), Status>) {
        let server = self.server(key.place).expect("it was just looked at");
        let trailers = core::mem::take(&mut server.trailers);
        let status = match result {
            Ok(()) => Status::ok().with_metadata(trailers),
            Err(status) => failure(status, &trailers),
        };
        server.stream.end(status);
        self.handler_left(key, Status::cancelled("the handler has ended"));
    }

    /// R19: the handler of a stream was dropped, with this status for the caller.
    pub fn handler_dropped(&mut self, key: Key, status: Status) {
        let Some(Half::Server(server)) = self.get(key).map(|entry| &mut entry.half) else { return };
        server.stream.abort(status.clone());
        self.handler_left(key, status);
    }

    fn handler_left(&mut self, key: Key, over: Status) {
        let server = self.server(key.place).expect("it was just looked at");
        server.slot = None;
        server.over.get_or_insert(over);
        self.mark(key.place);
        self.wake_later(key.place);
        self.free_if_over(key.place);
    }
}

/// What a handler failed with. OK is its mistake, and must not look like success.
fn failure(status: Status, trailers: &Metadata) -> Status {
    let mut status = match status.code() {
        Code::Ok => Status::unknown("the handler failed with OK"),
        _ => status,
    };
    for (key, value) in trailers.iter() {
        // They were accepted before.
        let _ = status.metadata_mut().append_bytes(key.as_bytes(), value);
    }
    status
}
