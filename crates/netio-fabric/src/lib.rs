//! Packet I/O over libfabric's datagram endpoints (`FI_EP_DGRAM`): one backend for RDMA NICs, which
//! libfabric drives through verbs, for others' fabrics, and for kernel sockets.
//!
//! The backend is behind the cargo feature `fabric`, because it needs libfabric and libclang; what
//! is here without it says so ([`probe`]).
//!
//! | module | does |
//! |---|---|
//! | `io` | `FabricIo`, the backend |
//! | `transmit` | which memory packets are sent from, and when that is free again |
//! | `routes` | peers and their places in the address vector |
//! | `sys` | libfabric's objects, and the memory that packets are in; all `unsafe` |
//! | `probe` | what this host supports, and why not |
//! | `provider` | what is known of a provider before anything is opened |
//!
//! # Providers
//!
//! | provider | damage on the way is found by | addresses | memory |
//! |---|---|---|---|
//! | `verbs` | the NIC: the invariant CRC (1) | by name server | registered, prefix |
//! | `efa` | the NIC, undocumented | its own: unsupported | registered, prefix |
//! | `udp` | the kernel: UDP's checksum (2) | IP | any |
//! | `sockets` | the kernel: TCP's checksum (2) | IP | any (3) |
//!
//! 1. 32 bits, from memory to memory of the NICs; InfiniBand and RoCE have it.
//! 2. 16 bits; none on loopback, where nothing is on a wire.
//! 3. Given up by libfabric's authors, and not tested: with more than 64 KB under way on a busy
//!    host, its connections stall for good (seen with 1.17).
//!
//! What a provider finds damaged never comes up here. `udp` is for tests and for hosts without
//! such a NIC, where `petasos-netio-udp` is faster. Only it is tested: the machines that test have
//! no RDMA NIC. What one asks for is imposed on it instead: a prefix, registered memory,
//! completions out of order.
//!
//! What holds everywhere:
//!
//! - Registered memory is allocated once; the device receives into its slots and sends from them.
//!   A slot is either the provider's or ours.
//! - Per packet there is no heap allocation and no lock of ours.
//! - Nothing waits: full queues and vanished peers are counted.
//! - Where the provider says whom a packet is from (`FI_SOURCE`), so do frames (W32). `udp` does.
//!
//! Boundary rule: sees bytes and addresses; knows nothing of the protocol's headers.

mod config;
mod error;
#[cfg(feature = "fabric")]
mod io;
mod probe;
mod provider;
#[cfg(feature = "fabric")]
mod routes;
mod stats;
#[cfg(feature = "fabric")]
mod sys;
#[cfg(feature = "fabric")]
mod transmit;

pub use config::FabricConfig;
pub use error::FabricError;
#[cfg(feature = "fabric")]
pub use io::FabricIo;
pub use probe::{Probe, probe};
pub use provider::ProviderProbe;
pub use stats::FabricStats;
