//! UDP datagrams in Ethernet frames: written for peers, and judged when received.
//!
//! Ethernet II without tags, IPv4 without options and never fragmented (RFC 791), or IPv6 without
//! extension headers (RFC 8200), and UDP (RFC 768) with its checksum always filled.

pub(crate) mod checksum;
mod judge;
mod template;

#[cfg(test)]
use judge::Datagram;
pub(crate) use judge::{Flaw, judge};
pub(crate) use template::Template;

/// Bytes of an Ethernet header.
pub(crate) const ETHERNET_BYTES: usize = 14;
/// Bytes of an IPv4 header without options.
pub(crate) const V4_BYTES: usize = 20;
/// Bytes of an IPv6 header without extensions.
pub(crate) const V6_BYTES: usize = 40;
/// Bytes of a UDP header.
pub(crate) const UDP_BYTES: usize = 8;

pub(crate) const ETHERTYPE_V4: [u8; 2] = [0x08, 0x00];
pub(crate) const ETHERTYPE_V6: [u8; 2] = [0x86, 0xdd];
pub(crate) const PROTOCOL_UDP: u8 = 17;
/// Version 4, five words of header.
pub(crate) const V4_VERSION_AND_LENGTH: u8 = 0x45;

#[cfg(test)]
mod tests;
