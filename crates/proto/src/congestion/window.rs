//! What the window-based algorithms share: a window in packets that may be less than one packet.

use super::Pace;

/// A congestion window, in packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    packets: f64,
    min: f64,
    max: f64,
}

impl Window {
    /// A window of `packets`, kept between `min` and `max`.
    pub(super) fn new(packets: f64, min: f64, max: u32) -> Window {
        let max = f64::from(max.max(1));
        Window { packets: packets.clamp(min, max), min, max }
    }

    #[inline]
    pub(super) fn packets(self) -> f64 {
        self.packets
    }

    pub(super) fn max(self) -> f64 {
        self.max
    }

    pub(super) fn is_full(self) -> bool {
        self.packets >= self.max
    }

    pub(super) fn set(&mut self, packets: f64) {
        self.packets = packets.clamp(self.min, self.max);
    }

    /// Additive increase by `step` packets per round trip, for `acknowledged` packets. Below one
    /// packet, there is less than one acknowledgement per round trip, so each one counts in full.
    pub(super) fn grow(&mut self, step: f64, acknowledged: u32) {
        self.set(self.packets + step * f64::from(acknowledged) / self.packets.max(1.0));
    }

    /// The window in whole packets, at least one.
    pub(super) fn whole(self) -> u32 {
        self.packets.max(1.0) as u32
    }

    /// Below one packet: one packet of `packet_bytes` every `rtt / window`. Otherwise none, since
    /// acknowledgements clock the window.
    pub(super) fn pace(self, packet_bytes: u32, rtt_ns: u64) -> Option<Pace> {
        let bytes_per_s = self.packets * f64::from(packet_bytes) * 1e9 / rtt_ns.max(1) as f64;
        (self.packets < 1.0).then(|| Pace::from_bytes_per_s(bytes_per_s))
    }
}
