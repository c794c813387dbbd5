//! Calls as their carriers are told of them.

use petasos_base::Time;
use petasos_call::Metadata;
use petasos_engine::CallId;
use petasos_message::NativeMsg;

use crate::application::{Application, Memory};
use crate::beyond::Outgoing;
use crate::hub::Hub;
use crate::remote_calls::RemoteCall;

impl<M: Memory> Application<M> {
    /// A call that it makes, without what its datapath still has: message, metadata and deadline.
    pub(super) fn outgoing(&self, id: CallId) -> Option<Outgoing> {
        let known = self.known(id)?;
        let call = self.datapath.call(id);
        Some(Outgoing {
            call: RemoteCall::from_number(0),
            target: self.targets.get(known.target as usize)?.name.clone(),
            binding: self.bindings[usize::from(known.method.binding)].clone(),
            method: known.method.method,
            message: None,
            metadata: Metadata::new(),
            deadline: Time::NEVER,
            is_idempotent: call.is_some_and(|call| call.is_idempotent),
            caller: self.name.clone(),
            is_proved: self.is_proved,
            is_sealed: call.is_some_and(|call| call.is_sealed),
            crossing: None,
        })
    }
}

impl<M: Memory> Hub<M> {
    /// A call that the transport has begun, to begin again: its request, which comes back as an
    /// image with its metadata, was not sent in the encoding that it had. None if the call is over.
    pub fn remote_returned(
        &mut self,
        call: RemoteCall,
        image: &[u8],
        metadata: Metadata,
    ) -> Option<Box<Outgoing>> {
        let entry = self.remote_entry(call).filter(|entry| entry.is_outgoing)?;
        let again = match &entry.through {
            Some(through) => through.again()?,
            None => {
                let (number, id) = (entry.application, entry.id);
                let caller = self.application(number)?;
                let deadline = caller.datapath.call(id)?.deadline;
                Outgoing { deadline, ..caller.outgoing(id)? }
            }
        };
        let types = &again.binding.types;
        let message = NativeMsg::received(types, again.method().request, image);
        debug_assert!(message.is_ok(), "the service has made the image");
        Some(Box::new(Outgoing { call, message: Some(message.ok()?), metadata, ..again }))
    }
}
