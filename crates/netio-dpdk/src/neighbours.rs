//! Where peers' frames are sent: the subnet, the router, and neighbours' Ethernet addresses.

use std::collections::BTreeMap;
use std::net::IpAddr;

use petasos_netio_frame::Mac;

use crate::{DpdkConfig, DpdkError};

/// What is known about the neighbours.
pub(crate) struct Neighbours {
    local: IpAddr,
    prefix_bits: u32,
    gateway: Option<IpAddr>,
    fixed: BTreeMap<IpAddr, Mac>,
    learned: BTreeMap<IpAddr, Mac>,
}

impl Neighbours {
    pub(crate) fn new(local: IpAddr, config: &DpdkConfig) -> Result<Neighbours, DpdkError> {
        let bits: u32 = if local.is_ipv4() { 32 } else { 128 };
        let prefix_bits = u32::from(config.prefix_bits);
        if prefix_bits > bits {
            return Err(DpdkError::Config("a subnet longer than an address"));
        }
        let fixed = config.neighbours.iter().copied().collect();
        let learned = BTreeMap::new();
        let neighbours = Neighbours { local, prefix_bits, gateway: None, fixed, learned };
        match config.gateway {
            Some(gateway) if !neighbours.is_near(gateway) => Err(DpdkError::Gateway(gateway)),
            gateway => Ok(Neighbours { gateway, ..neighbours }),
        }
    }

    /// The neighbour that leads to `peer`, if there is one.
    pub(crate) fn hop(&self, peer: IpAddr) -> Option<IpAddr> {
        if self.is_near(peer) { Some(peer) } else { self.gateway }
    }

    /// A neighbour's Ethernet address, if it is known.
    pub(crate) fn mac(&self, hop: IpAddr) -> Option<Mac> {
        self.fixed.get(&hop).or_else(|| self.learned.get(&hop)).copied()
    }

    /// Notes what a message said about a neighbour. Returns whether it is accepted: not if it
    /// contradicts the configuration, or if it is about a host outside the subnet.
    pub(crate) fn learn(&mut self, address: IpAddr, mac: Mac) -> bool {
        if !self.is_near(address) || address == self.local || self.fixed.contains_key(&address) {
            return false;
        }
        // A full table evicts any entry: routes in use have their own copies.
        if self.learned.len() >= LEARNED_MAX && !self.learned.contains_key(&address) {
            self.learned.pop_first();
        }
        self.learned.insert(address, mac);
        true
    }

    fn is_near(&self, address: IpAddr) -> bool {
        let differing = match (self.local, address) {
            (IpAddr::V4(local), IpAddr::V4(other)) => {
                u128::from(local.to_bits() ^ other.to_bits()) << 96
            }
            (IpAddr::V6(local), IpAddr::V6(other)) => local.to_bits() ^ other.to_bits(),
            _ => return false,
        };
        // Without a subnet, all bits are shifted out, and every host counts as near.
        differing.leading_zeros() >= self.prefix_bits
    }
}

/// Enough for the hosts of a large subnet, and a bound on what other hosts can make us store.
const LEARNED_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn neighbours(local: &str, prefix_bits: u8, gateway: Option<&str>) -> Neighbours {
        let gateway = gateway.map(|gateway| gateway.parse().unwrap());
        let neighbours = vec![("10.0.0.9".parse().unwrap(), [9; 6])];
        let config = DpdkConfig { prefix_bits, gateway, neighbours, ..DpdkConfig::default() };
        Neighbours::new(local.parse().unwrap(), &config).expect("a sound configuration")
    }

    #[test]
    fn peers_beyond_the_subnet_are_behind_the_gateway() {
        let v4 = neighbours("10.0.0.1", 24, Some("10.0.0.254"));
        assert_eq!(v4.hop("10.0.0.7".parse().unwrap()), Some("10.0.0.7".parse().unwrap()));
        assert_eq!(v4.hop("10.0.1.7".parse().unwrap()), Some("10.0.0.254".parse().unwrap()));
        let v6 = neighbours("fd00::1", 64, None);
        assert!(v6.hop("fd00::ffff:1".parse().unwrap()).is_some());
        assert!(v6.hop("fd00:0:0:1::1".parse().unwrap()).is_none());
        assert!(neighbours("10.0.0.1", 0, None).hop("8.8.8.8".parse().unwrap()).is_some());
        assert!(neighbours("10.0.0.1", 32, None).hop("10.0.0.2".parse().unwrap()).is_none());
    }

    #[test]
    fn what_is_configured_is_not_changed_and_what_is_learned_is_bounded() {
        let mut table = neighbours("10.0.0.1", 8, None);
        let fixed: IpAddr = "10.0.0.9".parse().unwrap();
        assert!(!table.learn(fixed, [1; 6]) && table.mac(fixed) == Some([9; 6]));
        assert!(!table.learn("10.0.0.1".parse().unwrap(), [1; 6]), "our own address");
        assert!(!table.learn("11.0.0.1".parse().unwrap(), [1; 6]), "no neighbour");
        for number in 0..2 * LEARNED_MAX as u32 {
            table.learn(IpAddr::from((0x0a01_0000 + number).to_be_bytes()), [2; 6]);
        }
        assert_eq!(table.learned.len(), LEARNED_MAX);
    }

    #[test]
    fn a_gateway_elsewhere_is_refused() {
        let config =
            DpdkConfig { gateway: Some("11.0.0.1".parse().unwrap()), ..DpdkConfig::default() };
        let refused = Neighbours::new("10.0.0.1".parse().unwrap(), &config).err();
        assert!(matches!(refused, Some(DpdkError::Gateway(_))));
    }
}
