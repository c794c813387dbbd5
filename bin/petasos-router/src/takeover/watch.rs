//! Watching the other router: by a connection as a client has it, since clients are told who is
//! active, and with short heartbeats.
//!
//! Threat model: only the process at the other router's address is heard, over TLS only one with a
//! certificate of the group's. It is believed in what it says of itself: a term, which has no other
//! effect than which of the two is active.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use petasos_endpoint::{
    Clock, Context, Endpoint, EndpointConfig, GroupConfig, GroupId, Node, NodeConfig, Polling,
};
use petasos_netio_udp::{UdpConfig, UdpIo};

use super::rule::Seen;

/// Heartbeats in the time after which silence is a failure.
const BEATS: u32 = 6;

/// What a watch needs of the system. It becomes one on the thread that watches.
pub struct Watchtower {
    node: Node,
    io: UdpIo,
    peer: SocketAddr,
}

impl Watchtower {
    /// To watch `peer` from an address of this host. Silence for `failure` is a failure.
    ///
    /// # Errors
    /// A text that says what the system refuses.
    pub fn build(
        config: NodeConfig,
        own: IpAddr,
        peer: SocketAddr,
        failure: Duration,
    ) -> Result<Watchtower, String> {
        let config = NodeConfig {
            listen: None,
            name: "petasos-router, watching".to_owned(),
            heartbeat: failure / BEATS,
            failure_timeout: failure,
            // What is broken is gone: the other one may be.
            resume_grace: Duration::ZERO,
            ..config
        };
        let failed = |what: String| format!("watching {peer}: {what}");
        let node = Node::start(config).map_err(|error| failed(error.to_string()))?;
        let io = UdpIo::bind(SocketAddr::new(own, 0), UdpConfig::default());
        let io = io.map_err(|error| failed(error.to_string()))?;
        Ok(Watchtower { node, io, peer })
    }

    /// Begins to watch.
    ///
    /// # Errors
    /// The node has ended.
    pub fn watch(self) -> Result<Watch, String> {
        let Watchtower { node, io, peer } = self;
        let polling = Polling::Adaptive { spin: Duration::ZERO };
        let config = EndpointConfig { polling, ..EndpointConfig::default() };
        let mut endpoint = Endpoint::new(config, io, Clock::system(), ());
        endpoint.attach(&node).map_err(|error| error.to_string())?;
        let group = GroupConfig {
            routers: vec![peer],
            asked_max: 1,
            moves_calls: false,
            hears_of_others: false,
        };
        let group = endpoint.open_group(&group).map_err(|error| error.to_string())?;
        Ok(Watch { endpoint, group, peer, _node: node })
    }
}

/// A connection with the other router, or attempts to have one.
pub struct Watch {
    endpoint: Endpoint<()>,
    group: GroupId,
    peer: SocketAddr,
    // Ends last.
    _node: Node,
}

impl Watch {
    /// How the other router is seen, after something has changed or `wait` has passed.
    pub fn look(&mut self, before: Option<Seen>, wait: Duration) -> Option<Seen> {
        let (group, peer) = (self.group, self.peer);
        let mut seen = before;
        self.endpoint.run_for(wait, |(), cx| {
            seen = read(cx, group, peer);
            seen != before
        });
        seen
    }
}

fn read(cx: &Context<()>, group: GroupId, peer: SocketAddr) -> Option<Seen> {
    let at = cx.group_routers(group).into_iter().find(|at| at.router == peer)?;
    at.is_connected.then(|| Seen { term: at.is_active.then_some(at.term) })
}
