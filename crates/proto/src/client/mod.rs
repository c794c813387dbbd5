//! The client's half of a session: it drives the protocol (eRPC, section 5).
//!
//! Only this half has timers and state that is rolled back. A call occupies one of the session's
//! slots, or waits in order for one. Request numbers of slot `s` are `s + k * slots` with rising
//! `k` (W5), so that the server can tell a repeated packet from a new request.
//!
//! Invariants:
//! - `busy`, `sendable` and `probes` are sets of slots; `sendable` and `probes` are within `busy`;
//! - `in_flight` is the sum of [`Slot::in_flight`] over all slots; `pulling` is the set of slots
//!   whose packets in flight were pulled;
//! - a slot's context is present exactly while it is busy;
//! - `window` and `window_unpaced` follow from credits, congestion window and pace (`control`);
//! - `waiting` is the backlog's length.

mod control;
mod pair;
mod receive;
mod short;
mod slot;
#[cfg(test)]
mod tests;
mod timeout;
mod transmit;
mod types;

use std::collections::VecDeque;

use petasos_base::{Time, prefetch};
use petasos_wire::{Header, HeaderStart, Kind, SessionMark, Signature, TRANSMISSION_NUMBERS};

use crate::congestion::CongestionConfig;
use crate::params::Credits;
use crate::rtt::{RoundTrip, Timeout};
use crate::scoreboard::Scoreboard;
use crate::slots::provide;
use crate::spares::Spares;
use crate::stats::{ClientStats, Drop};
use crate::{Membership, SessionParams, Sharer, TimerConfig};
use control::Control;
pub use pair::Binding;
use slot::{Slot, slots_in};
pub use types::{Call, CallOptions, Enqueued, Expired, ResponseAction, Sent, Transmit};

struct Queued<C> {
    number: u64,
    call: Call<C>,
}

/// The client's half of one session. See the module's documentation.
///
/// Fields are in the order of use: with thousands of sessions, each cache line that a call touches
/// is a cache miss. What a call of one packet touches comes first, in [`ClientSession::HOT_BYTES`];
/// at the very front is what shows a timer that there is nothing to do.
#[repr(C)]
pub struct ClientSession<C> {
    busy: u64,
    /// Calls in the backlog.
    waiting: u32,
    in_flight: u32,
    credits: u32,
    /// The credits of the set-up. Credits above this number lapse (W26).
    credits_lasting: u32,
    /// The slots that have been used; the others are allocated on first use.
    slots: Box<[Slot<C>]>,
    /// Masks a request's number to its slot (W5).
    slot_mask: u32,
    /// A lower bound of the retransmission timeout ([`Timeout::least_ns`]).
    rto_least_ns: u32,
    /// The usual first word of a response of one packet.
    signature: Signature,
    sendable: u64,
    /// How many request packets may be in flight, or 0 while packets have to keep a pace. This is
    /// the only limit that a call sent in one step compares with.
    window_unpaced: u32,
    /// Requests shorter than this, in bytes, may be sent in one step. 0 with checksums, which only
    /// the slow path handles.
    short_requests_below: u32,
    transmission: u32,
    response_bytes_max: u32,
    /// The next call's number, which is how many there have been.
    call_next: u64,
    request_start: HeaderStart,
    /// Calls completed in one step; `stats` counts only the others.
    completed_short: u64,
    /// When the last round trip was taken, [`Time::ZERO`] before the first.
    sampled_at: Time,
    round_trip: RoundTrip,
    control: Control,
    /// How many request packets may be in flight: what credits and congestion control allow.
    window: u32,
    backlog: VecDeque<Queued<C>>,
    params: SessionParams,
    timeout: Timeout,
    header: Header,
    mark: SessionMark,
    pulling: u64,
    /// Slots whose next packet is a probe, which may exceed the window.
    probes: u64,
    /// Where the search for the next slot to send from starts, so that slots take turns.
    cursor: u32,
    /// How many packets may be in flight towards this end.
    pull_credits: Credits,
    membership: Membership,
    /// How many of all calls were not sent in one step. `stats` does not count the first packets of
    /// those that were.
    calls_long: u64,
    backlog_max: u32,
    /// Not in sessions of pairs (RT12).
    believes_resets: bool,
    /// One of how many parts of its link a pair has; 0 if it does not share.
    parts: u16,
    stats: ClientStats,
    boards: Spares<Scoreboard>,
}

