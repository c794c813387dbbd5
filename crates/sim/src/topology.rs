//! The shape of the network: hosts, switches and the cables between them.

use crate::routes::Routes;
use crate::{BufferConfig, LinkConfig, SwitchConfig};

/// An end of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// Host of this number, which is also its port number.
    Host(u32),
    /// Switch of this number, in the order of creation.
    Switch(u32),
}

/// One direction of a cable. Also identifies the output port at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkId(pub(crate) u32);

/// A finished shape, with its routes.
#[derive(Clone, Debug)]
pub struct Topology {
    pub(crate) hosts: u32,
    pub(crate) switches: Vec<SwitchConfig>,
    pub(crate) nic: BufferConfig,
    pub(crate) links: Vec<(Node, Node, LinkConfig)>,
    pub(crate) routes: Routes,
}

impl Topology {
    /// All hosts on one switch, which is switch 0.
    pub fn star(hosts: u32, link: LinkConfig, switch: SwitchConfig) -> Topology {
        let mut builder = TopologyBuilder::new(hosts);
        let centre = builder.switch(switch);
        for host in 0..hosts {
            builder.connect(Node::Host(host), centre, link);
        }
        builder.finish()
    }

    /// A cable between any two hosts, and no switch.
    pub fn mesh(hosts: u32, link: LinkConfig) -> Topology {
        let mut builder = TopologyBuilder::new(hosts);
        for host in 0..hosts {
            for peer in host + 1..hosts {
                builder.connect(Node::Host(host), Node::Host(peer), link);
            }
        }
        builder.finish()
    }

    /// Two tiers of switches. Leaves are the switches 0 to `leaves - 1`, then come the spines;
    /// host `h` is on leaf `h / hosts_per_leaf`.
    pub fn leaf_spine(shape: &LeafSpine) -> Topology {
        let mut builder = TopologyBuilder::new(shape.leaves * shape.hosts_per_leaf);
        let leaves: Vec<Node> = (0..shape.leaves).map(|_| builder.switch(shape.leaf)).collect();
        for host in 0..builder.hosts {
            let leaf = leaves[(host / shape.hosts_per_leaf) as usize];
            builder.connect(Node::Host(host), leaf, shape.host_link);
        }
        for _ in 0..shape.spines {
            let spine = builder.switch(shape.spine);
            leaves.iter().for_each(|&leaf| builder.connect(leaf, spine, shape.spine_link));
        }
        builder.finish()
    }

    /// Number of hosts.
    pub fn hosts(&self) -> u32 {
        self.hosts
    }

    /// The direct link from one node to another; the first if there are several.
    pub fn link(&self, from: Node, to: Node) -> Option<LinkId> {
        let found = self.links.iter().position(|&(a, b, _)| (a, b) == (from, to));
        found.map(|index| LinkId(index as u32))
    }

    /// All links.
    pub fn links(&self) -> impl Iterator<Item = (LinkId, Node, Node)> {
        let numbered = self.links.iter().enumerate();
        numbered.map(|(index, &(from, to, _))| (LinkId(index as u32), from, to))
    }
}

/// The measures of a two-tier network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeafSpine {
    /// Switches that hosts are attached to, at least 1.
    pub leaves: u32,
    /// Hosts on each leaf, at least 1.
    pub hosts_per_leaf: u32,
    /// Switches that join the leaves; each leaf has one cable to each spine.
    pub spines: u32,
    /// Cables between hosts and leaves.
    pub host_link: LinkConfig,
    /// Cables between leaves and spines.
    pub spine_link: LinkConfig,
    /// Each leaf.
    pub leaf: SwitchConfig,
    /// Each spine.
    pub spine: SwitchConfig,
}

