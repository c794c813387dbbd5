//! The server's half of a session. It is passive: every packet answers one of the client's.
//!
//! For each slot it keeps the latest request: being assembled, running, or answered. A request runs
//! at most once: its number must be newer than the slot's (W5), and the response is kept until the
//! client's next request in the slot, or an explicit "done", shows that it has arrived.
//!
//! The caller keeps one message per slot here ([`ServerSession::kept_mut`]): the request while it
//! is being assembled, then the response. When the slot goes on to another request, the old
//! response stays until it is taken or overwritten, so that the next one can reuse its memory
//! (eRPC's preallocated responses).

mod assembly;
mod pair;
mod receive;
#[cfg(test)]
mod tests;

use core::mem::offset_of;

use petasos_base::{LINE_BYTES, prefetch_head};
use petasos_wire::{
    BITMAP_WORDS_MAX, Header, HeaderStart, Kind, Packet, RejectCode, SessionMark, Signature,
    TRANSMISSION_NUMBERS,
};

use crate::params::Credits;
use crate::spares::Spares;
use crate::stats::ServerStats;
use crate::{Membership, SessionParams, Sharer};
use assembly::Assembly;

/// What a packet from the client means for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestAction {
    /// Nothing to do: the packet was dropped or only changed internal state.
    None,
    /// The payload is a whole new request: run its handler.
    Deliver,
    /// The payload is the first part to arrive of a new request of `bytes`: allocate that much for
    /// the slot and store it at `offset`. If there is no memory, reject the request.
    Begin {
        /// The request's slot.
        slot: u32,
        /// Length of the whole request.
        bytes: u32,
        /// Where in the message, in bytes.
        offset: u32,
    },
    /// Store the payload at `offset` of the slot's message. The `last` one completes the request:
    /// run its handler.
    Store {
        /// The request's slot.
        slot: u32,
        /// Where in the message, in bytes.
        offset: u32,
        /// Whether the request is now complete.
        last: bool,
    },
    /// The client has not seen the response: send its packet 0 again.
    Repeat {
        /// The request's slot.
        slot: u32,
    },
    /// Send packets `start..end` of the slot's response.
    Pull {
        /// The request's slot.
        slot: u32,
        /// First packet.
        start: u32,
        /// One past the last packet.
        end: u32,
    },
    /// The request cannot be served; send the header.
    Reject(ServerTransmit),
    /// The client gave up the call in `slot`, or has its response: the message may be dropped.
    Released {
        /// The request's slot.
        slot: u32,
    },
}

/// A header to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerTransmit {
    /// The header. After an acknowledgement's header comes the caller's bitmap.
    pub header: Header,
    /// Words of the bitmap that follow.
    pub bitmap_words: u32,
}

/// What to do with a handler's response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Respond {
    /// Keep it in the slot and send its packet 0.
    Send,
    /// The call is over; drop the response.
    Stale,
    /// It is longer than the client accepts: reject the request instead.
    TooLong,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No request, or one that the client gave up.
    Idle,
    /// The request was rejected, for this reason.
    Rejected(RejectCode),
    Receiving,
    Running,
    Responded,
}

/// The first cache line has everything that a short request and its response touch, provided that
/// `B` has short messages at its front.
#[repr(C, align(64))]
struct Slot<B> {
    /// The latest request seen.
    request: u64,
    /// The transmission to which the next packet of this slot is an answer.
    echo: u32,
    /// Length of the request, later of the response.
    bytes: u32,
    phase: Phase,
    method: u16,
    ecn: bool,
    /// The caller's message: the request while it is assembled, then the response.
    kept: B,
    assembly: Option<Box<Assembly>>,
}

const _: () = assert!(offset_of!(Slot<u64>, kept) == 24);

impl<B: Default> Slot<B> {
    fn new(request: u64) -> Slot<B> {
        Slot {
            request,
            echo: 0,
            bytes: 0,
            method: 0,
            phase: Phase::Idle,
            ecn: false,
            assembly: None,
            kept: B::default(),
        }
    }
}

