//! Endpoints on virtual devices: packet sockets on veth pairs, and rings in memory.

#![allow(dead_code, reason = "each test file uses a part")]

use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;

use petasos_netio_dpdk::{DpdkConfig, DpdkError, DpdkIo, Mac};

#[path = "../../../netio-xdp/tests/rig/mod.rs"]
pub mod rig;

/// A unique device name.
pub fn unique(kind: &str) -> String {
    static COUNT: Mutex<u32> = Mutex::new(0);
    let mut count = COUNT.lock().expect("nobody panics with the lock");
    *count += 1;
    format!("{kind}{count}")
}

/// The Ethernet address of an endpoint, counted from 1.
pub fn mac(number: u8) -> Mac {
    [2, 0x77, 0, 0, 0, number]
}

/// A configuration for small devices, without known neighbours.
pub fn config(number: u8) -> DpdkConfig {
    DpdkConfig {
        mac: Some(mac(number)),
        frames: 1024,
        rx_descriptors: 256,
        tx_descriptors: 256,
        // The processors may be busy with other things.
        resolve_wait_ms: 10_000,
        ..DpdkConfig::for_device("net_")
    }
}

/// An endpoint on an interface of a namespace, next to the kernel's stack.
pub fn on_interface(
    (host, interface): (&rig::Namespace, &str),
    address: SocketAddr,
    config: DpdkConfig,
) -> Result<DpdkIo, DpdkError> {
    let name = unique("net_af_packet");
    let device = format!("{name},iface={interface},framecnt=256,blocksz=4096");
    host.run(|| DpdkIo::bind(address, &DpdkConfig { device, ..config }))
}

/// The address of an endpoint, counted from 1, in the networks of `rig`, next to the kernel's.
pub fn ip(v6: bool, number: u8) -> IpAddr {
    if v6 { rig::v6(100 + number) } else { rig::v4(100 + number) }
}
