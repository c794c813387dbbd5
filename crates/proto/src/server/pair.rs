//! Sessions of one slot, for pairs at a worker (`docs/spec/route.md`, RT12, RT16, RT17).
//!
//! The caller passes on packets of the pair's request only
//! ([`TakenRequests::find`](crate::taken::TakenRequests::find)). When the pair is gone, the session
//! may be bound again, and has then allocated nothing.

use petasos_wire::{Kind, REQUEST_NUMBERS, RejectCode, Signature};

use super::{Phase, ServerSession, ServerTransmit};
use crate::SessionParams;
use crate::taken::Asker;

impl<B: Default> ServerSession<B> {
    /// A session for pairs, which is bound next.
    ///
    /// # Panics
    /// If the parameters have several slots.
    pub fn for_pairs(params: SessionParams) -> Self {
        assert_eq!(params.slots, 1, "a pair is one request");
        ServerSession::new(params)
    }
}

impl<B> ServerSession<B> {
    /// A claim was taken: its request is still to come. The slot's message stays as it is, to be
    /// used again.
    ///
    /// # Panics
    /// If the session is not for pairs.
    pub fn bind_claim(&mut self, params: SessionParams, asker: &Asker) {
        assert!(self.slot_mask == 0 && params.slots == 1, "a pair is one request");
        self.renew(params);
        let slot = &mut self.slots[0];
        // What is rejected before anything has come answers the first packet.
        (slot.echo, slot.ecn) = (asker.echo, false);
        slot.request = (asker.request + REQUEST_NUMBERS - 1) % REQUEST_NUMBERS;
        (slot.phase, slot.assembly) = (Phase::Idle, None);
    }

    /// A whole request was taken, and runs. To be called before its session is named to its client:
    /// a request of which nothing is kept needs none.
    ///
    /// # Panics
    /// If the session is not for pairs.
    pub fn bind_whole(&mut self, params: SessionParams, asker: &Asker) {
        self.bind_claim(params, asker);
        let slot = &mut self.slots[0];
        (slot.request, slot.bytes) = (asker.request, asker.message_bytes);
        slot.phase = Phase::Running;
        self.stats.requests += 1;
    }

    /// The pair is gone: nothing is owed to its client any more.
    pub fn unbind(&mut self) {
        self.acks = 0;
        let slot = &mut self.slots[0];
        (slot.phase, slot.assembly) = (Phase::Idle, None);
    }

    /// Forgets the pair before.
    fn renew(&mut self, params: SessionParams) {
        params.assert_valid();
        (self.header, self.mark) = (params.header(), params.mark());
        self.response_start = self.header.with_kind(Kind::Response).start();
        self.signature = Signature::new(Kind::Request, self.mark);
        self.short_request_bytes_max = params.payload_bytes.min(params.request_bytes_max);
        self.short_responses_below = params.short_below(params.response_bytes_max);
        self.acks = 0;
        // What it holds of the receive queue it still holds (W26): its name there is the same.
        self.params = params;
    }

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