impl<B> Slot<B> {
    /// Starts a new request in the slot; `packet` is the first of it to arrive.
    fn renew(&mut self, packet: Packet<'_>, marked: bool) {
        self.request = packet.request();
        self.echo = packet.transmission();
        self.bytes = packet.message_bytes();
        self.method = packet.method();
        self.ecn = marked;
        self.assembly = None;
    }
}

/// The server's half of one session. See the module's documentation.
#[repr(C)]
pub struct ServerSession<B> {
    /// The slots that have been used; the others are allocated on first use.
    slots: Box<[Slot<B>]>,
    /// Masks a request's number to its slot (W5).
    slot_mask: u64,
    /// The usual first word of a request of one packet.
    signature: Signature,
    /// Slots that owe an acknowledgement.
    acks: u64,
    /// The longest request in one packet, in bytes.
    short_request_bytes_max: u32,
    /// Responses shorter than this, in bytes, may be sent in one step. 0 with checksums.
    short_responses_below: u32,
    response_start: HeaderStart,
    credits: Credits,
    transmission: u32,
    membership: Membership,
    stats: ServerStats,
    params: SessionParams,
    header: Header,
    mark: SessionMark,
    spares: Spares<Assembly>,
}

impl<B: Default> ServerSession<B> {
    /// A session with the parameters that set-up negotiated.
    pub fn new(params: SessionParams) -> Self {
        params.assert_valid();
        ServerSession {
            spares: Spares::new(),
            header: params.header(),
            response_start: params.header().with_kind(Kind::Response).start(),
            mark: params.mark(),
            signature: Signature::new(Kind::Request, params.mark()),
            slot_mask: u64::from(params.slots) - 1,
            short_request_bytes_max: params.payload_bytes.min(params.request_bytes_max),
            short_responses_below: params.short_below(params.response_bytes_max),
            slots: Box::new([Slot::new(0)]),
            acks: 0,
            credits: Credits::new(params.credits),
            membership: Membership::default(),
            transmission: 0,
            stats: ServerStats::default(),
            params,
        }
    }
}

impl<B> ServerSession<B> {
    /// Bytes from the start of a session that nearly every request touches.
    pub const HOT_BYTES: usize = {
        let (requests, responses) =
            (offset_of!(ServerStats, requests), offset_of!(ServerStats, responses));
        let counters = if requests > responses { requests } else { responses };
        offset_of!(Self, stats) + counters + size_of::<u64>()
    };

    /// Disables answers in one step, to measure what they save.
    pub fn without_short_responses(self) -> Self {
        ServerSession { short_responses_below: 0, ..self }
    }

    /// The slot's message; see the module's documentation.
    #[inline]
    pub fn kept_mut(&mut self, slot: u32) -> &mut B {
        &mut self.slots[slot as usize].kept
    }

    /// The response to `request` in `slot`; `None` if the slot has gone on to another request.
    #[inline]
    pub fn response_of(&self, slot: u32, request: u64) -> Option<&B> {
        let slot = self.slots.get(slot as usize)?;
        let current = slot.request == request && slot.phase == Phase::Responded;
        current.then_some(&slot.kept)
    }

    /// The number of the latest request in `slot`.
    #[inline]
    pub fn request_in(&self, slot: u32) -> u64 {
        self.slots.get(slot as usize).map_or(u64::from(slot), |slot| slot.request)
    }

    /// The method of the latest request in `slot`.
    #[cfg(test)]
    pub(crate) fn method_in(&self, slot: u32) -> u16 {
        self.slots[slot as usize].method
    }

    /// The slot of `request` (W5).
    #[inline(always)]
    pub fn slot_of(&self, request: u64) -> u32 {
        (request & self.slot_mask) as u32
    }

    /// Whether `request` still waits for its response.
    #[inline]
    pub fn is_running(&self, request: u64) -> bool {
        let slot = self.slots.get(self.slot_of(request) as usize);
        slot.is_some_and(|slot| slot.request == request && slot.phase == Phase::Running)
    }

