//! Requests that come back from the transport.

use petasos_call::Metadata;
use petasos_message::NativeMsg;

use crate::application::Memory;
use crate::beyond::Outgoing;
use crate::hub::Hub;
use crate::remote_calls::RemoteCall;

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
        let (number, id) = (entry.application, entry.id);
        let caller = self.application(number)?;
        let known = caller.known(id)?;
        let began = caller.datapath.call(id)?;
        let request = caller.method(known.method).request;
        let message = NativeMsg::received(caller.types(known.method), request, image);
        debug_assert!(message.is_ok(), "the service has made the image");
        Some(Box::new(Outgoing {
            call,
            target: caller.targets.get(known.target as usize)?.name.clone(),
            binding: caller.bindings[usize::from(known.method.binding)].clone(),
            method: known.method.method,
            message: Some(message.ok()?),
            metadata,
            deadline: began.deadline,
            is_idempotent: began.is_idempotent,
            caller: caller.name.clone(),
            is_proved: caller.is_proved,
        }))
    }
}
