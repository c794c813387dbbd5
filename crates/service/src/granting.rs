//! Grants credit to streams (D8), when an application receives messages and when it grants credit.

use petasos_abi::Descriptor;
use petasos_base::Time;
use petasos_call::Status;
use petasos_engine::{Application as Number, AsideLoad, CallId};

use crate::application::{Application, Memory};
use crate::beyond::BEYOND;
use crate::hub::Hub;
use crate::remote_calls::RemoteCall;

impl<M: Memory> Application<M> {
    /// The application was given a message of a call.
    pub(crate) fn note_given(&mut self, id: CallId, bytes: u32) {
        let Some(known) = self.known_mut(id) else { return };
        if let Some(flow) = &mut known.flow {
            flow.ours.spend(bytes);
        }
        let far = known.far;
        self.given.extend(far);
    }

    /// The application takes more of a stream.
    pub(crate) fn handle_grant(&mut self, id: CallId, bytes: u64) {
        let flow = self.known_mut(id).and_then(|known| known.flow.as_mut());
        let Some(flow) = flow else { return };
        flow.ours.add(bytes);
        if flow.ours.may_send() {
            self.datapath.resume(id);
        }
    }

    /// What waits in streams that the application does not read takes half of its quota at most.
    /// Beyond that, the one ends of which most waits: other calls go on.
    pub(crate) fn end_unread(&mut self, now: Time) {
        while self.has_much_unread()
            && let Some(call) = self.datapath.fullest_aside()
        {
            let why = "the stream is not read, and the application's quota is used up";
            self.datapath.end(call, Status::resource_exhausted(why), now);
            self.free_void();
        }
    }

    #[inline]
    fn has_much_unread(&self) -> bool {
        let AsideLoad { items, bytes } = self.datapath.aside_load();
        items > self.limits.items_max / 2 || bytes > self.limits.held_bytes_max as u64 / 2
    }

    /// The other end of a call has taken a message of the application's.
    pub(crate) fn note_taken(&mut self, id: CallId) {
        let Some(known) = self.known_mut(id) else { return };
        let (call, flow) = (known.number, known.flow.as_mut());
        if let Some(bytes) = flow.and_then(|flow| flow.take()) {
            self.descriptors.push_back(Descriptor::Grant { call, bytes });
        }
    }
}

impl<M: Memory> Hub<M> {
    /// Tells those whose messages an application was given in this turn.
    pub(crate) fn note_given(&mut self, number: Number) {
        let Some(application) = self.application(number) else { return };
        let mut given = std::mem::take(&mut application.given);
        for (far, call) in given.drain(..) {
            if far == BEYOND {
                self.note_room(RemoteCall::from_number(call.to_number()));
            } else if let Some(other) = self.application(far) {
                other.note_taken(call);
            }
        }
        if let Some(application) = self.application(number) {
            application.given = given;
        }
    }
}
