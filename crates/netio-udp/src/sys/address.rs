//! Socket addresses in the kernel's encoding.

use core::mem::{offset_of, size_of};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Bytes of the longest address that UDP uses.
pub(crate) const ADDRESS_BYTES_MAX: usize = size_of::<libc::sockaddr_in6>();

/// A `sockaddr_in` or `sockaddr_in6`. Encoded once and passed to the kernel as often as needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(8))]
pub(crate) struct SocketAddress {
    bytes: [u8; ADDRESS_BYTES_MAX],
    /// Bytes in use: at most [`ADDRESS_BYTES_MAX`].
    len: u32,
}

// The offsets that the encoding below relies on.
const _: () = {
    assert!(size_of::<libc::sa_family_t>() == 2);
    assert!(offset_of!(libc::sockaddr_in, sin_port) == 2);
    assert!(offset_of!(libc::sockaddr_in, sin_addr) == 4);
    assert!(offset_of!(libc::sockaddr_in6, sin6_port) == 2);
    assert!(offset_of!(libc::sockaddr_in6, sin6_flowinfo) == 4);
    assert!(offset_of!(libc::sockaddr_in6, sin6_addr) == 8);
    assert!(offset_of!(libc::sockaddr_in6, sin6_scope_id) == 24);
};

impl SocketAddress {
    /// Room for an address that the kernel will fill in.
    pub(crate) const EMPTY: SocketAddress =
        SocketAddress { bytes: [0; ADDRESS_BYTES_MAX], len: ADDRESS_BYTES_MAX as u32 };

    pub(crate) fn new(address: SocketAddr) -> SocketAddress {
        let mut bytes = [0; ADDRESS_BYTES_MAX];
        let len = match address {
            SocketAddr::V4(v4) => encode_v4(&mut bytes, v4),
            SocketAddr::V6(v6) => encode_v6(&mut bytes, v6),
        };
        SocketAddress { bytes, len: len as u32 }
    }

    /// The address, if the kernel has filled in one of a family that UDP uses.
    pub(crate) fn decode(&self) -> Option<SocketAddr> {
        let family = u16::from_ne_bytes(self.field(0));
        let port = u16::from_be_bytes(self.field(2));
        match i32::from(family) {
            libc::AF_INET => {
                let ip = Ipv4Addr::from(self.field::<4>(4));
                Some(SocketAddr::V4(SocketAddrV4::new(ip, port)))
            }
            libc::AF_INET6 => {
                let ip = Ipv6Addr::from(self.field::<16>(8));
                let flow = u32::from_ne_bytes(self.field(4));
                let scope = u32::from_ne_bytes(self.field(24));
                Some(SocketAddr::V6(SocketAddrV6::new(ip, port, flow, scope)))
            }
            _ => None,
        }
    }

    pub(super) fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr()
    }

    pub(super) fn len(&self) -> libc::socklen_t {
        self.len
    }

    fn field<const N: usize>(&self, offset: usize) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&self.bytes[offset..offset + N]);
        field
    }
}

fn encode_v4(bytes: &mut [u8; ADDRESS_BYTES_MAX], address: SocketAddrV4) -> usize {
    bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
    bytes[4..8].copy_from_slice(&address.ip().octets());
    size_of::<libc::sockaddr_in>()
}

fn encode_v6(bytes: &mut [u8; ADDRESS_BYTES_MAX], address: SocketAddrV6) -> usize {
    bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
    bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
    bytes[4..8].copy_from_slice(&address.flowinfo().to_ne_bytes());
    bytes[8..24].copy_from_slice(&address.ip().octets());
    bytes[24..28].copy_from_slice(&address.scope_id().to_ne_bytes());
    size_of::<libc::sockaddr_in6>()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn v4_addresses_survive_encoding(ip: [u8; 4], port: u16) {
            let address = SocketAddr::from((ip, port));
            let encoded = SocketAddress::new(address);
            prop_assert_eq!(encoded.len(), 16);
            prop_assert_eq!(encoded.decode(), Some(address));
        }

        #[test]
        fn v6_addresses_survive_encoding(ip: [u8; 16], port: u16, flow: u32, scope: u32) {
            let address = SocketAddrV6::new(Ipv6Addr::from(ip), port, flow, scope);
            let encoded = SocketAddress::new(SocketAddr::V6(address));
            prop_assert_eq!(encoded.len(), 28);
            prop_assert_eq!(encoded.decode(), Some(SocketAddr::V6(address)));
        }
    }

    #[test]
    fn an_address_that_nobody_filled_in_is_none() {
        assert_eq!(SocketAddress::EMPTY.decode(), None);
    }
}
