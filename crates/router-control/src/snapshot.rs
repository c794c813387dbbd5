//! A group at a moment, for operators, and what they may set for its members.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use petasos_netio::IoStats;
use petasos_router::{Adjustment, Counts, WorkerState};
use petasos_router_plane::{ClientCounts, PlaneStats, RejectionStats, TierStats};

use crate::config::Workers;

/// A group at a moment.
#[derive(Clone, Debug)]
pub struct GroupSnapshot {
    /// What was decided.
    pub counts: Counts,
    /// What was dropped and sent.
    pub stats: PlaneStats,
    /// What its packet I/O has done.
    pub io: IoStats,
    /// What the tier before its plane has done, if it has one.
    pub tier: Option<TierStats>,
    /// Rejections by code.
    pub rejections: RejectionStats,
    /// Requests that wait.
    pub waiting: usize,
    /// Bytes of their packets.
    pub waiting_bytes: usize,
    /// The settings in force that can change.
    pub adjustment: Adjustment,
    /// By number.
    pub workers: Vec<WorkerSnapshot>,
    /// The number of the primary.
    pub primary: Option<u16>,
    /// Clients that are attached.
    pub clients: usize,
    /// Connections of members, and of those that want to be some.
    pub connections: usize,
    /// What workers are told, and how many epochs have begun.
    pub epoch: (u16, u64),
    /// Whether this router says that it is active, and for which term.
    pub active: (bool, u32),
    /// Attempts to attach and to join that were refused.
    pub refused: (u64, u64),
    /// The payload size.
    pub payload_bytes: u32,
    /// The names of its services.
    pub services: Vec<String>,
}

/// A worker at a moment.
#[derive(Clone, Debug)]
pub struct WorkerSnapshot {
    /// Its number.
    pub worker: u16,
    /// Where its packets go.
    pub address: SocketAddr,
    /// The names in its certificate.
    pub names: Vec<String>,
    /// What its packets show.
    pub state: WorkerState,
    /// How long ago it was heard.
    pub heard_ago: Duration,
}

/// A client at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSnapshot {
    /// Its number.
    pub client: u32,
    /// The host of its connection; none if it has none at present.
    pub peer: Option<IpAddr>,
    /// The names in its certificate.
    pub names: Vec<String>,
    /// What it has sent.
    pub counts: ClientCounts,
    /// Its requests that wait.
    pub waiting: usize,
}

/// Settings of members that can change while calls run. They hold for who comes later, and those
/// for workers at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberSettings {
    /// Who may be a worker. Workers that may not any more leave, and a new epoch begins, of which
    /// they have no secret (RT30).
    pub workers: Workers,
    /// The most calls of a client.
    pub asked_max: u32,
    /// The most clients: at most as many as at the start.
    pub clients_max: u32,
    /// The group's routers, which everybody is told anew if they change. None: nobody is told.
    pub routers: Vec<SocketAddr>,
}
