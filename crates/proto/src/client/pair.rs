//! Sessions of one slot, for pairs that are bound to a worker (`docs/spec/route.md`, RT12).
//!
//! Such a session has one call, whose request number is the pair's. It does not believe a reset
//! (W23): the slot ends with the call. When the pair has ended, the session may be bound again, to
//! any worker, and has then allocated nothing.

use petasos_base::Time;
use petasos_wire::{Header, Kind, REQUEST_NUMBERS, Signature, TRANSMISSION_NUMBERS};

use super::slot::Phase;
use super::{Call, ClientSession};
use crate::congestion::CongestionConfig;
use crate::params::Credits;
use crate::path::LinkPath;
use crate::{SessionParams, TimerConfig};

/// How a pair was bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The number of the pair's request.
    pub request: u64,
    /// Whether the worker has the whole request: it was in the first packet, and is not sent again
    /// unless nothing comes. Otherwise the worker said ready to a claim, and the request is sent.
    pub is_whole: bool,
    /// What ready has granted (W26); `None` if a response has bound the pair.
    pub credits: Option<u32>,
}

impl<C> ClientSession<C> {
    /// A session for pairs, which is bound next ([`ClientSession::bind`]).
    ///
    /// # Panics
    /// If the parameters have several slots, or `congestion` is not valid.
    pub fn for_pairs(params: SessionParams, congestion: &CongestionConfig) -> Self {
        assert_eq!(params.slots, 1, "a pair is one request");
        let mut session = ClientSession::new(params, &TimerConfig::default(), congestion, 0);
        session.believes_resets = false;
        session
    }

    /// A pair is bound now. Its call is in slot 0.
    ///
    /// # Panics
    /// If the session has a call, or is not for pairs, or the request of a whole first packet is
    /// longer than a payload.
    pub fn bind(
        &mut self,
        params: SessionParams,
        path: &mut LinkPath,
        binding: Binding,
        call: Call<C>,
        now: Time,
    ) {
        assert!(self.busy == 0 && params.slots == 1 && self.slot_mask == 0, "it is free");
        let is_short = call.options.request_bytes <= params.payload_bytes;
        assert!(is_short || !binding.is_whole, "a whole first packet has all of its request");
        self.renew(params, now);
        (self.round_trip, self.timeout) = (path.round_trip, path.timeout);
        self.rto_least_ns = self.timeout.least_ns(&self.round_trip);
        self.control.congestion.copy_from(&path.congestion);
        self.credits = binding.credits.map_or(params.credits, |it| it.clamp(1, params.credits_max));
        self.refresh_window();
        if !is_short {
            self.join(path);
        }
        self.slots[0].request = (binding.request + REQUEST_NUMBERS - 1) % REQUEST_NUMBERS;
        let started = self.enqueue(call, now);
        debug_assert!(started.is_ok_and(|enqueued| enqueued.started), "the slot is free");
        if binding.is_whole {
            self.acknowledge_whole();
        }
    }

    /// The number of the last packet that was sent.
    #[inline]
    pub fn transmission(&self) -> u32 {
        self.transmission
    }

    /// Numbers packets from after `last` on: pairs of a sealed link share one row of numbers
    /// (RT28), which goes up from one to the other.
    #[inline]
    pub fn number_after(&mut self, last: u32) {
        debug_assert!(last < TRANSMISSION_NUMBERS, "a transmission has 24 bits");
        self.transmission = last;
    }

    /// Forgets the pair before.
    fn renew(&mut self, params: SessionParams, now: Time) {
        params.assert_valid();
        (self.header, self.mark) = (params.header(), params.mark());
        self.request_start = self.header.with_kind(Kind::Request).start();
        self.signature = Signature::new(Kind::Response, self.mark);
        self.short_requests_below = params.short_below(params.request_bytes_max);
        self.response_bytes_max = params.response_bytes_max;
        self.credits_lasting = params.credits;
        self.pull_credits = Credits::new(params.credits);
        // What is granted lasts from now on (W26).
        self.sampled_at = now;
        self.control.renew(self.completed_short);
        self.params = params;
        self.parts = 0;
    }

    /// The request is at the worker, as if it had been acknowledged (RT12).
    fn acknowledge_whole(&mut self) {
        let slot = &mut self.slots[0];
        slot.phase = Phase::Waiting;
        slot.backoff = 1;
        self.sendable = 0;
    }

    /// The pair's response has several packets: from now on it has a part of the link, unless it
    /// has one. To be called when the response begins, and before pulling.
    pub fn join(&mut self, path: &mut LinkPath) {
        if self.parts == 0 {
            path.begin();
            self.parts = path.parts();
            self.control.congestion.copy_from(&path.congestion);
            self.control.congestion.scale(self.parts, 1);
            self.refresh_window();
            self.pull_credits = Credits::new(path.pull_credits_each());
        }
    }

    /// Keeps to a part of the link as large as those of others. To be called before polling.
    #[inline]
    pub fn share(&mut self, path: &LinkPath) {
        if self.parts == 0 {
            return;
        }
        self.pull_credits = Credits::new(path.pull_credits_each());
        if self.parts != path.parts() {
            self.control.congestion.scale(path.parts(), self.parts);
            self.parts = path.parts();
            self.refresh_window();
        }
    }

    /// The pair has ended, and its link knows what it has learnt. To be called once.
    pub fn leave(&mut self, path: &mut LinkPath) {
        (path.round_trip, path.timeout) = (self.round_trip, self.timeout);
        let parts = core::mem::take(&mut self.parts);
        if parts != 0 {
            path.end(&self.control.congestion, parts);
        }
    }

    /// Tells the server that it may forget the call that was last in `slot`. A pair's client sends
    /// this whenever it has the whole response, or the session's rejection (RT12).
    pub fn done(&mut self, slot: u32) -> Header {
        self.bare(Kind::Done, slot)
    }
}
