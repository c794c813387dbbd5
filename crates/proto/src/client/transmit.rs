//! Outputs of the client's half: request packets, pulls and probes.

use petasos_base::Time;
use petasos_wire::{Header, Kind};

use super::slot::{Phase, UNTIMED};
use super::{ClientSession, Transmit};

impl<C> ClientSession<C> {
    /// The next packet to be sent now; call it until `None`. The window of credits and congestion
    /// control limits how many packets it returns (W14), and the pace limits when, except for
    /// probes after a timeout. While the pace holds packets back, [`ClientSession::next_send`]
    /// returns until when.
    #[inline(always)]
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        while self.sendable != 0 {
            let open = self.sendable & self.within_window();
            let open = if open != 0 && self.departs(now) { open } else { 0 };
            let candidates = open | (self.sendable & self.probes);
            if candidates == 0 {
                return None;
            }
            let index = self.pick(candidates);
            let slot = &self.slots[index as usize];
            if slot.board.is_none() {
                return Some(self.send_single(index, now));
            }
            let transmit = match slot.phase {
                Phase::Pulling => self.send_pull(index, now),
                _ => self.send_part(index, now),
            };
            if transmit.is_some() {
                return transmit;
            }
            self.sendable &= !(1 << index);
            self.probes &= !(1 << index);
        }
        None
    }

    /// The slots whose packets fit the window (W14). Requests use the server's credits, pulls those
    /// of this end's receive queue; congestion control limits both together.
    #[inline(always)]
    pub(super) fn within_window(&self) -> u64 {
        if self.pulling == 0 {
            return if self.in_flight < self.window { u64::MAX } else { 0 };
        }
        self.within_windows()
    }

    fn within_windows(&self) -> u64 {
        let (all, pulled) = (self.open_packets(), self.pulled());
        let requests = all > 0 && self.in_flight - pulled < self.credits;
        let pulls = all > 0 && pulled < self.pull_credits.get();
        let set = |open: bool| if open { u64::MAX } else { 0 };
        set(requests) & !self.pulling | set(pulls) & self.pulling
    }

    /// Packets that congestion control allows beyond those in flight.
    fn open_packets(&self) -> u32 {
        self.control.congestion.window_packets(u32::MAX).saturating_sub(self.in_flight)
    }

    /// Whether the pace lets a packet leave now.
    #[inline(always)]
    fn departs(&mut self, now: Time) -> bool {
        self.window_unpaced != 0 || self.may_depart(now)
    }

    /// The first candidate at or after the cursor. Advances the cursor.
    #[inline]
    fn pick(&mut self, candidates: u64) -> u32 {
        let later = candidates >> self.cursor << self.cursor;
        let index = if later != 0 { later } else { candidates }.trailing_zeros();
        self.cursor = (index + 1) & (self.params.slots - 1);
        index
    }

    /// Sends the only packet of a request, or the last packet of a request again as a probe.
    #[inline(always)]
    pub(super) fn send_single(&mut self, index: u32, now: Time) -> Transmit {
        let transmission = self.next_transmission();
        let slot = &mut self.slots[index as usize];
        if slot.phase == Phase::Sending {
            slot.phase = Phase::InFlight;
            slot.progress_at = now;
            self.in_flight += 1;
        } else {
            self.stats.retransmissions += 1;
        }
        slot.time(if slot.phase == Phase::InFlight { transmission } else { UNTIMED }, now);
        self.sendable &= !(1 << index);
        self.probes &= !(1 << index);
        let bytes = self.slots[index as usize].options.request_bytes;
        let last = self.params.packets(bytes) - 1;
        self.charge(last, bytes, now);
        self.request_packet(index, last, transmission)
    }

    /// Sends a packet of a longer request.
    fn send_part(&mut self, index: u32, now: Time) -> Option<Transmit> {
        let part = self.board_next(index)?;
        let transmission = self.next_transmission();
        self.note_sent(index, part, transmission, now);
        self.charge(part, self.slots[index as usize].options.request_bytes, now);
        self.start_timing(index, transmission, now);
        Some(self.request_packet(index, part, transmission))
    }

    /// Sends one pull for the next run of response packets that window and pace allow (W19). It
    /// charges these packets to the pace, because the pull makes the server send them.
    fn send_pull(&mut self, index: u32, now: Time) -> Option<Transmit> {
        let start = self.board_next(index)?;
        let transmission = self.next_transmission();
        let shared = self.pull_credits.get().saturating_sub(self.pulled());
        let mut room = shared.min(self.open_packets());
        let mut end = start;
        loop {
            self.note_sent(index, end, transmission, now);
            self.charge(end, self.slots[index as usize].response_bytes, now);
            end += 1;
            // A probe may exceed the window, hence saturating.
            room = room.saturating_sub(1);
            let open = room > 0 && self.departs(now);
            if !open || self.board_next(index) != Some(end) {
                break;
            }
        }
        self.start_timing(index, transmission, now);
        self.stats.pulls += 1;
        let request = self.slots[index as usize].request;
        let header = self.header.with_request(Kind::Pull, request, transmission);
        Some(Transmit::Bare(header.with_client(start, end, 0)))
    }

    fn board_next(&mut self, index: u32) -> Option<u32> {
        let board = self.slots[index as usize].board.as_mut();
        board.expect("a longer message has a board").next_to_send()
    }

    fn note_sent(&mut self, index: u32, part: u32, transmission: u32, now: Time) {
        let slot = &mut self.slots[index as usize];
        if slot.in_flight() == 0 {
            // Time spent waiting for credits does not count as silence of the network.
            slot.progress_at = now;
        }
        let board = slot.board.as_mut().expect("a longer message has a board");
        let resent = board.on_sent(part, transmission);
        board.on_left(part, now);
        self.in_flight += 1;
        self.stats.retransmissions += u64::from(resent);
        self.probes &= !(1 << index);
    }

    /// Measures this transmission's round trip if no other of the call is being measured.
    fn start_timing(&mut self, index: u32, transmission: u32, now: Time) {
        let slot = &mut self.slots[index as usize];
        if slot.timed == UNTIMED {
            slot.time(transmission, now);
        }
    }

    #[inline(always)]
    fn request_packet(&mut self, slot_index: u32, index: u32, transmission: u32) -> Transmit {
        self.stats.request_packets += 1;
        let slot = &self.slots[slot_index as usize];
        let options = &slot.options;
        let header: Header = self
            .request_start
            .with_numbers(slot.request, transmission)
            .with_client(index, options.request_bytes, options.method)
            .with_encoding(options.encoding);
        Transmit::Request { slot: slot_index, request: slot.request, index, header }
    }
}
