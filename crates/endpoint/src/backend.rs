//! The packet I/O backends that an endpoint can own: a closed set, matched once per batch.
//!
//! Besides moving packets, this module determines what a backend can promise a peer when a session
//! is set up: its addresses, and how much a session can have in flight.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use petasos_control::Carrier;
use petasos_netio::memory::MemoryIo;
use petasos_netio::{IoStats, Origin, PacketIo, Route, RouteError, RxBatch, TxPacket};
#[cfg(feature = "dpdk")]
use petasos_netio_dpdk::DpdkIo;
#[cfg(feature = "fabric")]
use petasos_netio_fabric::FabricIo;
use petasos_netio_local::LocalIo;
use petasos_netio_shm::ShmIo;
use petasos_netio_tcp::TcpIo;
use petasos_netio_udp::UdpIo;
use petasos_netio_xdp::XdpIo;

use crate::no_packets::NoPackets;

/// One of the backends.
#[expect(clippy::large_enum_variant, reason = "there is one per endpoint")]
pub enum Backend {
    /// Kernel UDP sockets.
    Udp(Box<UdpIo>),
    /// Kernel UDP sockets, and shared memory to processes of the same host.
    Local(Box<LocalIo>),
    /// Shared memory alone: only peers on the same host can be reached.
    Shm(Box<ShmIo>),
    /// TCP connections.
    Tcp(Box<TcpIo>),
    /// AF_XDP sockets: UDP that bypasses the kernel's stack.
    Xdp(Box<XdpIo>),
    /// DPDK's poll-mode drivers. The loop never sleeps, whatever its configuration says.
    #[cfg(feature = "dpdk")]
    Dpdk(Box<DpdkIo>),
    /// libfabric's datagram endpoints.
    #[cfg(feature = "fabric")]
    Fabric(Box<FabricIo>),
    /// Ports in this thread's memory: loopback and simulation.
    Memory(MemoryIo),
    /// None: all sessions are external.
    Nothing(NoPackets),
}

macro_rules! each {
    ($backend:expr, $io:ident => $call:expr) => {
        match $backend {
            Backend::Udp($io) => $call,
            Backend::Local($io) => $call,
            Backend::Shm($io) => $call,
            Backend::Tcp($io) => $call,
            Backend::Xdp($io) => $call,
            #[cfg(feature = "dpdk")]
            Backend::Dpdk($io) => $call,
            #[cfg(feature = "fabric")]
            Backend::Fabric($io) => $call,
            Backend::Memory($io) => $call,
            Backend::Nothing($io) => $call,
        }
    };
}

impl From<MemoryIo> for Backend {
    fn from(io: MemoryIo) -> Backend {
        Backend::Memory(io)
    }
}

