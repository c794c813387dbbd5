//! UDP datagrams in Ethernet frames, for backends that bypass or replace the kernel's stack: builds
//! frames to peers and validates received ones. Also the messages with which neighbours find each
//! other's Ethernet addresses, for backends whose addresses the kernel does not answer for.
//!
//! Ethernet II without tags, IPv4 without options and never fragmented (RFC 791), or IPv6 without
//! extension headers (RFC 8200), and UDP (RFC 768) with its checksum always filled.
//!
//! | module | does |
//! |---|---|
//! | `template` | [`Template`]: the headers to one peer, completed per packet |
//! | `validate` | [`validate`]: a datagram for us, or its [`Flaw`] |
//! | `neighbour` | ARP (RFC 826) and neighbour discovery (RFC 4861) |
//! | `routes` | [`RouteTable`]: peers with their headers, and the neighbours that lead to them |
//! | `checksum` | the Internet checksum (RFC 1071) |
//!
//! All bytes received are untrusted; nothing here panics on them.
//!
//! Boundary rule: works on bytes and addresses; does no I/O, and knows nothing of the protocol.

mod checksum;
mod neighbour;
mod routes;
mod template;
mod validate;

pub use neighbour::{NEIGHBOUR_FRAME_BYTES, Neighbour, NeighbourFrame};
pub use routes::{RouteEntry, RouteTable};
pub use template::{TEMPLATE_BYTES, Template};
pub use validate::{Datagram, Flaw, validate};

/// An Ethernet address.
pub type Mac = [u8; 6];

/// Bytes of an Ethernet header.
pub const ETHERNET_BYTES: usize = 14;
/// Bytes of an IPv4 header without options.
pub const V4_BYTES: usize = 20;
/// Bytes of an IPv6 header without extensions.
pub const V6_BYTES: usize = 40;
/// Bytes of a UDP header.
pub const UDP_BYTES: usize = 8;

const ETHERTYPE_V4: [u8; 2] = [0x08, 0x00];
const ETHERTYPE_V6: [u8; 2] = [0x86, 0xdd];
const PROTOCOL_UDP: u8 = 17;
/// Version 4, five words of header.
const V4_VERSION_AND_LENGTH: u8 = 0x45;

#[cfg(test)]
mod tests;
