//! Passes items of this host's applications to the transport, and answers to their calls back to
//! them.

use std::sync::Arc;

use petasos_base::Time;
use petasos_call::{Metadata, Status};
use petasos_engine::{Application as Number, CallId, Direction, Finished, ItemKind, Submission};
use petasos_message::{DecodeError, DecodeLimits, Input, NativeMsg, Types};
use petasos_schema::MessageId;

use crate::application::{Body, Memory};
use crate::beyond::{
    Encoded, Entry, Outgoing, Queued, Remote, RemoteEnd, RemoteEvent, RemoteItem, RemoteLimits,
    RemoteOutcome, far,
};
use crate::hub::Hub;
use crate::known::Known;
use crate::remote_calls::RemoteCall;
use crate::stats::Way;

impl<M: Memory> Hub<M> {
    /// From now on there is a transport: calls may leave this host and come in.
    pub fn allow_remote(&mut self, limits: RemoteLimits) {
        self.remote.get_or_insert_with(|| Remote::new(limits));
    }

    /// What the transport is to do next.
    pub fn poll_remote(&mut self) -> Option<RemoteEvent> {
        let remote = self.remote.as_mut()?;
        loop {
            match remote.queue.pop_front()? {
                Queued::Cancel(call) => return Some(RemoteEvent::Cancel(call)),
                Queued::Room(call) => return Some(RemoteEvent::Room(call)),
                Queued::Ready(call) if remote.calls.get(call).is_some() => {
                    return Some(RemoteEvent::Ready(call));
                }
                Queued::Begin(call) => {
                    let Some(entry) = remote.calls.get_mut(call) else { continue };
                    let begin = entry.begin.take().expect("it was queued once");
                    let bytes = begin.message.as_ref().map_or(0, |message| message.image().len());
                    entry.bytes -= bytes;
                    entry.carried_bytes = bytes;
                    if !entry.items.is_empty() {
                        entry.is_told = true;
                        remote.queue.push_front(Queued::Ready(call));
                    }
                    let application = entry.application;
                    if let Some(application) = self.application(application) {
                        application.beyond.remove(bytes);
                        application.carried_bytes += bytes;
                    }
                    return Some(RemoteEvent::Begin(begin));
                }
                // It is done already.
                Queued::Ready(_) => {}
            }
        }
    }

    /// Takes the next thing that the end at this host has said, if there is one.
    pub fn next_remote_item(&mut self, call: RemoteCall) -> Option<RemoteItem> {
        let remote = self.remote.as_mut()?;
        let entry = remote.calls.get_mut(call).filter(|entry| entry.begin.is_none())?;
        let Some(item) = entry.items.pop_front() else {
            entry.is_told = false;
            return None;
        };
        let (application, id, bytes) = (entry.application, entry.id, item.bytes());
        entry.bytes -= bytes;
        if matches!(item, RemoteItem::End(_)) {
            remote.remove(call);
        }
        if let Some(application) = self.application(application) {
            application.beyond.remove(bytes);
            if matches!(item, RemoteItem::Message(_)) {
                application.note_taken(id);
            }
        }
        Some(item)
    }

    /// The callee has sent initial metadata of a stream.
    pub fn remote_head(&mut self, call: RemoteCall, metadata: Metadata, now: Time) {
        if self.remote_entry(call).is_some_and(|entry| entry.is_outgoing) {
            let head = Submission::new(ItemKind::Head, Direction::Inbound, 0);
            self.hand_in(call, Submission { metadata, ..head }, None, now);
        }
    }

    /// The other end has sent a message of a stream, in protobuf's encoding. One that cannot be
    /// read ends the call.
    pub fn remote_message(&mut self, call: RemoteCall, bytes: &[u8], now: Time) {
        let Some(entry) = self.remote_entry(call) else { return };
        let (is_outgoing, near) = (entry.is_outgoing, (entry.application, entry.id));
        match self.decoded(near, !is_outgoing, Encoded::Protobuf(bytes)) {
            Ok(body) => {
                let bytes = body.image().len() as u32;
                let item = Submission::new(ItemKind::Message, Direction::Inbound, bytes);
                self.hand_in(call, item, Some(body), now);
            }
            // The caller is told, and the callee's end is told by a cancel.
            Err(status) => self.end_near(near, status, now),
        }
    }

