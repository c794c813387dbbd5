//! Configuration of an endpoint.

use core::time::Duration;

use petasos_buf::PoolConfig;
use petasos_proto::{CongestionConfig, Recovery, TimerConfig};
use petasos_seal::KeyLife;

/// Settings of an endpoint.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// Limits of the endpoint's buffer pool.
    pub pool: PoolConfig,
    /// Retransmission timers of client sessions.
    pub timers: TimerConfig,
    /// Congestion control of the sessions that this endpoint opens. `None` chooses one that suits
    /// its packet I/O ([`crate::Endpoint::congestion`] returns it). Each session has its own packet
    /// length, so `packet_bytes` does not matter here.
    ///
    /// With DCTCP the endpoint marks its packets as ECN-capable and reads congestion marks.
    /// Configure it at both ends: the client learns of marks from the server's echoes.
    pub congestion: Option<CongestionConfig>,
    /// What this endpoint asks for in sessions that it opens, and the most that it grants in
    /// sessions that others open.
    pub session: SessionConfig,
    /// The most client sessions, and the most server sessions; more are refused.
    pub sessions_max: u32,
    /// The most server sessions of one peer: over TLS of one name, otherwise of one address (for
    /// IPv6, one /64). More are refused, so that others find room.
    pub sessions_per_peer_max: u32,
    /// The most unanswered requests of one peer: the slots of all its sessions together. Sessions
    /// that would exceed this are refused.
    pub requests_per_peer_max: u32,
    /// The most calls that wait for a slot of their session; more are refused.
    pub backlog_max: u32,
    /// The most bytes of requests in progress, including queued ones; more are refused. Requests of
    /// up to 488 bytes do not count: slots and `backlog_max` bound their number.
    pub request_bytes_in_flight_max: usize,
    /// How the loop waits when there is nothing to do.
    pub polling: Polling,
    /// How long a key of a sealed session lasts. The peers must use the same value. Only tests of
    /// key rotation need to change it.
    pub key_life: KeyLife,
    /// Whether clients may name another IP address for their packets than that of their control
    /// connection (C20). For hosts with separate networks for data and control. Anyone who may open
    /// sessions can then direct packets at any host.
    pub believe_data_addresses: bool,
    /// The seed of session tags and injected faults, for simulations and tests that are replayed.
    /// Tags can then be guessed. `None` takes tags from the system's cryptographic generator.
    pub seed: Option<u64>,
}

impl Default for EndpointConfig {
    fn default() -> EndpointConfig {
        EndpointConfig {
            pool: PoolConfig::default(),
            timers: TimerConfig::default(),
            congestion: None,
            session: SessionConfig::default(),
            sessions_max: 65_536,
            sessions_per_peer_max: 32_768,
            requests_per_peer_max: 8 * 32_768,
            backlog_max: 65_536,
            request_bytes_in_flight_max: 1 << 30,
            polling: Polling::default(),
            key_life: KeyLife::default(),
            believe_data_addresses: false,
            seed: None,
        }
    }
}

/// How [`crate::Endpoint::run`] waits when there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polling {
    /// It does not wait: lowest latency, one whole core.
    Spin,
    /// It spins for a bounded time after the last event, then sleeps until packets, mail or a timer
    /// arrive. An idle process uses no processor time.
    Adaptive {
        /// How long to spin.
        spin: Duration,
    },
    /// Like `Adaptive`, but while it spins it gives up the processor when another thread could use
    /// it. For two loops that share a processor and wait for each other. It spins for less when
    /// its sleeps are long, and for a while not at all beside a thread that computes.
    Yield {
        /// How long to spin at most.
        spin: Duration,
    },
    /// The application drives the loop from its own event loop: see [`crate::Endpoint::descriptor`]
    /// and [`crate::Endpoint::run_ready`]. `run` then sleeps at once.
    External,
}

impl Default for Polling {
    fn default() -> Polling {
        Polling::Adaptive { spin: Duration::from_micros(50) }
    }
}

/// What an endpoint asks for, or grants, in one session.
#[derive(Clone, Copy, Debug)]
pub struct SessionConfig {
    /// Concurrent requests: a power of two up to 64.
    pub slots: u32,
    /// Packets in flight, 1 to 4095.
    pub credits: u32,
    /// Longest message in either direction, in bytes (up to 2^28 − 1).
    pub message_bytes_max: u32,
    /// Upper bound on the datagram's payload, in bytes. The path's own limit applies as well.
    pub datagram_bytes_max: u32,
    /// How lost packets are recovered.
    pub recovery: Recovery,
    /// Whether packets carry a CRC32C in addition to UDP's 16-bit checksum, in sessions that this
    /// endpoint opens. With it, sending is not zero-copy: every packet is copied once more. Packets
    /// of sealed sessions have their tag instead.
    pub checksum: bool,
}

impl Default for SessionConfig {
    fn default() -> SessionConfig {
        SessionConfig {
            slots: 8,
            credits: 256,
            message_bytes_max: 64 << 20,
            datagram_bytes_max: 65_000,
            recovery: Recovery::Selective,
            checksum: false,
        }
    }
}
