//! Congestion control of the client's half: its inputs, and the window and pace that result.
//!
//! `window` and `window_unpaced` are copies of what credits, congestion window and pace allow
//! together. They are computed whenever one of these changes and at no other time. So a call that
//! is sent in one step compares one number, and a call on an uncongested path does not touch this
//! module. A paced session sends nothing in one step: its packets take the slow path, which charges
//! them to the pace.
//!
//! `docs/congestion.md` tells how a session waits for its pace: it holds all packets back until
//! `held_until` and reports that time ([`ClientSession::next_send`]). Meanwhile no packet of the
//! session is queued anywhere.

use petasos_base::Time;
use petasos_wire::{Kind, Packet};

use super::ClientSession;
use crate::SessionParams;
use crate::congestion::{Congestion, CongestionConfig, Feedback, Pacer};

/// A session's state of congestion control.
#[repr(C)]
pub(super) struct Control {
    /// Marked packets since the last feedback.
    marked: u32,
    /// How many returned packets the last feedback has covered, on the scale of the counter of
    /// calls completed in one step. A packet that returns in another way lowers it by one, so it
    /// wraps; the number of packets not yet covered is the difference between that counter and
    /// this. The low 32 bits are enough, because the difference is at most a window of packets.
    reported: u32,
    pub(super) congestion: Congestion,
    /// What the lower layers add to a packet's payload, in bytes, including the session's header.
    overhead_bytes: u32,
    pacer: Pacer,
    burst_ns: u64,
    /// The pace holds packets back until this time; [`Time::ZERO`] if it does not.
    held_until: Time,
}

/// What a packet from the server answers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answer {
    /// Packets that were in flight and have returned.
    pub(super) returned: u32,
    /// How many of them are about to be subtracted from the packets in flight.
    pub(super) leaving: u32,
    /// Whether the round trip includes a handler's time.
    pub(super) served: bool,
}

impl Answer {
    /// The response to a call that completes in one step. Such calls have a counter of their own.
    pub(super) const SERVED: Answer = Answer { returned: 0, leaving: 0, served: true };
}

impl Control {
    /// Bytes from the start that each round trip touches.
    pub(super) const HOT_BYTES: usize = core::mem::offset_of!(Control, congestion) + 24;

    pub(super) fn new(config: &CongestionConfig, params: &SessionParams) -> Control {
        Control {
            congestion: Congestion::new(config, params.credits_max),
            pacer: Pacer::default(),
            burst_ns: config.burst_ns,
            overhead_bytes: config.packet_bytes.saturating_sub(params.payload_bytes),
            marked: 0,
            reported: 0,
            held_until: Time::ZERO,
        }
    }

    /// Nothing is in flight or held back any longer, as another call begins.
    pub(super) fn renew(&mut self, completed_short: u64) {
        (self.pacer, self.held_until, self.marked) = (Pacer::default(), Time::ZERO, 0);
        self.reported(completed_short);
    }

    /// Counts returned packets that did not complete a call in one step. If an answer to several of
    /// them echoes a congestion mark, all count as marked; the first was counted when the answer
    /// came.
    #[inline]
    pub(super) fn count(&mut self, returned: u32, echo: bool) {
        self.reported = self.reported.wrapping_sub(returned);
        if echo {
            self.marked = self.marked.saturating_add(returned.saturating_sub(1));
        }
    }

    /// Returned packets that no feedback has covered yet.
    #[inline(always)]
    fn returned(&self, completed_short: u64) -> u32 {
        (completed_short as u32).wrapping_sub(self.reported)
    }

    /// Whether the round trip can be ignored if this many packets are `left` in flight. See
    /// [`Congestion::is_clear`].
    #[inline(always)]
    pub(super) fn is_clear(&self, rtt_ns: u64, left: u32, completed_short: u64) -> bool {
        let used = left.saturating_add(self.returned(completed_short));
        self.congestion.is_clear(rtt_ns, self.marked, used)
    }

