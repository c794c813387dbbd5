//! Calls of one packet, sent in one step.

use petasos_base::Time;
use petasos_wire::TRANSMISSION_NUMBERS;

use super::slot::Phase;
use super::{CallOptions, ClientSession, Queued, Sent};

impl<C> ClientSession<C> {
    /// The common case of [`ClientSession::enqueue`] and [`ClientSession::poll_transmit`] in one
    /// step: a call of one packet that may be sent at once.
    ///
    /// # Errors
    /// Returns the context if it is not such a call, and has then changed nothing.
    #[inline(always)]
    pub fn send_short(
        &mut self,
        options: CallOptions,
        context: C,
        now: Time,
    ) -> Result<Sent<'_, C>, C> {
        self.send_below(self.short_requests_below, options, context, now)
    }

    /// Whether requests of this length are sent in one step if nothing waits before them.
    #[inline(always)]
    pub fn sends_short(&self, request_bytes: u32) -> bool {
        request_bytes < self.short_requests_below
    }

    /// Like [`ClientSession::send_short`], in a session with checksums or seals, where that always
    /// returns an error. The caller adds the checksum or seal to the packet.
    ///
    /// # Errors
    /// As for [`ClientSession::send_short`].
    #[inline(never)]
    pub fn send_protected(
        &mut self,
        options: CallOptions,
        context: C,
        now: Time,
    ) -> Result<Sent<'_, C>, C> {
        let below = self.params.payload_bytes.min(self.params.request_bytes_max) + 1;
        self.send_below(below, options, context, now)
    }

    #[inline(always)]
    fn send_below(
        &mut self,
        below: u32,
        options: CallOptions,
        context: C,
        now: Time,
    ) -> Result<Sent<'_, C>, C> {
        let index = (!self.busy).trailing_zeros();
        if !(self.is_clear(index, options.request_bytes, below) && self.waiting == 0) {
            return Err(context);
        }
        let number = self.call_next;
        self.call_next += 1;
        Ok(self.launch(index, number, options, context, now))
    }

    /// Like [`ClientSession::send_short`], for the call that has waited longest, if it has at most
    /// `bytes_max` bytes and waited only for a slot. It does the work of
    /// [`ClientSession::start_queued`] and [`ClientSession::poll_transmit`] in one step.
    #[inline(always)]
    pub fn send_queued(&mut self, bytes_max: u32, now: Time) -> Option<Sent<'_, C>> {
        if self.waiting == 0 {
            return None;
        }
        let bytes = self.backlog.front()?.call.options.request_bytes;
        let index = (!self.busy).trailing_zeros();
        let is_short = bytes <= bytes_max;
        if !(self.is_clear(index, bytes, self.short_requests_below) && is_short) {
            return None;
        }
        let Queued { number, call } = self.backlog.pop_front()?;
        self.waiting -= 1;
        self.calls_long -= 1;
        Some(self.launch(index, number, call.options, call.context, now))
    }

    /// Whether a request may leave from slot `index` in one step: there is such a slot, the request
    /// has fewer bytes than `below`, no slot has anything to send, and the window is open.
    #[inline(always)]
    fn is_clear(&self, index: u32, request_bytes: u32, below: u32) -> bool {
        let is_there = (index as usize) < self.slots.len();
        let is_open = self.in_flight < self.window_unpaced;
        self.sendable == 0 && is_open && request_bytes < below && is_there
    }

    /// Starts a call of one packet in a free slot, and sends it.
    #[inline(always)]
    fn launch(
        &mut self,
        index: u32,
        call: u64,
        options: CallOptions,
        context: C,
        now: Time,
    ) -> Sent<'_, C> {
        let transmission = (self.transmission + 1) % TRANSMISSION_NUMBERS;
        self.transmission = transmission;
        self.busy |= 1 << index;
        self.in_flight += 1;
        let slot = &mut self.slots[index as usize];
        slot.begin(u64::from(self.slot_mask) + 1, self.response_bytes_max, call, options, now);
        slot.phase = Phase::InFlight;
        slot.time(transmission, now);
        let request = slot.request;
        let header = self
            .request_start
            .with_numbers(request, transmission)
            .with_client(0, options.request_bytes, options.method)
            .with_encoding(options.encoding);
        Sent { call, slot: index, request, header, context: slot.put_context(context) }
    }
}