impl<C> ClientSession<C> {
    /// A session with the parameters that set-up negotiated. At most `backlog_max` calls wait for
    /// slots. A packet occupies `packet_bytes` of `congestion` on the wire.
    ///
    /// # Panics
    /// If `congestion` is not valid. [`CongestionConfig::validate`] checks it beforehand.
    pub fn new(
        params: SessionParams,
        timers: &TimerConfig,
        congestion: &CongestionConfig,
        backlog_max: u32,
    ) -> Self {
        params.assert_valid();
        let mut session = ClientSession {
            header: params.header(),
            request_start: params.header().with_kind(Kind::Request).start(),
            mark: params.mark(),
            signature: Signature::new(Kind::Response, params.mark()),
            short_requests_below: params.short_below(params.request_bytes_max),
            slot_mask: params.slots - 1,
            rto_least_ns: Timeout::new(timers).least_ns(&RoundTrip::default()),
            slots: Box::new([Slot::new(0)]),
            busy: 0,
            sendable: 0,
            pulling: 0,
            probes: 0,
            cursor: 0,
            in_flight: 0,
            waiting: 0,
            credits: params.credits,
            credits_lasting: params.credits,
            response_bytes_max: params.response_bytes_max,
            pull_credits: Credits::new(params.credits),
            membership: Membership::default(),
            window: 0,
            window_unpaced: 0,
            transmission: 0,
            call_next: 0,
            calls_long: 0,
            completed_short: 0,
            round_trip: RoundTrip::default(),
            timeout: Timeout::new(timers),
            sampled_at: Time::ZERO,
            control: Control::new(congestion, &params),
            backlog: VecDeque::new(),
            backlog_max,
            believes_resets: true,
            parts: 0,
            stats: ClientStats::default(),
            boards: Spares::new(),
            params,
        };
        session.refresh_window();
        session
    }

    /// Starts a call, or queues it behind others.
    ///
    /// # Errors
    /// Returns the call if the backlog is full.
    #[inline]
    pub fn enqueue(&mut self, call: Call<C>, now: Time) -> Result<Enqueued, Call<C>> {
        let number = self.call_next;
        match self.free_slot() {
            Some(slot) if self.waiting == 0 => {
                self.call_next += 1;
                self.calls_long += 1;
                self.start(slot, number, call, now);
                Ok(Enqueued { call: number, started: true })
            }
            _ => self.enqueue_late(number, call),
        }
    }

    /// Bytes from the start of a session that nearly every call touches. Beyond them is what only
    /// longer messages, losses and errors need.
    pub const HOT_BYTES: usize = core::mem::offset_of!(Self, control) + Control::HOT_BYTES;

    /// Bytes from the start that show whether a session is at rest.
    pub const REST_BYTES: usize = core::mem::offset_of!(Self, slots);

    /// Prefetches what the next call will touch beyond the session itself, which should be in the
    /// cache.
    #[inline]
    pub fn prefetch_next(&self) {
        if let Some(slot) = self.slots.get((!self.busy).trailing_zeros() as usize) {
            prefetch(slot);
        }
    }

    #[cold]
    fn enqueue_late(&mut self, number: u64, call: Call<C>) -> Result<Enqueued, Call<C>> {
        if self.backlog.len() >= self.backlog_max as usize {
            return Err(call);
        }
        self.call_next += 1;
        self.calls_long += 1;
        self.stats.calls_queued += 1;
        self.backlog.push_back(Queued { number, call });
        self.waiting += 1;
        Ok(Enqueued { call: number, started: false })
    }

    /// Moves waiting calls to free slots. Call this after calls have ended.
    #[inline]
    pub fn start_queued(&mut self, now: Time) {
        while self.waiting != 0 {
            let Some(slot) = self.free_slot() else { return };
            let queued = self.backlog.pop_front().expect("the backlog is not empty");
            self.waiting -= 1;
            self.start(slot, queued.number, queued.call, now);
        }
    }

    /// Ends call `number`, in a slot or in the backlog. Returns its context, and the cancellation
    /// to send if the server may know of the call. `None` if there is no such call.
    pub fn cancel(&mut self, number: u64) -> Option<Expired<C>> {
        if let Some(at) = self.backlog.iter().position(|queued| queued.number == number) {
            let queued = self.backlog.remove(at).expect("the position was just found");
            self.waiting -= 1;
            return Some(Expired { context: queued.call.context, cancel: None });
        }
        let slot = self.slots.iter().position(|s| s.context.is_some() && s.call == number)?;
        Some(self.abort(slot as u32))
    }

