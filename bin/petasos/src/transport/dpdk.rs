//! `--transport dpdk`, and its options.

use std::net::{IpAddr, SocketAddr};

use clap::Args;
use petasos_endpoint::Backend;

use crate::failure::Failure;

/// The options of DPDK.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct DpdkArgs {
    /// With `dpdk`: the port, a PCI address or a virtual device with its arguments, such as
    /// `net_af_packet0,iface=eth1`.
    #[arg(long, value_name = "PORT", global = true)]
    pub device: Option<String>,
    /// With `dpdk`: arguments of DPDK's environment, such as `--no-huge --vdev=net_ring0`
    /// [default: what the port needs, and no other device].
    #[arg(long, value_name = "ARGS", global = true, allow_hyphen_values = true)]
    pub eal: Option<String>,
    /// With `dpdk`: the port's own address and its subnet, for packets; the kernel need not have it
    /// [default: the one that the server listens at, or that leads to the server].
    #[arg(long, value_name = "ADDR/BITS", global = true, value_parser = parse_subnet)]
    pub data_address: Option<Subnet>,
    /// With `dpdk`: the router to other subnets.
    #[arg(long, value_name = "ADDR", global = true)]
    pub gateway: Option<IpAddr>,
}

/// An address, and the number of its subnet bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// The address.
    pub ip: IpAddr,
    /// The bits.
    pub bits: u8,
}

impl DpdkArgs {
    /// The name of the first option that was given, if any.
    pub fn given(&self) -> Option<&'static str> {
        let device = self.device.as_ref().map(|_| "--device");
        let eal = self.eal.as_ref().map(|_| "--eal");
        let address = self.data_address.map(|_| "--data-address");
        device.or(eal).or(address).or(self.gateway.map(|_| "--gateway"))
    }

    /// Opens endpoint number `index`, by default at `address`.
    ///
    /// # Errors
    /// If DPDK is not available. The error contains advice.
    #[cfg(feature = "dpdk")]
    pub fn open(&self, address: SocketAddr, index: u32) -> Result<Backend, Failure> {
        use petasos_netio_dpdk::{DpdkConfig, DpdkError, DpdkIo};

        let Some(device) = &self.device else {
            let advice = "name one with --device: a PCI address, or `net_af_packet0,iface=eth1`";
            return Err(Failure::with_advice("DPDK needs a port", advice));
        };
        if index > 0 {
            let what = "a DPDK port carries one endpoint";
            return Err(Failure::with_advice(what, "leave --endpoints away"));
        }
        let whole = Subnet { ip: address.ip(), bits: if address.is_ipv4() { 24 } else { 64 } };
        let Subnet { ip, bits } = self.data_address.unwrap_or(whole);
        let (prefix_bits, gateway) = (bits, self.gateway);
        let mut config = DpdkConfig { prefix_bits, gateway, ..DpdkConfig::for_device(device) };
        if let Some(words) = &self.eal {
            config.eal = words.split_whitespace().map(str::to_owned).collect();
        }
        match DpdkIo::bind(SocketAddr::new(ip, address.port()), &config) {
            Ok(io) => Ok(io.into()),
            Err(error @ DpdkError::AddressUnspecific(_)) => {
                Err(Failure::with_advice(error, "do so with --data-address ADDRESS/BITS"))
            }
            Err(error) => Err(Failure::of_transport("DPDK", &error)),
        }
    }

    /// The function for programs without DPDK.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(feature = "dpdk"))]
    pub fn open(&self, _: SocketAddr, _: u32) -> Result<Backend, Failure> {
        Err(Failure::of_missing_feature("dpdk", "libdpdk-dev"))
    }
}

/// Parses `ADDR/BITS`, or `ADDR` with a default subnet.
fn parse_subnet(text: &str) -> Result<Subnet, String> {
    let wrong = || "expected ADDRESS/BITS, such as 10.0.0.7/24 or fd00::7/64".to_owned();
    let (ip, bits) = text.split_once('/').unzip();
    let ip: IpAddr = ip.unwrap_or(text).parse().map_err(|_| wrong())?;
    let (usual, all) = if ip.is_ipv4() { (24, 32) } else { (64, 128) };
    let bits = bits.map_or(Ok(usual), |bits| bits.parse().map_err(|_| wrong()))?;
    if bits > all { Err(wrong()) } else { Ok(Subnet { ip, bits }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_subnet() {
        let parsed = |text| parse_subnet(text).map(|subnet| (subnet.ip.to_string(), subnet.bits));
        assert_eq!(parsed("10.0.0.7/8"), Ok(("10.0.0.7".to_owned(), 8)));
        assert_eq!(parsed("10.0.0.7"), Ok(("10.0.0.7".to_owned(), 24)));
        assert_eq!(parsed("fd00::7"), Ok(("fd00::7".to_owned(), 64)));
        for text in ["", "10.0.0.7/33", "10.0.0.7/", "fd00::7/129", "10.0.0.7:80", "/24"] {
            assert!(parse_subnet(text).is_err(), "{text}");
        }
    }

    #[test]
    fn options_that_were_given_are_named() {
        assert_eq!(DpdkArgs::default().given(), None);
        let eal = Some("--no-huge".to_owned());
        assert_eq!(DpdkArgs { eal, ..DpdkArgs::default() }.given(), Some("--eal"));
    }
}
