//! How much of the control thread one peer may use, so that others find room.
//!
//! A connection first counts for its address: TCP has shown that the peer can receive there, so
//! nobody can use up another's quota from elsewhere. Once the peer has proved a name over TLS, the
//! connection counts for that name instead ([`petasos_tls::Holder`]).
//!
//! Who may touch what: the control thread owns the buckets of handshakes; any thread may read
//! [`NodeStats`].

use petasos_base::sync::{AtomicU64, Ordering};

/// What a node has refused, and what it has resumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStats {
    /// Connections closed at once because there were
    /// [`connections_max`](crate::NodeConfig::connections_max).
    pub connections_refused: u64,
    /// Connections closed at once because their address had
    /// [`connections_per_address_max`](crate::NodeConfig::connections_per_address_max).
    pub address_connections_refused: u64,
    /// Connections closed after the handshake because their name had
    /// [`connections_per_name_max`](crate::NodeConfig::connections_per_name_max).
    pub name_connections_refused: u64,
    /// Connections closed because their address, or their name, began more handshakes than
    /// [`handshakes_per_second`](crate::NodeConfig::handshakes_per_second).
    pub handshakes_refused: u64,
    /// Connections that replaced one that broke.
    pub connections_resumed: u64,
    /// Tickets that were refused because they were shown by another process, address or name, too
    /// late, twice, or for a connection on which no session was asked for.
    pub resumptions_refused: u64,
}

/// [`NodeStats`] as the control thread counts them. Relaxed, since they are only displayed.
#[derive(Default)]
pub(crate) struct Counters {
    pub(super) connections_refused: AtomicU64,
    pub(super) address_connections_refused: AtomicU64,
    pub(super) name_connections_refused: AtomicU64,
    pub(super) handshakes_refused: AtomicU64,
    pub(super) connections_resumed: AtomicU64,
    pub(super) resumptions_refused: AtomicU64,
}

impl Counters {
    pub(super) fn read(&self) -> NodeStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        NodeStats {
            connections_refused: read(&self.connections_refused),
            address_connections_refused: read(&self.address_connections_refused),
            name_connections_refused: read(&self.name_connections_refused),
            handshakes_refused: read(&self.handshakes_refused),
            connections_resumed: read(&self.connections_resumed),
            resumptions_refused: read(&self.resumptions_refused),
        }
    }
}

/// Counts one more.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