    /// Ends the call whose response has just come in one packet.
    pub fn complete(&mut self, slot: u32) -> C {
        self.stats.calls_completed += 1;
        self.release(slot)
    }

    /// Ends the call whose response is complete. The returned header tells the server that it may
    /// release the response. It is worth sending only if no other call follows in the slot.
    ///
    /// # Panics
    /// If the response in `slot` is not complete.
    pub fn finish(&mut self, slot: u32) -> (C, Header) {
        let whole = self.slots[slot as usize].board.as_ref().is_some_and(|b| b.is_complete());
        assert!(whole, "only a whole response is finished");
        let done = self.bare(Kind::Done, slot);
        self.stats.calls_completed += 1;
        (self.release(slot), done)
    }

    /// Ends every call, in no particular order. The session must not be used afterwards, because
    /// the peer does not know. With each context, returns whether a packet of its request was
    /// passed on to be sent; if not, the call certainly has not run.
    pub fn fail_all(&mut self) -> Vec<(C, bool)> {
        let mut failed = Vec::new();
        while self.busy != 0 {
            let slot = self.busy.trailing_zeros();
            let was_sent = !self.slots[slot as usize].is_unsent();
            failed.push((self.release(slot), was_sent));
        }
        self.waiting = 0;
        failed.extend(self.backlog.drain(..).map(|queued| (queued.call.context, false)));
        failed
    }

    /// The context of the call in `slot`.
    ///
    /// # Panics
    /// If the slot is idle.
    #[inline]
    pub fn context_mut(&mut self, slot: u32) -> &mut C {
        self.slots[slot as usize].context.as_mut().expect("the slot is busy")
    }

    /// The context of `request` in `slot`; `None` if the slot has gone on to another request.
    #[inline]
    pub fn context_of(&self, slot: u32, request: u64) -> Option<&C> {
        let slot = self.slots.get(slot as usize)?;
        if slot.request == request { slot.context.as_ref() } else { None }
    }

    /// The number of the call in `slot`.
    pub fn call_in(&self, slot: u32) -> u64 {
        self.slots[slot as usize].call
    }

    /// Whether polling may return something to send, or waiting calls may start.
    #[inline(always)]
    pub fn wants_turn(&self) -> bool {
        self.sendable != 0 || self.waiting != 0
    }

    /// Whether the session needs no timer: it has no call, and no credits that lapse.
    #[inline]
    pub fn is_at_rest(&self) -> bool {
        self.busy == 0 && self.waiting == 0 && self.credits <= self.credits_lasting
    }

    /// Calls in slots.
    pub fn busy(&self) -> u32 {
        self.busy.count_ones()
    }

    /// Calls waiting for a slot.
    pub fn backlog(&self) -> usize {
        self.backlog.len()
    }

    /// Packets in flight.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// How many request packets may be in flight: what congestion control allows of the server's
    /// credits, at least 1. Probes after a timeout may exceed it.
    pub fn window(&self) -> u32 {
        self.window
    }

    /// How many of the packets in flight were pulled.
    pub fn pulled(&self) -> u32 {
        slots_in(self.pulling).map(|index| self.slots[index as usize].in_flight()).sum()
    }

    /// Like [`ClientSession::window`], for pulled packets: what congestion control allows of the
    /// session's share of this end's receive queue.
    pub fn pull_window(&self) -> u32 {
        self.control.congestion.window_packets(self.pull_credits.get())
    }

    /// Which epoch's holder the session is, for [`CreditShare::has`](crate::CreditShare::has). Ask
    /// for each part of a longer response.
    #[inline(always)]
    pub fn membership(&self) -> Membership {
        self.membership
    }

    /// The parameters of the session.
    pub fn params(&self) -> &SessionParams {
        &self.params
    }

    /// The smoothed round trip in nanoseconds, `None` before the first sample.
    pub fn rtt_ns(&self) -> Option<u64> {
        self.round_trip.smoothed_ns()
    }

    /// How long a timer for a packet that is sent now may run, in nanoseconds: the retransmission
    /// timeout, or less if the peer pauses now and then. Usually this reads no rarely used memory.
    #[inline]
    pub fn timer_ns(&self) -> u64 {
        match self.round_trip.bound_ns() {
            bound_ns if bound_ns <= self.rto_least_ns => u64::from(self.rto_least_ns),
            _ => self.rto_ns(0),
        }
    }

