//! Who called.
//!
//! A request that came over datagrams names its session only, so that knowing its peer costs
//! nothing before somebody asks: the loop keeps who has each session, behind a lock that is taken
//! when a session's first request comes and when somebody asks.

use core::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use petasos_endpoint::Identity;

use crate::cancelled::{Cancelled, Over, deadline_here, is_late};
use crate::home::local::at_home;
use crate::home::shared_of;

/// The other end of a call, as its server knows it.
#[derive(Clone)]
pub struct Peer {
    address: SocketAddr,
    transport: PeerTransport,
    proof: Option<Proof>,
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

/// What a peer has proved with its certificate.
#[derive(Clone)]
enum Proof {
    Session(Arc<Identity>),
    #[cfg(feature = "grpc")]
    Grpc(Arc<petasos_grpc::Identity>),
}

impl Peer {
    pub(crate) fn of_session(client: petasos_endpoint::ServedPeer) -> Peer {
        let transport = match client.shared_memory {
            true => PeerTransport::SharedMemory,
            false => PeerTransport::Datagrams,
        };
        let proof = client.identity.map(Proof::Session);
        Peer { address: client.address, transport, proof }
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
        match &self.proof {
            None => &[],
            Some(Proof::Session(identity)) => &identity.names,
            #[cfg(feature = "grpc")]
            Some(Proof::Grpc(identity)) => &identity.names,
        }
    }

    /// Its certificate, in DER, which has been verified. `None` if it has shown none.
    pub fn certificate(&self) -> Option<&[u8]> {
        match self.proof.as_ref()? {
            Proof::Session(identity) => Some(&identity.certificate),
            #[cfg(feature = "grpc")]
            Proof::Grpc(identity) => Some(&identity.certificate),
        }
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Peer");
        debug.field("address", &self.address).field("transport", &self.transport);
        debug.field("names", &self.names()).finish_non_exhaustive()
    }
}

/// Where a request came from.
#[derive(Clone, Default)]
pub(crate) enum Origin {
    /// From this end.
    #[default]
    Here,
    /// A session of the loop of this number: its index and generation.
    Session { home: u32, session: (u32, u32) },
    /// A call of which requests know when it is over.
    Watched(Arc<Over>),
    /// Within the one above only.
    #[cfg(feature = "grpc")]
    Grpc(Arc<petasos_grpc::Peer>),
}

const _: () = assert!(size_of::<Origin>() == 16);

impl Origin {
    /// Whether there is nothing to be dropped.
    #[inline(always)]
    pub(crate) fn owns_nothing(&self) -> bool {
        matches!(self, Origin::Here | Origin::Session { .. })
    }

    pub(crate) fn is_grpc(&self) -> bool {
        match self {
            Origin::Watched(over) => over.origin.is_grpc(),
            #[cfg(feature = "grpc")]
            Origin::Grpc(_) => true,
            _ => false,
        }
    }

    /// Who that is; `None` at this end, and once the session is gone.
    pub(crate) fn peer(&self) -> Option<Peer> {
        match self {
            Origin::Here => None,
            Origin::Session { home, session } => shared_of(*home)?.client(*session),
            Origin::Watched(over) => over.origin.peer(),
            #[cfg(feature = "grpc")]
            Origin::Grpc(peer) => {
                let proof = peer.identity.clone().map(Proof::Grpc);
                let transport = PeerTransport::Grpc;
                Some(Peer { address: peer.address, transport, proof })
            }
        }
    }
}

impl Origin {
    /// What tells that the call is over. Of a handler in a loop that is asked for where the loop
    /// polls it.
    pub(crate) fn cancelled(&self) -> Cancelled {
        let over = match self {
            Origin::Watched(over) => Some(over.clone()),
            Origin::Session { home, .. } => at_home(*home).and_then(|local| local.watch_polled()),
            _ => None,
        };
        Cancelled::new(over, deadline_here())
    }

    /// Whether the call is over, as far as that is known here.
    pub(crate) fn is_cancelled(&self) -> bool {
        let is_over = match self {
            Origin::Watched(over) => over.is_over(),
            Origin::Session { home, session } => {
                // Of a loop that polls the handler, nobody else knows more.
                at_home(*home).is_none()
                    && shared_of(*home).is_none_or(|shared| shared.client(*session).is_none())
            }
            _ => false,
        };
        is_over || is_late(deadline_here())
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.peer().fmt(f)
    }
}
