//! Packet I/O over DPDK: UDP datagrams over any poll-mode driver, with no kernel beside it.
//!
//! The backend is behind the cargo feature `dpdk`, because it needs DPDK and libclang; what is here
//! without it says so ([`probe`]).
//!
//! | module | does |
//! |---|---|
//! | `io` | `DpdkIo`, the backend |
//! | `neighbours` | where peers' frames go: configured, learned, or asked for |
//! | `sys` | DPDK's environment, ports and frames; all `unsafe` |
//! | `probe` | what this host supports, and why not |
//! | `petasos-netio-frame` | writes and judges frames, ARP, neighbour discovery |
//!
//! What holds everywhere:
//!
//! - DPDK is initialised once per process, with the arguments of the first endpoint. An endpoint
//!   has a port of its own, one queue in each direction.
//! - UDP and IPv4 checksums are written and verified in software, whatever the device can: nothing
//!   between the two hosts' memories is trusted.
//! - Frames are lent in place until the next receive, and sent from frames of our own pool. Per
//!   packet there is no heap allocation, and no system call but the driver's.
//! - Received bytes are untrusted: what is no sound datagram for this endpoint is counted by its
//!   flaw in [`DpdkStats`] and dropped.
//! - The endpoint answers for its address itself (ARP, neighbour discovery), when it receives.
//! - Nothing waits but a new route for its neighbour, for a bounded time.
//!
//! Boundary rule: sees bytes and addresses; knows nothing of the protocol's headers.

mod config;
mod error;
#[cfg(feature = "dpdk")]
mod io;
#[cfg(feature = "dpdk")]
mod neighbours;
mod probe;
mod stats;
#[cfg(feature = "dpdk")]
mod sys;

pub use config::DpdkConfig;
pub use error::DpdkError;
#[cfg(feature = "dpdk")]
pub use io::DpdkIo;
pub use petasos_netio_frame::Mac;
pub use probe::{Probe, probe};
pub use stats::DpdkStats;
