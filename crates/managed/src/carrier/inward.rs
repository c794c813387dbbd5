//! Streams that this process serves.
//!
//! The service uses messages, and the loop's handlers use exchanges (R14 to R21). This module is
//! the caller's half of each stream.

use std::collections::VecDeque;

use petasos_abi::{CallNumber, Contents, Descriptor, Request};
use petasos_call::stream::{
    CallerEvent, CallerSegment, CallerStream, Open, ServerSegment, StreamNumbers, WIDTH_MAX,
};
use petasos_call::{Encoding, Status, TAIL_BYTES_MAX, read_tail};
use petasos_endpoint::{Context, ExternalAnswer, Payload, RequestKey};

use super::messages::as_image;
use super::outward::tail_of_metadata;
use super::request_numbers::{exchange_call, exchange_number, segment_of};
use super::waiting::{failure_of, too_long};
use super::{Carrier, MESSAGE_BYTES_MAX};
use crate::convert::Meant;
use crate::flow::Flow;
use crate::frames::{answer_to, tail_of};
use crate::link::{Link, LinkError, NoRoom};
use crate::services::Served;

/// The numbers of streams in the session in which requests are delivered.
pub(super) struct InwardNumbers(StreamNumbers);

impl InwardNumbers {
    pub(super) fn new(slots: u32) -> InwardNumbers {
        InwardNumbers(StreamNumbers::new(slots))
    }
}

impl Default for InwardNumbers {
    fn default() -> InwardNumbers {
        InwardNumbers::new(0)
    }
}

/// A stream that this process serves.
pub(super) struct Inward {
    stream: CallerStream<Vec<u8>>,
    call: CallNumber,
    /// The loop's number of its method.
    method: u16,
    /// The type of its requests, if its server takes and gives protobuf only.
    bytes: Option<Meant>,
    /// Exchanges under way, by their numbers modulo [`WIDTH_MAX`].
    exchanges: [Option<RequestKey>; WIDTH_MAX as usize],
    lent: u32,
    /// Messages from the service, which wait for room in the stream.
    received: VecDeque<Contents>,
    is_closed: bool,
    flow: Flow,
    /// What the handler said and the heap, or the service, had no room for.
    blocked: Option<CallerEvent<Vec<u8>>>,
    /// The service has been told of the end, or does not want to be.
    is_ended: bool,
}

impl Carrier {
    /// Begins to serve a stream.
    pub(super) fn open_inward<S>(
        &mut self,
        state: &mut S,
        cx: &mut Context<S>,
        request: &Request,
        served: Served,
    ) -> Result<(), LinkError> {
        self.release([request.message]);
        let tail = self.take(request.metadata)?;
        let call = request.call;
        let parts = match read_tail(&tail, TAIL_BYTES_MAX) {
            Ok(parts) => parts,
            Err(error) => {
                self.end(call, &error.into(), true);
                return Ok(());
            }
        };
        let Some(number) = self.inward_numbers.0.open() else {
            let full = Status::resource_exhausted("the server has as many streams as it can");
            self.end(call, &full, true);
            return Ok(());
        };
        let open = Open {
            time_left_us: request.time_left_us,
            answer: answer_to(match served.bytes {
                None => Encoding::Native,
                Some(_) => Encoding::Protobuf,
            }),
            metadata: parts.initial,
            trace: parts.trace,
        };
        let inward = Inward {
            stream: CallerStream::new(number, open, MESSAGE_BYTES_MAX as usize),
            call,
            method: served.number,
            bytes: served.bytes,
            exchanges: [None; WIDTH_MAX as usize],
            lent: 0,
            received: VecDeque::new(),
            is_closed: false,
            flow: self.on.link.as_ref().map_or(Flow::new(0), Link::flow),
            blocked: None,
            is_ended: false,
        };
        self.on.inward.insert(call.get(), inward);
        self.advance_inward(state, cx, call.get());
        Ok(())
    }