    /// Whether a part of a request in `slot` has arrived, but not all of it.
    pub fn is_receiving(&self, slot: u32) -> bool {
        self.slots.get(slot as usize).is_some_and(|slot| slot.phase == Phase::Receiving)
    }

    /// The lengths of all requests that have arrived in part.
    pub fn receiving(&self) -> impl Iterator<Item = u32> {
        let receiving = self.slots.iter().filter(|slot| slot.phase == Phase::Receiving);
        receiving.map(|slot| slot.bytes)
    }

    /// Notes that the handler of `request` has answered with `bytes`. On [`Respond::Send`] the
    /// caller stores the response in the slot and sends its packet 0.
    #[inline]
    pub fn respond(&mut self, request: u64, bytes: u32) -> Respond {
        if !self.is_running(request) {
            self.stats.responses_stale += 1;
            return Respond::Stale;
        }
        if bytes > self.params.response_bytes_max {
            return Respond::TooLong;
        }
        let index = self.slot_of(request);
        let slot = &mut self.slots[index as usize];
        slot.phase = Phase::Responded;
        slot.bytes = bytes;
        self.acks &= !(1 << index);
        self.stats.responses += 1;
        Respond::Send
    }

    /// The common case of [`ServerSession::respond`] and [`ServerSession::response_header`] in one
    /// step: answers `request` with `bytes` in one packet. Returns its header, and the slot's
    /// message, into which the caller puts the response.
    ///
    /// Returns `None` in any other case, and has then changed nothing.
    #[inline(always)]
    pub fn respond_short(&mut self, request: u64, bytes: u32) -> Option<(Header, &mut B)> {
        self.respond_below(self.short_responses_below, request, bytes)
    }

    /// Like [`ServerSession::respond_short`], in a session with checksums or seals, where that
    /// always returns `None`. The caller adds the checksum or seal to the packet.
    #[inline(never)]
    pub fn respond_protected(&mut self, request: u64, bytes: u32) -> Option<(Header, &mut B)> {
        let below = self.params.payload_bytes.min(self.params.response_bytes_max) + 1;
        self.respond_below(below, request, bytes)
    }

    #[inline(always)]
    fn respond_below(&mut self, below: u32, request: u64, bytes: u32) -> Option<(Header, &mut B)> {
        let index = request & self.slot_mask;
        let slot = self.slots.get_mut(index as usize)?;
        let current = slot.request == request && slot.phase == Phase::Running;
        if !current || bytes >= below {
            return None;
        }
        let transmission = (self.transmission + 1) % TRANSMISSION_NUMBERS;
        slot.phase = Phase::Responded;
        slot.bytes = bytes;
        self.transmission = transmission;
        if self.acks != 0 {
            clear(&mut self.acks, index);
        }
        self.stats.responses += 1;
        let header = self
            .response_start
            .with_numbers(request, transmission)
            .with_server(slot.echo, bytes, self.credits.get())
            .with_ecn_echo(slot.ecn);
        Some((header, &mut slot.kept))
    }

    /// Prefetches the slot of `request`, before its packet is handled.
    #[inline]
    pub fn prefetch_slot(&self, request: u64) {
        if let Some(slot) = self.slots.get((request & self.slot_mask) as usize) {
            prefetch_head(slot, LINE_BYTES);
        }
    }

    /// Rejects `request` with a reason for the client; `None` if its call is over.
    pub fn reject(&mut self, request: u64, code: RejectCode) -> Option<ServerTransmit> {
        let index = self.slot_of(request);
        let slot = self.slots.get_mut(index as usize)?;
        let open = matches!(slot.phase, Phase::Running | Phase::Receiving);
        if slot.request != request || !open {
            return None;
        }
        slot.phase = Phase::Rejected(code);
        slot.assembly = None;
        self.acks &= !(1 << index);
        Some(self.reject_packet(index, code))
    }

