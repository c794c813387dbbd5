//! What an endpoint can be told.

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
    /// Congestion control of the sessions that this endpoint opens; `None` for what suits its
    /// packet I/O ([`crate::Endpoint::congestion`] tells). A session's packets have their own
    /// length, so `packet_bytes` does not matter here.
    ///
    /// With DCTCP the endpoint says in its packets that it understands congestion marks, and reads
    /// them. Both ends have to be told so: the server's echoes what the client learns from.
    pub congestion: Option<CongestionConfig>,
    /// What this endpoint asks for in sessions that it opens, and grants at most in sessions that
    /// others open.
    pub session: SessionConfig,
    /// Client and server sessions each; more are refused.
    pub sessions_max: u32,
    /// Server sessions of one peer: over TLS of one name, else of one address (for IPv6, one /64).
    /// More are refused, so that others find room.
    pub sessions_per_peer_max: u32,
    /// Requests of one peer whose handlers have not answered yet: the slots of all its sessions
    /// together. Sessions that would bring more are refused.
    pub requests_per_peer_max: u32,
    /// Calls that wait for a slot of their session; more are refused.
    pub backlog_max: u32,
    /// Bytes of requests in progress, queued ones included; more are refused. Requests of up to 488
    /// bytes do not count: their number is bounded by slots and `backlog_max`.
    pub request_bytes_in_flight_max: usize,
    /// How the loop waits when there is nothing to do.
    pub polling: Polling,
    /// How long a key of a sealed session lasts. The peers must have the same; there is no reason
    /// to change it but tests of rotation.
    pub key_life: KeyLife,
    /// Whether clients may name an IP address for their packets that is not their control
    /// connection's (C20): for hosts whose data network is another than that of control. Whoever
    /// may open sessions can then aim packets at any host.
    pub believe_data_addresses: bool,
    /// For simulations and tests that replay: the seed of session tags and injected faults. Tags
    /// can be guessed then. `None` takes each tag from the system's cryptographic generator.
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
    /// It does not: lowest latency, one whole core.
    Spin,
    /// It spins for a bounded time after the last thing that happened, then sleeps until packets,
    /// mail or a timer come. An idle process uses no processor time.
    Adaptive {
        /// How long to spin.
        spin: Duration,
    },
    /// The application drives the loop from an event loop of its own: see
    /// [`crate::Endpoint::descriptor`] and [`crate::Endpoint::run_ready`]. `run` then sleeps at
    /// once.
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
    /// Upper bound on the datagram's payload, in bytes; the path's own limit holds as well.
    pub datagram_bytes_max: u32,
    /// How lost packets are recovered.
    pub recovery: Recovery,
    /// Whether packets carry a CRC32C beside UDP's 16-bit checksum, for sessions that this
    /// endpoint opens. It costs zero-copy sending: every packet is copied once more. Packets of
    /// sealed sessions have their tag instead.
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
