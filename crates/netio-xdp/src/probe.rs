//! What this host supports, and why not.
//!
//! Nothing is attached and no queue is bound, because both can interrupt a device's traffic.

use std::fs;
use std::net::IpAddr;

use petasos_netlink::{Interface, Netlink};

use crate::holder::holders;
use crate::io::{check_address, check_interface, check_link, find_interface};
use crate::program::load;
use crate::socket::{locked_memory_max, new_socket};
use crate::{Holder, XdpConfig, XdpError};

/// What a host supports.
#[derive(Debug)]
#[non_exhaustive]
pub struct Probe {
    /// The kernel's version.
    pub kernel: String,
    /// Whether an AF_XDP socket can be opened.
    pub socket: Result<(), XdpError>,
    /// Whether the steering program can be loaded.
    pub program: Result<(), XdpError>,
    /// The limit of locked memory, in bytes; `None` if there is none. It does not bind processes
    /// with CAP_IPC_LOCK.
    pub locked_memory_bytes_max: Option<u64>,
    /// Huge pages that are free, of the default size.
    pub huge_pages_free: u64,
    /// The interfaces of the thread's network namespace, or why they cannot be listed.
    pub interfaces: Result<Vec<InterfaceProbe>, XdpError>,
}

/// What an interface supports.
#[derive(Debug)]
#[non_exhaustive]
pub struct InterfaceProbe {
    /// Its name.
    pub name: String,
    /// What kind of virtual device it is; `None` for hardware and loopback.
    pub kind: Option<String>,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// Queues for both directions: the most endpoints that can use it.
    pub queues: u32,
    /// The XDP program attached to it and the processes that hold it, if any.
    pub program: Option<(u32, Vec<Holder>)>,
    /// Whether an endpoint can be opened there, as far as can be known without trying. The driver
    /// may still lack native mode or zero copy, for which there are substitutes.
    pub usable: Result<(), XdpError>,
}

impl Probe {
    /// Whether an endpoint can be opened on some interface, as far as can be told.
    pub fn usable(&self) -> bool {
        let some = |list: &Vec<InterfaceProbe>| list.iter().any(|each| each.usable.is_ok());
        self.socket.is_ok() && self.program.is_ok() && self.interfaces.as_ref().is_ok_and(some)
    }
}

/// Finds out what this host supports, in the network namespace of the calling thread.
pub fn probe() -> Probe {
    Probe {
        kernel: read_trimmed("/proc/sys/kernel/osrelease"),
        socket: new_socket().map(drop),
        program: load().map(drop),
        locked_memory_bytes_max: locked_memory_max(),
        huge_pages_free: huge_pages_free(&read_trimmed("/proc/meminfo")),
        interfaces: interfaces(),
    }
}

/// Whether a backend can be opened at an address with this configuration, as far as can be known
/// without trying: the port and the queue may be taken, and the interface by another program.
///
/// # Errors
/// See [`XdpError`].
pub fn check(address: IpAddr, config: &XdpConfig) -> Result<(), XdpError> {
    check_address(address)?;
    let open = |error| crate::error::system("open netlink", error);
    let mut netlink = Netlink::open().map_err(open)?;
    let interface = find_interface(&mut netlink, address, config)?;
    check_interface(&interface, config)?;
    new_socket()?;
    load().map(drop)
}

/// The name of the interface that has `address`, or of `named` if it has it, and the kind of
/// virtual device that it is. It is up, and carries frames of Ethernet.
///
/// # Errors
/// See [`XdpError`].
pub fn interface_of(
    address: IpAddr,
    named: Option<&str>,
) -> Result<(String, Option<String>), XdpError> {
    check_address(address)?;
    let open = |error| crate::error::system("open netlink", error);
    let mut netlink = Netlink::open().map_err(open)?;
    let config = XdpConfig { interface: named.map(str::to_owned), ..XdpConfig::default() };
    let interface = find_interface(&mut netlink, address, &config)?;
    check_link(&interface)?;
    Ok((interface.name, interface.kind))
}

fn interfaces() -> Result<Vec<InterfaceProbe>, XdpError> {
    let list = |error| crate::error::system("list the interfaces", error);
    let mut netlink = Netlink::open().map_err(list)?;
    let addresses = netlink.addresses().map_err(list)?;
    let interfaces = netlink.interfaces().map_err(list)?;
    let own = |index| addresses.iter().filter(move |(owner, _)| *owner == index);
    Ok(interfaces
        .into_iter()
        .map(|interface| {
            let addresses = own(interface.index).map(|(_, address)| *address).collect();
            interface_probe(&interface, addresses)
        })
        .collect())
}

fn interface_probe(interface: &Interface, addresses: Vec<IpAddr>) -> InterfaceProbe {
    let program = interface.program_id.map(|id| (id, holders(id)));
    let held = |(program_id, holders): &(u32, Vec<Holder>)| XdpError::ProgramHeld {
        name: interface.name.clone(),
        program_id: *program_id,
        holders: holders.clone(),
    };
    // This process's own program is no obstacle to its endpoints.
    let own = |holders: &[Holder]| holders.iter().any(|each| each.pid == std::process::id());
    let obstacle = program.as_ref().filter(|(_, holders)| !own(holders)).map(held);
    let checked = check_interface(interface, &XdpConfig::default()).map(drop);
    InterfaceProbe {
        name: interface.name.clone(),
        kind: interface.kind.clone(),
        addresses,
        mtu: interface.mtu,
        queues: interface.rx_queues.min(interface.tx_queues),
        program,
        usable: checked.and(obstacle.map_or(Ok(()), Err)),
    }
}

fn read_trimmed(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn huge_pages_free(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("HugePages_Free:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_huge_pages_are_read() {
        assert_eq!(huge_pages_free("MemFree: 1 kB\nHugePages_Free:       12\nx: 3"), 12);
        assert_eq!(huge_pages_free("MemFree: 1 kB"), 0);
    }

    #[test]
    fn a_probe_says_why_loopback_is_no_place() {
        let probe = probe();
        let interfaces = probe.interfaces.expect("netlink needs no privilege");
        let loopback = interfaces.iter().find(|each| each.name == "lo").expect("there is one");
        let obstacle = loopback.usable.as_ref().expect_err("loopback is not Ethernet");
        assert!(obstacle.to_string().contains("udp backend"), "{obstacle}");
        assert!(!probe.kernel.is_empty());
    }
}
