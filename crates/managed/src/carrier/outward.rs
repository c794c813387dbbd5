//! Streams that this process has begun.
//!
//! The loop talks to a server in exchanges (R14 to R21). This module is the server's half of each
//! stream, with the service as the handler. Messages from the service for which the stream has no
//! room wait in the receive heap, and messages for which the send heap has no room wait in the
//! stream.

use std::collections::VecDeque;

use petasos_abi::{CallNumber, Contents, Descriptor, Request};
use petasos_call::stream::{
    Arrival, CallerSegment, Message, Open, SegmentError, ServerEvent, ServerSegment, ServerStream,
    SessionStreams,
};
use petasos_call::{Metadata, MetadataKind, Status, TAIL_BYTES_MAX, TailWriter, read_tail};
use petasos_endpoint::{CallId, Context, Payload, SessionId};

use super::messages::as_image;
use super::receive::End;
use super::unary::time_left;
use super::waiting::too_long;
use super::{Begun, Carrier};
use crate::convert::Meant;
use crate::flow::Flow;
use crate::link::{LinkError, NoRoom};
use crate::services::{Binding, Method};

/// The streams of an external session.
pub(super) struct SessionOutward {
    streams: SessionStreams<u64>,
}

impl SessionOutward {
    pub(super) fn new(slots: u32) -> SessionOutward {
        SessionOutward { streams: SessionStreams::new(slots) }
    }
}

/// A stream that this process has begun.
pub(super) struct Outward {
    stream: ServerStream<Vec<u8>, CallId>,
    session: SessionId,
    /// Its number in the session.
    number: u32,
    method: Method,
    /// Its caller takes messages in protobuf's encoding only.
    wants_bytes: bool,
    /// Its call, once it has begun, and until it is over.
    call: Option<CallNumber>,
    /// Its call has begun.
    has_begun: bool,
    /// Of the call.
    flow: Flow,
    /// What the stream said and the heap, or the service, had no room for.
    blocked: Option<ServerEvent<Vec<u8>>>,
    /// Messages from the service, which wait for room in the stream.
    received: VecDeque<Contents>,
    /// The end, behind these.
    end: Option<Status>,
}

/// What became of an event.
enum Passed {
    Yes,
    Blocked(ServerEvent<Vec<u8>>),
    /// The stream has ended.
    Failed(Status),
}

impl Carrier {
    /// Takes an exchange of a stream.
    pub(super) fn exchange_outward<S>(
        &mut self,
        state: &mut S,
        cx: &mut Context<S>,
        call: CallId,
        method: Method,
    ) {
        let Some(request) = cx.external_request(call) else { return };
        let parsed = parse(request);
        let next = self.next_stream;
        let Some(session) = self.session(call.session()) else { return };
        let arrival = match &parsed {
            Ok(segment) => session.streams.streams.classify(segment),
            Err(error) => session.streams.streams.classify_malformed(error),
        };
        let id = match arrival {
            Arrival::Stream(id) => id,
            Arrival::Answer(answer) => return answer_exchange(state, cx, call, &answer),
            Arrival::New => {
                let number = parsed.as_ref().map_or(0, |segment| segment.stream);
                session.streams.streams.insert(number, next);
                self.add_outward(call.session(), number, method);
                next
            }
        };
        self.where_outward(id, |this| this.take_exchange(state, cx, id, call, parsed));
    }

    /// Takes an exchange of a stream of this attachment.
    fn take_exchange<S>(
        &mut self,
        state: &mut S,
        cx: &mut Context<S>,
        id: u64,
        call: CallId,
        parsed: Result<CallerSegment<Vec<u8>>, SegmentError>,
    ) {
        let Some(outward) = self.on.outward.get_mut(&id) else { return };
        // What is malformed has ended the stream, which tells both ends.
        match parsed {
            Ok(segment) => drop(outward.stream.handle_exchange(segment, call)),
            Err(error) => outward.stream.handle_malformed(error.number, call, error.why.into()),
        }
        self.sweep_later(cx);
        self.advance_outward(state, cx, id);
    }

    fn add_outward(&mut self, session: SessionId, number: u32, method: Method) {
        let stream = ServerStream::new(super::MESSAGE_BYTES_MAX as usize);
        let outward = Outward {
            stream,
            session,
            number,
            method,
            wants_bytes: false,
            call: None,
            has_begun: false,
            flow: Flow::new(0),
            blocked: None,
            received: VecDeque::new(),
            end: None,
        };
        self.on.outward.insert(self.next_stream, outward);
        self.next_stream += 1;
    }