    /// Passes on what the stream and the service have for each other.
    fn advance_inward<S>(&mut self, state: &mut S, cx: &mut Context<S>, id: u64) {
        let Some(mut inward) = self.on.inward.remove(&id) else { return };
        self.feed_inward(&mut inward);
        self.pass_inward(&mut inward);
        loop {
            let lent_max = self.inward_numbers.0.available(inward.lent);
            let Some(segment) = inward.stream.poll_exchange(lent_max) else { break };
            self.lend(&mut inward);
            deliver_exchange(state, cx, &mut inward, &segment, self.on.is_second);
        }
        self.lend(&mut inward);
        if !(inward.stream.is_over() && inward.is_ended) {
            self.on.inward.insert(id, inward);
            return;
        }
        self.inward_numbers.0.lend(inward.lent, 0);
        self.inward_numbers.0.close();
        let received: Vec<Contents> = inward.received.drain(..).collect();
        received.into_iter().for_each(|contents| self.release([contents]));
    }

    fn lend(&mut self, inward: &mut Inward) {
        let lent = inward.stream.lent();
        self.inward_numbers.0.lend(inward.lent, lent);
        inward.lent = lent;
    }

    /// Gives the stream the messages that it has room for.
    fn feed_inward(&mut self, inward: &mut Inward) {
        while inward.stream.can_send()
            && let Some(contents) = inward.received.pop_front()
        {
            self.grant(inward.call, &mut inward.flow, contents.bytes);
            match self.taken(contents, inward.bytes) {
                Ok(message) => inward.stream.send(message),
                Err(status) => self.fail_inward(inward, &status),
            }
        }
        if inward.received.is_empty() && inward.is_closed {
            inward.stream.close();
        }
    }

    /// Passes what the handler has said to the service, as far as there is room.
    fn pass_inward(&mut self, inward: &mut Inward) {
        while let Some(event) = inward.blocked.take().or_else(|| inward.stream.poll_event()) {
            if inward.is_ended {
                continue;
            }
            if matches!(event, CallerEvent::Message(_)) && !inward.flow.credit.may_send() {
                // Until a grant.
                inward.blocked = Some(event);
                return;
            }
            match self.pass_said(inward, event) {
                Ok(()) => {}
                Err(event) => {
                    inward.blocked = Some(event);
                    self.on.is_any_blocked = true;
                    return;
                }
            }
        }
    }

    /// Passes an event on, or returns it if there is no room now.
    fn pass_said(
        &mut self,
        inward: &mut Inward,
        event: CallerEvent<Vec<u8>>,
    ) -> Result<(), CallerEvent<Vec<u8>>> {
        let response = inward.bytes.map(|requests| Meant { is_response: true, ..requests });
        let event = match event {
            CallerEvent::Message(message) => match as_image(&self.services, message, response) {
                Ok(message) => CallerEvent::Message(message),
                Err(status) => {
                    self.fail_inward(inward, &status);
                    return Ok(());
                }
            },
            event => event,
        };
        let Some(link) = &mut self.on.link else { return Ok(()) };
        if link.is_backed_up() {
            return Err(event);
        }
        let call = inward.call;
        let placed = match &event {
            CallerEvent::Head(metadata) => link.put_tail(&tail_of_metadata(metadata)),
            CallerEvent::Message(message) => link.put_image(&message.body),
            CallerEvent::End(status) => link.put_tail(&tail_of(status)),
        };
        let placed = match (placed, &event) {
            (Err(NoRoom::Now), _) => return Err(event),
            // Without room for its text, the status is said without.
            (Err(NoRoom::Ever), CallerEvent::End(_)) => Contents::NONE,
            (Err(never), _) => {
                self.fail_inward(inward, &too_long(never));
                return Ok(());
            }
            (Ok(placed), _) => placed,
        };
        if let CallerEvent::Message(_) = &event {
            inward.flow.credit.spend(placed.bytes);
        }
        link.push(match event {
            CallerEvent::Head(_) => Descriptor::Head { call, metadata: placed },
            CallerEvent::Message(_) => Descriptor::Message { call, message: placed },
            CallerEvent::End(status) => {
                inward.is_ended = true;
                let (status, message) = (status.code() as u8, Contents::NONE);
                let (has_not_run, metadata) = (false, placed);
                Descriptor::End { call, status, has_not_run, message, metadata }
            }
        });
        Ok(())
    }

    /// Ends the stream at both ends.
    fn fail_inward(&mut self, inward: &mut Inward, status: &Status) {
        self.end(inward.call, status, false);
        inward.is_ended = true;
        inward.stream.reset(status.clone());
    }

