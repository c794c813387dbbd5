//! The MTU towards a peer as this host's administrator has set it: that of the route, or of its
//! interface.
//!
//! What the kernel has learnt from ICMP is ignored. Such a message is not authenticated, the kernel
//! believes it if it names any UDP socket of the host, and it would keep the packets of new
//! sessions small for as long as they live (ADR 14). `IP_MTU` does not distinguish the two, so the
//! kernel is asked by rtnetlink(7), which says for each MTU whether it expires.

use core::ops::Range;
use std::io;
use std::net::{IpAddr, UdpSocket};

use crate::sys;

/// Asks the kernel for the route to a peer, and for that route's MTU.
pub(crate) fn mtu_towards(peer: IpAddr) -> io::Result<usize> {
    let socket = UdpSocket::from(sys::open_netlink()?);
    let mut answer = [0; ANSWER_BYTES];
    let route = ask(&socket, GET_ROUTE, &route_query(peer), NEW_ROUTE, &mut answer)?;
    let interface = word(route, &[ATTRIBUTE_INTERFACE], 0).ok_or(io::ErrorKind::InvalidData)?;
    let set = match word(route, &[ATTRIBUTE_CACHE_INFO], EXPIRES_OFFSET).unwrap_or(0) {
        0 => word(route, &[ATTRIBUTE_METRICS, METRIC_MTU], 0),
        // An MTU that expires was learnt.
        _ => None,
    };
    let link = ask(&socket, GET_LINK, &link_query(interface), NEW_LINK, &mut answer)?;
    let widest = word(link, &[LINK_ATTRIBUTE_MTU], 0).ok_or(io::ErrorKind::InvalidData)?;
    Ok(set.unwrap_or(widest).min(widest) as usize)
}

/// Sends a question and returns the attributes of the answer.
fn ask<'a>(
    socket: &UdpSocket,
    kind: u16,
    question: &Question,
    expected: u16,
    answer: &'a mut [u8; ANSWER_BYTES],
) -> io::Result<&'a [u8]> {
    let Question { fixed, attributes } = question;
    let len = HEADER_BYTES + fixed.len() + attributes.len();
    let mut bytes = Vec::with_capacity(len);
    bytes.extend_from_slice(&(len as u32).to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(&FLAG_REQUEST.to_ne_bytes());
    // The sequence number and the sender stay 0: there is one question at a time.
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(fixed);
    bytes.extend_from_slice(attributes);
    socket.send(&bytes)?;
    // The kernel has already answered when it has accepted the question.
    let len = socket.recv(answer)?;
    let got = answer[..len].get(KIND).and_then(|kind| kind.first_chunk());
    if got.map(|kind| u16::from_ne_bytes(*kind)) != Some(expected) {
        return Err(io::ErrorKind::HostUnreachable.into());
    }
    answer[..len].get(HEADER_BYTES + fixed.len()..).ok_or(io::ErrorKind::InvalidData.into())
}

/// The bytes after a message's header.
struct Question {
    fixed: Vec<u8>,
    attributes: Vec<u8>,
}

/// A `struct rtmsg` and the destination.
fn route_query(peer: IpAddr) -> Question {
    let (family, address) = match peer {
        IpAddr::V4(ip) => (libc::AF_INET, ip.octets().to_vec()),
        IpAddr::V6(ip) => (libc::AF_INET6, ip.octets().to_vec()),
    };
    let mut fixed = vec![0; 12];
    fixed[0] = family as u8;
    fixed[1] = 8 * address.len() as u8;
    let mut attributes = (4 + address.len() as u16).to_ne_bytes().to_vec();
    attributes.extend_from_slice(&ATTRIBUTE_DESTINATION.to_ne_bytes());
    attributes.extend_from_slice(&address);
    Question { fixed, attributes }
}

/// A `struct ifinfomsg`.
fn link_query(interface: u32) -> Question {
    let mut fixed = vec![0; 16];
    fixed[4..8].copy_from_slice(&interface.to_ne_bytes());
    Question { fixed, attributes: Vec::new() }
}

/// The 32-bit word at `offset` of the attribute that `names` lead to; each name is looked up inside
/// the previous attribute.
fn word(attributes: &[u8], names: &[u16], offset: usize) -> Option<u32> {
    let mut bytes = attributes;
    for name in names {
        bytes = attribute(bytes, *name)?;
    }
    bytes.get(offset..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

/// The value of the first attribute with this name.
fn attribute(mut bytes: &[u8], name: u16) -> Option<&[u8]> {
    loop {
        let len = u16::from_ne_bytes(*bytes.first_chunk()?) as usize;
        let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?) & ATTRIBUTE_KIND_MASK;
        let value = bytes.get(4..len)?;
        if kind == name {
            return Some(value);
        }
        bytes = bytes.get(len.next_multiple_of(4)..)?;
    }
}

const HEADER_BYTES: usize = 16;
/// Where the kind is in a message's header.
const KIND: Range<usize> = 4..6;
/// More than the kernel's answers have. The rest of a longer answer is not needed.
const ANSWER_BYTES: usize = 8192;
const FLAG_REQUEST: u16 = libc::NLM_F_REQUEST as u16;
const GET_ROUTE: u16 = libc::RTM_GETROUTE;
const NEW_ROUTE: u16 = libc::RTM_NEWROUTE;
const GET_LINK: u16 = libc::RTM_GETLINK;
const NEW_LINK: u16 = libc::RTM_NEWLINK;
const ATTRIBUTE_DESTINATION: u16 = libc::RTA_DST;
const ATTRIBUTE_INTERFACE: u16 = libc::RTA_OIF;
const ATTRIBUTE_METRICS: u16 = libc::RTA_METRICS;
const ATTRIBUTE_CACHE_INFO: u16 = libc::RTA_CACHEINFO;
const LINK_ATTRIBUTE_MTU: u16 = libc::IFLA_MTU;
/// `RTAX_MTU`.
const METRIC_MTU: u16 = 2;
/// The bits of an attribute's kind that are its name.
const ATTRIBUTE_KIND_MASK: u16 = 0x3fff;
/// The offset of `rta_expires` in a `struct rta_cacheinfo`.
const EXPIRES_OFFSET: usize = 8;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_way_to_this_host_is_its_loopback_interface() {
        let mtu = mtu_towards("127.0.0.1".parse().unwrap()).expect("rtnetlink answers");
        let text = std::fs::read_to_string("/sys/class/net/lo/mtu").expect("lo exists");
        assert_eq!(mtu.to_string(), text.trim());
    }

    #[test]
    fn nested_attributes_are_found() {
        let inner = [8, 0, 2, 0, 0x78, 5, 0, 0].map(u8::from);
        let outer = [&[5, 0, 1, 0, 9, 0, 0, 0, 12, 0, 8, 0], &inner[..]].concat();
        if cfg!(target_endian = "little") {
            assert_eq!(word(&outer, &[8, 2], 0), Some(1400));
            assert_eq!(word(&outer, &[8, 3], 0), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(
            bytes in proptest::collection::vec(any::<u8>(), 0..64),
            small in proptest::collection::vec(0u8..12, 0..64),
        ) {
            for bytes in [bytes, small] {
                word(&bytes, &[8, 2], 0);
            }
        }
    }
}
