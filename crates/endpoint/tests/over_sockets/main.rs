//! Endpoints over real sockets and rings, set up by nodes.
//!
//! One program, as `in_memory` is. Tests that need a process for themselves (network namespaces,
//! limits, users, counted allocations) are programs beside it.

mod beside;
mod callers;
#[path = "../certificates/mod.rs"]
mod certificates;
#[path = "../common/mod.rs"]
mod common;
mod connection_quota;
mod control_peers;
mod ending;
mod external;
mod group_desk;
mod group_hostile;
mod group_members;
mod group_origin;
mod group_places;
mod node;
mod notified;
mod origin;
mod resume;
mod secured;
mod stalled_ring;
mod succession;
mod tcp;
mod without_rings;
mod workers;
mod yielding;