    /// The retransmission timeout after `backoff` timeouts in a row, in nanoseconds.
    #[inline]
    pub fn rto_ns(&self, backoff: u8) -> u64 {
        self.timeout.rto_ns(&self.round_trip, backoff)
    }

    /// Bytes of memory behind the session, except for its own size and its calls' scoreboards.
    pub fn footprint_bytes(&self) -> usize {
        let backlog_bytes = self.backlog.capacity() * size_of::<Queued<C>>();
        let spare_bytes = self.boards.footprint_bytes();
        size_of_val(&*self.slots)
            + backlog_bytes
            + spare_bytes
            + self.control.congestion.footprint_bytes()
    }

    /// The session's counters.
    pub fn stats(&self) -> ClientStats {
        let calls_short = self.call_next - self.calls_long;
        let request_packets = self.stats.request_packets + calls_short;
        let calls_completed = self.stats.calls_completed + self.completed_short;
        ClientStats { calls: self.call_next, calls_completed, request_packets, ..self.stats }
    }

    #[inline]
    fn free_slot(&self) -> Option<u32> {
        let slot = (!self.busy).trailing_zeros();
        (slot <= self.slot_mask).then_some(slot)
    }

    #[inline(always)]
    fn start(&mut self, index: u32, number: u64, call: Call<C>, now: Time) {
        if index as usize >= self.slots.len() {
            provide(&mut self.slots, index, Slot::new);
        }
        let slot = &mut self.slots[index as usize];
        slot.begin(
            u64::from(self.slot_mask) + 1,
            self.response_bytes_max,
            number,
            call.options,
            now,
        );
        slot.put_context(call.context);
        if slot.options.request_bytes > self.params.payload_bytes {
            let packets = self.params.packets(slot.options.request_bytes);
            slot.begin_many(&mut self.boards, packets, 0);
        }
        let bit = 1 << index;
        self.busy |= bit;
        self.sendable |= bit;
    }

    /// Empties the slot and returns its context.
    fn release(&mut self, index: u32) -> C {
        let slot = &mut self.slots[index as usize];
        self.in_flight -= slot.in_flight();
        let context = slot.end(&mut self.boards);
        let bit = !(1 << index);
        self.busy &= bit;
        self.sendable &= bit;
        self.pulling &= bit;
        self.probes &= bit;
        context
    }

    fn abort(&mut self, slot: u32) -> Expired<C> {
        let cancel = self.bare(Kind::Cancel, slot);
        Expired { context: self.release(slot), cancel: Some(cancel) }
    }

    /// A header without payload about the request in `slot`.
    fn bare(&mut self, kind: Kind, slot: u32) -> Header {
        let transmission = self.next_transmission();
        let request = self.slots[slot as usize].request;
        self.header.with_request(kind, request, transmission).with_client(0, 0, 0)
    }

    #[inline]
    fn next_transmission(&mut self) -> u32 {
        self.transmission = (self.transmission + 1) % TRANSMISSION_NUMBERS;
        self.transmission
    }

    #[cold]
    fn drop_packet(&mut self, reason: Drop) -> ResponseAction<C> {
        self.stats.count(reason);
        ResponseAction::None
    }
}

/// A new share takes effect with the next pull.
impl<C> Sharer for ClientSession<C> {
    fn membership_mut(&mut self) -> &mut Membership {
        &mut self.membership
    }

    fn take_share(&mut self, holders: u32) {
        self.pull_credits.aim_at(self.params.share(holders));
    }

    fn leave_share(&mut self) {
        self.pull_credits = Credits::new(self.params.credits);
    }
}

/// Whether transmission `echo` is `transmission` or a later one (W6: numbers wrap).
#[inline]
fn answers(echo: u32, transmission: u32) -> bool {
    echo.wrapping_sub(transmission) % TRANSMISSION_NUMBERS < TRANSMISSION_NUMBERS / 2
}

const _: () = assert!(petasos_wire::SLOTS_MAX <= u64::BITS, "sets of slots are kept in 64 bits");

impl<C> core::fmt::Debug for ClientSession<C> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ClientSession")
            .field("busy", &self.busy())
            .field("backlog", &self.backlog())
            .field("in_flight", &self.in_flight)
            .field("credits", &self.credits)
            .finish_non_exhaustive()
    }
}
