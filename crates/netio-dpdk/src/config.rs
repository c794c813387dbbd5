//! Configuration of the backend.

use std::net::IpAddr;

use petasos_netio_frame::Mac;

/// How a `DpdkIo` behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DpdkConfig {
    /// Arguments of DPDK's environment, without the program's name. They must be the same for all
    /// endpoints of a process. [`DpdkConfig::for_device`] sets arguments that suffice for one
    /// device.
    pub eal: Vec<String>,
    /// The port: either its name (a PCI address, or a virtual device that `eal` made), or a virtual
    /// device to be made for this endpoint, in the syntax of `--vdev`: `net_af_packet0,iface=eth0`.
    ///
    /// `net_memif` is for tests only: when a peer leaves, a thread of DPDK 22.11's driver unmaps
    /// the rings that the endpoint polls, which can crash this process.
    pub device: String,
    /// The prefix length of the local address's subnet. Peers outside it are reached through
    /// `gateway`.
    pub prefix_bits: u8,
    /// The router to other subnets.
    pub gateway: Option<IpAddr>,
    /// Ethernet addresses that are known in advance. They are not asked for, and messages from
    /// other hosts do not change them.
    pub neighbours: Vec<(IpAddr, Mac)>,
    /// Our Ethernet address; `None` for the device's.
    pub mac: Option<Mac>,
    /// MTU in bytes; `None` for the device's.
    pub mtu: Option<u16>,
    /// Frames in memory, for both directions.
    pub frames: u32,
    /// Frames that the device may receive into; fewer if the device supports fewer.
    pub rx_descriptors: u16,
    /// Frames that the device may have to send; fewer if the device supports fewer.
    pub tx_descriptors: u16,
    /// Mark sent packets as ECN-capable. Set this only if senders slow down when they learn of
    /// congestion. The marks of received packets are always read.
    pub ecn_capable: bool,
    /// The largest datagram payload, in bytes, whatever the MTU allows.
    pub datagram_bytes_max: usize,
    /// The most peers that the backend knows at once.
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
    /// A configuration that suffices for `device` alone and touches no other device. It leaves few
    /// files behind, starts no thread per processor, and makes DPDK print only errors.
    ///
    /// A virtual device (`net_...`) needs neither huge pages nor the PCI bus. Its peers are
    /// software that may have to wait for a processor, so they get more time to answer.
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

/// Whether this is a virtual device, judging by its name.
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
