//! Packet I/O over libfabric's datagram endpoints (`FI_EP_DGRAM`): one backend for RDMA NICs (which
//! libfabric drives through verbs), for other vendors' fabrics, and for kernel sockets.
//!
//! The backend is behind the cargo feature `fabric`, because it needs libfabric and libclang.
//! Without the feature, [`probe`] reports that it is missing.
//!
//! | module | does |
//! |---|---|
//! | `io` | `FabricIo`, the backend |
//! | [`message`] | the format of messages, each with one packet or several |
//! | `drafts` | the messages that are being filled: the scheduler |
//! | `send` | the path of packets into messages, and of messages to the provider |
//! | `transmit` | which memory messages are sent from, and when that is free again |
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
//! 1. A 32-bit CRC from NIC memory to NIC memory; InfiniBand and RoCE have it.
//! 2. A 16-bit sum; not computed on loopback, where no wire can damage data.
//! 3. Abandoned by libfabric's authors, and not tested: with more than 64 KB in flight on a busy
//!    host, its connections stall permanently (seen with 1.17).
//!
//! Messages that a provider finds damaged are not delivered. `udp` is for tests and for hosts
//! without an RDMA NIC, where `petasos-netio-udp` is faster. Only `udp` is tested, because the test
//! machines have no RDMA NIC. The requirements of one are imposed on it instead: a prefix,
//! registered memory, completions out of order.
//!
//! Properties:
//!
//! - Packets of one batch to one peer share messages of at most 16 KiB, if [`FabricConfig::fusing`]
//!   is on and the provider's messages are so long (`udp`'s are 1472 bytes). A receiver takes both:
//!   the format is the same. A message that breaks the format is counted and dropped.
//! - Registered memory is allocated once; the device receives into its slots and sends from them.
//!   At any time, a slot belongs either to the provider or to us.
//! - A packet costs no heap allocation and takes no lock of this crate.
//! - Nothing blocks: full queues and vanished peers are counted.
//! - If the provider reports the sender of a message (`FI_SOURCE`), frames do so, too (W32). `udp`
//!   does.
//!
//! Boundary rule: works on bytes and addresses; knows nothing of the protocol's headers.

mod config;
#[cfg(feature = "fabric")]
mod drafts;
mod error;
#[cfg(feature = "fabric")]
mod io;
pub mod message;
mod probe;
mod provider;
#[cfg(feature = "fabric")]
mod routes;
#[cfg(feature = "fabric")]
mod send;
mod stats;
#[cfg(feature = "fabric")]
mod sys;
#[cfg(feature = "fabric")]
mod transmit;

pub use config::{FUSED_BYTES_MAX, FabricConfig};
pub use error::FabricError;
#[cfg(feature = "fabric")]
pub use io::FabricIo;
pub use probe::{Probe, probe};
pub use provider::ProviderProbe;
pub use stats::FabricStats;
