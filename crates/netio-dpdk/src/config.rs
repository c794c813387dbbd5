//! How the backend behaves.

use std::net::IpAddr;

use petasos_netio_frame::Mac;

/// How a `DpdkIo` behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DpdkConfig {
    /// Arguments of DPDK's environment, without the program's name. All endpoints of a process have
    /// the same. [`eal_arguments`] makes some that suffice for one device.
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

/// Arguments of DPDK's environment that suffice for `device` alone, and leave all others alone: a
/// virtual device (`net_...`) needs neither huge pages nor the PCI bus.
///
/// They leave nothing behind, start no thread per processor, and say nothing but errors.
pub fn eal_arguments(device: &str) -> Vec<String> {
    let name = device.split(',').next().unwrap_or_default();
    let all = ["--no-telemetry", "--log-level=error", "-l", "0"];
    let virtually = ["--no-huge", "--no-shconf", "-m", "512", "--no-pci", "--iova-mode=va"];
    let own: &[&str] =
        if name.starts_with("net_") { &virtually } else { &["--in-memory", "-a", device] };
    all.iter().chain(own).map(|word| (*word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtual_device_needs_no_huge_pages_and_another_is_the_only_one() {
        let arguments = eal_arguments("net_af_packet0,iface=eth0");
        assert!(arguments.iter().any(|word| word == "--no-huge"), "{arguments:?}");
        let arguments = eal_arguments("0000:3b:00.1,txq_inline=1");
        assert_eq!(arguments[arguments.len() - 2..], ["-a", "0000:3b:00.1,txq_inline=1"]);
        assert!(!arguments.iter().any(|word| word == "--no-huge"), "{arguments:?}");
    }
}
