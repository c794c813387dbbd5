//! Observing the world without changing it.

use petasos_base::{Time, VirtualClock};

use super::World;
use crate::topology::node_index;
use crate::{LinkId, Node, PortStats, Stats, Topology};

impl<H> World<H> {
    /// The present virtual time.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// The virtual clock. Only the world sets it.
    pub fn clock(&self) -> VirtualClock {
        self.clock.clone()
    }

    /// The time of the next event; [`Time::NEVER`] if there is none.
    pub fn next_time(&self) -> Time {
        self.network.queue.next_time().min(self.timers.earliest().0)
    }

    /// The seed that replays this world.
    pub fn seed(&self) -> u64 {
        self.config.seed
    }

    /// The network's shape.
    pub fn topology(&self) -> &Topology {
        self.network.topology()
    }

    /// The program of a host, alive or dead.
    pub fn host(&self, number: u32) -> &H {
        &self.hosts[number as usize].program
    }

    /// The programs of all hosts, alive or dead, in the order of their numbers.
    pub fn hosts(&self) -> impl Iterator<Item = &H> {
        self.hosts.iter().map(|host| &host.program)
    }

    /// Whether a host has not crashed, or has been restarted since.
    pub fn is_alive(&self, number: u32) -> bool {
        self.hosts[number as usize].alive
    }

    /// How often a host has been restarted.
    pub fn restarts(&self, number: u32) -> u32 {
        self.hosts[number as usize].restarts
    }

    /// What has happened so far.
    pub fn stats(&self) -> Stats {
        self.network.stats
    }

    /// Frames that rings took, and times that one was full.
    pub fn ring_stats(&self) -> (u64, u64) {
        self.hub.ring_stats()
    }

    /// Counters of the output port at the start of `link`.
    pub fn port_stats(&self, link: LinkId) -> PortStats {
        self.network.ports[link.0 as usize].stats
    }

    /// Frame bytes that a switch, or a host's network card, holds now.
    pub fn buffered_bytes(&self, node: Node) -> u64 {
        self.network.buffered_bytes(node_index(self.topology().hosts(), node))
    }

    /// Packets in flight now.
    pub fn in_flight(&self) -> usize {
        self.network.packets.len()
    }

    /// Hash of everything that has happened so far: equal runs have equal hashes.
    pub fn trace_hash(&self) -> u64 {
        self.trace.hash()
    }
}
