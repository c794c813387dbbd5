//! What two peers agree on for a session, and the timers of the client's half.

use core::time::Duration;

use petasos_wire::{Header, SessionMark};

/// How long a client that hears nothing from the server keeps using the latest granted credits.
/// After that it falls back to the credits of the set-up (W26).
pub const CREDITS_IDLE: Duration = Duration::from_millis(8);

/// Credits that move towards a share of the receive queue (W26). They fall to it at once, and rise
/// by one for each packet that arrives, so they double in a round trip. If many sessions start
/// together, all are counted before the first of them has its full share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credits {
    now: u32,
    aim: u32,
}

impl Credits {
    pub(crate) fn new(credits: u32) -> Credits {
        Credits { now: credits, aim: credits }
    }

    #[inline(always)]
    pub(crate) fn get(self) -> u32 {
        self.now
    }

    pub(crate) fn aim_at(&mut self, credits: u32) {
        *self = Credits { now: self.now.min(credits), aim: credits };
    }

    #[inline]
    pub(crate) fn on_arrival(&mut self) {
        self.now += u32::from(self.now < self.aim);
    }
}

/// How a sender recovers from loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// Resend what is missing. Tolerates reordering. The default.
    #[default]
    Selective,
    /// Resend everything from the first gap; reordered packets count as lost. This is eRPC's method
    /// (section 5.3), kept as a baseline.
    GoBackN,
}

/// The parameters that the two ends of a session agree on when it is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionParams {
    /// The peer's index of the session (20 bits).
    pub peer_session: u32,
    /// The tag that the peer expects (28 bits).
    pub peer_tag: u32,
    /// The tag that we expect (28 bits).
    pub local_tag: u32,
    /// Concurrent requests: a power of two, at most [`petasos_wire::SLOTS_MAX`].
    pub slots: u32,
    /// Packets in flight that the server grants at first, and again after silence (W26); at least
    /// 1.
    pub credits: u32,
    /// Packets in flight in either direction that both ends ever allow (from `credits` to
    /// [`petasos_wire::CREDITS_MAX`]).
    pub credits_max: u32,
    /// Packets that this end's receive queue holds, for all sessions together; at least 1.
    pub room_packets: u32,
    /// Message bytes in every packet but a message's last.
    pub payload_bytes: u32,
    /// Longest request, in bytes.
    pub request_bytes_max: u32,
    /// Longest response, in bytes.
    pub response_bytes_max: u32,
    /// How lost packets are recovered.
    pub recovery: Recovery,
    /// Whether every packet, in both directions, carries a CRC32C beside the transport's own
    /// checksum (W12). The caller computes and verifies it.
    pub checksum: bool,
}

impl SessionParams {
    /// Packets of a message of `bytes`: an empty message is one bare packet (W7).
    #[inline]
    pub(crate) fn packets(&self, bytes: u32) -> u32 {
        if bytes <= self.payload_bytes { 1 } else { bytes.div_ceil(self.payload_bytes) }
    }

    /// Payload bytes of packet `index` of a message of `bytes` (W7).
    #[inline]
    pub(crate) fn payload_of(&self, index: u32, bytes: u32) -> u32 {
        bytes.saturating_sub(index.saturating_mul(self.payload_bytes)).min(self.payload_bytes)
    }

    /// Messages shorter than this, in bytes, are sent in one step if they may have `bytes_max`.
    /// With checksums none are: only the slow path handles those.
    pub(crate) fn short_below(&self, bytes_max: u32) -> u32 {
        if self.checksum { 0 } else { self.payload_bytes.min(bytes_max) + 1 }
    }

    /// This end's share of its receive queue, in packets, if `holders` sessions share it.
    pub(crate) fn share(&self, holders: u32) -> u32 {
        (self.room_packets / holders).clamp(1, self.credits_max)
    }

    /// The tag and the checksum flag of packets to this end.
    pub(crate) fn mark(&self) -> SessionMark {
        SessionMark::new(self.local_tag, self.checksum)
    }

    /// The part of the header that every packet from this end shares.
    pub(crate) fn header(&self) -> Header {
        let header = Header::for_session(self.peer_session, self.peer_tag);
        if self.checksum { header.with_checksum() } else { header }
    }

    /// Checks the relations that the state machines rely on.
    ///
    /// # Panics
    /// If one does not hold. Set-up only negotiates values within these limits.
    pub(crate) fn assert_valid(&self) {
        assert!(self.slots.is_power_of_two() && self.slots <= petasos_wire::SLOTS_MAX);
        assert!((1..=self.credits_max).contains(&self.credits));
        assert!(self.credits_max <= petasos_wire::CREDITS_MAX);
        assert!(self.room_packets > 0);
        assert!(self.payload_bytes >= petasos_wire::PAYLOAD_BYTES_MIN);
        assert!(self.request_bytes_max <= petasos_wire::MESSAGE_BYTES_MAX);
        assert!(self.response_bytes_max <= petasos_wire::MESSAGE_BYTES_MAX);
    }
}

/// Timers of the client's half.
#[derive(Clone, Copy, Debug)]
pub struct TimerConfig {
    /// Retransmission timeout before any round trip has been measured.
    pub rto_initial: Duration,
    /// The timeout never falls below this. It covers the time for which a peer's thread may be
    /// descheduled, which no measured round trip shows.
    pub rto_min: Duration,
    /// The timeout, with its back-off, never rises above this.
    pub rto_max: Duration,
}

impl Default for TimerConfig {
    fn default() -> TimerConfig {
        TimerConfig {
            rto_initial: Duration::from_millis(10),
            rto_min: Duration::from_millis(4),
            rto_max: Duration::from_millis(400),
        }
    }
}
