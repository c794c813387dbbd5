//! Routers of the tests' service.

use std::net::SocketAddr;

#[cfg(feature = "tls")]
use petasos_endpoint::TlsConfig;
use petasos_endpoint::{Node, NodeConfig};
use petasos_netio::PacketIo;
use petasos_netio_udp::{UdpConfig, UdpIo};
use petasos_router_control::{Active, ClientSnapshot, GroupSettings, GroupSnapshot, RouterService};

/// A router. Its clients and workers attach and join at `address`.
pub struct Router {
    pub address: SocketAddr,
    // Ends before its node does.
    service: RouterService,
    _node: Node,
}

impl Router {
    pub fn start() -> Router {
        Router::with(GroupSettings::default())
    }

    /// One that clients use only if there is no other.
    pub fn standby() -> Router {
        let active = Active { is_active: false, term: 0 };
        Router::with(GroupSettings { active, ..GroupSettings::default() })
    }

    /// One with this policy, which may say how many requests a worker gets at a time.
    pub fn bounded(policy: &str) -> Router {
        let mut settings = GroupSettings::default();
        settings.plane.core.policy = policy.parse().expect("it is a policy");
        Router::with(settings)
    }

    /// One whose workers serve another service.
    pub fn of(service: &str) -> Router {
        let services = vec![service.to_owned()];
        Router::begin(GroupSettings { services, ..GroupSettings::default() })
    }

    pub fn with(settings: GroupSettings) -> Router {
        let services = vec!["hello.Greeter".to_owned()];
        Router::begin(GroupSettings { services, ..settings })
    }

    /// One over TLS.
    #[cfg(feature = "tls")]
    pub fn sealed(service: &str, tls: TlsConfig) -> Router {
        let services = vec![service.to_owned()];
        let settings = GroupSettings { services, ..GroupSettings::default() };
        Router::begin_at(NodeConfig { tls: Some(tls), ..NodeConfig::default() }, settings)
    }

    /// One whose packets pass by what `change` makes of its socket.
    #[allow(dead_code, reason = "not all programs use it")]
    pub fn over<I: PacketIo + Send + 'static>(change: impl FnOnce(UdpIo) -> I) -> Router {
        let services = vec!["hello.Greeter".to_owned()];
        let settings = GroupSettings { services, ..GroupSettings::default() };
        Router::begin_over(NodeConfig::default(), settings, change)
    }

    fn begin(settings: GroupSettings) -> Router {
        Router::begin_at(NodeConfig::default(), settings)
    }

    fn begin_at(config: NodeConfig, settings: GroupSettings) -> Router {
        Router::begin_over(config, settings, |io| io)
    }

    fn begin_over<I: PacketIo + Send + 'static>(
        config: NodeConfig,
        settings: GroupSettings,
        change: impl FnOnce(UdpIo) -> I,
    ) -> Router {
        let local = "127.0.0.1:0".parse().expect("it is an address");
        let node = Node::start(NodeConfig { listen: Some(local), ..config });
        let node = node.expect("loopback has ports");
        let io = || UdpIo::bind(local, UdpConfig::default()).expect("loopback has ports");
        let service = RouterService::start_with_table(&node, change(io()), io(), settings);
        let service = service.expect("the settings are fine");
        let address = node.local_address().expect("it listens");
        Router { address, service, _node: node }
    }

    /// First packets that were rejected because the group had no worker.
    pub fn rejected_without_worker(&self) -> u64 {
        self.snapshot().rejections.no_worker
    }

    /// How many requests its workers take at a time.
    pub fn bounds(&self) -> Vec<u16> {
        self.snapshot().workers.iter().map(|worker| worker.state.bound).collect()
    }

    pub fn snapshot(&self) -> GroupSnapshot {
        let (tell, told) = std::sync::mpsc::channel();
        self.service.operator().snapshot(move |now| {
            // Nobody waits any more if the test has failed.
            let _ = tell.send(now);
        });
        told.recv().expect("the router runs")
    }

    /// At most 1000 of its clients.
    pub fn clients(&self) -> Vec<ClientSnapshot> {
        let (tell, told) = std::sync::mpsc::channel();
        self.service.operator().clients((None, 1000), move |clients, _has_more| {
            // As above.
            let _ = tell.send(clients);
        });
        told.recv().expect("the router runs")
    }

    pub fn target(&self) -> String {
        format!("router://{}", self.address)
    }
}
