//! Packet I/O over TCP, for networks that let only TCP through, or whose own congestion control is
//! wanted. `docs/adr/0028-tcp-transport.md` has the reasons.
//!
//! All packets between two ports travel over one connection, as *records* ([`record`]). A record
//! contains a train of datagrams. Properties:
//!
//! - **The kernel reports who sent a frame.** A port dials from the address at which it listens. So
//!   the source address of a connection is the peer's address, as with UDP, and the handshake has
//!   proved it. A connection from an address to which this process holds no route is a
//!   *stranger's*. There are at most [`TcpConfig::strangers_max`] of them.
//! - **Packets are sent without copying.** One `sendmsg` sends a batch to one peer. The backend
//!   copies only the rest of the last packet, if the socket did not take all of it. So it refers to
//!   no piece of a packet when it returns.
//! - **A connection that breaks loses packets**, as a network does. The next packet to the peer
//!   dials again. The backend does not repeat packets.
//! - **Memory follows the bytes that have arrived**, not the announced lengths: at most one
//!   unfinished record of each connection, of at most [`record::RECORD_BYTES_MAX`] bytes.
//! - The backend closes a connection after [`TcpConfig::patience`] if the peer does not finish a
//!   record, does not read, or is a stranger and sends nothing.
//!
//! Access: one thread uses a [`TcpIo`]. Other threads may turn only the switch
//! [`TcpConfig::gathering`].
//!
//! Boundary rule: sees bytes and addresses; no `unsafe`, and no knowledge of the protocol. The
//! backend does not encrypt: sealed sessions seal their packets (ADR 12).

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

pub use config::TcpConfig;
pub use io::TcpIo;
pub use stats::TcpStats;
