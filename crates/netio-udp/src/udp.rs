//! The backend: a socket, its routes, a receiver and a transmitter.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use arrayvec::ArrayVec;
use petasos_netio::{
    Ecn, IoStats, Origin, PacketIo, Route, RouteError, RxBatch, SetupError, TX_BATCH_MAX, TxPacket,
    check_peer,
};

use crate::receive::{BUFFER_BYTES, Receiver};
use crate::routes::RouteTable;
use crate::socket::{Discovery, GsoSocket};
use crate::transmit::{Sink, Transmitter};

/// How a [`UdpIo`] behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpConfig {
    /// Send packets of equal size to one peer as one train, if the kernel can.
    pub gso: bool,
    /// Receive trains, if the kernel can.
    pub gro: bool,
    /// Mark sent packets as ECN-capable, and read the marks of received ones. Set this only if
    /// senders slow down when they learn of congestion.
    pub ecn_capable: bool,
    /// Socket buffer to ask for, in bytes and in each direction. The system may grant less.
    pub receive_buffer_bytes: usize,
    /// Largest datagram payload, in bytes, whatever the path allows. The default fits jumbo frames;
    /// behind an interface with ordinary Ethernet frames the route's own limit applies (1472). If
    /// the path narrows later, a smaller value here avoids fragmentation.
    pub datagram_bytes_max: usize,
    /// The most peers that the backend knows at once.
    pub routes_max: usize,
    /// An IPv6 socket reaches IPv4 peers as well, without ECN bits on their packets.
    pub dual_stack: bool,
    /// Send and receive only within this host, whatever address the socket is bound to (Linux 5.7
    /// without privileges). For a dual-stack socket, since no single loopback address serves both
    /// families.
    pub loopback_only: bool,
}

impl Default for UdpConfig {
    fn default() -> UdpConfig {
        UdpConfig {
            gso: true,
            gro: true,
            ecn_capable: false,
            receive_buffer_bytes: 4 << 20,
            datagram_bytes_max: 8972,
            routes_max: 1 << 16,
            dual_stack: false,
            loopback_only: false,
        }
    }
}

/// Packet I/O over one unconnected UDP socket.
///
/// The counters: [`IoStats::rx_overflows`] is the socket's own count of lost datagrams. It counts a
/// lost train as one, and is updated only when the next datagram arrives. A train cut short counts
/// once in [`IoStats::rx_truncated`]. [`IoStats::tx_syscalls`] and [`IoStats::rx_syscalls`] count
/// calls that move datagrams, not those that set up routes. Empty datagrams are neither sent nor
/// delivered.
///
/// A route's limit is what this host's route to the peer allowed when it was last asked for. It is
/// no promise about the path: datagrams that no longer fit are fragmented (ADR 14). A backend takes
/// 550 KiB besides the socket's buffers.
pub struct UdpIo {
    socket: GsoSocket,
    routes: RouteTable,
    receiver: Receiver,
    transmitter: Transmitter,
    stats: IoStats,
    datagram_bytes_max: usize,
    /// Whether the socket is an IPv6 socket that accepts IPv4-mapped addresses.
    dual_stack: bool,
    /// The size that the system granted.
    receive_buffer_bytes: usize,
}

impl UdpIo {
    /// Opens a backend at `address`; port 0 lets the system choose one.
    ///
    /// # Errors
    /// See [`SetupError`].
    pub fn bind(address: SocketAddr, config: UdpConfig) -> Result<UdpIo, SetupError> {
        let dual_stack = config.dual_stack && address.is_ipv6();
        let mut socket = match dual_stack {
            true => GsoSocket::bind_dual(address, config.receive_buffer_bytes)?,
            false => GsoSocket::bind(address, config.receive_buffer_bytes)?,
        };
        if config.loopback_only {
            socket.stay_on_loopback().map_err(|error| SetupError::System {
                attempt: "keep the socket on the loopback interface",
                error,
            })?;
        }
        if socket.gro() && !config.gro {
            socket
                .set_gro(false)
                .map_err(|error| SetupError::System { attempt: "turn GRO off", error })?;
        }
        // If this fails, the bits read as "not capable": no reason to fail.
        let _ = socket.report_ecn(false);
        let mut io = UdpIo {
            receive_buffer_bytes: socket.receive_buffer_bytes(),
            transmitter: Transmitter::new(config.gso && socket.gso_supported()),
            socket,
            routes: RouteTable::new(config.routes_max),
            receiver: Receiver::new(BUFFER_BYTES),
            stats: IoStats::default(),
            datagram_bytes_max: config.datagram_bytes_max,
            dual_stack,
        };
        if config.ecn_capable {
            io.set_ecn_capable()?;
        }
        Ok(io)
    }

