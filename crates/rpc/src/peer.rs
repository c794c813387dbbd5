//! The other end of a call.
//!
//! A request that came over datagrams only names its session, so its peer costs nothing until it is
//! asked for. The loop keeps the peer of each session, behind a lock that is taken when a session's
//! first request arrives and when a peer is asked for.

use core::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use petasos_endpoint::Identity;

/// The client of a call, as its server knows it.
#[derive(Clone)]
pub struct Peer {
    address: SocketAddr,
    transport: PeerTransport,
    /// The identity that its certificate has proved.
    identity: Option<Arc<Identity>>,
    #[cfg(feature = "grpc")]
    process: Option<petasos_grpc::Process>,
}

/// The transport of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PeerTransport {
    /// Petasos packets over a network: datagrams, or TCP.
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
        Peer {
            address: client.address,
            transport,
            identity: client.identity,
            #[cfg(feature = "grpc")]
            process: None,
        }
    }

    #[doc(hidden)]
    #[cfg(feature = "grpc")]
    pub fn of_grpc(peer: &petasos_grpc::Peer) -> Peer {
        let identity = peer.identity.clone();
        let (address, process) = (peer.address, peer.process);
        Peer { address, transport: PeerTransport::Grpc, identity, process }
    }

    /// The client's address: that of its datagrams, or of its connection.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The process that has connected, as the system tells, if it called over a Unix socket.
    #[cfg(feature = "grpc")]
    pub fn process(&self) -> Option<petasos_grpc::Process> {
        self.process
    }

    /// The transport of the call.
    pub fn transport(&self) -> PeerTransport {
        self.transport
    }

    /// The names in its certificate, for which an authority vouches: DNS names, and URIs such as
    /// SPIFFE ids. Empty if it has presented no certificate.
    pub fn names(&self) -> &[String] {
        self.identity.as_ref().map_or(&[], |identity| &identity.names)
    }

    /// Its verified certificate, in DER. `None` if it has presented none.
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
