//! Switches: a shared buffer, dynamic thresholds, tail drop and ECN marks.
//!
//! A switch is output-queued. Each output port is the start of a link, and all ports of a switch
//! share one pool. A host's network card is the same with one port and no marks.

/// How a node's memory for waiting packets is divided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BufferConfig {
    /// Frame bytes that all ports together may hold, those being sent included.
    pub pool_bytes: u64,
    /// Dynamic threshold (Choudhury and Hahne, 1998): a port may hold at most `alpha` times the
    /// free part of the pool. [`f64::INFINITY`] for no threshold.
    pub alpha: f64,
    /// Frame bytes that one port may hold at most, whatever is free.
    pub port_bytes_max: Option<u64>,
    /// A packet is marked if it fills its port's queue to more than this many frame bytes and its
    /// sender is ECN-capable.
    pub mark_above_bytes: Option<u64>,
}

impl BufferConfig {
    /// A pool without thresholds or marks.
    pub const fn plain(pool_bytes: u64) -> BufferConfig {
        BufferConfig {
            pool_bytes,
            alpha: f64::INFINITY,
            port_bytes_max: None,
            mark_above_bytes: None,
        }
    }

    /// A pool that ports share, each up to `alpha` times what is free.
    pub const fn dynamic(pool_bytes: u64, alpha: f64) -> BufferConfig {
        BufferConfig { alpha, ..BufferConfig::plain(pool_bytes) }
    }

    /// `port_bytes` for each port and nothing shared: the setting of IRN (Mittal et al., 2018),
    /// with 60,000 to 480,000.
    pub const fn per_port(port_bytes: u64) -> BufferConfig {
        // Equivalent to an unlimited pool with a limit per port.
        BufferConfig { port_bytes_max: Some(port_bytes), ..BufferConfig::plain(u64::MAX / 2) }
    }

    /// The same, with marks for packets that bring a port's queue above `bytes` (DCTCP's K).
    pub const fn marking_above(self, bytes: u64) -> BufferConfig {
        BufferConfig { mark_above_bytes: Some(bytes), ..self }
    }
}

/// When a switch starts to forward a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarding {
    /// When all of it has arrived.
    StoreAndForward,
    /// When its first 64 bytes have arrived, unless the outgoing link is faster than the incoming
    /// one.
    CutThrough,
}

/// A switch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SwitchConfig {
    /// Time from a packet's arrival to its place in the output queue.
    pub latency_nanos: u64,
    /// When packets are sent on.
    pub forwarding: Forwarding,
    /// The shared buffer.
    pub buffer: BufferConfig,
}

impl Default for SwitchConfig {
    /// A small top-of-rack switch: 300 ns, cut-through, 12 MB shared with alpha 8, no marks.
    fn default() -> SwitchConfig {
        SwitchConfig {
            latency_nanos: 300,
            forwarding: Forwarding::CutThrough,
            buffer: BufferConfig::dynamic(12_000_000, 8.0),
        }
    }
}

/// Bytes that a cut-through switch must have received before it forwards.
pub(crate) const CUT_THROUGH_BYTES: u64 = 64;

/// A node's buffer in use. Invariant: `used_bytes` is the sum over the node's ports and never
/// above the pool.
#[derive(Debug)]
pub(crate) struct Buffer {
    config: BufferConfig,
    used_bytes: u64,
}

impl Buffer {
    pub(crate) fn new(config: BufferConfig) -> Buffer {
        Buffer { config, used_bytes: 0 }
    }

    /// Reserves room for `bytes` on a port that holds `port_bytes`, or refuses.
    #[inline]
    pub(crate) fn take(&mut self, port_bytes: u64, bytes: u64) -> bool {
        let port_after = port_bytes + bytes;
        let free = self.config.pool_bytes - self.used_bytes;
        let fits = bytes <= free
            && port_after as f64 <= self.config.alpha * free as f64
            && self.config.port_bytes_max.is_none_or(|max| port_after <= max);
        self.used_bytes += if fits { bytes } else { 0 };
        fits
    }

    /// Whether a packet that brought its port to `port_bytes` is to be marked.
    #[inline]
    pub(crate) fn marks(&self, port_bytes: u64) -> bool {
        self.config.mark_above_bytes.is_some_and(|threshold| port_bytes > threshold)
    }

    #[inline]
    pub(crate) fn give_back(&mut self, bytes: u64) {
        self.used_bytes =
            self.used_bytes.checked_sub(bytes).expect("bytes given back had been taken");
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(buffer: &mut Buffer, port_bytes: &mut u64) -> u64 {
        let before = *port_bytes;
        while buffer.take(*port_bytes, 100) {
            *port_bytes += 100;
        }
        *port_bytes - before
    }

    #[test]
    fn one_port_alone_gets_alpha_over_one_plus_alpha_of_the_pool() {
        for (alpha, expected) in [(1.0, 500_000), (3.0, 750_000), (0.25, 200_000)] {
            let mut buffer = Buffer::new(BufferConfig { alpha, ..BufferConfig::plain(1_000_000) });
            let taken = fill(&mut buffer, &mut 0);
            assert!(taken.abs_diff(expected) <= 100, "alpha {alpha}: {taken} of {expected}");
        }
    }

    #[test]
    fn a_second_port_gets_its_share_of_what_is_left() {
        let mut buffer = Buffer::new(BufferConfig { alpha: 1.0, ..BufferConfig::plain(1_000_000) });
        fill(&mut buffer, &mut 0);
        assert!(fill(&mut buffer, &mut 0).abs_diff(250_000) <= 100);
    }

    #[test]
    fn limits_hold_and_room_returns() {
        let config = BufferConfig { port_bytes_max: Some(250), ..BufferConfig::plain(1000) };
        let mut buffer = Buffer::new(config);
        assert!(buffer.take(0, 200) && !buffer.take(200, 100) && buffer.take(200, 50));
        buffer.give_back(250);
        assert_eq!(buffer.used_bytes(), 0);
        let mut plain = Buffer::new(BufferConfig::plain(1000));
        assert!(plain.take(0, 1000) && !plain.take(0, 1));
    }
}
