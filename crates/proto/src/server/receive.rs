//! Inputs of the server's half: packets from the client.

use petasos_wire::{CREDITS_MAX, Kind, Packet, REQUEST_NUMBERS, RejectCode, Signed};

use super::assembly::Assembly;
use super::{Phase, RequestAction, ServerSession, Slot};
use crate::params::Recovery;
use crate::slots::provide;
use crate::stats::Drop;

impl<B: Default> ServerSession<B> {
    /// The common case of [`ServerSession::handle_packet`]: a new, ordinary request of one packet.
    /// Returns the packet without its padding (W7); the caller runs the handler.
    ///
    /// Returns `None` for any other packet, and has then changed nothing.
    #[inline(always)]
    pub fn take_short<'a>(&mut self, raw: &impl Signed<'a>, marked: bool) -> Option<Packet<'a>> {
        let packet = raw.signed(self.signature)?;
        let payload = packet.payload().get(..packet.message_bytes() as usize)?;
        let index = packet.request() & self.slot_mask;
        let slots = self.slot_mask + 1;
        let slot = self.slots.get_mut(index as usize)?;
        // The first request of a slot, and a request whose number wraps, take the slow path. A slot
        // that has answered owes no acknowledgement.
        let plain = packet.request() == slot.request + slots
            && packet.packet_index() == 0
            && packet.message_bytes() <= self.short_request_bytes_max
            && slot.phase == Phase::Responded;
        if !plain {
            return None;
        }
        slot.request = packet.request();
        slot.echo = packet.transmission();
        slot.bytes = packet.message_bytes();
        slot.method = packet.method();
        slot.ecn = marked;
        slot.phase = Phase::Running;
        self.stats.requests += 1;
        Some(packet.with_payload(payload))
    }

    /// Handles a packet that a client sent to this session; `marked` says whether it met
    /// congestion.
    pub fn handle_packet(&mut self, packet: &Packet<'_>, marked: bool) -> RequestAction {
        let packet = *packet;
        if !packet.is_of(self.mark) {
            return self.drop_packet(Drop::WrongTag);
        }
        let index = self.slot_of(packet.request());
        if index as usize >= self.slots.len() {
            if packet.kind() != Kind::Request {
                return self.on_unused(packet);
            }
            provide(&mut self.slots, index, Slot::new);
        }
        if packet.is_first(Kind::Request) {
            return self.on_request(index, packet, marked);
        }
        match packet.kind() {
            Kind::Pull => self.on_pull(index, packet, marked),
            Kind::Cancel | Kind::Done => self.on_end(index, packet),
            _ => self.drop_packet(Drop::Unexpected),
        }
    }

    /// Handles a packet other than a request's, in a slot that was never used.
    #[cold]
    fn on_unused(&mut self, packet: Packet<'_>) -> RequestAction {
        self.drop_packet(match packet.kind() {
            Kind::Pull | Kind::Cancel | Kind::Done => Drop::Stale,
            _ => Drop::Unexpected,
        })
    }

    fn on_request(&mut self, index: u32, packet: Packet<'_>, marked: bool) -> RequestAction {
        let bytes = packet.message_bytes();
        let whole = bytes as usize == packet.payload().len()
            && bytes <= self.params.payload_bytes
            && bytes <= self.params.request_bytes_max
            && packet.packet_index() == 0;
        let slot = &mut self.slots[index as usize];
        let ahead = packet.request().wrapping_sub(slot.request) % REQUEST_NUMBERS;
        if !whole || ahead == 0 || ahead >= REQUEST_NUMBERS / 2 {
            return self.on_other_request(index, packet, marked, ahead);
        }
        slot.renew(packet, marked);
        slot.phase = Phase::Running;
        self.acks &= !(1 << index);
        self.stats.requests += 1;
        RequestAction::Deliver
    }

    /// Handles a request packet that is not a whole new request, or is invalid.
    fn on_other_request(
        &mut self,
        index: u32,
        packet: Packet<'_>,
        marked: bool,
        ahead: u64,
    ) -> RequestAction {
        let (bytes, part) = (packet.message_bytes(), packet.packet_index());
        let consistent = part < self.params.packets(bytes)
            && packet.payload().len() as u32 == self.params.payload_of(part, bytes);
        if !consistent {
            return self.drop_packet(Drop::Inconsistent);
        }
        if ahead >= REQUEST_NUMBERS / 2 {
            return self.drop_packet(Drop::Stale);
        }
        if ahead > 0 && part > 0 && self.params.recovery == Recovery::GoBackN {
            return self.drop_packet(Drop::Reordered);
        }
        let slot = &mut self.slots[index as usize];
        if ahead == 0 {
            (slot.echo, slot.ecn) = (packet.transmission(), marked);
            return self.on_known(index, packet);
        }
        slot.renew(packet, marked);
        self.acks &= !(1 << index);
        self.begin(index, packet)
    }

    /// Handles the first packet to arrive of a request of several packets.
    fn begin(&mut self, index: u32, packet: Packet<'_>) -> RequestAction {
        let bytes = packet.message_bytes();
        let slot = &mut self.slots[index as usize];
        if bytes > self.params.request_bytes_max {
            slot.phase = Phase::Rejected(RejectCode::TooLarge);
            return RequestAction::Reject(self.reject_packet(index, RejectCode::TooLarge));
        }
        slot.phase = Phase::Receiving;
        let packets = self.params.packets(bytes);
        let mut assembly = self.spares.take(|a| a.reset(packets), || Assembly::new(packets));
        let part = packet.packet_index();
        assembly.insert(part);
        slot.assembly = Some(assembly);
        self.acks |= 1 << index;
        RequestAction::Begin { slot: index, bytes, offset: part * self.params.payload_bytes }
    }

    /// Handles a packet of the slot's current request.
    fn on_known(&mut self, index: u32, packet: Packet<'_>) -> RequestAction {
        let slot = &mut self.slots[index as usize];
        match slot.phase {
            Phase::Receiving => self.on_part(index, packet),
            Phase::Running => {
                self.stats.duplicates += 1;
                self.acks |= 1 << index;
                RequestAction::None
            }
            Phase::Responded => {
                self.stats.duplicates += 1;
                self.stats.responses_repeated += 1;
                RequestAction::Repeat { slot: index }
            }
            Phase::Rejected(code) => RequestAction::Reject(self.reject_packet(index, code)),
            Phase::Idle => self.drop_packet(Drop::Stale),
        }
    }

    fn on_part(&mut self, index: u32, packet: Packet<'_>) -> RequestAction {
        let slot = &mut self.slots[index as usize];
        if packet.message_bytes() != slot.bytes || packet.method() != slot.method {
            return self.drop_packet(Drop::Inconsistent);
        }
        let assembly = slot.assembly.as_mut().expect("a request being received has an assembly");
        let part = packet.packet_index();
        self.acks |= 1 << index;
        if self.params.recovery == Recovery::GoBackN && part > assembly.base() {
            return self.drop_packet(Drop::Reordered);
        }
        if !assembly.insert(part) {
            return self.drop_packet(Drop::Duplicate);
        }
        self.credits.on_arrival();
        let last = assembly.is_complete();
        if last {
            self.spares.give(slot.assembly.take().expect("it has just been completed"));
            slot.phase = Phase::Running;
            self.stats.requests += 1;
            // The response, or its first packet, acknowledges the whole request (W16). If the
            // handler does not answer in this turn, the acknowledgement is sent after all.
        }
        RequestAction::Store { slot: index, offset: part * self.params.payload_bytes, last }
    }

    fn on_pull(&mut self, index: u32, packet: Packet<'_>, marked: bool) -> RequestAction {
        let slot = &mut self.slots[index as usize];
        if slot.request != packet.request() || slot.phase != Phase::Responded {
            return self.drop_packet(Drop::Stale);
        }
        let (start, end) = (packet.packet_index(), packet.message_bytes());
        let packets = self.params.packets(slot.bytes);
        if start >= end || end > packets || end - start > CREDITS_MAX {
            return self.drop_packet(Drop::Inconsistent);
        }
        slot.echo = packet.transmission();
        slot.ecn = marked;
        RequestAction::Pull { slot: index, start, end }
    }

    fn on_end(&mut self, index: u32, packet: Packet<'_>) -> RequestAction {
        let slot = &mut self.slots[index as usize];
        let over = matches!(slot.phase, Phase::Idle | Phase::Rejected(_))
            || (packet.kind() == Kind::Done && slot.phase != Phase::Responded);
        if slot.request != packet.request() || over {
            return self.drop_packet(Drop::Stale);
        }
        slot.phase = Phase::Idle;
        slot.assembly = None;
        self.acks &= !(1 << index);
        self.stats.cancels += u64::from(packet.kind() == Kind::Cancel);
        RequestAction::Released { slot: index }
    }

    #[cold]
    fn drop_packet(&mut self, reason: Drop) -> RequestAction {
        self.stats.count(reason);
        RequestAction::None
    }
}
