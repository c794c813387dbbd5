//! How the backend behaves.

use std::net::IpAddr;

use petasos_netio_frame::Mac;

/// How a `DpdkIo` behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DpdkConfig {
    /// Arguments of DPDK's environment, without the program's name. All endpoints of a process have
    /// the same. [`DpdkConfig::for_device`] has some that suffice for one device.
    pub eal: Vec<String>,
    /// The port: its name (a PCI address, or a virtual device that `eal` made), or a virtual device
    /// to be made for this endpoint, as `--vdev` takes it: `net_af_packet0,iface=eth0`.
    pub device: String,
    /// Bits of the local address that are the subnet's. Peers beyond it are behind `gateway`.
    pub prefix_bits: u8,
    /// The router to other subnets.
    pub gateway: Option<IpAddr>,
    /// Ethernet addresses that are known; they are not asked for, and not changed by what others
    /// say.
    pub neighbours: Vec<(IpAddr, Mac)>,
    /// Our Ethernet address; `None` for the device's.
    pub mac: Option<Mac>,
    /// MTU in bytes; `None` for the device's.
    pub mtu: Option<u16>,
    /// Frames in memory, for both directions.
    pub frames: u32,
    /// Frames that the device may receive into; less if it takes less.
    pub rx_descriptors: u16,
    /// Frames that the device may have to send; less if it takes less.
    pub tx_descriptors: u16,
    /// Mark sent packets as ECN-capable. Only for those who slow down when told of congestion. The
    /// marks of received packets are always read.
    pub ecn_capable: bool,
    /// Largest datagram payload, in bytes, whatever the MTU allows.
    pub datagram_bytes_max: usize,
    /// Peers that the backend knows at once.
    pub routes_max: usize,
    /// How long a new route may wait for the neighbour's address, in milliseconds. Datagrams that
    /// arrive meanwhile are dropped and counted.
    pub resolve_wait_ms: u64,
}

impl Default for DpdkConfig {
    fn default() -> DpdkConfig {
        DpdkConfig {
            eal: Vec::new(),
            device: String::new(),
            prefix_bits: 24,
            gateway: None,
            neighbours: Vec::new(),
            mac: None,
            mtu: None,
            frames: 8192,
            rx_descriptors: 1024,
            tx_descriptors: 1024,
            ecn_capable: false,
            datagram_bytes_max: 8972,
            routes_max: 1 << 16,
            resolve_wait_ms: 100,
        }
    }
}

impl DpdkConfig {
    /// What suffices for `device` alone, and leaves all others alone. Little is left behind, no
    /// thread is started per processor, and DPDK says nothing but errors.
    ///
    /// A virtual device (`net_...`) needs neither huge pages nor the PCI bus. Its peers are
    /// software and may wait for a processor, so that they get longer to answer.
    pub fn for_device(device: &str) -> DpdkConfig {
        let quiet = ["--no-telemetry", "--log-level=error", "-l", "0"];
        let words = |own: &[&str]| quiet.iter().chain(own).map(|word| (*word).to_owned()).collect();
        let default = DpdkConfig { device: device.to_owned(), ..DpdkConfig::default() };
        if is_virtual(device) {
            let own = ["--no-huge", "--no-shconf", "-m", "512", "--no-pci", "--iova-mode=va"];
            DpdkConfig { eal: words(&own), resolve_wait_ms: 1000, ..default }
        } else {
            DpdkConfig { eal: words(&["--in-memory", "-a", device]), ..default }
        }
    }
}

/// Whether this is a device of software alone, as far as its name says.
pub(crate) fn is_virtual(device: &str) -> bool {
    device.starts_with("net_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtual_device_needs_no_huge_pages_and_another_is_the_only_one() {
        let config = DpdkConfig::for_device("net_af_packet0,iface=eth0");
        assert!(config.eal.iter().any(|word| word == "--no-huge"), "{config:?}");
        let config = DpdkConfig::for_device("0000:3b:00.1,txq_inline=1");
        assert_eq!(config.eal[config.eal.len() - 2..], ["-a", "0000:3b:00.1,txq_inline=1"]);
        assert!(!config.eal.iter().any(|word| word == "--no-huge"), "{config:?}");
    }
}