    /// The header of packet `index` of the response in `slot`.
    #[inline]
    pub fn response_header(&mut self, slot: u32, index: u32) -> Header {
        let transmission = self.next_transmission();
        let slot = &self.slots[slot as usize];
        let value = if index == 0 { slot.bytes } else { index };
        let header = self
            .response_start
            .with_numbers(slot.request, transmission)
            .with_server(slot.echo, value, self.credits.get())
            .with_ecn_echo(slot.ecn);
        if index == 0 { header } else { header.with_later() }
    }

    /// The next acknowledgement to send, with its bitmap written to `bitmap`. Once a batch of
    /// packets has been handled, call this until `None`, so that one acknowledgement covers them
    /// all (W17).
    #[inline]
    pub fn poll_ack(&mut self, bitmap: &mut [u64; BITMAP_WORDS_MAX]) -> Option<ServerTransmit> {
        if self.acks == 0 {
            return None;
        }
        let index = self.acks.trailing_zeros();
        self.acks &= self.acks - 1;
        self.stats.acks += 1;
        let transmission = self.next_transmission();
        let slot = &self.slots[index as usize];
        let (arrived, bitmap_words) = match &slot.assembly {
            Some(assembly) => (assembly.base(), assembly.bitmap(bitmap)),
            None => (self.params.packets(slot.bytes), 0),
        };
        let header = self
            .header
            .with_request(Kind::Ack, slot.request, transmission)
            .with_server(slot.echo, arrived, self.credits.get())
            .with_ecn_echo(slot.ecn);
        Some(ServerTransmit { header, bitmap_words })
    }

    /// Which epoch's holder the session is, for [`CreditShare::has`](crate::CreditShare::has). Ask
    /// for each part of a longer request.
    #[inline(always)]
    pub fn membership(&self) -> Membership {
        self.membership
    }

    /// The packets that the client may have in flight (W26).
    pub fn credits(&self) -> u32 {
        self.credits.get()
    }

    /// Requests whose handlers have not answered.
    pub fn running(&self) -> usize {
        self.slots.iter().filter(|slot| slot.phase == Phase::Running).count()
    }

    /// The parameters of the session.
    pub fn params(&self) -> &SessionParams {
        &self.params
    }

    /// Bytes of memory behind the session, except for its own size, its requests' assemblies, and
    /// the memory behind the slots' messages.
    pub fn footprint_bytes(&self) -> usize {
        size_of_val(&*self.slots) + self.spares.footprint_bytes()
    }

    /// The session's counters.
    pub fn stats(&self) -> &ServerStats {
        &self.stats
    }

    /// Ends the session and returns the message of every slot.
    pub fn into_kept(self) -> impl Iterator<Item = B> {
        self.slots.into_iter().map(|slot| slot.kept)
    }

    fn reject_packet(&mut self, slot: u32, code: RejectCode) -> ServerTransmit {
        self.stats.rejects += 1;
        let transmission = self.next_transmission();
        let slot = &self.slots[slot as usize];
        let header = self
            .header
            .with_request(Kind::Reject, slot.request, transmission)
            .with_server(slot.echo, code as u32, self.credits.get());
        ServerTransmit { header, bitmap_words: 0 }
    }

    #[inline]
    fn next_transmission(&mut self) -> u32 {
        self.transmission = (self.transmission + 1) % TRANSMISSION_NUMBERS;
        self.transmission
    }
}

/// The next packet to the client tells it its new credits (W10).
impl<B> Sharer for ServerSession<B> {
    fn membership_mut(&mut self) -> &mut Membership {
        &mut self.membership
    }

    fn take_share(&mut self, holders: u32) {
        self.credits.aim_at(self.params.share(holders));
    }

    fn leave_share(&mut self) {
        self.credits = Credits::new(self.params.credits);
    }
}

/// Removes `index` from a set of slots. For places where that is rare.
#[cold]
#[inline(never)]
fn clear(set: &mut u64, index: u64) {
    *set &= !(1 << index);
}

impl<B> core::fmt::Debug for ServerSession<B> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ServerSession").field("running", &self.running()).finish_non_exhaustive()
    }
}
