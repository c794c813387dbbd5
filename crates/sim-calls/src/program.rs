//! What runs on a host: a whole loop, or a router's plane.

use petasos_base::Time;
use petasos_sim::{Host, HostSeat};

use crate::host::{Cluster, Node};
use crate::router::RouterHost;

/// See the module's documentation.
pub(crate) enum Program {
    Loop(Box<Node>),
    Router(Box<RouterHost>),
}

impl Program {
    pub(crate) fn new(seat: HostSeat, cluster: &Cluster) -> Program {
        match cluster.scenario.is_plane(seat.number) {
            true => Program::Router(Box::new(RouterHost::new(seat))),
            false => Program::Loop(Box::new(Node::new(seat, cluster, &cluster.scenario.endpoint))),
        }
    }

    /// The loop.
    ///
    /// # Panics
    /// On the host of a plane: the caller's fault.
    pub(crate) fn node(&self) -> &Node {
        match self {
            Program::Loop(node) => node,
            Program::Router(_) => panic!("a plane is no loop"),
        }
    }

    /// See [`Program::node`].
    pub(crate) fn node_mut(&mut self) -> &mut Node {
        match self {
            Program::Loop(node) => node,
            Program::Router(_) => panic!("a plane is no loop"),
        }
    }

    /// The router's plane.
    ///
    /// # Panics
    /// On the host of a loop: the caller's fault.
    pub(crate) fn router(&self) -> &RouterHost {
        match self {
            Program::Router(router) => router,
            Program::Loop(_) => panic!("a loop is no plane"),
        }
    }

    /// See [`Program::router`].
    pub(crate) fn router_mut(&mut self) -> &mut RouterHost {
        match self {
            Program::Router(router) => router,
            Program::Loop(_) => panic!("a loop is no plane"),
        }
    }
}

impl Host for Program {
    fn run(&mut self, now: Time) -> Time {
        match self {
            Program::Loop(node) => node.run(now),
            Program::Router(router) => router.run(now),
        }
    }
}
