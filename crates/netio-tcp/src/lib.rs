//! Packet I/O over TCP: for networks that let only TCP through, or whose own congestion control is
//! wanted. `docs/adr/0028-tcp-transport.md` has the reasons.
//!
//! All packets between two ports travel over one connection, as *records* ([`record`]): a train of
//! datagrams each. Properties:
//!
//! - **The kernel says who sent a frame.** A port dials from the address at which it listens, so
//!   that the source address of a connection is the peer's address, as it is with UDP, and has been
//!   proved by the handshake. A connection from an address that nobody here holds a route to is a
//!   *stranger's*; there are at most [`TcpConfig::strangers_max`].
//! - **Packets are sent from where they lie.** A batch to one peer is one `sendmsg`. Only what the
//!   socket did not take of the last packet is copied, so that the backend refers to no piece when
//!   it returns.
//! - **A connection that breaks loses packets**, as a network does. The next packet to the peer
//!   dials again. Nothing here is repeated.
//! - **Memory follows what has arrived**, not what was announced: at most one unfinished record of
//!   each connection, of at most [`record::RECORD_BYTES_MAX`] bytes.
//! - A peer that neither finishes a record, nor says anything although it is a stranger, nor reads,
//!   is given up after [`TcpConfig::patience`].
//!
//! Who may touch what: one thread uses a [`TcpIo`]. Only [`Gathering`] may be changed by others.
//!
//! Boundary rule: sees bytes and addresses; no `unsafe`, and nothing of the protocol. Nothing is
//! encrypted here: sealed sessions seal their packets (ADR 12).

mod config;
mod connection;
mod connections;
mod events;
mod io;
mod receive;
pub mod record;
mod routes;
mod socket;
mod stats;
mod transmit;
mod upkeep;
mod watch;

pub use config::{Gathering, TcpConfig};
pub use io::TcpIo;
pub use stats::TcpStats;
