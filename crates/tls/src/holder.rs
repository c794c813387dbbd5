//! Which peer an address, a certificate or a process belongs to, for shares and quotas.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::Identity;

/// The peer for which something counts.
///
/// A peer that has proved a name over TLS counts as that name, whatever address it calls from. So
/// two names behind one address (a NAT, a host of many containers) do not use up each other's
/// quota, and one name at many addresses has one quota. All others count as their address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    /// An address; for IPv6 its /64 network, since a host may choose any address in it.
    Address(IpAddr),
    /// The first name in a certificate, or the whole certificate if it has no names.
    Name(Vec<u8>),
    /// An address that this process has dialled. The process chooses its servers, so each address
    /// counts separately. Servers of one service, which may share a name, do not use up each
    /// other's quota.
    Server(SocketAddr),
    /// A user of this host, who has connected over a Unix socket.
    User(u32),
}

impl Holder {
    /// The peer whose connection comes from `address`.
    pub fn of(address: IpAddr, identity: Option<&Identity>) -> Holder {
        match identity {
            None => Holder::Address(source(address)),
            Some(identity) => Holder::Name(match identity.names.first() {
                Some(name) => name.clone().into_bytes(),
                None => identity.certificate.clone(),
            }),
        }
    }
}

/// The address whose share is used: the address itself, for IPv6 its /64, since a host may choose
/// any address in its network.
fn source(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => IpAddr::V4(ip),
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from(u128::from(ip) & !u128::from(u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("it is an address")
    }

    #[test]
    fn a_network_of_ipv6_is_one_source_and_mapped_addresses_are_ipv4() {
        assert_eq!(source(ip("2001:db8::1")), source(ip("2001:db8::ffff:1")));
        assert_ne!(source(ip("2001:db8::1")), source(ip("2001:db8:0:1::1")));
        assert_eq!(source(ip("::ffff:127.0.0.1")), ip("127.0.0.1"));
    }

    #[test]
    fn a_name_is_one_holder_everywhere_and_a_certificate_without_names_is_one() {
        let identity = |names: &[&str], certificate: u8| Identity {
            names: names.iter().map(|&name| name.to_owned()).collect(),
            certificate: vec![certificate],
        };
        let (alice, renewed) = (identity(&["alice"], 1), identity(&["alice"], 2));
        let here = Holder::of(ip("10.0.0.1"), Some(&alice));
        assert_eq!(here, Holder::of(ip("10.0.0.2"), Some(&renewed)));
        assert_ne!(here, Holder::of(ip("10.0.0.1"), Some(&identity(&["bob"], 1))));
        assert_ne!(here, Holder::of(ip("10.0.0.1"), None));
        let [one, other] = [1, 2].map(|bytes| identity(&[], bytes));
        assert_ne!(
            Holder::of(ip("10.0.0.1"), Some(&one)),
            Holder::of(ip("10.0.0.1"), Some(&other))
        );
    }
}
