//! The groups that run, from start to end.

use std::net::SocketAddr;
use std::time::Duration;

use petasos_endpoint::{Node, NodeConfig};
use petasos_netio_udp::{UdpConfig, UdpIo};
use petasos_router_control::RouterService;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::configuration::GroupOptions;
use crate::said::say;
use crate::security::SecurityOptions;

/// How often to look whether all threads run.
const LOOK: Duration = Duration::from_secs(1);

struct Group {
    // Ends before its node does, so that no packet comes for members that are told goodbye.
    service: RouterService,
    node: Node,
    listen: SocketAddr,
}

/// All groups of the process.
pub struct Running {
    groups: Vec<Group>,
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
        Ok(Running { groups: groups.iter().map(start).collect::<Result<_, _>>()? })
    }

    /// What there is, a line for each group.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.groups.iter().map(|Group { service, listen, .. }| {
            let data = service.data_address();
            let binds = service.bind_address().map(|binds| format!(", binds at udp {binds}"));
            let binds = binds.unwrap_or_default();
            format!("ready: attach and join at {listen}, packets at udp {data}{binds}")
        })
    }

    /// Waits for SIGTERM or SIGINT, and ends: members hear of it, and have time to go elsewhere. A
    /// second signal ends at once.
    ///
    /// # Errors
    /// The system does not deliver signals, or a thread of a group has failed.
    pub fn until_asked_to_end(self, drain: Duration) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("signals are not to be had: {error}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(failed)?.block_on(async {
            let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
            let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
            while tokio::time::timeout(LOOK, either(&mut terminate, &mut interrupt)).await.is_err()
            {
                let has_failed = |group: &&Group| !group.service.is_running();
                if let Some(group) = self.groups.iter().find(has_failed) {
                    return Err(format!("group at {}: one of its threads failed", group.listen));
                }
            }
            self.groups.iter().for_each(|group| group.node.drain());
            say(&format!("ends in {drain:?}; again to end at once"));
            let _ = tokio::time::timeout(drain, either(&mut terminate, &mut interrupt)).await;
            Ok(())
        })?;
        self.end();
        Ok(())
    }

    /// Ends all groups, side by side: each node says goodbye, and waits for that to arrive.
    fn end(self) {
        std::thread::scope(|scope| {
            for group in self.groups {
                scope.spawn(move || drop(group));
            }
        });
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
        name: "petasos-router".to_owned(),
        connections_max: settings.plane.clients_max as usize + 1024,
        ..NodeConfig::default()
    };
    let security = group.security();
    let config = security.of_node(config)?;
    let node = Node::start(config).map_err(|error| error.to_string())?;
    let listen = node.local_address().expect("it listens");
    let io = socket("packets", group.data, listen, &security)?;
    let service = if settings.services.is_empty() {
        RouterService::start(&node, io, settings)
    } else {
        let bind_io = socket("binds", group.binds, listen, &security)?;
        RouterService::start_with_table(&node, io, bind_io, settings)
    };
    let service = service.map_err(|error| error.to_string())?;
    Ok(Group { service, node, listen })
}

/// A socket for what members of a group send, by default at any port of its control address.
fn socket(
    what: &str,
    address: Option<SocketAddr>,
    listen: SocketAddr,
    security: &SecurityOptions,
) -> Result<UdpIo, String> {
    let address = address.unwrap_or(SocketAddr::new(listen.ip(), 0));
    let is_exposed = !address.ip().to_canonical().is_loopback() && !security.may_leave_host();
    if is_exposed {
        let advice = "give certificates by tls_cert, tls_key and tls_ca; plaintext allows it";
        return Err(format!("{what} at {address} would be in plaintext: {advice}"));
    }
    if address.ip().is_loopback() && !listen.ip().is_loopback() {
        return Err(format!("members beyond this host cannot send {what} to {address}"));
    }
    UdpIo::bind(address, UdpConfig::default())
        .map_err(|error| format!("{what} cannot come to {address}: {error}"))
}
