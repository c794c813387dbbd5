//! Who is behind an address, for shares and quotas.

use std::net::{IpAddr, Ipv6Addr};

/// Whose share an address uses: its own, for IPv6 that of its /64, since a host may choose any
/// address in its network.
pub(crate) fn source(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => IpAddr::V4(ip),
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from(u128::from(ip) & !u128::from(u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_ipv6_is_one_source_and_mapped_addresses_are_ipv4() {
        let ip = |text: &str| text.parse::<IpAddr>().expect("it is an address");
        assert_eq!(source(ip("2001:db8::1")), source(ip("2001:db8::ffff:1")));
        assert_ne!(source(ip("2001:db8::1")), source(ip("2001:db8:0:1::1")));
        assert_eq!(source(ip("::ffff:127.0.0.1")), ip("127.0.0.1"));
    }
}