impl LeafSpine {
    /// A hundred hosts at 25 Gbit/s on five leaves, oversubscribed 2:1 towards five spines.
    pub fn hundred_hosts() -> LeafSpine {
        LeafSpine {
            leaves: 5,
            hosts_per_leaf: 20,
            spines: 5,
            host_link: LinkConfig::new(25, 500),
            spine_link: LinkConfig::new(50, 500),
            leaf: SwitchConfig::default(),
            spine: SwitchConfig::default(),
        }
    }

    /// A thousand hosts at 25 Gbit/s on 25 leaves, oversubscribed 2:1 towards ten spines.
    pub fn thousand_hosts() -> LeafSpine {
        let hundred = LeafSpine::hundred_hosts();
        LeafSpine { leaves: 25, hosts_per_leaf: 40, spines: 10, ..hundred }
    }

    /// The same shape with `buffer` in every switch.
    pub fn with_buffer(mut self, buffer: BufferConfig) -> LeafSpine {
        self.leaf.buffer = buffer;
        self.spine.buffer = buffer;
        self
    }

    /// Number of hosts.
    pub fn hosts(&self) -> u32 {
        self.leaves * self.hosts_per_leaf
    }

    /// The bandwidth of a leaf's hosts divided by that of its cables to the spines.
    pub fn oversubscription(&self) -> f64 {
        let down = u128::from(self.hosts_per_leaf) * u128::from(self.host_link.rate_bps);
        let up = u128::from(self.spines) * u128::from(self.spine_link.rate_bps);
        down as f64 / up as f64
    }
}

/// Builds any other shape.
#[derive(Clone, Debug)]
pub struct TopologyBuilder {
    hosts: u32,
    switches: Vec<SwitchConfig>,
    nic: BufferConfig,
    links: Vec<(Node, Node, LinkConfig)>,
}

impl TopologyBuilder {
    /// `hosts` hosts without any cable, each with [`NIC_BUFFER_BYTES`] in its network card.
    pub fn new(hosts: u32) -> TopologyBuilder {
        let nic = BufferConfig::plain(NIC_BUFFER_BYTES);
        TopologyBuilder { hosts, switches: Vec::new(), nic, links: Vec::new() }
    }

    /// Adds a switch.
    pub fn switch(&mut self, config: SwitchConfig) -> Node {
        self.switches.push(config);
        Node::Switch(self.switches.len() as u32 - 1)
    }

    /// Replaces the buffer of every host's network card, where packets wait for the wire.
    pub fn nic_buffer(&mut self, nic: BufferConfig) {
        self.nic = nic;
    }

    /// Joins two nodes by a cable: a link each way.
    ///
    /// # Panics
    /// If a node does not exist, or both are the same: the caller's fault.
    pub fn connect(&mut self, one: Node, other: Node, link: LinkConfig) {
        assert!(one != other, "a cable joins two nodes");
        assert!(self.exists(one) && self.exists(other), "a cable joins nodes that exist");
        link.check();
        self.links.push((one, other, link));
        self.links.push((other, one, link));
    }

    /// Computes the routes: all shortest paths. Flows are spread over equal ones.
    pub fn finish(self) -> Topology {
        let switches = self.switches.len() as u32;
        let ends = self
            .links
            .iter()
            .map(|&(from, to, _)| (node_index(self.hosts, from), node_index(self.hosts, to)));
        let routes = Routes::shortest(self.hosts, switches, &ends.collect::<Vec<_>>());
        let TopologyBuilder { hosts, switches, nic, links } = self;
        Topology { hosts, switches, nic, links, routes }
    }

    fn exists(&self, node: Node) -> bool {
        match node {
            Node::Host(number) => number < self.hosts,
            Node::Switch(number) => (number as usize) < self.switches.len(),
        }
    }
}

/// Hosts come first, then switches.
pub(crate) fn node_index(hosts: u32, node: Node) -> u32 {
    match node {
        Node::Host(number) => number,
        Node::Switch(number) => hosts + number,
    }
}

/// Room for waiting packets in a host's network card, unless changed: enough for a burst of 8 MB
/// messages.
pub const NIC_BUFFER_BYTES: u64 = 64 << 20;