    /// A call that an application of this host has made is over.
    pub fn remote_end(&mut self, call: RemoteCall, outcome: RemoteOutcome<'_>, now: Time) {
        let Some(entry) = self.remote_entry(call).filter(|entry| entry.is_outgoing) else { return };
        let near = (entry.application, entry.id);
        let RemoteOutcome { result, has_not_run, metadata, trailers } = outcome;
        // Others bound what they send; a response comes whether or not its caller takes any.
        let is_full = !self.application(near.0).is_none_or(|known| known.holds_less());
        let response = match result {
            Ok(Some(message)) if is_full && !matches!(message, Encoded::Protobuf([])) => {
                let why = "the receiver does not take its messages";
                Err((Status::resource_exhausted(why), false))
            }
            Ok(message) => self.response(near, message).map_err(|status| (status, false)),
            Err(status) => Err((status, has_not_run)),
        };
        let (body, status, has_not_run) = match response {
            Ok(body) if trailers.is_empty() => (body, None, false),
            Ok(body) => (body, Some(Status::ok().with_metadata(trailers)), false),
            Err((status, has_not_run)) => (None, Some(status), has_not_run),
        };
        let bytes = body.as_ref().map_or(0, |body| body.image().len() as u32);
        let end = Submission::new(ItemKind::End, Direction::Inbound, bytes);
        let item = Submission { metadata, status, has_not_run, ..end };
        self.hand_in(call, item, body, now);
        self.forget_remote(call);
    }

    /// The transport has failed: all calls end. Those that were ours have not run.
    pub fn fail_remote(&mut self, status: &Status, now: Time) {
        let Some(remote) = &mut self.remote else { return };
        // Who waits for room is told in any case.
        remote.queue.retain(|queued| matches!(queued, Queued::Room(_)));
        let mut calls: Vec<RemoteCall> = remote.calls.iter().map(|(call, _)| call).collect();
        calls.sort_unstable();
        for call in calls {
            let entry = self.remote_entry(call).expect("it was just listed");
            if entry.is_outgoing {
                let has_not_run = entry.begin.is_some();
                let (metadata, trailers) = Default::default();
                let result = Err(status.clone());
                let outcome = RemoteOutcome { result, has_not_run, metadata, trailers };
                self.remote_end(call, outcome, now);
            } else {
                self.remote_cancel(call, now);
            }
        }
    }

    /// The target of a call, if there is a transport and nobody of this host serves it.
    pub(crate) fn target_beyond(&self, number: Number, id: CallId) -> Option<Arc<str>> {
        self.remote.as_ref()?;
        let caller = self.applications.get(&number.0)?;
        let target = &caller.targets.get(caller.known(id)?.target as usize)?.name;
        self.host.server(target).is_none().then(|| target.clone())
    }

    /// Begins a call that is for the transport. It is ours until the transport has taken it.
    ///
    /// # Errors
    /// Too many are under way, or with requests that are too long together.
    pub(crate) fn connect_beyond(
        &mut self,
        (number, id): (Number, CallId),
        target: Arc<str>,
    ) -> Result<(), Status> {
        self.remote.as_ref().expect("there is a transport").check_room()?;
        let caller = self.application(number).expect("it calls");
        if caller.carried_bytes >= caller.limits.held_bytes_max {
            let why = "the application's requests that are with other hosts are too long";
            return Err(Status::resource_exhausted(why));
        }
        let is_idempotent = caller.datapath.call(id).is_some_and(|call| call.is_idempotent);
        let (caller_name, is_proved) = (caller.name.clone(), caller.is_proved);
        let known = caller.known(id).expect("its request is there");
        let method = known.method.method;
        let binding = caller.bindings[usize::from(known.method.binding)].clone();
        let begin = |call| {
            Some(Box::new(Outgoing {
                call,
                target,
                binding,
                method,
                message: None,
                metadata: Metadata::new(),
                deadline: Time::NEVER,
                is_idempotent,
                caller: caller_name,
                is_proved,
            }))
        };
        let remote = self.remote.as_mut().expect("there is a transport");
        let call = remote.insert((number, id), begin);
        let caller = self.application(number).expect("it calls");
        caller.connected(id, far(call), Way::ToRemote);
        Ok(())
    }

    /// Hands an item of an application on to the transport. Says whether its call is not done.
    pub(crate) fn hand_out(
        &mut self,
        (number, far): (Number, CallId),
        item: Finished,
        body: Body,
    ) -> bool {
        let call = RemoteCall::from_number(far.to_number());
        let remote = self.remote.as_mut().expect("there is a transport");
        if remote.calls.get(call).is_none() {
            return false;
        }
        let Finished { kind, metadata, status, has_not_run, deadline, .. } = item;
        let bytes = match kind {
            ItemKind::Request => remote.queue_begin(call, (body, metadata, deadline)),
            ItemKind::Cancel => {
                let entry = remote.cancel(call);
                self.release_remote(entry);
                return true;
            }
            ItemKind::Message => {
                body.map_or(0, |body| remote.push(call, RemoteItem::Message(body)))
            }
            ItemKind::Close => remote.push(call, RemoteItem::Close),
            ItemKind::Head => remote.push(call, RemoteItem::Head(metadata)),
            ItemKind::End => {
                let end = RemoteEnd { status, has_not_run, message: body, metadata };
                remote.push(call, RemoteItem::End(end))
            }
        };
        if let Some(application) = self.application(number) {
            application.beyond.add(bytes);
        }
        true
    }

