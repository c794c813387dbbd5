//! Links: rate, delay and faults of one direction of a cable.
//!
//! Arithmetic is in whole picoseconds, so that back-to-back packets at 25 or 100 Gbit/s do not lose
//! a fraction of a nanosecond each. Only the times of events are rounded (up).

use petasos_base::{Rng, Time};

use crate::FaultProfile;

/// One direction of a cable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkConfig {
    /// Bits per second, at least 1.
    pub rate_bps: u64,
    /// Propagation delay.
    pub delay_nanos: u64,
    /// Up to this much is added to the delay, evenly distributed. It never reorders packets.
    pub jitter_nanos: u64,
    /// A packet that is reordered, and the copy of one that is duplicated, arrives up to this much
    /// later; at least 1.
    pub reorder_nanos_max: u64,
    /// The faults at the start. See [`crate::Action::Faults`] for later changes.
    pub faults: FaultProfile,
}

impl LinkConfig {
    /// A clean link of `gbps` Gbit/s and `delay_nanos`, without jitter.
    pub const fn new(gbps: u64, delay_nanos: u64) -> LinkConfig {
        LinkConfig {
            rate_bps: gbps * 1_000_000_000,
            delay_nanos,
            jitter_nanos: 0,
            reorder_nanos_max: 20_000,
            faults: FaultProfile::clean(),
        }
    }

    /// # Panics
    /// If a field is outside its range: the caller's fault.
    pub(crate) fn check(&self) {
        assert!(self.rate_bps > 0, "a link has a rate");
        assert!(self.reorder_nanos_max > 0, "a delay that reorders is not zero");
        self.faults.check();
    }
}

/// The bytes that surround a payload on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Headers and checksums around the payload; they occupy buffers.
    pub header_bytes: u64,
    /// Smallest frame, headers included; shorter ones are padded.
    pub frame_bytes_min: u64,
    /// Preamble and gap between frames; they occupy the wire only.
    pub gap_bytes: u64,
}

impl Framing {
    /// No framing at all, for tests of arithmetic.
    pub const NONE: Framing = Framing { header_bytes: 0, frame_bytes_min: 0, gap_bytes: 0 };

    /// Bytes that a payload occupies in a buffer.
    #[inline]
    pub fn frame_bytes(&self, payload_bytes: usize) -> u64 {
        (payload_bytes as u64 + self.header_bytes).max(self.frame_bytes_min)
    }
}

impl Default for Framing {
    /// UDP over IPv4 over Ethernet: 14 + 20 + 8 + 4 bytes around the payload, 64 at least, 20 of
    /// preamble and gap.
    fn default() -> Framing {
        Framing { header_bytes: 46, frame_bytes_min: 64, gap_bytes: 20 }
    }
}

/// The fate of one packet on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) lost: bool,
    pub(crate) corrupt: bool,
    pub(crate) undetected: bool,
    /// How much later than the packet a copy of it arrives.
    pub(crate) copy_after_nanos: Option<u64>,
    /// How much later than in order the packet arrives.
    pub(crate) held_nanos: Option<u64>,
}

/// The changing state of a link.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) config: LinkConfig,
    pub(crate) faults: FaultProfile,
    /// Whether the cable is cut: packets put on it are lost.
    pub(crate) cut: bool,
    /// When the last packet has been sent in full, in picoseconds.
    free_ps: u64,
    /// Latest arrival so far of a packet in order: none in order arrives before it.
    arrived_last: Time,
    rng: Rng,
}

impl Link {
    pub(crate) fn new(config: LinkConfig, seed: u64) -> Link {
        config.check();
        Link {
            config,
            faults: config.faults,
            cut: false,
            free_ps: 0,
            arrived_last: Time::ZERO,
            rng: Rng::new(seed),
        }
    }

    /// Occupies the link with `wire_bytes` from `now`, or from the end of the packet before it
    /// if that is still being sent (or ended within the same nanosecond). Returns the start and
    /// the duration, in picoseconds.
    #[inline]
    pub(crate) fn occupy(&mut self, now: Time, wire_bytes: u64, back_to_back: bool) -> (u64, u64) {
        let now_ps = now.as_nanos().checked_mul(1000).expect("a simulation spans under 213 days");
        let start_ps = if back_to_back { self.free_ps } else { self.free_ps.max(now_ps) };
        let duration_ps = self.serialisation_ps(wire_bytes);
        self.free_ps = start_ps + duration_ps;
        (start_ps, duration_ps)
    }

