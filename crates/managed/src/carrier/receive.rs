//! Handles descriptors from the service.

use petasos_abi::{CallNumber, Contents, Descriptor, Request};
use petasos_attach::Changed;
use petasos_attach::ask::NotDone;
use petasos_base::Time;
use petasos_call::stream::Message;
use petasos_call::{Code, Status};
use petasos_endpoint::Context;

use super::messages::message_of;
use super::{Begun, Carrier, HEAR_EVERY, RETRY, name_of};
use crate::asks::Asked;
use crate::convert::Meant;
use crate::flow::Flow;
use crate::link::LinkError;
use crate::services::Served;

/// As many descriptors are handled in a turn.
const BATCH: usize = 64;

/// How a call ends, as the service says.
pub(super) struct End {
    pub(super) code: Code,
    pub(super) message: Contents,
    pub(super) metadata: Contents,
}

impl Carrier {
    /// Attaches if need be, and handles what the service has said. Returns whether it has said
    /// anything.
    pub fn receive<S>(&mut self, state: &mut S, cx: &mut Context<S>) -> bool {
        if core::mem::take(&mut self.has_panicked) {
            self.detached(cx, "this process' end of the managed service has panicked");
            return true;
        }
        if self.on.link.is_none() {
            return self.connect(cx);
        }
        let has_said = self.receive_here(state, cx).unwrap_or_else(|error| {
            self.detached(cx, &format!("the managed service: {error}"));
            true
        });
        has_said | self.receive_other(state, cx)
    }

    /// Handles what the service has said in one attachment.
    pub(super) fn receive_here<S>(
        &mut self,
        state: &mut S,
        cx: &mut Context<S>,
    ) -> Result<bool, LinkError> {
        let heard = self.hear(cx);
        let mut popped = self.pop(state, cx);
        // What was said before the end is heard.
        while heard.is_err() && matches!(popped, Ok(true)) {
            popped = self.pop(state, cx);
        }
        heard.and_then(|heard| Ok(heard | popped?))
    }

    fn hear<S>(&mut self, cx: &mut Context<S>) -> Result<bool, LinkError> {
        if cx.now() >= self.on.serve_at
            && let Some(address) = self.address
        {
            self.on.serve_at = Time::NEVER;
            self.on.asks.add(Asked::Serve, &name_of(address));
        }
        let Some(link) = &mut self.on.link else { return Ok(false) };
        self.on.asks.send(link, &self.services, &mut self.on.bindings)?;
        let is_changing = self.on.is_succeeded || self.other.is_some();
        let awaits = self.on.asks.are_under_way() || link.awaits_memory() || is_changing;
        self.on.is_unheard = cx.now() < self.on.hear_at && !awaits;
        if self.on.is_unheard {
            return Ok(false);
        }
        self.on.hear_at = cx.now() + HEAR_EVERY;
        let (mut has_heard, mut answers) = (false, Vec::new());
        while let Some(changed) = link.hear()? {
            has_heard = true;
            match changed {
                Changed::Answered(answer) => {
                    let asked = self.on.asks.answered(link, &answer);
                    match (asked, answer.result) {
                        (Some(Asked::Recall(service)), Err(NotDone::Unknown)) => {
                            self.on.asks.send_schema(&self.services, service);
                        }
                        (asked, result) => answers.extend(asked.map(|asked| (asked, result))),
                    }
                }
                Changed::Successor => self.on.is_succeeded = true,
                Changed::Move => self.on.may_move = true,
                _ => {}
            }
        }
        for (asked, result) in answers {
            self.on_answered(cx, asked, result.map_err(|why| why.to_string()));
        }
        Ok(has_heard)
    }

    fn on_answered<S>(&mut self, cx: &mut Context<S>, asked: Asked, result: Result<u32, String>) {
        match asked {
            Asked::Recall(service) | Asked::Bind(service) => {
                let number = result.and_then(|number| {
                    u16::try_from(number).map_err(|_| "it gave a number that is none".to_owned())
                });
                let known = &self.services.list[service];
                if let Err(why) = &number
                    && known.served.is_some()
                {
                    self.refused = Some(format!("{}: {why}", known.name));
                }
                self.on.bindings.bind(service, number);
            }
            Asked::Target(id) => match result {
                Ok(number) => {
                    if self.session(id).is_some() {
                        self.on.set_target(id.place(), Some(number));
                        if self.on.begins_calls {
                            cx.establish_external(id);
                        }
                    }
                }
                Err(why) => cx.fail_external(id, &format!("the managed service refuses: {why}")),
            },
            Asked::Serve => match result {
                Ok(port) => {
                    (self.on.is_served, self.was_served) = (true, true);
                    if let Some(address) = &mut self.address
                        && let Ok(port @ 1..) = u16::try_from(port)
                    {
                        address.set_port(port);
                    }
                }
                // The address may be another's for a moment, as after a restart of the service.
                Err(_) if self.was_served => self.on.serve_at = cx.now() + RETRY,
                Err(why) => self.refused = Some(why),
            },
        }
    }

    fn pop<S>(&mut self, state: &mut S, cx: &mut Context<S>) -> Result<bool, LinkError> {
        let mut said = Descriptor::default();
        for count in 0..BATCH {
            let Some(link) = &mut self.on.link else { return Ok(true) };
            if !link.pop_into(&mut said, cx.now())? {
                return Ok(count > 0);
            }
            self.on_descriptor(state, cx, &said)?;
        }
        Ok(true)
    }

