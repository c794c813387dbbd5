//! The packet I/O backends that an endpoint can own: a closed set, matched once per batch.
//!
//! Beside the packets' way this file knows what a backend can promise to a peer when a session is
//! set up: which addresses it gives, and how much a session can have in flight there.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use petasos_netio::memory::MemoryIo;
use petasos_netio::{IoStats, Origin, PacketIo, Route, RouteError, RxBatch, TxPacket};
#[cfg(feature = "dpdk")]
use petasos_netio_dpdk::DpdkIo;
#[cfg(feature = "fabric")]
use petasos_netio_fabric::FabricIo;
use petasos_netio_local::LocalIo;
use petasos_netio_shm::ShmIo;
use petasos_netio_udp::UdpIo;
use petasos_netio_xdp::XdpIo;

/// One of the backends.
#[expect(clippy::large_enum_variant, reason = "there is one per endpoint")]
pub enum Backend {
    /// Kernel UDP sockets.
    Udp(Box<UdpIo>),
    /// Kernel UDP sockets, and shared memory to processes of the same host.
    Local(Box<LocalIo>),
    /// Shared memory alone: peers are on the same host, or not reached.
    Shm(Box<ShmIo>),
    /// AF_XDP sockets: UDP past the kernel's stack.
    Xdp(Box<XdpIo>),
    /// DPDK's poll-mode drivers: the loop never sleeps, whatever it is told.
    #[cfg(feature = "dpdk")]
    Dpdk(Box<DpdkIo>),
    /// libfabric's datagram endpoints.
    #[cfg(feature = "fabric")]
    Fabric(Box<FabricIo>),
    /// Ports in this thread's memory: loopback and simulation.
    Memory(MemoryIo),
}

macro_rules! each {
    ($backend:expr, $io:ident => $call:expr) => {
        match $backend {
            Backend::Udp($io) => $call,
            Backend::Local($io) => $call,
            Backend::Shm($io) => $call,
            Backend::Xdp($io) => $call,
            #[cfg(feature = "dpdk")]
            Backend::Dpdk($io) => $call,
            #[cfg(feature = "fabric")]
            Backend::Fabric($io) => $call,
            Backend::Memory($io) => $call,
        }
    };
}

impl From<MemoryIo> for Backend {
    fn from(io: MemoryIo) -> Backend {
        Backend::Memory(io)
    }
}

impl From<UdpIo> for Backend {
    fn from(io: UdpIo) -> Backend {
        Backend::Udp(Box::new(io))
    }
}

impl From<LocalIo> for Backend {
    fn from(io: LocalIo) -> Backend {
        Backend::Local(Box::new(io))
    }
}

impl From<ShmIo> for Backend {
    fn from(io: ShmIo) -> Backend {
        Backend::Shm(Box::new(io))
    }
}

impl From<XdpIo> for Backend {
    fn from(io: XdpIo) -> Backend {
        Backend::Xdp(Box::new(io))
    }
}

#[cfg(feature = "dpdk")]
impl From<DpdkIo> for Backend {
    fn from(io: DpdkIo) -> Backend {
        Backend::Dpdk(Box::new(io))
    }
}

#[cfg(feature = "fabric")]
impl From<FabricIo> for Backend {
    fn from(io: FabricIo) -> Backend {
        Backend::Fabric(Box::new(io))
    }
}

/// What a session can have on one path to this endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathLimits {
    /// The largest datagram payload, in bytes.
    pub(crate) datagram_bytes_max: usize,
    /// Bytes of datagrams that can wait to be received.
    pub(crate) room_bytes: usize,
}

/// Where a peer can be reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerAddress {
    /// Over the network.
    pub(crate) network: SocketAddr,
    /// By shared memory (C17); agreed, if it comes from a grant.
    pub(crate) local: Option<SocketAddr>,
}

impl Backend {
    /// What sessions to the process whose control connection leads to `server` can have.
    pub(crate) fn path_limits_to(&mut self, server: SocketAddr) -> Result<PathLimits, RouteError> {
        if let Some(path) = self.path_limits_to_all() {
            return Ok(path);
        }
        let route = self.route(server)?;
        let path = self.path_limits_on(route);
        self.release_route(route);
        Ok(path)
    }

    /// What sessions to everybody can have, if the control connection's address is not to be asked:
    /// packets may go to another that is not known yet.
    fn path_limits_to_all(&self) -> Option<PathLimits> {
        let datagram_bytes_max = match self {
            Backend::Shm(io) => io.config().datagram_bytes_max,
            #[cfg(feature = "dpdk")]
            Backend::Dpdk(io) => io.payload_bytes_max(),
            #[cfg(feature = "fabric")]
            Backend::Fabric(io) => io.payload_bytes_max(),
            _ => return None,
        };
        Some(PathLimits { datagram_bytes_max, room_bytes: self.receive_buffer_bytes() })
    }

    /// What sessions on `route` can have.
    pub(crate) fn path_limits_on(&self, route: Route) -> PathLimits {
        let room_bytes = match self {
            Backend::Local(io) => io.room_bytes(route),
            io => io.receive_buffer_bytes(),
        };
        PathLimits { datagram_bytes_max: self.datagram_bytes_max(route), room_bytes }
    }

