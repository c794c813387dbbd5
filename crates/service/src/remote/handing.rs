//! Passes items of this host's applications to the transport, and answers to their calls back to
//! them.

use std::sync::Arc;

use petasos_base::Time;
use petasos_base::sync::AtomicUsize;
use petasos_call::{Metadata, Status};
use petasos_engine::{
    Application as Number, CallId, Direction, Finished, ItemKind, Peer, Submission,
};
use petasos_message::{DecodeError, DecodeLimits, Input, NativeMsg, Types};
use petasos_schema::MessageId;

use crate::application::{Body, Memory};
use crate::beyond::{
    Encoded, Entry, Remote, RemoteCaller, RemoteEnd, RemoteEvent, RemoteItem, RemoteLimits,
    RemoteOutcome, ToHub, far,
};
use crate::carrier::{Carrier, Queued};
use crate::hub::Hub;
use crate::known::Known;
use crate::remote_calls::RemoteCall;
use crate::routes::Route;
use crate::stats::Way;
use crate::versions::retyped;

impl<M: Memory> Hub<M> {
    /// From now on there is a transport: calls may leave this host and come in, through this hub.
    pub fn allow_remote(&mut self, limits: RemoteLimits) {
        let remote = self.remote.get_or_insert_with(|| Remote::new(limits));
        remote.limits = limits;
        // Of a process that this one has taken over from.
        self.host.with_callers(|callers| remote.know_peers(callers));
        self.host.set_transport(self.id);
    }

    /// From now on calls may go to other hubs of the host.
    pub(crate) fn allow_crossing(&mut self) {
        self.remote.get_or_insert_with(|| Remote::new(RemoteLimits::default()));
    }

    /// What the transport is to do next.
    pub fn poll_remote(&mut self) -> Option<RemoteEvent> {
        self.poll_queue(0)
    }

    /// What the crossing is to do next.
    pub(crate) fn poll_crossing(&mut self) -> Option<RemoteEvent> {
        self.poll_queue(1)
    }

