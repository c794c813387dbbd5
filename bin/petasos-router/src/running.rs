//! The groups that run, from start to end.

use std::net::SocketAddr;
use std::time::Duration;

use petasos_endpoint::{Node, NodeConfig};
use petasos_netio_udp::{UdpConfig, UdpIo};
use petasos_router_control::RouterService;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::configuration::GroupOptions;

struct Group {
    // Ends before its node does, so that no packet comes for members that are told goodbye.
    service: RouterService,
    node: Node,
    listen: SocketAddr,
}

/// All groups of the process.
pub struct Running {
    groups: Vec<Group>,
    drain: Duration,
}

impl Running {
    /// Starts all groups, or none.
    ///
    /// # Errors
    /// A text that says what is wrong, and with which group.
    pub fn start(groups: &[GroupOptions]) -> Result<Running, String> {
        let start = |group: &GroupOptions| {
            start(group).map_err(|error| format!("group at {}: {error}", group.listen))
        };
        let drain = groups.iter().map(GroupOptions::drain).max().unwrap_or_default();
        Ok(Running { groups: groups.iter().map(start).collect::<Result<_, _>>()?, drain })
    }

    /// What there is, a line for each group.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.groups.iter().map(|Group { service, listen, .. }| {
            let data = service.data_address();
            format!("ready: attach and join at {listen}, packets at udp {data}")
        })
    }

    /// Waits for SIGTERM or SIGINT, and ends: members hear of it, and have time to go elsewhere. A
    /// second signal ends at once.
    ///
    /// # Errors
    /// The system does not deliver signals.
    pub fn until_asked_to_end(self) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("signals are not to be had: {error}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(failed)?.block_on(async {
            let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
            let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
            either(&mut terminate, &mut interrupt).await;
            self.groups.iter().for_each(|group| group.node.drain());
            println!("petasos-router: ends in {:?}; again to end at once", self.drain);
            let _ = tokio::time::timeout(self.drain, either(&mut terminate, &mut interrupt)).await;
            Ok(())
        })
    }
}

async fn either(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}

fn start(group: &GroupOptions) -> Result<Group, String> {
    let settings = group.settings()?;
    let config = NodeConfig {
        listen: Some(group.listen),
        plaintext: group.plaintext,
        name: "petasos-router".to_owned(),
        connections_max: settings.plane.clients_max as usize + 1024,
        ..NodeConfig::default()
    };
    let node = Node::start(config).map_err(|error| error.to_string())?;
    let listen = node.local_address().expect("it listens");
    let data = group.data.unwrap_or(SocketAddr::new(listen.ip(), 0));
    let is_exposed = !data.ip().to_canonical().is_loopback() && !group.plaintext;
    if is_exposed {
        return Err(format!("packets at {data} would be in plaintext; --plaintext allows that"));
    }
    let io = UdpIo::bind(data, UdpConfig::default())
        .map_err(|error| format!("packets cannot come to {data}: {error}"))?;
    let service = RouterService::start(&node, io, settings).map_err(|error| error.to_string())?;
    Ok(Group { service, node, listen })
}
