//! Validates a received frame: it is a datagram for this endpoint, or has a flaw.
//!
//! Frames are untrusted input. The XDP program or NIC that steered them here has checked only a
//! part of this at most, and no checksum or length.

use std::net::{IpAddr, SocketAddr};

use petasos_netio::Ecn;

use super::checksum::{add_bytes, add_u16, fold};
use super::{
    ETHERNET_BYTES, ETHERTYPE_V4, ETHERTYPE_V6, PROTOCOL_UDP, UDP_BYTES, V4_BYTES,
    V4_VERSION_AND_LENGTH, V6_BYTES,
};

/// A datagram's payload: `len` bytes at `offset` of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Where the payload starts in the frame.
    pub offset: usize,
    /// The payload's length, possibly 0; the payload is within the frame.
    pub len: usize,
    /// The ECN bits of the IP header.
    pub ecn: Ecn,
    /// The sender's address, as the frame claims it.
    pub source: SocketAddr,
}

/// Why a frame is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The frame ends before its headers do.
    Short,
    /// Not IPv4 or IPv6 directly after the Ethernet header (as with VLAN tags), or not UDP directly
    /// after that (as with options and extension headers).
    Protocol,
    /// A fragment of a datagram.
    Fragment,
    /// A length field contradicts another or the frame.
    Length,
    /// The checksum of the IPv4 header or of the datagram is wrong, or the latter is missing.
    Checksum,
    /// It is for another address or port.
    Foreign,
}

/// The parts of an IP packet that the UDP checks need.
struct Packet<'a> {
    /// Source and destination address, as in the header.
    addresses: &'a [u8],
    source: IpAddr,
    /// What follows the IP header, without Ethernet padding.
    payload: &'a [u8],
    /// The payload's offset in the frame.
    offset: usize,
    ecn: Ecn,
}

/// Validates `frame` as input for `local`. With `partial_checksums`, a checksum that only covers
/// the pseudo-header is accepted. Virtual interfaces pass on such checksums instead of computing
/// them.
///
/// # Errors
/// The first flaw found.
#[inline]
pub fn validate(
    frame: &[u8],
    local: &SocketAddr,
    partial_checksums: bool,
) -> Result<Datagram, Flaw> {
    let ethertype = frame.get(12..ETHERNET_BYTES).ok_or(Flaw::Short)?;
    let packet = match local.ip() {
        IpAddr::V4(ip) if ethertype == ETHERTYPE_V4 => v4(frame, ip.octets())?,
        IpAddr::V6(ip) if ethertype == ETHERTYPE_V6 => v6(frame, ip.octets())?,
        _ => return Err(Flaw::Protocol),
    };
    udp(&packet, local.port(), partial_checksums)
}

#[inline]
fn v4(frame: &[u8], local: [u8; 4]) -> Result<Packet<'_>, Flaw> {
    let rest = &frame[ETHERNET_BYTES..];
    let header: &[u8; V4_BYTES] = rest.first_chunk().ok_or(Flaw::Short)?;
    if header[0] != V4_VERSION_AND_LENGTH || header[9] != PROTOCOL_UDP {
        return Err(Flaw::Protocol);
    }
    if fold(add_bytes(0, header)) != 0xffff {
        return Err(Flaw::Checksum);
    }
    if u16::from_be_bytes([header[6], header[7]]) & FRAGMENT_MASK != 0 {
        return Err(Flaw::Fragment);
    }
    if header[16..20] != local {
        return Err(Flaw::Foreign);
    }
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let payload = rest.get(V4_BYTES..total).ok_or(Flaw::Length)?;
    let ecn = Ecn::from_traffic_class(header[1]);
    let [.., a, b, c, d, _, _, _, _] = *header;
    let (source, offset) = (IpAddr::from([a, b, c, d]), ETHERNET_BYTES + V4_BYTES);
    Ok(Packet { addresses: &rest[12..20], source, payload, offset, ecn })
}

#[inline]
fn v6(frame: &[u8], local: [u8; 16]) -> Result<Packet<'_>, Flaw> {
    let rest = &frame[ETHERNET_BYTES..];
    let header: &[u8; V6_BYTES] = rest.first_chunk().ok_or(Flaw::Short)?;
    if header[0] >> 4 != 6 || header[6] != PROTOCOL_UDP {
        return Err(Flaw::Protocol);
    }
    if header[24..40] != local {
        return Err(Flaw::Foreign);
    }
    let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let payload = rest.get(V6_BYTES..V6_BYTES + len).ok_or(Flaw::Length)?;
    let ecn = Ecn::from_traffic_class(header[1] >> 4);
    let source: [u8; 16] = *header[8..].first_chunk().expect("the header has both addresses");
    let (source, offset) = (IpAddr::from(source), ETHERNET_BYTES + V6_BYTES);
    Ok(Packet { addresses: &rest[8..40], source, payload, offset, ecn })
}

#[inline]
fn udp(packet: &Packet<'_>, port: u16, partial_checksums: bool) -> Result<Datagram, Flaw> {
    let header: &[u8; UDP_BYTES] = packet.payload.first_chunk().ok_or(Flaw::Short)?;
    if header[2..4] != port.to_be_bytes() {
        return Err(Flaw::Foreign);
    }
    let len = u16::from_be_bytes([header[4], header[5]]);
    let datagram = packet.payload.get(..usize::from(len)).ok_or(Flaw::Length)?;
    if datagram.len() < UDP_BYTES {
        return Err(Flaw::Length);
    }
    let checksum = [header[6], header[7]];
    let pseudo = add_u16(add_bytes(0, packet.addresses), u16::from(PROTOCOL_UDP));
    let pseudo = add_u16(pseudo, len);
    let right = fold(add_bytes(pseudo, datagram)) == 0xffff && checksum != [0, 0];
    let partial = || partial_checksums && fold(pseudo).to_ne_bytes() == checksum;
    if !right && !partial() {
        return Err(Flaw::Checksum);
    }
    let offset = packet.offset + UDP_BYTES;
    let source = SocketAddr::new(packet.source, u16::from_be_bytes([header[0], header[1]]));
    Ok(Datagram { offset, len: datagram.len() - UDP_BYTES, ecn: packet.ecn, source })
}

/// "More fragments", and the offset.
const FRAGMENT_MASK: u16 = 0x3fff;
