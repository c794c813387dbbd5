//! A seeded discrete-event simulation of a datacenter network and the hosts on it.
//!
//! It exists because failures that need three lost packets and a crash at one nanosecond must be
//! found in seconds and replayed from a seed. A [`World`] owns virtual time, the network and the
//! hosts. Hosts run the real code on ports of a captured [`petasos_netio::memory::Hub`]. Their
//! packets travel over links and through switches, and may be lost, copied, delayed, damaged or
//! dropped on the way.
//!
//! Invariants:
//! - One seed, one sequence of host runs and one script give one trace ([`World::trace_hash`]).
//! - Virtual time never runs backwards, and never stops: a host's turn takes at least a nanosecond.
//! - Every packet is accounted for: each packet that was sent or copied was delivered, was dropped
//!   for a counted reason, or is still in flight ([`Stats::unaccounted`]).
//! - Everything is bounded: events, packets in flight, inboxes, switch buffers.
//!
//! [`cluster`] runs whole endpoints on the hosts, generates their calls, and checks the outcomes.
//! [`incast`] and [`all_to_all`] measure congestion and large numbers of sessions, with hosts that
//! only run the protocol: the network is the same, but packets have no bytes.
//!
//! [`disk`] is a disk with faults for a host, or for tests of files without any.
//!
//! Boundary rule: the network knows nothing of what hosts run; only [`Host`] joins the two.

mod action;
pub mod all_to_all;
pub mod cluster;
pub mod command_line;
pub mod disk;
mod drift;
mod event;
mod fabric;
mod faults;
mod host;
pub mod incast;
mod link;
mod network;
mod packet;
mod routes;
mod stats;
mod switch;
mod timers;
mod topology;
mod trace;
mod world;

pub use action::{Action, Links};
pub use drift::DayClock;
pub use event::{EventQueue, QueueFull};
pub use faults::FaultProfile;
pub use host::{Host, HostSeat};
pub use link::{Framing, LinkConfig};
pub use stats::{PortStats, Stats};
pub use switch::{BufferConfig, Forwarding, SwitchConfig};
pub use topology::{LeafSpine, LinkId, NIC_BUFFER_BYTES, Node, Topology, TopologyBuilder};
pub use world::{Stop, World, WorldConfig};
