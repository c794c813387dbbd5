//! The greeting: what the connecting side sends first, together with the region's descriptor.
//!
//! Both sides are on one host, so numbers are in its byte order. Sizes are checked before use.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use petasos_shm::RingShape;

/// Bytes of an encoded greeting.
pub(crate) const GREETING_BYTES: usize = 48;
/// The format's name and version.
const MAGIC: [u8; 8] = *b"PETASHM1";
/// The largest region that is accepted from a peer, which chooses the size: 64 MiB.
const REGION_BYTES_MAX: usize = 64 << 20;
const V4: u16 = 4;
const V6: u16 = 6;

/// The contents of a greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    /// Where the connecting side can be reached, as it claims.
    pub from: SocketAddr,
    /// The sizes of the region's rings.
    pub rings: RingShape,
    /// Largest datagram payload, in bytes, in both directions.
    pub datagram_bytes_max: usize,
}

impl Greeting {
    pub(crate) fn encode(&self) -> [u8; GREETING_BYTES] {
        let (family, ip) = match self.from.ip() {
            IpAddr::V4(ip) => (V4, ip.to_ipv6_mapped()),
            IpAddr::V6(ip) => (V6, ip),
        };
        let mut bytes = [0; GREETING_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.rings.slots.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.rings.data_bytes.to_ne_bytes());
        bytes[16..20].copy_from_slice(&self.rings.record_bytes_max.to_ne_bytes());
        bytes[20..24].copy_from_slice(&(self.datagram_bytes_max as u32).to_ne_bytes());
        bytes[24..26].copy_from_slice(&family.to_ne_bytes());
        bytes[26..28].copy_from_slice(&self.from.port().to_ne_bytes());
        bytes[28..44].copy_from_slice(&ip.octets());
        bytes
    }

    /// Decodes `bytes`; `None` if they are no greeting, or its sizes are impossible.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Greeting> {
        let bytes: &[u8; GREETING_BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]));
        let half = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let rings = RingShape { slots: word(8), data_bytes: word(12), record_bytes_max: word(16) };
        let datagram_bytes_max = word(20) as usize;
        let ip: [u8; 16] = bytes[28..44].try_into().ok()?;
        let ip = match half(24) {
            V4 => IpAddr::V4(Ipv6Addr::from(ip).to_ipv4_mapped()?),
            V6 => IpAddr::V6(ip.into()),
            _ => return None,
        };
        let possible = bytes[..8] == MAGIC
            && rings.check().is_ok()
            && rings.region_bytes() <= REGION_BYTES_MAX
            && (1..=rings.record_bytes_max as usize).contains(&datagram_bytes_max);
        let from = SocketAddr::new(ip, half(26));
        possible.then_some(Greeting { from, rings, datagram_bytes_max })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn greeting(from: SocketAddr) -> Greeting {
        let rings = RingShape { slots: 64, data_bytes: 1 << 20, record_bytes_max: 9000 };
        Greeting { from, rings, datagram_bytes_max: 8000 }
    }

    #[test]
    fn greetings_survive_encoding() {
        for from in ["127.1.2.3:4", "[::1]:65535", "[fe80::7]:1"] {
            let greeting = greeting(from.parse().expect("it is an address"));
            assert_eq!(Greeting::decode(&greeting.encode()), Some(greeting));
        }
    }

    #[test]
    fn impossible_sizes_are_refused() {
        let good = greeting(SocketAddr::from(([127, 0, 0, 1], 9)));
        let rings = [
            RingShape { slots: 63, ..good.rings },
            RingShape { data_bytes: 1 << 28, ..good.rings },
            RingShape { record_bytes_max: 7999, ..good.rings },
        ];
        for rings in rings {
            assert_eq!(Greeting::decode(&Greeting { rings, ..good }.encode()), None);
        }
        let endless = Greeting { datagram_bytes_max: 0, ..good };
        assert_eq!(Greeting::decode(&endless.encode()), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_greeting_or_none(
            bytes in prop::collection::vec(any::<u8>(), 0..2 * GREETING_BYTES),
            at in 0..GREETING_BYTES,
            value: u8,
        ) {
            prop_assert_eq!(Greeting::decode(&bytes), None);
            let mut damaged = greeting(SocketAddr::from(([127, 0, 0, 1], 9))).encode();
            damaged[at] = value;
            if let Some(greeting) = Greeting::decode(&damaged) {
                prop_assert!(greeting.rings.check().is_ok());
                prop_assert!(greeting.rings.region_bytes() <= REGION_BYTES_MAX);
            }
        }
    }
}
