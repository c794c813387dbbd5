//! Packet I/O over kernel UDP sockets.
//!
//! A kernel charges UDP per call and per pass through its stack, hardly per byte. So this backend
//! hands over *trains*: packets of equal size to one peer go down as one segmented send (GSO), and
//! what the kernel kept or put together again comes up as one receive (GRO), split in place by
//! [`petasos_netio::Frames`]. Without kernel support every packet is a datagram of its own, moved
//! by `sendmmsg` and `recvmmsg`. Nothing ever waits for a train to fill.
//!
//! What holds everywhere:
//!
//! - No privilege is needed. The UDP checksum is on.
//! - A datagram that fits its route as it was when the route was made goes on its way whatever
//!   becomes of the path's MTU: where it no longer fits, it is fragmented. ICMP messages are not
//!   heeded, so nobody lowers a limit by forging them (ADR 14).
//! - Per packet there is no heap allocation, no formatting and no system call of its own.
//! - Errors of the network (ICMP, full queues) are counted, not returned.
//!
//! [`GsoSocket`] is the socket below, usable alone: what it moves is the floor for measurements.
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
