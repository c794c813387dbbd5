//! Packet I/O over kernel UDP sockets.
//!
//! For UDP, the kernel's cost is per call and per pass through its stack, and hardly per byte. So
//! this backend uses *trains*: packets of equal size to one peer are sent as one segmented datagram
//! (GSO), and packets that the kernel has coalesced are received as one (GRO) and split in place by
//! [`petasos_netio::Frames`]. Without kernel support every packet is a separate datagram, moved by
//! `sendmmsg` and `recvmmsg`. The backend never waits for a train to fill.
//!
//! Properties:
//!
//! - No privilege is needed. The UDP checksum is on.
//! - A datagram that fitted its route when the route was made is always sent, even if the path's
//!   MTU has fallen since: it is fragmented then. ICMP messages are ignored, so nobody can lower a
//!   limit by forging them (ADR 14).
//! - No packet costs a heap allocation or formatting, and none needs a system call for itself.
//! - Errors of the network (ICMP, full queues) are counted, not returned.
//!
//! [`GsoSocket`] is the underlying socket. Measurements use it alone as the floor.
//!
//! Boundary rule: sees bytes and addresses; all `unsafe` is in the private module `sys`.

mod path;
mod plan;
mod receive;
mod routes;
mod segment;
pub mod socket;
mod sys;
mod transmit;
mod udp;

pub use socket::{GsoSocket, Received};
pub use udp::{UdpConfig, UdpIo};
