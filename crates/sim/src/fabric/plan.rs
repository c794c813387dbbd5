//! The parameters of an experiment.

use petasos_proto::{CongestionConfig, Recovery, TimerConfig};
use petasos_wire::HEADER_BYTES;

use crate::{Framing, LeafSpine};

/// The limits and speed of a host's threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostConfig {
    /// Frames that a thread's receive queue holds; more are dropped and counted
    /// ([`crate::Stats::dropped_inbox`]).
    pub receive_frames: u32,
    /// Frames that a thread takes from its queue in one turn, at least 1.
    pub batch_frames: u32,
    /// The duration of one turn of a thread's loop without packets; at least 1.
    pub turn_nanos: u64,
    /// The time that each packet received or sent adds to the turn.
    pub packet_nanos: u64,
    /// The length of the pauses in which a thread is off its core; 0 for none.
    pub pause_nanos: u64,
    /// The average time from one such pause to the next, at least 1. It varies by half either way.
    pub pause_every_nanos: u64,
}

impl Default for HostConfig {
    /// A queue of 4096 frames taken 32 at a time, turns of 50 ns, 50 ns for each packet: five
    /// million small requests per second and thread, as eRPC has (its section 6.2). No pauses.
    fn default() -> HostConfig {
        HostConfig {
            receive_frames: 4096,
            batch_frames: 32,
            turn_nanos: 50,
            packet_nanos: 50,
            pause_nanos: 0,
            pause_every_nanos: 1_000_000,
        }
    }
}

/// The network, the hosts and the seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FabricConfig {
    pub(crate) shape: LeafSpine,
    pub(crate) framing: Framing,
    pub(crate) host: HostConfig,
    /// Whether packets are marked as ECN-capable.
    pub(crate) ecn: bool,
    pub(crate) seed: u64,
}

impl HostConfig {
    /// # Panics
    /// If a field is outside its range: the caller's fault.
    pub(crate) fn check(&self) {
        assert!(self.turn_nanos > 0 && self.batch_frames > 0, "a turn takes time and frames");
        assert!(self.pause_every_nanos > 0, "between pauses there is time");
    }
}

impl FabricConfig {
    /// The session with the network's parameters that congestion control needs.
    pub(crate) fn fit(&self, session: &SessionPlan) -> SessionPlan {
        let payload_bytes = HEADER_BYTES + session.config.payload_bytes as usize;
        let wire_bytes = self.framing.frame_bytes(payload_bytes) + self.framing.gap_bytes;
        let mut session = *session;
        session.config.congestion.packet_bytes = wire_bytes as u32;
        session.config.congestion.link_bytes_per_s = self.shape.host_link.rate_bps / 8;
        session
    }
}

/// The parameters that all sessions of an experiment share.
#[derive(Clone, Copy, Debug)]
pub struct SessionConfig {
    /// The most packets in flight that a server grants (C in the papers).
    pub credits: u32,
    /// The packets in flight that a server grants at first, at most `credits`. The papers' servers
    /// grant all.
    pub credits_first: u32,
    /// Message bytes in each packet.
    pub payload_bytes: u32,
    /// How lost packets are recovered.
    pub recovery: Recovery,
    /// Retransmission timers of the clients.
    pub timers: TimerConfig,
    /// Congestion control of the clients. Its link rate and packet length are ignored: they are
    /// taken from the network.
    pub congestion: CongestionConfig,
}

impl Default for SessionConfig {
    /// The papers' 32 credits of 1024 bytes, 8 of them at first as in endpoints, with Petasos'
    /// recovery, timers and congestion control.
    fn default() -> SessionConfig {
        SessionConfig {
            credits: 32,
            credits_first: 8,
            payload_bytes: 1024,
            recovery: Recovery::default(),
            timers: TimerConfig::default(),
            congestion: CongestionConfig::default(),
        }
    }
}

/// Threads, sessions between them, and what the client ends do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// The host of each thread.
    pub(crate) threads: Vec<u32>,
    pub(crate) sessions: Vec<SessionPlan>,
    /// At most one for each thread.
    pub(crate) loads: Vec<LoadPlan>,
    /// The number of groups to be measured.
    pub(crate) groups: u32,
}

/// One session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionPlan {
    /// Thread of the client's half.
    pub(crate) client: u32,
    /// Thread of the server's half.
    pub(crate) server: u32,
    pub(crate) config: SessionConfig,
    /// Concurrent requests, a power of two.
    pub(crate) slots: u32,
    pub(crate) request_bytes: u32,
    pub(crate) response_bytes: u32,
}

/// A thread that keeps calls open on its client sessions, each on a session picked at random.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadPlan {
    pub(crate) thread: u32,
    /// The group in which its calls are counted.
    pub(crate) group: u32,
    /// Calls that the thread keeps open.
    pub(crate) outstanding: u32,
    /// When it begins.
    pub(crate) start_nanos: u64,
}
