//! Congestion control around a client's half: what it is told, and when a packet may leave.
//!
//! The session itself is limited by credits alone; the window and the pace are enforced here,
//! before it is polled. One difference from packet to packet remains: a pull asks for as much as
//! credits allow, so what it makes the server send is paced, but not cut to the window.

use petasos_base::Time;
use petasos_proto::{Congestion, CongestionConfig, Feedback, Pacer};

/// One session's control.
#[derive(Debug)]
pub(super) struct Control {
    congestion: Congestion,
    pacer: Pacer,
    burst_nanos: u64,
    /// What has been repeated so far, as the session counts it.
    repeated: u64,
}

/// An answer from the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    /// When the transmission left that it answers.
    pub(super) left_at: Time,
    /// Packets that are no longer in flight since.
    pub(super) packets: u32,
    pub(super) marked: bool,
    pub(super) in_flight: u32,
    /// Whether a handler's time is in the round trip.
    pub(super) served: bool,
}

impl Control {
    pub(super) fn new(config: &CongestionConfig, credits: u32) -> Control {
        Control {
            congestion: Congestion::new(config, credits),
            pacer: Pacer::default(),
            burst_nanos: config.burst_ns,
            repeated: 0,
        }
    }

    #[inline]
    pub(super) fn on_answer(&mut self, answer: Answer, now: Time) {
        let packets = answer.packets.max(1);
        let feedback = Feedback {
            rtt_ns: now.nanos_since(answer.left_at),
            packets,
            marked: if answer.marked { packets } else { 0 },
            in_flight: answer.in_flight,
            served: answer.served,
        };
        self.congestion.on_sample(now, &feedback);
    }

    /// `repeated`: how many packets the session has repeated in all. What it repeats without a
    /// timeout had been found lost.
    #[inline]
    pub(super) fn on_polled(&mut self, repeated: u64, now: Time) {
        let lost = (repeated - self.repeated) as u32;
        self.repeated = repeated;
        if lost > 0 {
            self.congestion.on_loss(now, lost);
        }
    }

    pub(super) fn on_timeout(&mut self, now: Time) {
        self.congestion.on_timeout(now);
    }

    /// Whether one more packet may leave with `in_flight` in flight.
    #[inline]
    pub(super) fn window_is_open(&self, in_flight: u32, credits: u32) -> bool {
        in_flight < self.congestion.window_packets(credits)
    }

    /// When the pace allows the next packet, unless it does now.
    #[inline]
    pub(super) fn closed_until(&self, now: Time) -> Option<Time> {
        let closed = self.congestion.pace().is_some() && !self.pacer.is_open(now, self.burst_nanos);
        closed.then(|| self.pacer.opens_at())
    }

    /// Accounts for `wire_bytes` that leave now, or that a pull makes the server send.
    #[inline]
    pub(super) fn charge(&mut self, now: Time, wire_bytes: u32) {
        if let Some(pace) = self.congestion.pace() {
            self.pacer.charge(now, wire_bytes, pace);
        }
    }
}
