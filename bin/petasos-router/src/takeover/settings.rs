//! What a takeover needs.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use petasos_endpoint::NodeConfig;
use petasos_netlink::VirtualAddress;
use serde::Deserialize;

/// An address and the bits of its network's prefix, such as `10.0.0.100/24`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub struct Subnetted {
    /// The address.
    pub address: IpAddr,
    /// At most as many as it has.
    pub prefix_bits: u8,
}

impl FromStr for Subnetted {
    type Err = String;

    fn from_str(text: &str) -> Result<Subnetted, String> {
        let wrong = || format!("{text} is not an address with a prefix, such as 10.0.0.100/24");
        let (address, bits) = text.split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let prefix_bits = bits.parse().map_err(|_| wrong())?;
        if address.is_unspecified() || address.is_loopback() || address.is_multicast() {
            return Err(format!("{address} cannot move from host to host"));
        }
        // Its length.
        VirtualAddress::new("", address, prefix_bits).map_err(|error| error.to_string())?;
        Ok(Subnetted { address, prefix_bits })
    }
}

impl TryFrom<String> for Subnetted {
    type Error = String;

    fn try_from(text: String) -> Result<Subnetted, String> {
        text.parse()
    }
}

/// What a router needs to take its group's address.
#[derive(Debug)]
pub struct TakeoverSettings {
    /// The address.
    pub shared: VirtualAddress,
    /// The address that this host keeps.
    pub own: IpAddr,
    /// The other router's control address.
    pub peer: SocketAddr,
    /// Whether this one is first if nothing else decides which of the two is active.
    pub is_first: bool,
    /// After so much silence, the other one has failed.
    pub failure: Duration,
    /// How to secure the connection with it.
    pub node: NodeConfig,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_prefix_and_can_move() {
        for right in ["10.0.0.100/24", "10.0.0.100/32", "fd00::100/64"] {
            right.parse::<Subnetted>().expect(right);
        }
        for (wrong, what) in [
            ("10.0.0.100", "10.0.0.100/24"),
            ("router/24", "not an address"),
            ("10.0.0.100/x", "not an address"),
            ("10.0.0.100/33", "33 bits"),
            ("fd00::1/129", "129 bits"),
            ("127.0.0.1/8", "cannot move"),
            ("0.0.0.0/0", "cannot move"),
            ("224.0.0.18/4", "cannot move"),
        ] {
            let said = wrong.parse::<Subnetted>().expect_err(wrong);
            assert!(said.contains(what), "{said}");
        }
    }
}