    /// The service has a message for the stream.
    pub(super) fn receive_inward<S>(
        &mut self,
        state: &mut S,
        cx: &mut Context<S>,
        call: CallNumber,
        message: Contents,
    ) -> Result<(), LinkError> {
        match self.on.inward.get_mut(&call.get()) {
            Some(inward) => inward.received.push_back(message),
            None => self.release([message]),
        }
        self.advance_inward(state, cx, call.get());
        Ok(())
    }

    /// The service takes more of the stream.
    pub(super) fn grant_inward<S>(
        &mut self,
        state: &mut S,
        cx: &mut Context<S>,
        call: CallNumber,
        bytes: u64,
    ) {
        if let Some(inward) = self.on.inward.get_mut(&call.get()) {
            inward.flow.credit.add(bytes);
            self.advance_inward(state, cx, call.get());
        }
    }

    /// The caller has no more messages.
    pub(super) fn on_close<S>(&mut self, state: &mut S, cx: &mut Context<S>, call: CallNumber) {
        if let Some(inward) = self.on.inward.get_mut(&call.get()) {
            inward.is_closed = true;
            self.advance_inward(state, cx, call.get());
        }
    }

    /// The caller gives the stream up.
    pub(super) fn cancel_inward<S>(
        &mut self,
        state: &mut S,
        cx: &mut Context<S>,
        call: CallNumber,
    ) {
        let Some(inward) = self.on.inward.get_mut(&call.get()) else { return };
        inward.is_ended = true;
        inward.blocked = None;
        inward.stream.reset(Status::cancelled("the caller has given the call up"));
        abandon_exchanges(cx, inward);
        let received: Vec<Contents> = inward.received.drain(..).collect();
        received.into_iter().for_each(|contents| self.release([contents]));
        self.advance_inward(state, cx, call.get());
    }

    /// The loop has answered an exchange.
    pub(super) fn answer_inward<S>(
        &mut self,
        state: &mut S,
        cx: &mut Context<S>,
        number: u64,
        answer: ExternalAnswer,
    ) {
        let (id, at) = (exchange_call(number).get(), place_of(segment_of(number)));
        let Some(inward) = self.on.inward.get_mut(&id) else {
            if let ExternalAnswer::Response(response) = answer {
                cx.free(response);
            }
            return;
        };
        inward.exchanges[at] = None;
        let failed = match answer {
            ExternalAnswer::Rejected(code) => Some(failure_of(code).status()),
            ExternalAnswer::Response(response) => {
                let parsed = ServerSegment::parse(&response, TAIL_BYTES_MAX);
                let segment = parsed.map(|segment| segment.map(|range| response[range].to_vec()));
                cx.free(response);
                match segment {
                    Ok(segment) if segment.answers(at) => {
                        inward.stream.handle_answer(segment).err().map(Status::from)
                    }
                    Ok(_) => Some(petasos_call::Malformed::Number.into()),
                    Err(error) => Some(error.into()),
                }
            }
        };
        if let Some(status) = failed {
            abandon_exchanges(cx, inward);
            inward.stream.handle_failure(status, true);
        }
        self.advance_inward(state, cx, id);
    }

    /// The calls of the streams that this process serves.
    pub(super) fn inward_calls(&self) -> Vec<CallNumber> {
        self.on.inward.values().map(|inward| inward.call).collect()
    }

    /// Goes on with the streams that wait for room.
    pub(super) fn advance_blocked_inward<S>(&mut self, state: &mut S, cx: &mut Context<S>) {
        let blocked = self.on.inward.iter().filter(|(_, inward)| inward.blocked.is_some());
        for id in blocked.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.advance_inward(state, cx, id);
        }
    }
}

fn place_of(segment: u16) -> usize {
    usize::from(segment % WIDTH_MAX)
}

fn deliver_exchange<S>(
    state: &mut S,
    cx: &mut Context<S>,
    inward: &mut Inward,
    segment: &CallerSegment<Vec<u8>>,
    is_second: bool,
) {
    let mut frame = vec![0; segment.bytes()];
    segment.write(&mut frame, |body, out| out.copy_from_slice(body));
    let number = exchange_number(inward.call, segment.number, is_second);
    let payload = Payload::Frame(&frame);
    inward.exchanges[place_of(segment.number)] =
        Context::deliver_external(state, cx, number, inward.method, payload);
}

fn abandon_exchanges<S>(cx: &mut Context<S>, inward: &mut Inward) {
    for key in inward.exchanges.iter_mut().filter_map(Option::take) {
        cx.abandon_external(key);
    }
}
