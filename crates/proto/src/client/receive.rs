//! Inputs of the client's half: packets from the server.

use petasos_base::Time;
use petasos_wire::{AckBitmap, Kind, Packet, RejectCode, Signed};

use super::control::Answer;
use super::slot::{Phase, Slot, UNTIMED};
use super::{ClientSession, ResponseAction, answers};
use crate::params::Recovery;
use crate::scoreboard::Arrival;
use crate::stats::Drop;

impl<C> ClientSession<C> {
    /// The common case of [`ClientSession::handle_packet`] and [`ClientSession::complete`] in one
    /// step: a response of one packet to a short request, which carries no other news. Returns the
    /// call's context and the response's bytes.
    ///
    /// Returns `None` for any other packet, and has then changed nothing. Do not call it for
    /// packets with a congestion mark; those are for [`ClientSession::handle_packet`].
    #[inline(always)]
    pub fn take_short<'a>(&mut self, raw: &impl Signed<'a>, now: Time) -> Option<(C, &'a [u8])> {
        let packet = raw.signed(self.signature)?;
        let index = packet.request() & u64::from(self.slot_mask);
        let slot = self.slots.get_mut(index as usize)?;
        let payload = packet.payload().get(..packet.value() as usize)?;
        let plain = slot.request == packet.request()
            && slot.phase == Phase::InFlight
            && slot.timed == packet.echo()
            && packet.value() <= slot.options.response_bytes_max
            && packet.credits() == self.credits;
        if !plain {
            return None;
        }
        slot.phase = Phase::Idle;
        let context = slot.context.take().expect("a busy slot has a context");
        let timed_at = slot.timed_at;
        self.in_flight -= 1;
        self.completed_short += 1;
        if now != self.sampled_at {
            self.record(Answer::SERVED, timed_at, now);
        }
        let others = !(1 << index);
        self.busy &= others;
        if self.sendable != 0 {
            self.sendable &= others;
            self.probes &= others;
        }
        Some((context, payload))
    }

    /// Handles a packet that a server sent to this session; `marked` says whether it met
    /// congestion.
    pub fn handle_packet(
        &mut self,
        packet: &Packet<'_>,
        marked: bool,
        now: Time,
    ) -> ResponseAction<C> {
        let packet = *packet;
        if !packet.is_of(self.mark) {
            return self.drop_packet(Drop::WrongTag);
        }
        let index = (packet.request() & u64::from(self.slot_mask)) as u32;
        let slot = self.slots.get(index as usize);
        let current = |slot: &Slot<C>| slot.request == packet.request() && !slot.is_idle();
        if !slot.is_some_and(current) {
            return self.drop_stale(packet);
        }
        let credits = packet.credits().clamp(1, self.params.credits_max);
        if credits != self.credits {
            self.set_credits(credits);
        }
        if marked | packet.ecn_echo() {
            self.note_mark(packet, marked);
        }
        if packet.is_first(Kind::Response) {
            return self.on_first(index, packet, now);
        }
        self.on_other(index, packet, now)
    }

    /// Handles everything but the first packet of a response.
    fn on_other(&mut self, index: u32, packet: Packet<'_>, now: Time) -> ResponseAction<C> {
        match packet.kind() {
            Kind::Response => self.on_later(index, packet, now),
            Kind::Ack => self.on_ack(index, packet, now),
            Kind::Reject => {
                let code = RejectCode::from_value(packet.value());
                ResponseAction::Rejected(self.release(index), code)
            }
            Kind::Reset if self.believes_resets => ResponseAction::SessionReset,
            _ => self.drop_packet(Drop::Unexpected),
        }
    }

    /// Drops a packet that is about no current request. But a reset concerns the whole session,
    /// whatever request caused it (W23).
    #[cold]
    fn drop_stale(&mut self, packet: Packet<'_>) -> ResponseAction<C> {
        if packet.kind() == Kind::Reset && self.believes_resets {
            return ResponseAction::SessionReset;
        }
        self.drop_packet(Drop::Stale)
    }

    /// Handles the first packet of a response. It also acknowledges the whole request (W16).
    fn on_first(&mut self, index: u32, packet: Packet<'_>, now: Time) -> ResponseAction<C> {
        let slot = &self.slots[index as usize];
        let bytes = packet.value();
        let whole = bytes as usize == packet.payload().len()
            && bytes <= slot.options.response_bytes_max
            && slot.phase != Phase::Pulling;
        if !whole {
            return self.on_first_of_many(index, packet, now);
        }
        let leaving = slot.in_flight();
        self.sample(index, packet, Answer { returned: leaving, leaving, served: true }, now);
        ResponseAction::Complete { slot: index }
    }

    /// Handles a first packet that is not the whole response, or is invalid.
    fn on_first_of_many(&mut self, index: u32, packet: Packet<'_>, now: Time) -> ResponseAction<C> {
        let slot = &self.slots[index as usize];
        let bytes = packet.value();
        if packet.payload().len() as u32 != self.params.payload_of(0, bytes) {
            return self.drop_packet(Drop::Inconsistent);
        }
        if slot.phase == Phase::Pulling {
            return self.drop_packet(Drop::Duplicate);
        }
        if bytes > slot.options.response_bytes_max {
            let aborted = self.abort(index);
            let cancel = aborted.cancel.expect("a call in a slot is known to the server");
            return ResponseAction::Overlong(aborted.context, cancel);
        }
        let leaving = slot.in_flight();
        self.sample(index, packet, Answer { returned: leaving, leaving, served: true }, now);
        self.begin_pulling(index, bytes, now);
        ResponseAction::Begin { slot: index, bytes }
    }

    fn begin_pulling(&mut self, index: u32, bytes: u32, now: Time) {
        let packets = self.params.packets(bytes);
        let slot = &mut self.slots[index as usize];
        self.in_flight -= slot.in_flight();
        slot.begin_many(&mut self.boards, packets, 1);
        slot.phase = Phase::Pulling;
        slot.response_bytes = bytes;
        slot.timed = UNTIMED;
        slot.progressed(now);
        self.sendable |= 1 << index;
        self.pulling |= 1 << index;
    }

    /// Handles a later packet of a response, which a pull asked for.
    fn on_later(&mut self, index: u32, packet: Packet<'_>, now: Time) -> ResponseAction<C> {
        let slot = &mut self.slots[index as usize];
        if slot.phase != Phase::Pulling {
            return self.drop_packet(Drop::Inconsistent);
        }
        let part = packet.value();
        let expected = self.params.payload_of(part, slot.response_bytes);
        if expected == 0 || packet.payload().len() as u32 != expected {
            return self.drop_packet(Drop::Inconsistent);
        }
        let board = slot.board.as_mut().expect("a longer message has a board");
        if self.params.recovery == Recovery::GoBackN && part > board.base() {
            return self.drop_packet(Drop::Reordered);
        }
        let before = board.in_flight();
        let arrival = board.on_arrived(part, packet.echo());
        if arrival == Arrival::Known {
            return self.drop_packet(Drop::Duplicate);
        }
        let last = board.is_complete();
        slot.progressed(now);
        self.pull_credits.on_arrival();
        self.stats.retransmissions_spurious += u64::from(arrival == Arrival::Late);
        let returned = self.settle(index, before, now);
        self.sample(index, packet, Answer { returned, ..Answer::default() }, now);
        let offset = part * self.params.payload_bytes;
        ResponseAction::Store { slot: index, offset, last }
    }

    /// Handles an acknowledgement: which packets of the request have arrived (W17, W18).
    fn on_ack(&mut self, index: u32, packet: Packet<'_>, now: Time) -> ResponseAction<C> {
        let slot = &mut self.slots[index as usize];
        let packets = self.params.packets(slot.options.request_bytes);
        let (arrived, echo) = (packet.value(), packet.echo());
        let Some(bitmap) = AckBitmap::parse(packet.payload()).filter(|_| arrived <= packets) else {
            return self.drop_packet(Drop::Inconsistent);
        };
        if slot.phase == Phase::Pulling {
            return self.drop_packet(Drop::Stale);
        }
        if arrived == packets {
            self.on_accepted(index, packet, now);
            return ResponseAction::None;
        }
        let Some(board) = slot.board.as_mut() else { return ResponseAction::None };
        let before = board.in_flight();
        let mut news = board.on_arrived_below(arrived, echo);
        for offset in bitmap.offsets() {
            news |= board.on_arrived(arrived.saturating_add(offset), echo) != Arrival::Known;
        }
        if news {
            // Otherwise the row of timeouts continues. A gap too wide for the bitmap would never be
            // closed by probes whose answers bring no news (W25).
            slot.progressed(now);
        }
        let returned = self.settle(index, before, now);
        self.sample(index, packet, Answer { returned, ..Answer::default() }, now);
        ResponseAction::None
    }

    /// The server has the whole request and says so because the handler takes long. From now on the
    /// back-off only grows: only the handler's answer is missing, so the client asks for it ever
    /// more rarely.
    fn on_accepted(&mut self, index: u32, packet: Packet<'_>, now: Time) {
        let leaving = self.slots[index as usize].in_flight();
        self.sample(index, packet, Answer { returned: leaving, leaving, served: false }, now);
        let slot = &mut self.slots[index as usize];
        self.in_flight -= leaving;
        slot.end_board(&mut self.boards);
        slot.progress_at = now;
        if slot.is_sending() {
            slot.phase = Phase::Waiting;
            slot.backoff = 1;
        }
        self.sendable &= !(1 << index);
        self.probes &= !(1 << index);
    }

    /// Finds losses after arrivals on a slot's board, which had `before` packets in flight. It also
    /// looks when the indices show no gap, because packets lost in the order of transmission may
    /// have higher indices (W25). Returns how many packets were in flight and have arrived.
    fn settle(&mut self, index: u32, before: u32, now: Time) -> u32 {
        let slot = &mut self.slots[index as usize];
        let board = slot.board.as_mut().expect("a longer message has a board");
        let arrived = before - board.in_flight();
        let selective = self.params.recovery == Recovery::Selective;
        let lost = if selective { board.detect_lost() } else { 0 };
        self.in_flight = self.in_flight - before + board.in_flight();
        self.sendable |= 1 << index;
        if lost > 0 {
            self.on_loss(lost, now);
        }
        arrived
    }

    /// Takes the round trip of the measured transmission, if this packet answers it. All packets of
    /// a batch share one reading of the clock, so a session takes one sample per batch.
    fn sample(&mut self, index: u32, packet: Packet<'_>, answer: Answer, now: Time) {
        self.control.count(answer.returned, packet.ecn_echo());
        let slot = &mut self.slots[index as usize];
        if let Some(rtt_ns) = slot.board.as_mut().and_then(|board| board.take_round_trip(now)) {
            // For a longer message, every answered packet gives a sample, not only a timed one.
            slot.timed = UNTIMED;
            if now != self.sampled_at {
                let left_at = Time::from_nanos(now.as_nanos().saturating_sub(rtt_ns));
                self.record(answer, left_at, now);
            }
            return;
        }
        let exact = packet.echo() == slot.timed;
        if slot.timed != UNTIMED && (now != self.sampled_at || !exact) {
            self.take_sample(index, packet, answer, now);
        } else {
            // It was answered, though the sample was not taken: a later answer must not count for
            // it (W6).
            slot.timed = UNTIMED;
        }
    }

    fn take_sample(&mut self, index: u32, packet: Packet<'_>, answer: Answer, now: Time) {
        let slot = &mut self.slots[index as usize];
        if !answers(packet.echo(), slot.timed) {
            // This answers an earlier transmission: if the timed one repeats it, the repetition was
            // needless.
            if slot.board.is_none() {
                self.stats.retransmissions_spurious += 1;
                self.timeout.on_spurious(&self.round_trip, now);
                self.rto_least_ns = self.timeout.least_ns(&self.round_trip);
            }
            return;
        }
        slot.timed = UNTIMED;
        let timed_at = slot.timed_at;
        self.record(answer, timed_at, now);
    }

    /// Takes the exact round trip that ended with `answer`.
    #[inline(never)]
    fn record(&mut self, answer: Answer, timed_at: Time, now: Time) {
        self.sampled_at = now;
        let rtt_ns = now.nanos_since(timed_at);
        if self.round_trip.sample(rtt_ns) {
            self.rto_least_ns = self.timeout.least_ns(&self.round_trip);
        }
        let left = self.in_flight - answer.leaving;
        if !self.control.is_clear(rtt_ns, left, self.completed_short) {
            return self.feed_back(answer, rtt_ns, now);
        }
        self.control.reported(self.completed_short);
    }
}
