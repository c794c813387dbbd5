//! Sessions of one slot, for pairs at a worker (`docs/spec/route.md`, RT12, RT16, RT17).
//!
//! The caller passes on packets of the pair's request only
//! ([`TakenRequests::find`](crate::taken::TakenRequests::find)).

use petasos_wire::{Packet, REQUEST_NUMBERS, RejectCode};

use super::{Phase, ServerSession, ServerTransmit, Slot};
use crate::SessionParams;

impl<B: Default> ServerSession<B> {
    /// The session of a claim, whose first packet this is: the request is still to come.
    ///
    /// # Panics
    /// If the parameters have several slots.
    pub fn of_claim(params: SessionParams, first: &Packet<'_>) -> Self {
        assert_eq!(params.slots, 1, "a pair is one request");
        let before = (first.request() + REQUEST_NUMBERS - 1) % REQUEST_NUMBERS;
        // What is rejected before anything has come answers the first packet.
        let slot = Slot { echo: first.transmission(), ..Slot::new(before) };
        ServerSession { slots: Box::new([slot]), ..ServerSession::new(params) }
    }

    /// The session of a whole request, whose first packet this is: it runs.
    ///
    /// # Panics
    /// If the parameters have several slots.
    pub fn of_whole(params: SessionParams, first: &Packet<'_>, marked: bool) -> Self {
        let mut session = ServerSession::of_claim(params, first);
        let slot = &mut session.slots[0];
        slot.renew(*first, marked);
        slot.phase = Phase::Running;
        session.stats.requests += 1;
        session
    }
}

impl<B> ServerSession<B> {
    /// Rejects the request of a claim, as if it had come: it will not run (RT17). `None` if it was
    /// answered or cancelled.
    pub fn reject_pair(&mut self, request: u64, code: RejectCode) -> Option<ServerTransmit> {
        let slot = &mut self.slots[0];
        let next = (slot.request + 1) % REQUEST_NUMBERS;
        if self.slot_mask == 0 && slot.phase == Phase::Idle && next == request {
            slot.request = request;
            slot.phase = Phase::Rejected(code);
            return Some(self.reject_packet(0, code));
        }
        self.reject(request, code)
    }
}