    /// When the packet being sent has been sent in full.
    #[inline]
    pub(crate) fn free_at(&self) -> Time {
        round_up(self.free_ps)
    }

    #[inline]
    pub(crate) fn serialisation_ps(&self, bytes: u64) -> u64 {
        let bit_picos = bytes.checked_mul(8_000_000_000_000).expect("a datagram is under 2 MB");
        bit_picos / self.config.rate_bps
    }

    /// When a packet arrives at the other end whose decisive bit left at `left_ps`, if it stays
    /// in order.
    #[inline]
    pub(crate) fn arrival(&mut self, left_ps: u64, extra_nanos: u64) -> Time {
        let mut delay_nanos = self.config.delay_nanos + extra_nanos;
        if self.config.jitter_nanos > 0 {
            delay_nanos += self.rng.below(self.config.jitter_nanos + 1);
        }
        self.arrived_last = self.arrived_last.max(round_up(left_ps).plus_nanos(delay_nanos));
        self.arrived_last
    }

    /// Draws the fate of one packet.
    #[inline]
    pub(crate) fn fate(&mut self) -> Fate {
        let faults = self.faults;
        let lost = self.rng.chance(faults.loss);
        let corrupt = self.rng.chance(faults.corrupt);
        let undetected = corrupt && self.rng.chance(faults.undetected);
        let copy_after_nanos = self.later_with(faults.duplicate);
        let held_nanos = self.later_with(faults.reorder);
        Fate { lost, corrupt, undetected, copy_after_nanos, held_nanos }
    }

    fn later_with(&mut self, probability: f64) -> Option<u64> {
        let struck = self.rng.chance(probability);
        struck.then(|| 1 + self.rng.below(self.config.reorder_nanos_max))
    }

    /// Flips bits in one to four neighbouring bytes. Each changed byte differs from before.
    pub(crate) fn damage(&mut self, bytes: &mut [u8]) {
        if bytes.is_empty() {
            return;
        }
        let start = self.rng.below(bytes.len() as u64) as usize;
        let len = 1 + self.rng.below(4) as usize;
        for byte in bytes[start..].iter_mut().take(len) {
            *byte ^= 1 + self.rng.below(255) as u8;
        }
    }
}

#[inline]
pub(crate) fn round_up(picos: u64) -> Time {
    Time::from_nanos(picos.div_ceil(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_of_nanoseconds_are_kept_between_packets() {
        let mut link = Link::new(LinkConfig::new(25, 0), 0);
        for _ in 0..100 {
            link.occupy(Time::ZERO, 1538, true);
        }
        assert_eq!(link.serialisation_ps(1538), 492_160);
        assert_eq!(link.free_at(), Time::from_nanos(49_216));
    }

    #[test]
    fn jitter_covers_its_range_and_keeps_the_order() {
        let config = LinkConfig { jitter_nanos: 10, ..LinkConfig::new(1, 100) };
        let mut link = Link::new(config, 1);
        let apart: Vec<u64> =
            (0..1000).map(|i| link.arrival(i * 20_000, 0).as_nanos() - i * 20).collect();
        assert!(apart.iter().all(|delay| (100..=110).contains(delay)));
        assert!((100..=110).all(|delay| apart.contains(&delay)));
        let mut link = Link::new(config, 1);
        let close: Vec<Time> = (0..1000).map(|i| link.arrival(i * 1000, 0)).collect();
        assert!(close.is_sorted());
    }

    #[test]
    fn damage_changes_bytes_within_the_packet() {
        let mut link = Link::new(LinkConfig::new(1, 0), 2);
        for len in 1..20 {
            let mut bytes = vec![0; len];
            link.damage(&mut bytes);
            assert!((1..=4).contains(&bytes.iter().filter(|&&b| b != 0).count()));
        }
        link.damage(&mut []);
    }

    #[test]
    fn short_frames_are_padded() {
        let framing = Framing::default();
        assert_eq!(framing.frame_bytes(1), 64);
        assert_eq!(framing.frame_bytes(18), 64);
        assert_eq!(framing.frame_bytes(1472), 1518);
    }
}
