//! A router's plane passes its suite over UDP with the router's XDP program before it, around a
//! switch.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use petasos_netio::PacketIo;
use petasos_netio_udp::{UdpConfig, UdpIo};
use petasos_netio_xdp::{AttachMode, BpfLink};
use petasos_router_conformance::{
    BackendFactory, PlaneFactory, TestedTier, TierCounts, plane_tests,
};
use petasos_router_plane::PlaneConfig;
use petasos_router_xdp::{ProgramConfig, ProgramTier, RouterProgram};

mod rig;
use rig::Star;

/// How many networks the ports of one test are in at most.
const NETWORKS_KEPT: usize = 8;
/// Fewer than may wait in the plane, so that tests see both.
const PARKED_MAX: u32 = 4;

/// Sockets of the kernel, each in a namespace, the first of which has the program.
struct Programs {
    mode: AttachMode,
    /// Whether members' interfaces leave checksums to a device.
    partial_checksums: bool,
    /// Where the test's own thread is: sockets ask for routes in their caller's namespace. All
    /// addresses are there.
    caller: rig::Namespace,
    stars: RefCell<VecDeque<Star>>,
    links: RefCell<VecDeque<[BpfLink; 2]>>,
}

fn programs(mode: AttachMode, partial_checksums: bool) -> Option<Programs> {
    if !rig::available() {
        return None;
    }
    let caller = rig::Namespace::new();
    caller.ip("link set lo mtu 1500");
    caller.ip("route add local 10.77.0.0/24 dev lo");
    let (stars, links) = (RefCell::default(), RefCell::default());
    Some(Programs { mode, partial_checksums, caller, stars, links })
}

impl BackendFactory for Programs {
    type Io = UdpIo;

    fn ports(&self, count: usize) -> Vec<UdpIo> {
        let star = Star::new(count);
        let open = |(number, host): (usize, &rig::Namespace)| {
            host.set_checksum_offload("v0", self.partial_checksums);
            let address = rig::any_port(rig::v4(number as u8 + 1));
            // A train that leaves as one packet of the kernel arrives at a program as one.
            let config = UdpConfig { gso: false, ..UdpConfig::default() };
            host.run(|| UdpIo::bind(address, config)).expect("it is the host's own address")
        };
        let ports = star.hosts.iter().enumerate().map(open).collect();
        keep(&mut self.stars.borrow_mut(), star);
        self.caller.enter();
        ports
    }

    fn foreign_address(&self) -> SocketAddr {
        SocketAddr::new(rig::v6(1), 9)
    }
}

fn keep<T>(all: &mut VecDeque<T>, one: T) {
    all.push_back(one);
    if all.len() > NETWORKS_KEPT {
        all.pop_front();
    }
}

impl PlaneFactory for Programs {
    fn tier(&self, router: &UdpIo, config: &PlaneConfig) -> Option<TestedTier> {
        let SocketAddr::V4(address) = router.local_address() else { panic!("it is of IPv4") };
        let config = ProgramConfig {
            address,
            payload_bytes: config.payload_bytes,
            is_sealed: config.is_sealed,
            clients_max: 2 * config.clients_max,
            parked_max: PARKED_MAX,
            age_max: config.core.waiting_age_max.expect("it has one"),
            partial_checksums: self.partial_checksums,
        };
        let program = Arc::new(RouterProgram::load(&config).expect("the kernel takes it"));
        let (stars, mode) = (self.stars.borrow(), self.mode);
        let star = stars.back().expect("there is the port's");
        // One that decides nothing: what a driver's program sends, only a driver's program gets.
        let idle = RouterProgram::load(&config).expect("the kernel takes it");
        let there = star.hosts[0].run(|| program.attach("v0", mode));
        let peer = star.switch.run(|| idle.attach("port0", mode));
        let links = [there, peer].map(|link| link.expect("a fresh interface is free"));
        keep(&mut self.links.borrow_mut(), links);
        let tier = Box::new(ProgramTier::new(program.clone()));
        let counts = move || {
            let stats = program.stats();
            TierCounts { taken: stats.taken, sent: stats.sent, parked: program.parked() }
        };
        Some(TestedTier { tier, counts: Box::new(counts) })
    }
}

mod native {
    use super::*;
    plane_tests!(programs(AttachMode::Native, false));
}

/// On veth, frames of feedback cannot grow there, so that the plane gives what waits.
mod generic {
    use super::*;
    plane_tests!(programs(AttachMode::Generic, true));
}
