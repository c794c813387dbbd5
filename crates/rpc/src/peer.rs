//! Who called.
//!
//! A request that came over datagrams names its session only, so that knowing its peer costs
//! nothing before somebody asks: the loop keeps who has each session, behind a lock that is taken
//! when a session's first request comes and when somebody asks.

use core::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use petasos_endpoint::Identity;

/// The other end of a call, as its server knows it.
#[derive(Clone)]
pub struct Peer {
    address: SocketAddr,
    transport: PeerTransport,
    /// What it has proved with its certificate.
    identity: Option<Arc<Identity>>,
}

/// What a call came over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PeerTransport {
    /// Datagrams over a network.
    Datagrams,
    /// Rings in memory that two processes of one host share.
    SharedMemory,
    /// gRPC over HTTP/2.
    Grpc,
}

impl Peer {
    #[doc(hidden)]
    pub fn of_session(client: petasos_endpoint::ServedPeer) -> Peer {
        let transport = match client.shared_memory {
            true => PeerTransport::SharedMemory,
            false => PeerTransport::Datagrams,
        };
        Peer { address: client.address, transport, identity: client.identity }
    }

    #[doc(hidden)]
    #[cfg(feature = "grpc")]
    pub fn of_grpc(peer: &petasos_grpc::Peer) -> Peer {
        let identity = peer.identity.clone();
        Peer { address: peer.address, transport: PeerTransport::Grpc, identity }
    }

    /// Where it is: its address for datagrams, or where its connection comes from.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What the call came over.
    pub fn transport(&self) -> PeerTransport {
        self.transport
    }

    /// The names that an authority vouches for in its certificate: those of DNS, and URIs such as
    /// SPIFFE ids. Empty if it has shown none.
    pub fn names(&self) -> &[String] {
        self.identity.as_ref().map_or(&[], |identity| &identity.names)
    }

    /// Its certificate, in DER, which has been verified. `None` if it has shown none.
    pub fn certificate(&self) -> Option<&[u8]> {
        self.identity.as_ref().map(|identity| &*identity.certificate)
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Peer");
        debug.field("address", &self.address).field("transport", &self.transport);
        debug.field("names", &self.names()).finish_non_exhaustive()
    }
}