    /// Marks packets sent from now on as ECN-capable, and reads the marks of received ones, as
    /// [`UdpConfig::ecn_capable`] does from the start.
    ///
    /// # Errors
    /// The system's, if it cannot set the bits. If it cannot read marks, packets count as unmarked.
    pub fn set_ecn_capable(&mut self) -> Result<(), SetupError> {
        let _ = self.socket.report_ecn(true);
        self.socket
            .set_ecn(Ecn::Capable0)
            .map_err(|error| SetupError::System { attempt: "set the ECN bits", error })
    }

    /// Whether trains are sent. Becomes `false` for good when the system refuses one.
    pub fn gso(&self) -> bool {
        self.transmitter.gso()
    }

    /// Whether trains are received.
    pub fn gro(&self) -> bool {
        self.socket.gro()
    }

    /// The address that the socket uses for `peer`. A dual-stack socket uses IPv4-mapped IPv6
    /// addresses.
    fn name_of(&self, peer: SocketAddr) -> Result<SocketAddr, RouteError> {
        if !self.dual_stack {
            return check_peer(self.socket.local_address(), peer).map(|()| peer);
        }
        if peer.port() == 0 {
            return Err(RouteError::Unreachable(io::ErrorKind::InvalidInput.into()));
        }
        Ok(match peer {
            SocketAddr::V4(v4) => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
            peer => peer,
        })
    }
}

impl PacketIo for UdpIo {
    #[inline]
    fn receive(&mut self) -> RxBatch<'_> {
        self.receiver.receive(&self.socket, &self.routes, &mut self.stats)
    }

    #[inline]
    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> usize {
        self.transmitter.transmit(&mut self.socket, &mut self.routes, packets, &mut self.stats)
    }

    #[inline]
    fn transmit_train(&mut self, route: Route, bytes: &[u8], segment_bytes: usize) -> usize {
        let sent = self.transmitter.transmit_train(
            &mut self.socket,
            &self.routes,
            (route, bytes, segment_bytes),
            &mut self.stats,
        );
        sent.unwrap_or_else(|| {
            // Whatever prevents the train also concerns packets, and is handled there.
            let packets = bytes.chunks(segment_bytes);
            let packets = packets.map(|head| TxPacket { route, head, body: &[] });
            self.transmit(&packets.collect::<ArrayVec<_, TX_BATCH_MAX>>())
        })
    }

    fn route(&mut self, peer: SocketAddr) -> Result<Route, RouteError> {
        let peer = self.name_of(peer)?;
        let path_bytes_max = self.socket.path_bytes_max(peer).map_err(RouteError::Unreachable)?;
        let datagram_bytes_max = path_bytes_max.min(self.datagram_bytes_max);
        match self.routes.hold(peer, datagram_bytes_max) {
            Some(route) => Ok(route),
            None => self.routes.insert(peer, datagram_bytes_max),
        }
    }

    fn release_route(&mut self, route: Route) {
        self.routes.release(route);
    }

    fn doubt_path(&mut self, route: Route) {
        if self.routes.doubt(route) {
            // If this fails, packets continue to be lost.
            let _ = self.socket.set_discovery(Discovery::Learns);
        }
    }

    fn trust_paths(&mut self) {
        self.routes.trust();
        let _ = self.socket.set_discovery(Discovery::Off);
    }

    fn origin(&self, route: Route) -> Origin {
        Origin(route.0)
    }

    fn local_address(&self) -> SocketAddr {
        self.socket.local_address()
    }

    fn datagram_bytes_max(&self, route: Route) -> usize {
        self.routes.get(route).map_or(0, |entry| entry.datagram_bytes_max)
    }

    fn receive_buffer_bytes(&self) -> usize {
        self.receive_buffer_bytes
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn prepare_to_sleep(&mut self) -> bool {
        self.receiver.expect_few();
        true
    }

    fn stats(&self) -> IoStats {
        self.stats
    }
}