    /// The name at which processes of this host reach this endpoint, and what they can have.
    pub(crate) fn local_name(&self) -> Option<(SocketAddr, PathLimits)> {
        match self {
            Backend::Local(io) => io.rings().map(name_of),
            Backend::Shm(io) => Some(name_of(io)),
            Backend::Memory(io) => {
                let (name, room_bytes) = (io.ring_name()?, io.receive_buffer_bytes());
                let datagram_bytes_max = io.datagram_bytes_max(Route(0));
                Some((name, PathLimits { datagram_bytes_max, room_bytes }))
            }
            _ => None,
        }
    }

    /// A route to a client that offers `peer`, by shared memory where both can, and whether it is
    /// that.
    pub(crate) fn route_back(&mut self, peer: PeerAddress) -> Result<(Route, bool), RouteError> {
        match (self, peer.local) {
            (Backend::Shm(io), name) => Ok((io.route(name.ok_or_else(no_rings)?)?, true)),
            (Backend::Local(io), Some(name)) => match io.local_route(name) {
                Ok(route) => Ok((route, true)),
                // Nobody listens there, or another user does: the network is there as well.
                Err(_) => Ok((io.route(peer.network)?, false)),
            },
            (Backend::Memory(io), Some(name)) => match io.ring_route(name) {
                Ok(route) => Ok((route, true)),
                Err(_) => Ok((io.route(peer.network)?, false)),
            },
            (io, _) => Ok((io.route(peer.network)?, false)),
        }
    }

    /// A route to a server that has granted a session at `peer`. The server has reached this end's
    /// rings before it granted its own. If they do not stand all the same, the network is better
    /// than to try from this end, where a refusal would show only after the first calls.
    pub(crate) fn route_granted(&mut self, peer: PeerAddress) -> Result<Route, RouteError> {
        match (self, peer.local) {
            (Backend::Shm(io), name) => io.route(name.ok_or_else(no_rings)?),
            (Backend::Local(io), Some(name)) => io.local_route_met(name),
            (Backend::Memory(io), Some(name)) => io.ring_route(name),
            (io, None) => io.route(peer.network),
            // It has offered no name, so that none was granted.
            (_, Some(_)) => Err(no_rings()),
        }
    }
}

impl Backend {
    /// Whether addresses of peers have nothing to do with those of control connections.
    pub(crate) fn has_own_network(&self) -> bool {
        match self {
            Backend::Memory(_) => true,
            #[cfg(feature = "dpdk")]
            Backend::Dpdk(_) => true,
            #[cfg(feature = "fabric")]
            Backend::Fabric(_) => true,
            _ => false,
        }
    }

    /// Whether a session that cannot have its rings can have the network instead.
    pub(crate) fn has_network_beside_rings(&self) -> bool {
        matches!(self, Backend::Local(_))
    }

    /// Has `tell` called with routes through rings that are lost: see [`ShmIo::on_lost`].
    pub(crate) fn on_lost(&mut self, tell: impl FnMut(Route) + Send + 'static) {
        match self {
            Backend::Shm(io) => io.on_lost(tell),
            Backend::Local(io) => io.on_lost(tell),
            _ => {}
        }
    }
}

/// The name of rings, and what a session can have in them.
fn name_of(io: &ShmIo) -> (SocketAddr, PathLimits) {
    let datagram_bytes_max = io.config().datagram_bytes_max;
    let room_bytes = io.receive_buffer_bytes();
    (io.local_address(), PathLimits { datagram_bytes_max, room_bytes })
}

/// One end has no shared memory, or does not want it.
fn no_rings() -> RouteError {
    RouteError::Unreachable(io::ErrorKind::Unsupported.into())
}

impl PacketIo for Backend {
    #[inline]
    fn receive(&mut self) -> RxBatch<'_> {
        each!(self, io => io.receive())
    }

    #[inline]
    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> usize {
        each!(self, io => io.transmit(packets))
    }

    #[inline]
    fn transmit_train(&mut self, route: Route, bytes: &[u8], segment_bytes: usize) -> usize {
        each!(self, io => io.transmit_train(route, bytes, segment_bytes))
    }

    fn doubt_path(&mut self, route: Route) {
        each!(self, io => io.doubt_path(route))
    }

    fn trust_paths(&mut self) {
        each!(self, io => io.trust_paths())
    }

    fn holds_back(&self, full: Route, other: Route) -> bool {
        each!(self, io => io.holds_back(full, other))
    }

    fn route(&mut self, peer: SocketAddr) -> Result<Route, RouteError> {
        each!(self, io => io.route(peer))
    }

    fn release_route(&mut self, route: Route) {
        each!(self, io => io.release_route(route));
    }

    fn origin(&self, route: Route) -> Origin {
        each!(self, io => io.origin(route))
    }

    fn local_address(&self) -> SocketAddr {
        each!(self, io => io.local_address())
    }

    fn datagram_bytes_max(&self, route: Route) -> usize {
        each!(self, io => io.datagram_bytes_max(route))
    }

    fn receive_buffer_bytes(&self) -> usize {
        each!(self, io => io.receive_buffer_bytes())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        each!(self, io => io.descriptor())
    }

    fn prepare_to_sleep(&mut self) -> bool {
        each!(self, io => io.prepare_to_sleep())
    }

    fn stats(&self) -> IoStats {
        each!(self, io => io.stats())
    }
}
