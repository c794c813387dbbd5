//! Packet I/O between processes of one host: shared-memory rings, and no system call per packet.
//!
//! Each pair of processes that communicate shares a *link*: a region with one ring per direction
//! (`petasos-shm`), and a Unix socket for everything slow. A process that wants to send connects to
//! the other's socket and sends it the region. From then on records go through the rings; the
//! socket only carries wake-ups and shows when the peer is gone.
//!
//! Properties:
//!
//! - **An address is a name.** A [`ShmIo`] is bound to an IP address and a port, which name an
//!   abstract Unix socket (in the network namespace). These ports are independent of UDP's and
//!   TCP's, and no interface needs to be configured.
//! - **Both sides check who the other is**: a process of the same user, mount namespace and user
//!   namespace, unless configured otherwise ([`ShmConfig::other_users`]).
//! - **The peer is not trusted.** It may write garbage into the region or stop reading. Frames are
//!   copied out of the ring before anybody sees them, and a peer that breaks a ring's rules loses
//!   its link. No call that could block reads or writes a descriptor that the peer also holds. That
//!   is why a wake-up is a byte on the socket and not an eventfd, whose flags both sides could
//!   change.
//! - **Nothing hangs.** If a ring is full, `transmit` takes less for [`STALL_TURNS_MAX`] attempts
//!   in a row. After that, packets to this peer are dropped and counted until it reads again, so
//!   that it cannot hold up the others. Packets to a peer that is gone are dropped and counted. If
//!   a peer has no link for [`LINK_PATIENCE`], the owner is told ([`ShmIo::on_lost`]).
//! - **Idle costs nothing.** [`PacketIo::prepare_to_sleep`] tells how to wait. A spinning [`ShmIo`]
//!   polls its sockets once in [`LOOK_INTERVAL_TURNS`] receives.
//!
//! [`rendezvous`] makes links without a backend: measurements use the rings alone as the floor.
//!
//! Boundary rule: sees bytes, addresses and rings; no `unsafe`, and nothing of the protocol.
//!
//! [`PacketIo::prepare_to_sleep`]: petasos_netio::PacketIo::prepare_to_sleep

mod config;
mod greeting;
mod link;
mod links;
mod looks;
mod name;
mod receive;
pub mod rendezvous;
mod routes;
mod service;
mod shm;
mod stats;
mod trust;

pub use config::ShmConfig;
pub use link::STALL_TURNS_MAX;
pub use petasos_shm::RingShape;
pub use service::LINK_PATIENCE;
pub use shm::{LOOK_INTERVAL_TURNS, ShmIo};
pub use stats::ShmStats;
