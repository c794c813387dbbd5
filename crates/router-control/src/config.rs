//! What can be set.

use core::time::Duration;
use std::net::SocketAddr;

use petasos_control::{Active, Cipher};
use petasos_router_plane::PlaneConfig;

use crate::epochs::EpochTimes;

/// Who may be a worker, by the names in certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workers {
    /// Who may join; `None`: everybody. Without TLS nobody has a name.
    pub allowed: Option<Vec<String>>,
    /// Who may join as primary; `None`: everybody who may join.
    pub primaries: Option<Vec<String>>,
}

impl Workers {
    /// Whether one with these names may join.
    pub(crate) fn may_join(&self, names: &[String]) -> bool {
        is_on(&self.allowed, names)
    }

    /// Whether one that may join may do so as primary.
    pub(crate) fn may_be_primary(&self, names: &[String]) -> bool {
        is_on(&self.primaries, names)
    }
}

fn is_on(list: &Option<Vec<String>>, names: &[String]) -> bool {
    list.as_ref().is_none_or(|list| names.iter().any(|name| list.contains(name)))
}

/// How a router keeps its group.
#[derive(Clone, Debug)]
pub struct GroupSettings {
    /// Packets and decisions. Whether packets are sealed, the node says: they are if it has TLS.
    pub plane: PlaneConfig,
    /// Who may be a worker.
    pub workers: Workers,
    /// The most calls that a client may have asked and not answered, 1 to 2^19.
    pub asked_max: u32,
    /// The full names of the services that all workers serve, at most 256, for which the router
    /// has one table of methods (RT31). None: there is no table, and clients and workers know the
    /// numbers of methods otherwise.
    pub services: Vec<String>,
    /// What workers are told (RT34): `beat`, `hole` and `claim`, in microseconds, not 0.
    pub beat_us: u32,
    /// See `beat_us`.
    pub hole_us: u32,
    /// See `beat_us`.
    pub claim_us: u32,
    /// What seals packets, if the node has TLS. Without TLS nothing is sealed.
    pub cipher: Cipher,
    /// How often epochs change.
    pub epochs: EpochTimes,
    /// The group's routers, which everybody is told; none: it is not said. At most 8.
    pub routers: Vec<SocketAddr>,
    /// Whether this router is the active one.
    pub active: Active,
    /// How long a client or worker outlives its connection (RT35).
    pub outlive: Duration,
}

impl Default for GroupSettings {
    fn default() -> GroupSettings {
        GroupSettings {
            plane: PlaneConfig::default(),
            workers: Workers::default(),
            asked_max: 4096,
            services: Vec::new(),
            beat_us: 20_000,
            hole_us: 2_000,
            claim_us: 20_000,
            cipher: Cipher::Aes128Gcm,
            epochs: EpochTimes::default(),
            routers: Vec::new(),
            active: Active { is_active: true, term: 1 },
            outlive: Duration::from_secs(10),
        }
    }
}
