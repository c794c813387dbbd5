//! The configuration of an incast.

use petasos_proto::CongestionConfig;

use crate::fabric::{FabricConfig, HostConfig, SessionConfig};
use crate::{Framing, LeafSpine};

/// An incast experiment. Start from [`IncastConfig::table_5`].
#[derive(Clone, Debug)]
pub struct IncastConfig {
    /// Sending threads, at least 1. They are spread over all hosts but the receiver's; where
    /// there are more senders than hosts, hosts have several.
    pub senders: u32,
    /// The network, at least 2 hosts; its switches' buffers decide about drops and marks
    /// ([`LeafSpine::with_buffer`]), its links' faults about other losses.
    pub shape: LeafSpine,
    /// The bytes that surround payloads on the wire.
    pub framing: Framing,
    /// The limits and speed of threads.
    pub host: HostConfig,
    /// Credits, payload, recovery; the victims' congestion control.
    pub session: SessionConfig,
    /// The senders' congestion control. Senders take these in turn; at least one.
    pub mix: Vec<CongestionConfig>,
    /// Length of the senders' requests, in bytes.
    pub request_bytes: u32,
    /// Length of the responses, in bytes.
    pub response_bytes: u32,
    /// Whether packets may be marked. They are marked above the switches' threshold, if there is
    /// one.
    pub ecn: bool,
    /// The traffic next to the incast, if any.
    pub victims: Option<VictimConfig>,
    /// Senders begin at random times before this.
    pub start_spread_nanos: u64,
    /// Virtual time before measuring begins.
    pub warm_up_nanos: u64,
    /// Virtual time of measuring, above 0.
    pub measured_nanos: u64,
    /// Whether to continue after measuring until every call has ended, and to check that each was
    /// handled exactly once. Takes as long as the senders' last requests.
    pub drain: bool,
    /// The seed of all randomness: places, start times, paths, faults.
    pub seed: u64,
}

/// Latency-sensitive calls next to an incast: one thread on each host except the receiver's, with
/// one open call at a time, each to a random one of its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VictimConfig {
    /// Length of the requests, in bytes.
    pub request_bytes: u32,
    /// Length of the responses, in bytes.
    pub response_bytes: u32,
    /// Other such threads that each calls, at random, and is called by; at least 1. With more
    /// than one their calls collide at servers, incast or not.
    pub peers: u32,
}

impl Default for VictimConfig {
    /// 64 kB each way, as in eRPC's section 6.5, and 16 peers.
    fn default() -> VictimConfig {
        VictimConfig { request_bytes: 64 << 10, response_bytes: 64 << 10, peers: 16 }
    }
}

impl IncastConfig {
    /// `senders` senders as in eRPC's Table 5: a hundred hosts, 8 MB requests, 32 B responses,
    /// shared buffers of 12 MB, no marks; 5 ms of warm-up and 20 ms measured.
    pub fn table_5(senders: u32) -> IncastConfig {
        IncastConfig {
            senders,
            shape: LeafSpine::hundred_hosts(),
            framing: Framing::default(),
            host: HostConfig::default(),
            session: SessionConfig::default(),
            mix: vec![CongestionConfig::default()],
            request_bytes: 8 << 20,
            response_bytes: 32,
            ecn: true,
            victims: None,
            start_spread_nanos: 10_000,
            warm_up_nanos: 5_000_000,
            measured_nanos: 20_000_000,
            drain: false,
            seed: 1,
        }
    }

    /// The same configuration with `congestion` for senders and victims alike.
    pub fn with_congestion(mut self, congestion: CongestionConfig) -> IncastConfig {
        self.session.congestion = congestion;
        self.mix = vec![congestion];
        self
    }

    pub(super) fn fabric(&self) -> FabricConfig {
        assert!(self.measured_nanos > 0, "measuring takes time");
        assert!(!self.mix.is_empty(), "senders have some congestion control, if only none");
        assert!(
            self.senders > 0 && self.shape.hosts() > 1,
            "there are senders, and hosts for them"
        );
        FabricConfig {
            shape: self.shape,
            framing: self.framing,
            host: self.host,
            ecn: self.ecn,
            seed: self.seed,
        }
    }
}
