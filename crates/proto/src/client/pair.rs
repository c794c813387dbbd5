//! Sessions of one slot, for pairs that are bound to a worker (`docs/spec/route.md`, RT12).
//!
//! Such a session has one call, whose request number is the pair's. It neither sends nor believes a
//! reset (W23): the slot ends with the call.

use petasos_base::Time;
use petasos_wire::{Header, Kind, REQUEST_NUMBERS};

use super::slot::{Phase, Slot};
use super::{Call, ClientSession};
use crate::congestion::CongestionConfig;
use crate::rtt::{RoundTrip, Timeout};
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

/// What the pairs of a link have learnt of the times of its path. Round trips through the router
/// are not among them.
#[derive(Clone, Copy, Debug)]
pub struct LinkTimes {
    round_trip: RoundTrip,
    timeout: Timeout,
}

impl LinkTimes {
    /// Of a link without history.
    pub fn new(timers: &TimerConfig) -> LinkTimes {
        LinkTimes { round_trip: RoundTrip::default(), timeout: Timeout::new(timers) }
    }

    /// The smoothed round trip in nanoseconds, `None` before the first sample.
    pub fn rtt_ns(&self) -> Option<u64> {
        self.round_trip.smoothed_ns()
    }
}

impl<C> ClientSession<C> {
    /// The session of a pair that is bound now, with what is known of its link. The call is in slot
    /// 0.
    ///
    /// # Panics
    /// If the parameters have several slots, or the request of a whole first packet is longer than
    /// a payload, or `congestion` is not valid.
    pub fn of_pair(
        params: SessionParams,
        congestion: &CongestionConfig,
        times: LinkTimes,
        binding: Binding,
        call: Call<C>,
        now: Time,
    ) -> Self {
        assert_eq!(params.slots, 1, "a pair is one request");
        let fits = call.options.request_bytes <= params.payload_bytes;
        assert!(fits || !binding.is_whole, "a whole first packet has all of its request");
        let mut session = ClientSession::new(params, &TimerConfig::default(), congestion, 0);
        session.believes_resets = false;
        session.put_times(times);
        // Granted credits last from now on (W26).
        session.sampled_at = now;
        if let Some(credits) = binding.credits {
            session.set_credits(credits.clamp(1, params.credits_max));
        }
        let before = (binding.request + REQUEST_NUMBERS - 1) % REQUEST_NUMBERS;
        session.slots = Box::new([Slot::new(before)]);
        let started = session.enqueue(call, now);
        debug_assert!(started.is_ok_and(|enqueued| enqueued.started), "the slot is free");
        if binding.is_whole {
            session.acknowledge_whole();
        }
        session
    }

    /// The request is at the worker, as if it had been acknowledged (RT12).
    fn acknowledge_whole(&mut self) {
        let slot = &mut self.slots[0];
        slot.phase = Phase::Waiting;
        slot.backoff = 1;
        self.sendable = 0;
    }

    fn put_times(&mut self, times: LinkTimes) {
        let LinkTimes { round_trip, timeout } = times;
        (self.round_trip, self.timeout) = (round_trip, timeout);
        self.rto_least_ns = timeout.least_ns(&round_trip);
    }

    /// What the session knows of its path, for the link, when the pair ends.
    pub fn times(&self) -> LinkTimes {
        LinkTimes { round_trip: self.round_trip, timeout: self.timeout }
    }

    /// Tells the server that it may release the response to the call that was last in `slot`. A
    /// pair's client sends this whenever it has the whole response (RT12).
    pub fn done(&mut self, slot: u32) -> Header {
        self.bare(Kind::Done, slot)
    }
}
