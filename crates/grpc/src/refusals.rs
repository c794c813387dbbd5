//! What a server has refused.

use std::fmt::Write as _;
use std::sync::Arc;

use petasos_base::sync::{AtomicU64, Ordering};

/// Why a connection, a call or a message was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    AddressConnections,
    NameConnections,
    Handshakes,
    Calls,
    Messages,
}

/// What a server has refused, for all of its listeners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GrpcStats {
    /// Connections closed at once because their address (their user, at a Unix socket) had
    /// [`connections_per_address_max`](crate::GrpcConfig::connections_per_address_max).
    pub address_connections_refused: u64,
    /// Connections closed after TLS because their name had
    /// [`connections_per_name_max`](crate::GrpcConfig::connections_per_name_max).
    pub name_connections_refused: u64,
    /// Connections closed because their address, or their name, began more than
    /// [`handshakes_per_second`](crate::GrpcConfig::handshakes_per_second).
    pub handshakes_refused: u64,
    /// Calls that ended with `RESOURCE_EXHAUSTED`, and did not run, because their client had
    /// [`calls_per_peer_max`](crate::GrpcConfig::calls_per_peer_max), or because what it had not
    /// read used up its share of memory.
    pub calls_refused: u64,
    /// Calls that ended with `RESOURCE_EXHAUSTED` because long messages of their client's calls
    /// took half of [`bytes_per_peer_max`](crate::GrpcConfig::bytes_per_peer_max).
    pub messages_refused: u64,
}

impl GrpcStats {
    /// The sums of two servers'.
    #[must_use]
    pub fn plus(self, other: GrpcStats) -> GrpcStats {
        GrpcStats {
            address_connections_refused: self.address_connections_refused
                + other.address_connections_refused,
            name_connections_refused: self.name_connections_refused
                + other.name_connections_refused,
            handshakes_refused: self.handshakes_refused + other.handshakes_refused,
            calls_refused: self.calls_refused + other.calls_refused,
            messages_refused: self.messages_refused + other.messages_refused,
        }
    }

    /// In Prometheus' text format, version 0.0.4: `petasos_grpc_refusals_total`, by `reason`.
    pub fn to_prometheus(&self) -> String {
        let mut text = "# HELP petasos_grpc_refusals_total What the gRPC port has refused.\n\
                        # TYPE petasos_grpc_refusals_total counter\n"
            .to_owned();
        for (reason, count) in [
            ("address_connections", self.address_connections_refused),
            ("name_connections", self.name_connections_refused),
            ("handshakes", self.handshakes_refused),
            ("calls", self.calls_refused),
            ("messages", self.messages_refused),
        ] {
            let _ = writeln!(text, "petasos_grpc_refusals_total{{reason=\"{reason}\"}} {count}");
        }
        text
    }
}

/// The counters of a server. They outlive it.
#[derive(Clone, Debug, Default)]
pub struct Refusals(Arc<[AtomicU64; 5]>);

impl Refusals {
    /// Relaxed, since the counts are only displayed.
    pub(crate) fn count(&self, refusal: Refusal) {
        self.0[refusal as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// What was refused so far.
    pub fn stats(&self) -> GrpcStats {
        let read = |refusal: Refusal| self.0[refusal as usize].load(Ordering::Relaxed);
        GrpcStats {
            address_connections_refused: read(Refusal::AddressConnections),
            name_connections_refused: read(Refusal::NameConnections),
            handshakes_refused: read(Refusal::Handshakes),
            calls_refused: read(Refusal::Calls),
            messages_refused: read(Refusal::Messages),
        }
    }
}
