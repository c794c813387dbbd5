//! The headers of all datagrams to one peer: written once, copied and completed per packet.

use std::net::{IpAddr, SocketAddr};

use petasos_netio::Ecn;

use super::checksum::{add_bytes, add_u16, finish};
use super::{
    ETHERNET_BYTES, ETHERTYPE_V4, ETHERTYPE_V6, Mac, PROTOCOL_UDP, UDP_BYTES, V4_BYTES,
    V4_VERSION_AND_LENGTH, V6_BYTES,
};

/// The length of the longer set of headers, rounded up so that every copy has the same fixed size.
/// A frame must have room for this much, however short its payload.
pub const TEMPLATE_BYTES: usize = 64;
const HOP_LIMIT: u8 = 64;

const _: () = assert!(ETHERNET_BYTES + V6_BYTES + UDP_BYTES <= TEMPLATE_BYTES);

/// Headers for one peer, with lengths and checksums left at zero.
#[derive(Clone, Debug)]
pub struct Template {
    bytes: [u8; TEMPLATE_BYTES],
    /// Bytes of all headers: 42 or 62.
    len: usize,
    /// The sum of the IPv4 header without its length. Because the sum is kept unfolded, the update
    /// of RFC 1624 is a plain addition.
    ip_sum: u64,
    /// The sum of the ports and the pseudo-header without the lengths.
    udp_sum: u64,
}

impl Template {
    /// Headers from `local` to `peer`.
    ///
    /// # Panics
    /// If the addresses are of different families.
    pub fn new(local: (Mac, SocketAddr), peer: (Mac, SocketAddr), ecn: Ecn) -> Template {
        let mut template = Template { bytes: [0; TEMPLATE_BYTES], len: 0, ip_sum: 0, udp_sum: 0 };
        template.bytes[..6].copy_from_slice(&peer.0);
        template.bytes[6..12].copy_from_slice(&local.0);
        let ip_bytes = match (local.1.ip(), peer.1.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                template.put_v4(from.octets(), to.octets());
                V4_BYTES
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                template.put_v6(from.octets(), to.octets());
                V6_BYTES
            }
            _ => unreachable!("the caller has compared the families"),
        };
        let udp = ETHERNET_BYTES + ip_bytes;
        template.bytes[udp..udp + 2].copy_from_slice(&local.1.port().to_be_bytes());
        template.bytes[udp + 2..udp + 4].copy_from_slice(&peer.1.port().to_be_bytes());
        template.udp_sum = add_bytes(template.udp_sum, &template.bytes[udp..udp + 4]);
        template.udp_sum = add_u16(template.udp_sum, u16::from(PROTOCOL_UDP));
        template.len = udp + UDP_BYTES;
        template.set_ecn(ecn);
        template
    }

    /// Changes the peer's Ethernet address.
    pub fn set_mac(&mut self, mac: Mac) {
        self.bytes[..6].copy_from_slice(&mac);
    }

    /// Changes the ECN bits.
    pub fn set_ecn(&mut self, ecn: Ecn) {
        if self.is_v4() {
            self.bytes[ETHERNET_BYTES + 1] = ecn as u8;
            self.ip_sum = add_bytes(0, &self.bytes[ETHERNET_BYTES..ETHERNET_BYTES + V4_BYTES]);
        } else {
            // The traffic class straddles the first two bytes.
            self.bytes[ETHERNET_BYTES + 1] = (ecn as u8) << 4;
        }
    }

    /// Writes the headers, `head` and `body` to the start of `frame`. Returns the frame's length.
    ///
    /// # Panics
    /// If `frame` has no room for them, or is shorter than [`TEMPLATE_BYTES`].
    #[inline]
    pub fn write(&self, frame: &mut [u8], head: &[u8], body: &[u8]) -> usize {
        let start = self.len;
        let end = start + head.len() + body.len();
        frame[..TEMPLATE_BYTES].copy_from_slice(&self.bytes);
        frame[start..start + head.len()].copy_from_slice(head);
        if !body.is_empty() {
            frame[start + head.len()..end].copy_from_slice(body);
        }
        let udp_bytes = (end - start + UDP_BYTES) as u16;
        if self.is_v4() {
            let total = udp_bytes + V4_BYTES as u16;
            frame[16..18].copy_from_slice(&total.to_be_bytes());
            frame[24..26].copy_from_slice(&finish(add_u16(self.ip_sum, total)));
        } else {
            frame[18..20].copy_from_slice(&udp_bytes.to_be_bytes());
        }
        // The length counts twice: in the header and in the pseudo-header.
        let sum = add_u16(add_u16(self.udp_sum, udp_bytes), udp_bytes);
        // Summed from the source of the data, so that the sum need not wait for the copy. Only a
        // head of odd length shifts the body's bytes to the other halves of their words.
        let sum = match head.len() % 2 {
            0 => add_bytes(add_bytes(sum, head), body),
            _ => add_bytes(sum, &frame[start..end]),
        };
        let checksum = match finish(sum) {
            // RFC 768: zero would mean that there is no checksum.
            [0, 0] => [0xff, 0xff],
            checksum => checksum,
        };
        frame[start - 4..start - 2].copy_from_slice(&udp_bytes.to_be_bytes());
        frame[start - 2..start].copy_from_slice(&checksum);
        end
    }

    fn is_v4(&self) -> bool {
        self.bytes[12..14] == ETHERTYPE_V4
    }

    fn put_v4(&mut self, from: [u8; 4], to: [u8; 4]) {
        self.bytes[12..14].copy_from_slice(&ETHERTYPE_V4);
        let ip = &mut self.bytes[ETHERNET_BYTES..ETHERNET_BYTES + V4_BYTES];
        ip[0] = V4_VERSION_AND_LENGTH;
        // "Don't fragment". With it, the identification field has no meaning (RFC 6864).
        ip[6] = 0x40;
        ip[8] = HOP_LIMIT;
        ip[9] = PROTOCOL_UDP;
        ip[12..16].copy_from_slice(&from);
        ip[16..20].copy_from_slice(&to);
        self.udp_sum = add_bytes(0, &ip[12..20]);
    }

    fn put_v6(&mut self, from: [u8; 16], to: [u8; 16]) {
        self.bytes[12..14].copy_from_slice(&ETHERTYPE_V6);
        let ip = &mut self.bytes[ETHERNET_BYTES..ETHERNET_BYTES + V6_BYTES];
        ip[0] = 0x60;
        ip[6] = PROTOCOL_UDP;
        ip[7] = HOP_LIMIT;
        ip[8..24].copy_from_slice(&from);
        ip[24..40].copy_from_slice(&to);
        self.udp_sum = add_bytes(0, &ip[8..40]);
    }
}
