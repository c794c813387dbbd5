//! Ports across veth pairs, and around a switch where a test takes more than two.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use petasos_netio::PacketIo;
use petasos_netio_conformance::BackendFactory;
use petasos_netio_xdp::{AttachMode, XdpConfig, XdpIo};

use crate::rig::{self, Namespace, Pair, Star};

/// Attempts to find a neighbour; the kernel gives up on one after three seconds.
const ATTEMPTS_MAX: usize = 3;
/// How many networks are made until one has hosts that find each other.
const NETWORKS_MAX: usize = 4;
/// The maximum number of networks that the ports of one test are in.
const NETWORKS_KEPT: usize = 8;

/// Makes ports of which each is alone in a namespace.
pub struct Veth {
    host: fn(u8) -> IpAddr,
    config: XdpConfig,
    mtu: u32,
    /// Networks that ports use.
    pairs: RefCell<VecDeque<Pair>>,
    stars: RefCell<VecDeque<Star>>,
}

impl Veth {
    /// `None` if the hosts do not find each other.
    fn open(&self, hosts: &[&Namespace]) -> Option<Vec<XdpIo>> {
        let open = |(number, host): (usize, &&Namespace)| {
            let address = rig::any_port((self.host)(number as u8 + 1));
            let config = &self.config;
            host.run(|| XdpIo::bind(address, config)).expect("a fresh interface is free")
        };
        let mut ports: Vec<_> = hosts.iter().enumerate().map(open).collect();
        acquaint(&mut ports).then_some(ports)
    }

    fn try_ports(&self, count: usize) -> Option<Vec<XdpIo>> {
        if count == 2 {
            let pair = Pair::with(1, self.mtu);
            let ports = self.open(&[&pair.left, &pair.right])?;
            keep(&mut self.pairs.borrow_mut(), pair);
            return Some(ports);
        }
        let star = Star::new(count);
        let ports = self.open(&star.hosts.iter().collect::<Vec<_>>())?;
        keep(&mut self.stars.borrow_mut(), star);
        Some(ports)
    }
}

/// Keeps a network for as long as its ports may be used. Properties make hundreds of networks,
/// which together would fill the kernel's table of neighbours that all namespaces share.
fn keep<T>(networks: &mut VecDeque<T>, network: T) {
    networks.push_back(network);
    if networks.len() > NETWORKS_KEPT {
        networks.pop_front();
    }
}

/// Lets every port find every other one. Attaching programs takes interfaces down for a moment. The
/// kernel's questions for neighbours are lost in this time and it may give up, for IPv6
/// permanently; the suite does not test this. Returns whether the ports have found each other.
fn acquaint(ports: &mut [XdpIo]) -> bool {
    let addresses: Vec<_> = ports.iter().map(XdpIo::local_address).collect();
    for (number, port) in ports.iter_mut().enumerate() {
        for (_, address) in addresses.iter().enumerate().filter(|(other, _)| *other != number) {
            let route = (0..ATTEMPTS_MAX).find_map(|_| port.route(*address).ok());
            let Some(route) = route else { return false };
            port.release_route(route);
        }
    }
    true
}

impl BackendFactory for Veth {
    type Io = XdpIo;

    fn ports(&self, count: usize) -> Vec<XdpIo> {
        let found = (0..NETWORKS_MAX).find_map(|_| self.try_ports(count));
        found.expect("ports reach each other")
    }

    fn foreign_address(&self) -> SocketAddr {
        let foreign = if (self.host)(1).is_ipv4() { rig::v6(1) } else { rig::v4(1) };
        SocketAddr::new(foreign, 9)
    }
}

/// The factory; `None` on a host where networks cannot be made, and the skip is recorded.
pub fn veth(host: fn(u8) -> IpAddr, config: XdpConfig, mtu: u32) -> Option<Veth> {
    let (pairs, stars) = (RefCell::default(), RefCell::default());
    // The processors may be busy with other things.
    let config = XdpConfig { resolve_wait_ms: 10_000, ..config };
    rig::available().then_some(Veth { host, config, mtu, pairs, stars })
}

/// Attached in this way.
pub fn config(attach: AttachMode) -> XdpConfig {
    XdpConfig { attach, ..XdpConfig::default() }
}
