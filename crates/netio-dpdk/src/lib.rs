//! Packet I/O over DPDK: UDP datagrams over any poll-mode driver, without the kernel.
//!
//! The backend is behind the cargo feature `dpdk`, because it needs DPDK and libclang. Without the
//! feature, [`probe`] reports that it is missing.
//!
//! | module | does |
//! |---|---|
//! | `io` | `DpdkIo`, the backend |
//! | `neighbours`
//! Ethernet addresses of peers: configured, learned, or asked for |
//! | `sys` | DPDK's environment, ports and frames; all `unsafe` |
//! | `probe` | what this host supports, and why not |
//! | `petasos-netio-frame`
//! builds and validates frames, ARP, neighbour discovery |
//!
//! Properties:
//!
//! - DPDK is initialised once per process, with the arguments of the first endpoint. Each endpoint
//!   has its own port, with one queue in each direction.
//! - UDP and IPv4 checksums are computed and verified in software, even if the device could do it,
//!   so that they protect the whole way from memory to memory.
//! - Received frames are lent in place until the next receive. Packets are sent from frames of the
//!   backend's own pool. A packet costs no heap allocation, and no system call except the driver's.
//! - Received bytes are untrusted: anything except a valid datagram for this endpoint is counted by
//!   its flaw in [`DpdkStats`] and dropped.
//! - The endpoint itself answers questions for its address (ARP, neighbour discovery) when it
//!   receives.
//! - Nothing blocks, except that a new route waits for its neighbour's address for a bounded time.
//!
//! Boundary rule: works on bytes and addresses; knows nothing of the protocol's headers.

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
