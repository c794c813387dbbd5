//! Sizes and limits of a backend.

use core::time::Duration;
use std::io;

use petasos_netio::{SetupError, Switch};

use crate::record::RECORD_BYTES_MAX;

/// How a [`crate::TcpIo`] behaves.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// Largest datagram payload, in bytes: 1 to [`RECORD_BYTES_MAX`]. TCP cuts what it sends
    /// itself, so this needs not fit any packet of the network.
    pub datagram_bytes_max: usize,
    /// How many bytes peers may have in flight. They are in the kernel's buffers at both ends,
    /// which grow and shrink by themselves.
    pub receive_buffer_bytes: usize,
    /// The most peers that the backend knows at once.
    pub routes_max: usize,
    /// The most connections from addresses to which nobody here holds a route, at least 1. The next
    /// one closes the oldest.
    pub strangers_max: usize,
    /// How long a peer may leave a record unfinished, read nothing although it should, or be a
    /// stranger that sends nothing.
    pub patience: Duration,
    /// How long dialling may take.
    pub dial_patience: Duration,
    /// The time from one attempt to dial a peer to the next.
    pub redial_interval: Duration,
    /// An IPv6 port reaches IPv4 peers as well.
    pub dual_stack: bool,
    /// Communicate with this host only, whatever address the port is bound to.
    pub loopback_only: bool,
    /// Whether a batch of packets is sent in one system call, from where its pieces lie, or each
    /// piece in a call of its own.
    pub gathering: Switch,
}

impl Default for TcpConfig {
    fn default() -> TcpConfig {
        TcpConfig {
            datagram_bytes_max: 65_000,
            receive_buffer_bytes: 8 << 20,
            routes_max: 1 << 16,
            strangers_max: 64,
            patience: Duration::from_secs(5),
            dial_patience: Duration::from_secs(2),
            redial_interval: Duration::from_millis(20),
            dual_stack: false,
            loopback_only: false,
            gathering: Switch::default(),
        }
    }
}

impl TcpConfig {
    pub(crate) fn check(&self) -> Result<(), SetupError> {
        let fits = (1..=RECORD_BYTES_MAX).contains(&self.datagram_bytes_max);
        if fits && self.strangers_max > 0 {
            return Ok(());
        }
        let error = io::Error::new(io::ErrorKind::InvalidInput, "impossible sizes");
        Err(SetupError::System { attempt: "open a TCP backend", error })
    }
}