    /// Passes on what the stream and the service have for each other.
    fn advance_outward<S>(&mut self, state: &mut S, cx: &mut Context<S>, id: u64) {
        let Some(mut outward) = self.on.outward.remove(&id) else { return };
        self.pass_outward(&mut outward, id);
        while outward.stream.can_send()
            && let Some(contents) = outward.received.pop_front()
        {
            let meant = outward.wants_bytes.then(|| meant(outward.method, true));
            if let Some(call) = outward.call {
                self.grant(call, &mut outward.flow, contents.bytes);
            }
            match self.taken(contents, meant) {
                Ok(message) => outward.stream.send(message),
                Err(status) => {
                    outward.stream.abort(status);
                    self.cancel_outward(&mut outward);
                }
            }
        }
        if outward.received.is_empty()
            && let Some(end) = outward.end.take()
        {
            outward.stream.end(end);
        }
        while let Some((call, segment)) = outward.stream.poll_answer() {
            answer_exchange(state, cx, call, &segment);
        }
        if !outward.stream.is_over() {
            self.on.outward.insert(id, outward);
        } else if let Some(session) = self.session(outward.session) {
            session.streams.streams.remove(outward.number);
        }
    }

    /// Passes the stream's events to the service, as far as there is room.
    fn pass_outward(&mut self, outward: &mut Outward, id: u64) {
        if outward.stream.poll_reset() {
            return self.cancel_outward(outward);
        }
        while let Some(event) = outward.blocked.take().or_else(|| outward.stream.poll_event()) {
            let is_message = matches!(event, ServerEvent::Message(_)) && outward.call.is_some();
            if is_message && !outward.flow.credit.may_send() {
                // Until a grant.
                outward.blocked = Some(event);
                return;
            }
            match self.pass_event(outward, id, event) {
                Passed::Yes => {}
                Passed::Blocked(event) => {
                    outward.blocked = Some(event);
                    self.on.is_any_blocked = true;
                    return;
                }
                Passed::Failed(status) => {
                    outward.stream.abort(status);
                    return self.cancel_outward(outward);
                }
            }
        }
    }

    fn pass_event(
        &mut self,
        outward: &mut Outward,
        id: u64,
        event: ServerEvent<Vec<u8>>,
    ) -> Passed {
        match (event, outward.call) {
            (ServerEvent::Open(open), _) => self.open_outward(outward, id, open),
            (ServerEvent::Message(message), Some(call)) => self.say_message(outward, call, message),
            (ServerEvent::Closed, Some(call)) => {
                self.push(Descriptor::Close { call });
                Passed::Yes
            }
            (ServerEvent::Reset, _) => {
                self.cancel_outward(outward);
                Passed::Yes
            }
            // The service has ended the call.
            (_, None) => Passed::Yes,
        }
    }

    fn open_outward(&mut self, outward: &mut Outward, id: u64, open: Open) -> Passed {
        if !self.may_begin() {
            return Passed::Blocked(ServerEvent::Open(open));
        }
        let target = self.target(outward.session);
        let binding = self.on.bindings.of(outward.method.service);
        let (Some(target), Binding::Bound(binding)) = (target, binding) else {
            return Passed::Failed(Status::unavailable("the managed service has gone"));
        };
        let link = self.on.link.as_mut().expect("a call may begin");
        let metadata = match link.put_tail(&tail_of_open(&open)) {
            Ok(metadata) => metadata,
            Err(NoRoom::Now) => return Passed::Blocked(ServerEvent::Open(open)),
            Err(never) => return Passed::Failed(too_long(never)),
        };
        let call = link.next_call();
        link.push(Descriptor::Request(Request {
            call,
            binding: *binding,
            method: outward.method.method,
            partner: target,
            is_stream: true,
            is_idempotent: false,
            waits_for_ready: false,
            time_left_us: time_left(open.time_left_us),
            message: Contents::NONE,
            metadata,
        }));
        outward.flow = link.flow();
        outward.wants_bytes = !open.answer.native;
        (outward.call, outward.has_begun) = (Some(call), true);
        self.note_begun(call, Begun::Stream(id));
        Passed::Yes
    }