    fn on_descriptor<S>(
        &mut self,
        state: &mut S,
        cx: &mut Context<S>,
        said: &Descriptor,
    ) -> Result<(), LinkError> {
        match *said {
            Descriptor::Request(ref request) => self.on_request(state, cx, request),
            Descriptor::End { call, status, message, metadata, .. } => {
                let code = Code::ALL[usize::from(status)];
                self.on_end(state, cx, call, &End { code, message, metadata })
            }
            Descriptor::Cancel { call } => {
                self.on_cancel(state, cx, call);
                Ok(())
            }
            Descriptor::Message { call, message } => self.on_message(state, cx, call, message),
            Descriptor::Close { call } => {
                self.on_close(state, cx, call);
                Ok(())
            }
            Descriptor::Head { call, metadata } => self.on_head(state, cx, call, metadata),
            Descriptor::Grant { call, bytes } => {
                self.on_grant(state, cx, call, bytes);
                Ok(())
            }
            // It was heard already.
            Descriptor::Release(_) => Ok(()),
        }
    }

    fn on_request<S>(
        &mut self,
        state: &mut S,
        cx: &mut Context<S>,
        request: &Request,
    ) -> Result<(), LinkError> {
        let served = self.services.served(&self.on.bindings, request.binding, request.method);
        match served {
            Some(served) if served.is_stream != request.is_stream => self.refuse(request),
            Some(served) if served.is_stream => self.open_inward(state, cx, request, served),
            Some(Served { number, bytes: Some(meant), .. }) => {
                self.deliver_bytes(state, cx, request, number, meant)
            }
            Some(served) => self.deliver_unary(state, cx, request, served.number),
            None => self.refuse(request),
        }
    }

    fn refuse(&mut self, request: &Request) -> Result<(), LinkError> {
        self.release([request.message, request.metadata]);
        let status = Status::unimplemented("no such method is served here");
        self.end(request.call, &status, true);
        Ok(())
    }

    fn on_end<S>(
        &mut self,
        state: &mut S,
        cx: &mut Context<S>,
        call: CallNumber,
        end: &End,
    ) -> Result<(), LinkError> {
        match self.on.begun.remove(&call.get()) {
            Some(Begun::Unary(id, meant)) => {
                self.on.handed.remove(&id.number());
                match meant {
                    None => self.finish_unary(state, cx, id, end),
                    Some(meant) => self.finish_bytes(state, cx, id, end, meant),
                }
            }
            Some(Begun::Stream(stream)) => self.end_outward(state, cx, stream, end),
            None => {
                self.release([end.message, end.metadata]);
                Ok(())
            }
        }
    }

    fn on_cancel<S>(&mut self, state: &mut S, cx: &mut Context<S>, call: CallNumber) {
        match self.on.running.remove(&call.get()) {
            Some(key) => {
                self.on.answers.remove(&call.get());
                cx.abandon_external(key);
            }
            None => self.cancel_inward(state, cx, call),
        }
    }

    fn on_message<S>(
        &mut self,
        state: &mut S,
        cx: &mut Context<S>,
        call: CallNumber,
        message: Contents,
    ) -> Result<(), LinkError> {
        match self.on.begun.get(&call.get()) {
            Some(Begun::Stream(stream)) => self.receive_outward(state, cx, *stream, message),
            Some(Begun::Unary(..)) => {
                self.release([message]);
                Ok(())
            }
            None => self.receive_inward(state, cx, call, message),
        }
    }

    /// D8: the service takes more messages of a stream.
    fn on_grant<S>(&mut self, state: &mut S, cx: &mut Context<S>, call: CallNumber, bytes: u64) {
        match self.on.begun.get(&call.get()) {
            Some(Begun::Stream(stream)) => self.grant_outward(state, cx, *stream, bytes),
            Some(Begun::Unary(..)) => {}
            None => self.grant_inward(state, cx, call, bytes),
        }
    }

    fn on_head<S>(
        &mut self,
        state: &mut S,
        cx: &mut Context<S>,
        call: CallNumber,
        metadata: Contents,
    ) -> Result<(), LinkError> {
        match self.on.begun.get(&call.get()) {
            Some(Begun::Stream(stream)) => self.head_outward(state, cx, *stream, metadata),
            _ => {
                self.release([metadata]);
                Ok(())
            }
        }
    }

    /// Gives back what is not read.
    pub(super) fn release<const N: usize>(&mut self, contents: [Contents; N]) {
        if let Some(link) = &mut self.on.link {
            contents.into_iter().for_each(|contents| link.release(contents));
        }
    }

    /// A message of a stream from the receive heap, as protobuf if its type is `meant`.
    pub(super) fn taken(
        &mut self,
        contents: Contents,
        meant: Option<Meant>,
    ) -> Result<Message<Vec<u8>>, Status> {
        let image = self.take(contents);
        // The attachment ends for it when it is next read from.
        let image = image.map_err(|_| Status::internal("a message cannot be read"))?;
        message_of(&self.services, image, meant)
    }

    /// D8: a message of so many bytes was taken of a call with streams.
    pub(super) fn grant(&mut self, call: CallNumber, flow: &mut Flow, bytes: u32) {
        if let Some(bytes) = flow.taken.add(bytes) {
            self.push(Descriptor::Grant { call, bytes });
        }
    }

    /// Copies what lies in the receive heap, and releases it.
    pub(super) fn take(&mut self, contents: Contents) -> Result<Vec<u8>, LinkError> {
        let mut bytes = vec![0; contents.bytes as usize];
        match &mut self.on.link {
            Some(link) => link.take(contents, &mut bytes).map(|()| bytes),
            None => Ok(bytes),
        }
    }
}
