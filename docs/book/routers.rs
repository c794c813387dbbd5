//! A router for the chapter on groups, and for tests of other packages. A deployment has
//! `petasos-router`.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use petasos_endpoint::{Node, NodeConfig};
use petasos_netio_udp::{UdpConfig, UdpIo};
use petasos_router_control::{GroupSettings, RouterService};

/// A router that runs until it is dropped.
pub struct Router {
    // Ends before its node does.
    _service: RouterService,
    node: Node,
}

impl Router {
    /// A router of a group that serves `service`.
    ///
    /// # Panics
    /// If loopback has no ports.
    pub fn start(service: &str) -> Router {
        let services = vec![service.to_owned()];
        Router::with(GroupSettings { services, ..GroupSettings::default() })
    }

    /// A router of a group with these settings.
    ///
    /// # Panics
    /// If loopback has no ports, or the settings are wrong.
    pub fn with(settings: GroupSettings) -> Router {
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let node = Node::start(NodeConfig { listen: Some(local), ..NodeConfig::default() });
        let node = node.expect("loopback has ports");
        let io = || UdpIo::bind(local, UdpConfig::default()).expect("loopback has ports");
        let service = RouterService::start_with_table(&node, io(), io(), settings);
        Router { _service: service.expect("the settings are right"), node }
    }

    /// What clients and workers are told.
    ///
    /// # Panics
    /// Never: its node listens.
    pub fn target(&self) -> String {
        format!("router://{}", self.node.local_address().expect("it listens"))
    }
}

/// Waits until something holds.
pub fn until(holds: impl Fn() -> bool) {
    while !holds() {
        std::thread::sleep(Duration::from_millis(1));
    }
}