    fn say_message(
        &mut self,
        outward: &mut Outward,
        call: CallNumber,
        message: Message<Vec<u8>>,
    ) -> Passed {
        let meant = meant(outward.method, false);
        let message = match as_image(&self.services, message, Some(meant)) {
            Ok(message) => message,
            Err(status) => return Passed::Failed(status),
        };
        let Some(link) = &mut self.on.link else { return Passed::Yes };
        let placed = match link.is_backed_up() {
            true => Err(NoRoom::Now),
            false => link.put_image(&message.body),
        };
        match placed {
            Ok(message) => {
                outward.flow.credit.spend(message.bytes);
                link.push(Descriptor::Message { call, message });
                Passed::Yes
            }
            Err(NoRoom::Now) => Passed::Blocked(ServerEvent::Message(message)),
            Err(never) => Passed::Failed(too_long(never)),
        }
    }

    /// The stream is over at this end: so is its call.
    fn cancel_outward(&mut self, outward: &mut Outward) {
        outward.blocked = None;
        let received: Vec<Contents> = outward.received.drain(..).collect();
        received.into_iter().for_each(|contents| self.release([contents]));
        if let Some(call) = outward.call.take() {
            self.on.begun.remove(&call.get());
            self.push(Descriptor::Cancel { call });
        }
    }

    /// The service has a message for the stream.
    pub(super) fn receive_outward<S>(
        &mut self,
        state: &mut S,
        cx: &mut Context<S>,
        id: u64,
        message: Contents,
    ) -> Result<(), LinkError> {
        match self.on.outward.get_mut(&id) {
            Some(outward) => outward.received.push_back(message),
            None => self.release([message]),
        }
        self.advance_outward(state, cx, id);
        Ok(())
    }

    /// The service takes more of the stream.
    pub(super) fn grant_outward<S>(
        &mut self,
        state: &mut S,
        cx: &mut Context<S>,
        id: u64,
        bytes: u64,
    ) {
        if let Some(outward) = self.on.outward.get_mut(&id) {
            outward.flow.credit.add(bytes);
            self.advance_outward(state, cx, id);
        }
    }

    /// The service has initial metadata for the stream.
    pub(super) fn head_outward<S>(
        &mut self,
        state: &mut S,
        cx: &mut Context<S>,
        id: u64,
        metadata: Contents,
    ) -> Result<(), LinkError> {
        let tail = self.take(metadata)?;
        if let Some(outward) = self.on.outward.get_mut(&id)
            && let Ok(parts) = read_tail(&tail, TAIL_BYTES_MAX)
        {
            outward.stream.head(parts.initial);
        }
        self.advance_outward(state, cx, id);
        Ok(())
    }

    /// The service has ended the stream's call.
    pub(super) fn end_outward<S>(
        &mut self,
        state: &mut S,
        cx: &mut Context<S>,
        id: u64,
        end: &End,
    ) -> Result<(), LinkError> {
        self.release([end.message]);
        let tail = self.take(end.metadata)?;
        let status = match read_tail(&tail, TAIL_BYTES_MAX) {
            Ok(parts) => parts.into_status(end.code).0,
            Err(error) => error.into(),
        };
        if let Some(outward) = self.on.outward.get_mut(&id) {
            (outward.call, outward.blocked) = (None, None);
            outward.end = Some(status);
        }
        self.advance_outward(state, cx, id);
        Ok(())
    }

    /// An exchange is over at this end: the stream is given up.
    pub(super) fn abandon_outward<S>(&mut self, state: &mut S, cx: &mut Context<S>, call: CallId) {
        self.each_joined(|this| this.abandon_here(state, cx, call));
    }

    fn abandon_here<S>(&mut self, state: &mut S, cx: &mut Context<S>, call: CallId) {
        let mut all = self.on.outward.iter_mut();
        let found = all.find(|(_, outward)| outward.stream.holds(|held| *held == call));
        let Some((id, outward)) = found else { return };
        let id = *id;
        outward.stream.handle_abandoned(|held| *held == call);
        self.advance_outward(state, cx, id);
    }

    /// A session was closed, and its streams with it.
    pub(super) fn close<S>(&mut self, state: &mut S, cx: &mut Context<S>, session: SessionId) {
        self.each_joined(|this| this.close_here(state, cx, session));
        if self.session(session).is_some() {
            self.sessions[session.place()] = None;
            self.forget_targets(session.place());
        }
    }