impl From<NoPackets> for Backend {
    fn from(io: NoPackets) -> Backend {
        Backend::Nothing(io)
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

impl From<TcpIo> for Backend {
    fn from(io: TcpIo) -> Backend {
        Backend::Tcp(Box::new(io))
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

/// The limits of a session on one path to this endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathLimits {
    /// The largest datagram payload, in bytes.
    pub(crate) datagram_bytes_max: usize,
    /// Bytes of datagrams that can wait to be received.
    pub(crate) room_bytes: usize,
}

/// The addresses of a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerAddress {
    /// Its network address.
    pub(crate) network: SocketAddr,
    /// Its name for shared memory (C17). In a grant, both ends have agreed on it.
    pub(crate) local: Option<SocketAddr>,
}

impl Backend {
    /// The limits of sessions to the process whose control connection leads to `server`.
    pub(crate) fn path_limits_to(&mut self, server: SocketAddr) -> Result<PathLimits, RouteError> {
        if let Some(path) = self.path_limits_to_all() {
            return Ok(path);
        }
        let route = self.route(server)?;
        let path = self.path_limits_on(route);
        self.release_route(route);
        Ok(path)
    }

    /// The limits of sessions to any peer, if the control connection's address must not be used:
    /// packets may go to another address that is not known yet.
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

    /// The limits of sessions on `route`.
    pub(crate) fn path_limits_on(&self, route: Route) -> PathLimits {
        let room_bytes = match self {
            Backend::Local(io) => io.room_bytes(route),
            io => io.receive_buffer_bytes(),
        };
        PathLimits { datagram_bytes_max: self.datagram_bytes_max(route), room_bytes }
    }

    /// The name at which processes of this host reach this endpoint, and the limits of their
    /// sessions.
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

    /// A route to a client that offers the addresses `peer`: through shared memory if both ends
    /// can, which the returned flag says.
    pub(crate) fn route_back(&mut self, peer: PeerAddress) -> Result<(Route, bool), RouteError> {
        match (self, peer.local) {
            (Backend::Shm(io), name) => Ok((io.route(name.ok_or_else(no_rings)?)?, true)),
            (Backend::Local(io), Some(name)) => match io.local_route(name) {
                Ok(route) => Ok((route, true)),
                // Nobody listens there, or another user does. The network still works.
                Err(_) => Ok((io.route(peer.network)?, false)),
            },
            (Backend::Memory(io), Some(name)) => match io.ring_route(name) {
                Ok(route) => Ok((route, true)),
                Err(_) => Ok((io.route(peer.network)?, false)),
            },
            (io, _) => Ok((io.route(peer.network)?, false)),
        }
    }

    /// A route to a server that has granted a session at `peer`. Before the server granted rings,
    /// it had reached this end's. If they are missing all the same, use the network: if this end
    /// opened rings now, a refusal would only show after the first calls.
    pub(crate) fn route_granted(&mut self, peer: PeerAddress) -> Result<Route, RouteError> {
        match (self, peer.local) {
            (Backend::Shm(io), name) => io.route(name.ok_or_else(no_rings)?),
            (Backend::Local(io), Some(name)) => io.local_route_met(name),
            (Backend::Memory(io), Some(name)) => io.ring_route(name),
            (io, None) => io.route(peer.network),
            // This end offered no name, so the server should not have granted one.
            (_, Some(_)) => Err(no_rings()),
        }
    }
}

impl Backend {
    /// Whether addresses of peers are unrelated to those of control connections.
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

    /// What carries packets. Peers must agree on that.
    pub(crate) fn carrier(&self) -> Carrier {
        match self {
            Backend::Tcp(_) => Carrier::Tcp,
            #[cfg(feature = "fabric")]
            Backend::Fabric(_) => Carrier::Fabric,
            _ => Carrier::Datagrams,
        }
    }

    /// Whether packets travel as datagrams, as those of groups do.
    pub(crate) fn has_datagrams(&self) -> bool {
        self.carrier() == Carrier::Datagrams && !matches!(self, Backend::Shm(_))
    }

    /// Whether a session that cannot use rings can use the network instead.
    pub(crate) fn has_network_beside_rings(&self) -> bool {
        matches!(self, Backend::Local(_))
    }

    /// Calls `tell` with routes over rings that are lost: see [`ShmIo::on_lost`].
    pub(crate) fn on_lost(&mut self, tell: impl FnMut(Route) + Send + 'static) {
        match self {
            Backend::Shm(io) => io.on_lost(tell),
            Backend::Local(io) => io.on_lost(tell),
            _ => {}
        }
    }
}

/// The name of rings, and the limits of sessions over them.
fn name_of(io: &ShmIo) -> (SocketAddr, PathLimits) {
    let datagram_bytes_max = io.config().datagram_bytes_max;
    let room_bytes = io.receive_buffer_bytes();
    (io.local_address(), PathLimits { datagram_bytes_max, room_bytes })
}

/// One end has no shared memory, or does not use it.
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

    #[inline]
    fn begin_batch(&mut self) {
        each!(self, io => io.begin_batch());
    }

    #[inline]
    fn end_batch(&mut self) {
        each!(self, io => io.end_batch());
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
