//! Timers of the client's half: retransmission and the calls' own timeouts.

use petasos_base::Time;
use petasos_wire::PAYLOAD_BYTES_MIN;

use super::slot::{Phase, UNTIMED, slots_in};
use super::{ClientSession, Expired};
use crate::params::{CREDITS_IDLE, Recovery};

/// How many timeouts in a row only probe the path, before everything in flight is given up (W25).
const PROBES_MAX: u8 = 2;

impl<C> ClientSession<C> {
    /// When [`ClientSession::handle_timeout`] will next have something to do; [`Time::NEVER`] if no
    /// call is waiting. It reads every busy slot, so it is meant for timers, not for every packet.
    pub fn next_timeout(&self) -> Time {
        self.next_call_timeout().min(self.credits_end_at())
    }

    /// When the credits fall back to those of the set-up, if the server stays silent (W26).
    fn credits_end_at(&self) -> Time {
        match self.credits > self.credits_lasting {
            true => self.sampled_at + CREDITS_IDLE,
            false => Time::NEVER,
        }
    }

    fn next_call_timeout(&self) -> Time {
        let queued = self.backlog.iter().map(|queued| queued.call.options.timeout_at);
        let earliest = queued.min().unwrap_or(Time::NEVER);
        let busy = slots_in(self.busy).map(|index| &self.slots[index as usize]);
        busy.fold(earliest, |earliest, slot| {
            let resend_at = slot.progress_at.plus_nanos(self.rto_ns(slot.backoff));
            earliest.min(slot.options.timeout_at).min(resend_at)
        })
    }

    /// Ends one call whose timeout has passed, if there is one; call it until `None`. The
    /// cancellation tells the server (W21).
    pub fn poll_expired(&mut self, now: Time) -> Option<Expired<C>> {
        let late = |timeout_at: Time| timeout_at <= now;
        if let Some(at) = self.backlog.iter().position(|q| late(q.call.options.timeout_at)) {
            let queued = self.backlog.remove(at).expect("the position was just found");
            self.waiting -= 1;
            return Some(Expired { context: queued.call.context, cancel: None });
        }
        let timeout_at = |index: u32| self.slots[index as usize].options.timeout_at;
        let slot = slots_in(self.busy).find(|index| late(timeout_at(*index)))?;
        Some(self.abort(slot))
    }

    /// Makes packets that have gone unanswered for too long sendable again. Returns how many calls
    /// that concerned; poll for packets afterwards.
    pub fn handle_timeout(&mut self, now: Time) -> u32 {
        if self.timeout.forget(now) {
            self.rto_least_ns = self.timeout.least_ns(&self.round_trip);
        }
        if self.credits_end_at() <= now {
            self.set_credits(self.params.credits);
        }
        let (mut concerned, mut congested) = (0, false);
        for index in slots_in(self.busy) {
            let slot = &self.slots[index as usize];
            let silent_ns = now.nanos_since(slot.progress_at);
            let waits = slot.phase == Phase::Waiting || slot.in_flight() > 0;
            let due = waits && silent_ns >= self.rto_ns(slot.backoff);
            if due {
                congested |= self.retransmit(index, now);
                concerned += 1;
            } else if !waits {
                // It only lacks credits: no packet of it is in the network.
                self.slots[index as usize].progress_at = now;
            }
        }
        if congested {
            self.on_timeout(now);
        }
        concerned
    }

    /// Whether a request whose packets are too long for some paths repeatedly goes unanswered.
    pub fn long_packets_vanish(&self) -> bool {
        slots_in(self.busy).map(|index| &self.slots[index as usize]).any(|slot| {
            slot.backoff >= PROBES_MAX
                && matches!(slot.phase, Phase::Sending | Phase::InFlight)
                && slot.options.request_bytes > PAYLOAD_BYTES_MIN
        })
    }

    /// Prepares a retransmission. Returns whether the silence is a sign of congestion. A server
    /// that has the whole request is silent while the handler runs, and so is the answer to a
    /// request of one packet. Such a request therefore counts only when its probe goes unanswered
    /// too; otherwise every slow handler would throttle its callers.
    fn retransmit(&mut self, index: u32, now: Time) -> bool {
        self.stats.timeouts += 1;
        let slot = &mut self.slots[index as usize];
        slot.progress_at = now;
        slot.backoff = slot.backoff.saturating_add(1);
        slot.timed = UNTIMED;
        let before = slot.in_flight();
        if let Some(board) = &mut slot.board {
            match self.params.recovery {
                Recovery::GoBackN => _ = board.roll_back(),
                Recovery::Selective if slot.backoff <= PROBES_MAX => _ = board.probe_last(),
                Recovery::Selective => _ = board.lose_all(),
            }
        }
        self.in_flight -= before - slot.in_flight();
        self.sendable |= 1 << index;
        self.probes |= 1 << index;
        slot.board.is_some() || (slot.phase == Phase::InFlight && slot.backoff > 1)
    }
}