    fn close_here<S>(&mut self, state: &mut S, cx: &mut Context<S>, session: SessionId) {
        let of_it = self.on.outward.iter().filter(|(_, outward)| outward.session == session);
        for id in of_it.map(|(id, _)| *id).collect::<Vec<_>>() {
            if let Some(outward) = self.on.outward.get_mut(&id) {
                outward.stream.handle_abandoned(|_| true);
            }
            self.advance_outward(state, cx, id);
        }
    }

    /// Streams whose calls have not begun.
    pub(super) fn unbegun(&self) -> Vec<u64> {
        let unbegun = self.on.outward.iter().filter(|(_, outward)| !outward.has_begun);
        unbegun.map(|(id, _)| *id).collect()
    }

    /// The attachment has ended, and all streams with it that this process has begun there.
    pub(super) fn fail_outward<S>(&mut self, state: &mut S, cx: &mut Context<S>, status: &Status) {
        for id in self.on.outward.keys().copied().collect::<Vec<_>>() {
            if let Some(outward) = self.on.outward.get_mut(&id)
                && (outward.call.take().is_some() || !outward.has_begun)
            {
                (outward.blocked, outward.end) = (None, Some(status.clone()));
            }
            self.advance_outward(state, cx, id);
        }
    }

    /// Goes on with the streams that wait for room.
    pub(super) fn advance_blocked<S>(&mut self, state: &mut S, cx: &mut Context<S>) {
        if !std::mem::take(&mut self.on.is_any_blocked) {
            return;
        }
        let blocked = self.on.outward.iter().filter(|(_, outward)| outward.blocked.is_some());
        for id in blocked.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.advance_outward(state, cx, id);
        }
        self.advance_blocked_inward(state, cx);
    }

    /// R18: streams that hold more exchanges than they need, and say nothing, give them back.
    pub(super) fn sweep<S>(&mut self, state: &mut S, cx: &mut Context<S>) {
        self.sweep_at = petasos_base::Time::NEVER;
        self.each_joined(|this| this.sweep_here(state, cx));
    }

    fn sweep_here<S>(&mut self, state: &mut S, cx: &mut Context<S>) {
        for id in self.on.outward.keys().copied().collect::<Vec<_>>() {
            if let Some(outward) = self.on.outward.get_mut(&id) {
                outward.stream.release_spare();
            }
            self.advance_outward(state, cx, id);
        }
        if !self.on.outward.is_empty() {
            self.sweep_later(cx);
        }
    }
}

fn meant(method: Method, is_response: bool) -> Meant {
    Meant { service: method.service, method: method.method, is_response }
}

/// A segment with copies of its messages.
fn parse(request: &petasos_buf::MsgBuf) -> Result<CallerSegment<Vec<u8>>, SegmentError> {
    let mut copy = Vec::new();
    let bytes = match request.has_tail() {
        true => {
            copy.resize(request.len(), 0);
            request.copy_range(0, &mut copy);
            &copy[..]
        }
        false => request.as_slice(),
    };
    let segment = CallerSegment::parse(bytes, TAIL_BYTES_MAX)?;
    Ok(segment.map(|range| bytes[range].to_vec()))
}

fn tail_of_open(open: &Open) -> Vec<u8> {
    let mut tail = Vec::new();
    let mut writer = TailWriter::new(&mut tail);
    writer.metadata(MetadataKind::Initial, &open.metadata);
    if let Some(trace) = &open.trace {
        writer.trace(trace);
    }
    tail
}

/// Metadata as a tail (R9).
pub(super) fn tail_of_metadata(metadata: &Metadata) -> Vec<u8> {
    let mut tail = Vec::new();
    TailWriter::new(&mut tail).metadata(MetadataKind::Initial, metadata);
    tail
}

fn answer_exchange<S>(
    state: &mut S,
    cx: &mut Context<S>,
    call: CallId,
    segment: &ServerSegment<Vec<u8>>,
) {
    let mut frame = vec![0; segment.bytes()];
    segment.write(&mut frame, |body, out| out.copy_from_slice(body));
    Context::finish_external(state, cx, call, Ok(Payload::Frame(&frame)));
}
