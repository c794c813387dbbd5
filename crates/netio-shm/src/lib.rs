//! Packet I/O between processes of one host: shared-memory rings, and no system call per packet.
//!
//! Each pair of processes that talk shares a *link*: a region with one ring per direction
//! (`petasos-shm`), and a Unix socket for everything slow. Who wants to send connects to the
//! other's socket and hands over the region; from then on records go through the rings, and the
//! socket only carries wake-ups and shows that the peer is gone.
//!
//! What holds everywhere:
//!
//! - **An address is a name.** A [`ShmIo`] is bound to an IP address and a port of a number space
//!   of its own; they name an abstract Unix socket (of the network namespace). Nothing needs to be
//!   configured on an interface.
//! - **Both sides check who the other is**: a process of the same user, mount namespace and user
//!   namespace, unless told otherwise ([`ShmConfig::other_users`]).
//! - **The peer is not trusted.** It may write garbage into the region or stop reading. Frames are
//!   copied out of the ring before anybody sees them; a peer that breaks a ring's rules loses its
//!   link. Descriptors that the peer also holds are never read or written by calls that could
//!   block: that is why a wake-up is a byte on the socket and not an eventfd, whose flags both
//!   sides could change.
//! - **Nothing hangs.** A full ring makes `transmit` take less for [`STALL_TURNS_MAX`] attempts in
//!   a row; after that packets to this peer are dropped and counted until it reads again, so that
//!   it cannot hold up the others. Packets to a peer that is gone are dropped and counted; a peer
//!   that has no link for [`LINK_PATIENCE`] is told to the owner ([`ShmIo::on_lost`]).
//! - **Idle costs nothing.** See [`PacketIo::prepare_to_sleep`] for how to wait. A spinning
//!   [`ShmIo`] looks at its sockets once in [`LOOK_INTERVAL_TURNS`] receives.
//!
//! [`rendezvous`] makes links without a backend: measurements use the bare rings as the floor.
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