    fn poll_queue(&mut self, queue: usize) -> Option<RemoteEvent> {
        let remote = self.remote.as_mut()?;
        loop {
            match remote.queues[queue].pop_front()? {
                Queued::Cancel(call) => return Some(RemoteEvent::Cancel(call)),
                Queued::Room(call) => return Some(RemoteEvent::Room(call)),
                Queued::Ready(call) if remote.calls.get(call).is_some() => {
                    return Some(RemoteEvent::Ready(call));
                }
                Queued::Begin(call) => {
                    let Some(entry) = remote.calls.get_mut(call) else { continue };
                    let begin = entry.begin.take().expect("it was queued once");
                    let bytes = begin.message.as_ref().map_or(0, |message| message.image_bytes());
                    entry.bytes -= bytes;
                    entry.carried_bytes = bytes;
                    let payer = entry.through.as_deref().map(|through| through.payer);
                    if !entry.items.is_empty() {
                        entry.is_told = true;
                        remote.queues[queue].push_front(Queued::Ready(call));
                    }
                    let application = entry.application;
                    remote.passed(payer, bytes);
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
        let is_ended = matches!(item, RemoteItem::End(_));
        // The other hub says when it has taken a message. What it has not taken counts until then,
        // also if the call has ended.
        let is_crossing =
            matches!((&item, entry.carrier), (RemoteItem::Message(_), Carrier::Hub(_)));
        entry.untaken_bytes += if is_crossing { bytes } else { 0 };
        let is_kept = is_ended && entry.untaken_bytes > 0 && !entry.is_cut;
        entry.is_void |= is_kept;
        if let Some((other, payer)) = entry.through.as_ref().map(|it| (it.other, it.payer)) {
            remote.passed(Some(payer), bytes);
            remote.tell_room(other);
        }
        let mut counted = if is_crossing { 0 } else { bytes };
        if is_ended && !is_kept {
            counted += remote.remove(call).map_or(0, |entry| entry.untaken_bytes);
        }
        if let Some(application) = self.application(application) {
            application.beyond.remove(counted);
            if matches!(item, RemoteItem::Message(_)) && !is_crossing {
                application.note_taken(id);
            }
        }
        Some(item)
    }

    /// Another hub has taken so many messages of a call, with so many bytes.
    pub(crate) fn crossing_taken(&mut self, call: RemoteCall, (messages, bytes): (u32, usize)) {
        let Some(entry) = self.remote_entry(call) else { return };
        // Those of a call that was cut count no more.
        let bytes = bytes.min(entry.untaken_bytes);
        entry.untaken_bytes -= bytes;
        let (number, id) = (entry.application, entry.id);
        let Some(application) = self.application(number) else { return };
        application.beyond.remove(bytes);
        (0..messages).for_each(|_| application.note_taken(id));
    }

    /// Whether the next thing that the end at this hub has said is the call's end.
    pub(crate) fn ends_next(&mut self, call: RemoteCall) -> bool {
        let next = self.remote_entry(call).and_then(|entry| entry.items.front());
        matches!(next, Some(RemoteItem::End(_)))
    }

    /// Whether messages of a call were dropped before its end.
    pub(crate) fn is_cut(&mut self, call: RemoteCall) -> bool {
        self.remote_entry(call).is_some_and(|entry| entry.is_cut)
    }

    /// What counts the bytes of an application's answers in letters.
    pub(crate) fn in_letters(&mut self, call: RemoteCall) -> Option<Arc<AtomicUsize>> {
        let number = self.remote_entry(call)?.application;
        Some(self.application(number)?.in_letters.clone())
    }

    /// Calls that have an end beyond this hub.
    pub fn remote_calls(&self) -> usize {
        self.remote.as_ref().map_or(0, |remote| remote.calls.len())
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
        self.take_message(call, Encoded::Protobuf(bytes), now);
    }

    /// The same, in any form.
    pub(crate) fn take_message(&mut self, call: RemoteCall, encoded: Encoded<'_>, now: Time) {
        let Some(entry) = self.remote_entry(call) else { return };
        let is_outgoing = entry.is_outgoing;
        match self.decoded(call, !is_outgoing, encoded) {
            Ok(body) => {
                let bytes = body.image_bytes() as u32;
                let item = Submission::new(ItemKind::Message, Direction::Inbound, bytes);
                self.hand_in(call, item, Some(body), now);
            }
            // The caller is told, and the callee's end is told by a cancel.
            Err(status) => self.end_near(call, status, now),
        }
    }

    /// A call that an application of this host has made is over.
    pub fn remote_end(&mut self, call: RemoteCall, outcome: RemoteOutcome<'_>, now: Time) {
        let Some(entry) = self.remote_entry(call).filter(|entry| entry.is_outgoing) else { return };
        let near = entry.application;
        let RemoteOutcome { result, has_not_run, metadata, trailers } = outcome;
        // Others bound what they send; a response comes whether or not its caller takes any.
        let is_full = !self.application(near).is_none_or(|known| known.holds_less());
        let response = match result {
            Ok(Some(message)) if is_full && !matches!(message, Encoded::Protobuf([])) => {
                let why = "the receiver does not take its messages";
                Err((Status::resource_exhausted(why), false))
            }
            Ok(message) => self.response(call, message).map_err(|status| (status, false)),
            Err(status) => Err((status, has_not_run)),
        };
        let (body, status, has_not_run) = match response {
            Ok(body) if trailers.is_empty() => (body, None, false),
            Ok(body) => (body, Some(Status::ok().with_metadata(trailers)), false),
            Err((status, has_not_run)) => (None, Some(status), has_not_run),
        };
        let bytes = body.as_ref().map_or(0, |body| body.image_bytes() as u32);
        let end = Submission::new(ItemKind::End, Direction::Inbound, bytes);
        let item = Submission { metadata, status, has_not_run, ..end };
        self.hand_in(call, item, body, now);
        self.forget_remote(call);
    }

    /// The transport has failed: all calls end. Those that were ours have not run.
    pub fn fail_remote(&mut self, status: &Status, now: Time) {
        let Some(remote) = &mut self.remote else { return };
        // Who waits for room is told in any case.
        remote.queues[0].retain(|queued| matches!(queued, Queued::Room(_)));
        let its = remote.calls.iter().filter(|(_, entry)| entry.carrier == Carrier::Transport);
        let mut calls: Vec<RemoteCall> = its.map(|(call, _)| call).collect();
        calls.sort_unstable();
        for call in calls {
            let Some(entry) = self.remote_entry(call) else { continue };
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

    /// Begins a call that goes beyond this hub. It is ours until its carrier has taken it.
    ///
    /// # Errors
    /// Too many are under way, or with requests that are too long together.
    pub(crate) fn connect_beyond(
        &mut self,
        (number, id): (Number, CallId),
        route: Route,
    ) -> Result<(), Status> {
        let no_way = || Status::internal("the hub has no way to other hubs");
        let remote = self.remote.as_ref().ok_or_else(no_way)?;
        let (hub, server, way) = match route {
            Route::There(server) => (server.hub, Some(server.application), Way::ToLocal),
            Route::Beyond(hub) => (hub, None, Way::ToRemote),
            Route::Here { .. } => unreachable!("the caller has looked"),
        };
        let carrier = if hub == self.id { Carrier::Transport } else { Carrier::Hub(hub) };
        if carrier == Carrier::Transport {
            remote.check_room()?;
        }
        let caller = self.application(number).expect("it calls");
        if caller.crossing_calls >= caller.limits.items_max {
            let why = "the application has as many calls to others as it may";
            return Err(Status::resource_exhausted(why));
        }
        if caller.carried_bytes >= caller.limits.held_bytes_max {
            let why = "the application's requests that are under way are too long";
            return Err(Status::resource_exhausted(why));
        }
        let crossing = (carrier != Carrier::Transport).then(|| {
            let message_bytes_max = caller.limits.message_bytes_max;
            let (peer, identity) = (Peer(caller.policed.number.0), caller.identity());
            let caller = RemoteCaller { peer, identity, is_sealed: false };
            let (partner, is_of_host) = (number.0, true);
            Box::new(ToHub { hub, server, caller, partner, is_of_host, message_bytes_max })
        });
        let mut outgoing = caller.outgoing(id).expect("its request is there");
        outgoing.crossing = crossing;
        let begin = |call| {
            outgoing.call = call;
            Some(Box::new(outgoing))
        };
        let remote = self.remote.as_mut().expect("it was there");
        let call = remote.insert((number, id), carrier, begin);
        let caller = self.application(number).expect("it calls");
        caller.crossing_calls += usize::from(carrier != Carrier::Transport);
        caller.connected(id, far(call), way);
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
                let _dropped = remote.drop_waiting(call);
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
    pub(crate) fn forget_remote(&mut self, call: RemoteCall) {
        let entry = self.remote.as_mut().and_then(|remote| remote.remove(call));
        self.release_remote(entry);
    }

    /// Puts what came from the other end into the datapath of the end at this host.
    pub(super) fn hand_in(&mut self, call: RemoteCall, item: Submission, body: Body, now: Time) {
        let Some(entry) = self.remote_entry(call) else { return };
        let (number, id) = (entry.application, entry.id);
        if let Some(through) = &entry.through {
            let other = through.other;
            return self.hand_through(other, item, body);
        }
        let Some(application) = self.application(number) else { return };
        // A call that is over at this end needs nothing more.
        let _ = application.submit(id, item, body, now);
        application.settle(id);
    }

    /// A message from beyond this hub: a request, or a response.
    pub(super) fn decoded(
        &mut self,
        call: RemoteCall,
        is_request: bool,
        encoded: Encoded<'_>,
    ) -> Result<NativeMsg, Status> {
        let gone = || Status::unavailable("the application has gone");
        let entry = self.remote_entry(call).ok_or_else(gone)?;
        if let Some(through) = &entry.through {
            return through.decoded(is_request, encoded);
        }
        let (number, id) = (entry.application, entry.id);
        let application = self.application(number).ok_or_else(gone)?;
        let bytes_max = application.limits.message_bytes_max;
        let known = application.known(id).ok_or_else(gone)?;
        let method = application.method(known.method);
        let message = if is_request { method.request } else { method.response };
        decode(application.types(known.method), message, encoded, bytes_max)
    }

    /// The response of a call that has succeeded; none of a stream.
    fn response(&mut self, call: RemoteCall, message: Option<Encoded<'_>>) -> Result<Body, Status> {
        match self.is_stream(call) {
            true => Ok(None),
            false => {
                let message = message.unwrap_or(Encoded::Protobuf(&[]));
                self.decoded(call, false, message).map(Some)
            }
        }
    }

    fn is_stream(&mut self, call: RemoteCall) -> bool {
        let Some(entry) = self.remote_entry(call) else { return false };
        if let Some(through) = &entry.through {
            return through.method().is_stream;
        }
        let (number, id) = (entry.application, entry.id);
        let known = self.application(number).and_then(|application| application.known(id));
        known.is_some_and(Known::is_stream)
    }

    /// Ends a call, of which the other end has said something wrong, at this host.
    fn end_near(&mut self, call: RemoteCall, status: Status, now: Time) {
        let Some(entry) = self.remote_entry(call) else { return };
        let (number, id) = (entry.application, entry.id);
        if entry.through.is_some() {
            return self.end_through(call, status);
        }
        if let Some(application) = self.application(number) {
            application.datapath.end(id, status, now);
        }
    }

    /// What was held of a call that is done is not held any more.
    fn release_remote(&mut self, entry: Option<Entry>) {
        let Some(entry) = entry else { return };
        let Entry { application, bytes, untaken_bytes, carried_bytes, .. } = entry;
        let is_crossing = entry.is_outgoing && entry.carrier != Carrier::Transport;
        if let Some(application) = self.application(application) {
            application.crossing_calls -= usize::from(is_crossing);
            application.beyond.remove(bytes + untaken_bytes);
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
        Encoded::Checked(checked) => return retyped(checked, (types, message), bytes_max),
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
