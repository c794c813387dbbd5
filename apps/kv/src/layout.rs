//! Which loop of a server owns which partition (K20).
//!
//! Threat model: a client believes a server's layout as it believes its answers; it may name any
//! address. Counts are bounded by the message's own length.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use petasos_store::partition_of;

/// Bytes before the addresses.
const HEADER_BYTES: usize = 16;
/// Bytes of an address: an IPv6 one (IPv4 is mapped) and a port.
const ADDRESS_BYTES: usize = 18;

/// A server's partitions. They do not change while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Drawn when the server starts.
    pub version: u64,
    /// Each loop's control address. An unspecified IP address means the one that was called.
    pub loops: Vec<SocketAddr>,
    /// The loop of each partition.
    pub owners: Vec<u16>,
}

/// Bytes are no layout: the server's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server's layout is malformed")]
pub struct MalformedLayout;

impl Layout {
    /// The loop that owns a key.
    #[must_use]
    pub fn owner_of(&self, key: &[u8]) -> u16 {
        self.owners[usize::from(partition_of(key, self.owners.len() as u16))]
    }

    /// Its message: version (8 bytes), numbers of partitions and of loops (2 each), zeros (4), then
    /// addresses, then owners (2 each).
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let counts = [self.owners.len(), self.loops.len()].map(|count| count as u16);
        let mut bytes = self.version.to_le_bytes().to_vec();
        bytes.extend(counts.iter().flat_map(|count| count.to_le_bytes()));
        bytes.extend([0; 4]);
        for address in &self.loops {
            let ip = match address.ip() {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            bytes.extend(ip.octets());
            bytes.extend(address.port().to_le_bytes());
        }
        bytes.extend(self.owners.iter().flat_map(|owner| owner.to_le_bytes()));
        bytes
    }

    /// Reads a message.
    ///
    /// # Errors
    /// If it is none, or contradicts itself.
    pub fn parse(bytes: &[u8]) -> Result<Layout, MalformedLayout> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(MalformedLayout)?;
        let version = u64::from_le_bytes(header[..8].try_into().expect("there are eight"));
        let count = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
        let (partitions, loops) = (count(8), count(10));
        if rest.len() != loops * ADDRESS_BYTES + partitions * 2 || partitions == 0 {
            return Err(MalformedLayout);
        }
        let (addresses, owners) = rest.split_at(loops * ADDRESS_BYTES);
        let (addresses, _) = addresses.as_chunks::<ADDRESS_BYTES>();
        let loops: Vec<_> = addresses.iter().map(address_of).collect();
        let (owners, _) = owners.as_chunks::<2>();
        let owners: Vec<_> = owners.iter().map(|owner| u16::from_le_bytes(*owner)).collect();
        if owners.iter().any(|owner| usize::from(*owner) >= loops.len()) {
            return Err(MalformedLayout);
        }
        Ok(Layout { version, loops, owners })
    }
}

fn address_of(bytes: &[u8; ADDRESS_BYTES]) -> SocketAddr {
    let (ip, port) = bytes.split_at(16);
    let ip = Ipv6Addr::from(<[u8; 16]>::try_from(ip).expect("there are sixteen"));
    let port = u16::from_le_bytes(port.try_into().expect("there are two"));
    SocketAddr::new(ip.to_canonical(), port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        let loops = vec!["10.0.0.1:7".parse(), "[fd00::1]:65535".parse(), "0.0.0.0:9".parse()];
        let loops = loops.into_iter().map(|address| address.expect("it is one")).collect();
        Layout { version: 77, loops, owners: vec![0, 1, 2, 2, 0] }
    }

    #[test]
    fn k20_a_layout_is_read_as_it_was_written() {
        assert_eq!(Layout::parse(&layout().to_bytes()), Ok(layout()));
        let key = b"some key";
        let partition = partition_of(key, 5);
        assert_eq!(layout().owner_of(key), layout().owners[usize::from(partition)]);
    }

    #[test]
    fn k20_what_is_cut_or_contradicts_itself_is_refused() {
        let bytes = layout().to_bytes();
        for len in 0..bytes.len() {
            assert_eq!(Layout::parse(&bytes[..len]), Err(MalformedLayout), "{len}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(Layout::parse(&longer), Err(MalformedLayout));
        let strange = Layout { owners: vec![3], ..layout() };
        assert_eq!(Layout::parse(&strange.to_bytes()), Err(MalformedLayout), "there is no loop 3");
        let none = Layout { owners: vec![], ..layout() };
        assert_eq!(Layout::parse(&none.to_bytes()), Err(MalformedLayout));
    }
}