    /// The application at this host's end of a call has gone.
    pub(crate) fn remote_left(&mut self, far: CallId) {
        let call = RemoteCall::from_number(far.to_number());
        let Some(remote) = &mut self.remote else { return };
        match remote.calls.get(call).map(|entry| entry.is_outgoing) {
            Some(true) => drop(remote.cancel(call)),
            Some(false) => {
                remote.drop_waiting(call);
                // What the transport has for it is dropped.
                remote.tell_room(call);
                self.push_end(call, Status::unavailable("the server has gone"));
            }
            None => {}
        }
    }

    pub(super) fn remote_entry(&mut self, call: RemoteCall) -> Option<&mut Entry> {
        self.remote.as_mut()?.calls.get_mut(call)
    }

    /// A call is done: what waits of it waits no more.
    pub(super) fn forget_remote(&mut self, call: RemoteCall) {
        let entry = self.remote.as_mut().and_then(|remote| remote.remove(call));
        self.release_remote(entry);
    }

    /// Puts what came from the other end into the datapath of the end at this host.
    pub(super) fn hand_in(&mut self, call: RemoteCall, item: Submission, body: Body, now: Time) {
        let Some(entry) = self.remote_entry(call) else { return };
        let (number, id) = (entry.application, entry.id);
        let Some(application) = self.application(number) else { return };
        // A call that is over at this end needs nothing more.
        let _ = application.submit(id, item, body, now);
        application.settle(id);
    }

    /// A message from another host: a request, or a response.
    pub(super) fn decoded(
        &mut self,
        (number, id): (Number, CallId),
        is_request: bool,
        encoded: Encoded<'_>,
    ) -> Result<NativeMsg, Status> {
        let gone = || Status::unavailable("the application has gone");
        let application = self.application(number).ok_or_else(gone)?;
        let bytes_max = application.limits.message_bytes_max;
        let known = application.known(id).ok_or_else(gone)?;
        let method = application.method(known.method);
        let message = if is_request { method.request } else { method.response };
        decode(application.types(known.method), message, encoded, bytes_max)
    }

    /// The response of a call that has succeeded; none of a stream.
    fn response(
        &mut self,
        near: (Number, CallId),
        message: Option<Encoded<'_>>,
    ) -> Result<Body, Status> {
        let known = self.application(near.0).and_then(|application| application.known(near.1));
        match known.is_some_and(Known::is_stream) {
            true => Ok(None),
            false => {
                let message = message.unwrap_or(Encoded::Protobuf(&[]));
                self.decoded(near, false, message).map(Some)
            }
        }
    }

    /// Ends a call in the datapath of its end at this host.
    fn end_near(&mut self, (number, id): (Number, CallId), status: Status, now: Time) {
        if let Some(application) = self.application(number) {
            application.datapath.end(id, status, now);
        }
    }

    /// What was held of a call that is done is not held any more.
    fn release_remote(&mut self, entry: Option<Entry>) {
        let Some(Entry { application, bytes, carried_bytes, .. }) = entry else { return };
        if let Some(application) = self.application(application) {
            application.beyond.remove(bytes);
            application.carried_bytes -= carried_bytes;
        }
    }
}

/// A message of another host, of at most `bytes_max` as an image.
pub(super) fn decode(
    types: &Arc<Types>,
    message: MessageId,
    encoded: Encoded<'_>,
    bytes_max: usize,
) -> Result<NativeMsg, Status> {
    let decoded = match encoded {
        Encoded::Native(_, range) if range.len() > bytes_max => Err(DecodeError::TooLarge),
        Encoded::Native(buf, range) => NativeMsg::received_in(types, message, buf, range),
        Encoded::Protobuf(bytes) => {
            let limits = DecodeLimits::for_input(bytes.len());
            NativeMsg::from_protobuf(types, message, Input::Borrowed(bytes), &limits, bytes_max)
        }
    };
    decoded.map_err(|error| match error {
        DecodeError::TooLarge => Status::resource_exhausted("the message is too large"),
        error => Status::internal(format!("the message cannot be read: {error}")),
    })
}
