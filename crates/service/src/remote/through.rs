//! Calls that only pass this hub, between the transport and another hub of the host.
//!
//! Such a call has two halves, each a call that one carrier knows: what comes in at one half goes
//! out at the other. No policy sees it here: those of the application have seen it at its hub, or
//! will.

use petasos_base::Time;
use petasos_call::{Metadata, Status};
use petasos_engine::{CallId, ItemKind, Submission};
use petasos_message::NativeMsg;

use super::handing::decode;
use crate::BoundMethod;
use crate::application::{Body, Memory};
use crate::beyond::{
    BEYOND, Encoded, Entry, Outgoing, Remote, RemoteCaller, RemoteEnd, RemoteItem, Through, ToHub,
};
use crate::carrier::Carrier;
use crate::host::Export;
use crate::hub::Hub;
use crate::remote_calls::RemoteCall;

/// So many bytes of a stream wait for a carrier before no more are taken from the other one.
const WAITING_BYTES_MAX: usize = 64 << 10;

impl Through {
    /// The method, by the schema by which messages are read here.
    pub(super) fn method(&self) -> &BoundMethod {
        &self.binding.methods[usize::from(self.method)]
    }

    /// A message that has come in at this half.
    pub(super) fn decoded(
        &self,
        is_request: bool,
        encoded: Encoded<'_>,
    ) -> Result<NativeMsg, Status> {
        let method = self.method();
        let message = if is_request { method.request } else { method.response };
        decode(&self.binding.types, message, encoded, self.message_bytes_max)
    }

    /// The call, to be begun again.
    pub(super) fn again(&self) -> Option<Outgoing> {
        self.again.as_ref().map(|again| copy(again))
    }
}

/// A call without its message and its metadata.
fn copy(of: &Outgoing) -> Outgoing {
    Outgoing {
        call: of.call,
        target: of.target.clone(),
        binding: of.binding.clone(),
        method: of.method,
        message: None,
        metadata: Metadata::new(),
        deadline: of.deadline,
        is_idempotent: of.is_idempotent,
        caller: of.caller.clone(),
        is_proved: of.is_proved,
        is_sealed: of.is_sealed,
        crossing: of.crossing.clone(),
    }
}

impl<M: Memory> Hub<M> {
    /// A call from another host is for an application of another hub.
    pub(super) fn begin_inward(
        &mut self,
        (export, method): (&Export, u16),
        caller: RemoteCaller,
        (message, metadata, deadline): (Option<Encoded<'_>>, Metadata, Time),
    ) -> Result<RemoteCall, Status> {
        let Export { server, binding, message_bytes_max, .. } = export;
        let bound = &binding.methods[usize::from(method)];
        let read = |encoded| decode(&binding.types, bound.request, encoded, *message_bytes_max);
        let message = message.map(read).transpose()?;
        let (server, partner) = (Some(server.application), caller.peer.0);
        let (is_of_host, message_bytes_max) = (false, *message_bytes_max);
        let hub = export.server.hub;
        let to = ToHub { hub, server, caller, partner, is_of_host, message_bytes_max };
        let outgoing = Outgoing {
            call: RemoteCall::from_number(0),
            target: binding.service.clone(),
            binding: binding.clone(),
            method,
            message,
            metadata,
            deadline,
            is_idempotent: bound.is_idempotent,
            caller: "".into(),
            is_proved: false,
            is_sealed: false,
            crossing: Some(Box::new(to)),
        };
        let carriers = [Carrier::Transport, Carrier::Hub(hub)];
        let payer = export.server.application.0;
        self.begin_through(carriers, outgoing, (message_bytes_max, payer))
    }

    /// A call from another hub is for another host.
    pub(crate) fn begin_outward(
        &mut self,
        from: crate::HubId,
        mut outgoing: Outgoing,
    ) -> Result<RemoteCall, Status> {
        let to = outgoing.crossing.take().expect("a call from another hub says so");
        if self.host.transport() != Some(self.id) {
            return Err(Status::unavailable("the service calls no other hosts"));
        }
        let carriers = [Carrier::Hub(from), Carrier::Transport];
        self.begin_through(carriers, outgoing, (to.message_bytes_max, to.partner))
    }

    /// Begins both halves. Gives the name of the one that has come in.
    pub(super) fn begin_through(
        &mut self,
        [from, to]: [Carrier; 2],
        mut outgoing: Outgoing,
        (message_bytes_max, payer): (usize, u32),
    ) -> Result<RemoteCall, Status> {
        let remote = self.remote.as_mut().expect("a carrier has brought it");
        remote.check_room()?;
        let nobody = (BEYOND, CallId::from_number(0));
        let near = remote.insert(nobody, from, |_| None);
        let (message, metadata) = (outgoing.message.take(), std::mem::take(&mut outgoing.metadata));
        let (binding, method, deadline) =
            (outgoing.binding.clone(), outgoing.method, outgoing.deadline);
        let again = (to == Carrier::Transport).then(|| Box::new(copy(&outgoing)));
        let begin = |call| Some(Box::new(Outgoing { call, ..outgoing }));
        let far = remote.insert(nobody, to, begin);
        let half = |other, again| {
            let binding = binding.clone();
            Some(Box::new(Through { other, binding, method, message_bytes_max, payer, again }))
        };
        remote.calls.get_mut(near).expect("it was just put there").through = half(far, None);
        remote.calls.get_mut(far).expect("it was just put there").through = half(near, again);
        remote.queue_begin(far, (message, metadata, deadline));
        Ok(near)
    }

    /// Has what came in at one half go out at the `other`.
    pub(super) fn hand_through(&mut self, other: RemoteCall, item: Submission, body: Body) {
        let Some(remote) = &mut self.remote else { return };
        let item = match item.kind {
            ItemKind::Message => match body {
                Some(message) => RemoteItem::Message(message),
                None => return,
            },
            ItemKind::Close => RemoteItem::Close,
            ItemKind::Head => RemoteItem::Head(item.metadata),
            ItemKind::End => RemoteItem::End(RemoteEnd {
                status: item.status,
                has_not_run: item.has_not_run,
                message: body,
                metadata: item.metadata,
            }),
            ItemKind::Cancel => {
                remote.cancel(other);
                return;
            }
            ItemKind::Request => unreachable!("both halves have begun"),
        };
        remote.push(other, item);
    }

    /// Ends a call of which something wrong came in at one half: its caller is told, and its callee
    /// is told by a cancel.
    pub(super) fn end_through(&mut self, call: RemoteCall, status: Status) {
        let Some(entry) = self.remote_entry(call) else { return };
        let Some(through) = &entry.through else { return };
        let (other, is_outgoing) = (through.other, entry.is_outgoing);
        let (caller, callee) = if is_outgoing { (other, call) } else { (call, other) };
        let Some(remote) = &mut self.remote else { return };
        remote.cancel(callee);
        let _dropped = remote.drop_waiting(caller);
        self.push_end(caller, status);
    }
}

impl Remote {
    /// Whether the other half of a call takes more of it, and whose it is.
    pub(super) fn has_room_through(&self, entry: &Entry) -> Option<(bool, u32)> {
        let through = entry.through.as_ref()?;
        let takes = |other: &Entry| other.items.is_empty() || other.bytes < WAITING_BYTES_MAX;
        Some((self.calls.get(through.other).is_none_or(takes), through.payer))
    }
}