    /// Notes that the feedback covers all packets that have returned so far.
    #[inline(always)]
    pub(super) fn reported(&mut self, completed_short: u64) {
        self.reported = completed_short as u32;
    }
}

impl<C> ClientSession<C> {
    /// When [`ClientSession::poll_transmit`] will return packets that only the pace holds back;
    /// [`Time::NEVER`] if there are none. Call it after polling, so that the time lies in the
    /// future.
    #[inline]
    pub fn next_send(&self) -> Time {
        let Control { held_until, .. } = self.control;
        let held = held_until != Time::ZERO && self.sendable & self.within_window() != 0;
        if held { held_until } else { Time::NEVER }
    }

    /// Whether the session is paced now. A congested session is; with the pacing bypass off, every
    /// one is.
    #[cfg(test)]
    pub(crate) fn is_paced(&self) -> bool {
        self.window_unpaced == 0
    }

    /// Whether the pace lets a packet leave now. Once it does not, no packet leaves until the time
    /// for everything charged has passed; then a whole train may leave.
    #[cold]
    pub(super) fn may_depart(&mut self, now: Time) -> bool {
        let control = &mut self.control;
        if now < control.held_until {
            return false;
        }
        if control.pacer.is_open(now, control.burst_ns) {
            control.held_until = Time::ZERO;
            return true;
        }
        control.held_until = control.pacer.opens_at();
        self.stats.paced_waits += 1;
        false
    }

    /// Charges packet `part` of a message of `bytes`, which is sent or pulled now, to the pace.
    #[inline(always)]
    pub(super) fn charge(&mut self, part: u32, bytes: u32, now: Time) {
        if let Some(pace) = self.control.congestion.pace() {
            let wire_bytes = self.params.payload_of(part, bytes) + self.control.overhead_bytes;
            self.control.pacer.charge(now, wire_bytes, pace);
        }
    }

    /// Notes a congestion mark that `packet` reports, or a mark on the packet itself (`marked`).
    /// The latter count only on packets with the server's data, because this half controls when
    /// those are sent.
    #[cold]
    pub(super) fn note_mark(&mut self, packet: Packet<'_>, marked: bool) {
        let echo = packet.ecn_echo();
        let counts = echo || packet.kind() == Kind::Response;
        self.stats.ecn_echoes += u64::from(echo);
        self.stats.ecn_marks += u64::from(marked);
        self.control.marked = self.control.marked.saturating_add(u32::from(counts));
    }

    #[cold]
    pub(super) fn set_credits(&mut self, credits: u32) {
        self.credits = credits;
        self.refresh_window();
    }

    /// Tells congestion control a round trip of `rtt_ns`, and all packets that returned since the
    /// last one.
    #[cold]
    #[inline(never)]
    pub(super) fn feed_back(&mut self, answer: Answer, rtt_ns: u64, now: Time) {
        let packets = self.control.returned(self.completed_short).max(1);
        let feedback = Feedback {
            rtt_ns,
            packets,
            marked: core::mem::take(&mut self.control.marked).min(packets),
            in_flight: self.in_flight - answer.leaving,
            served: answer.served,
        };
        let news = self.control.congestion.on_sample(now, &feedback);
        self.control.reported(self.completed_short);
        if news {
            self.refresh_window();
        }
    }

    #[cold]
    pub(super) fn on_loss(&mut self, packets: u32, now: Time) {
        self.control.congestion.on_loss(now, packets);
        self.refresh_window();
    }

    #[cold]
    pub(super) fn on_timeout(&mut self, now: Time) {
        self.control.congestion.on_timeout(now);
        self.refresh_window();
    }

    /// Recomputes what credits and congestion control allow.
    pub(super) fn refresh_window(&mut self) {
        let congestion = &self.control.congestion;
        self.window = congestion.window_packets(self.credits);
        let paced = congestion.pace().is_some();
        self.window_unpaced = if paced { 0 } else { self.window };
        if !paced {
            self.control.held_until = Time::ZERO;
        }
    }
}
