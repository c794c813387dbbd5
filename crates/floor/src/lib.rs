//! Measures what UDP sockets and bare shared-memory rings reach without Petasos. This is the
//! *floor*: the baseline that Petasos is compared with.
//!
//! Each measurement has two roles, for two processes pinned to two cores. A role is a plain
//! function that spins until its `stop` says so and returns a [`Turn`]; the caller alternates turns
//! with Petasos's and never runs both at once.
//!
//! | measurement | client | server |
//! |---|---|---|
//! | latency: one datagram outstanding | [`ping`] | [`echo`] |
//! | rate: a window of datagrams in batches, or one for each call | [`flood`] | [`echo`] |
//! | bandwidth: one way, without a window | [`blast`] | [`drain`] |
//!
//! Over shared memory the same roles are called [`ring_ping`], [`ring_echo`] and so on.
//!
//! [`xdp`] has the first two for AF_XDP sockets. [`packet_flood`] and [`packet_echo`] measure any
//! packet I/O backend by itself. [`lab`] has other experiments: they measure how much each
//! guideline for the use of NICs gains on this host.
//!
//! These rules hold for all measurements:
//!
//! - The roles do only what the measurement needs: a floor that is slower than necessary would make
//!   Petasos look better. The clock and `stop` are read once in about 64 calls, except where a
//!   round trip is timed.
//! - Lost datagrams are counted and replaced after [`SILENCE_MAX_US`] without progress, so that no
//!   turn stalls.
//! - Every datagram carries a tag in its first byte, so that datagrams left over from an earlier
//!   turn are not counted.
//!
//! Boundary rule: knows sockets, rings and clocks, nothing of the protocol.

mod bulk;
mod echo;
mod error;
mod flood;
pub mod lab;
mod limits;
mod link;
mod pace;
mod packets;
mod ping;
mod ring;
mod ring_turns;
mod turn;
pub mod xdp;

pub use bulk::{blast, drain};
pub use echo::echo;
pub use error::FloorError;
pub use flood::{Flood, flood};
pub use limits::DATAGRAM_BYTES_MAX;
pub use link::{Link, Path, SocketState};
pub use pace::{SILENCE_MAX_US, deadline};
pub use packets::{packet_echo, packet_flood};
pub use ping::ping;
pub use ring::{RingLink, RingListener};
pub use ring_turns::{ring_blast, ring_drain, ring_echo, ring_flood, ring_ping};
pub use turn::Turn;

#[cfg(test)]
mod ring_tests;
#[cfg(test)]
mod tests;
