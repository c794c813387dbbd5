//! The backend: its connections, its routes, and the contract.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use petasos_base::{Clock, Time};
use petasos_netio::{
    IoStats, Origin, PacketIo, Route, RouteError, RxBatch, SetupError, Switch, TxPacket, check_peer,
};

use crate::config::TcpConfig;
use crate::connections::Connections;
use crate::events;
use crate::receive::Receiver;
use crate::routes::{NONE, RouteTable};
use crate::socket::{Listener, canonical};
use crate::stats::TcpStats;

/// While connections that were read have more, the others are looked at once in this many receives.
const POLL_INTERVAL_TURNS: u32 = 4;

/// Packet I/O over TCP connections.
///
/// The counters: [`IoStats::tx_errors`] counts packets that are too long or empty, and those that
/// were dropped because there is no connection. [`IoStats::tx_full`] counts how often a socket that
/// is full, or still connecting, made `transmit` stop. [`IoStats::rx_syscalls`] counts looks at all
/// sockets together (one `epoll_wait`) as well.
///
/// A route outlives its connection: the next packet on it dials again.
pub struct TcpIo {
    pub(crate) config: TcpConfig,
    pub(crate) listener: Listener,
    /// Whether connections may wait to be accepted.
    pub(crate) has_callers: bool,
    /// Whether the system had no descriptor for the last one.
    pub(crate) is_out_of_descriptors: bool,
    pub(crate) epoll: OwnedFd,
    pub(crate) connections: Connections,
    pub(crate) routes: RouteTable,
    pub(crate) receiver: Receiver,
    pub(crate) clock: Clock,
    pub(crate) stats: IoStats,
    pub(crate) tcp_stats: TcpStats,
    pub(crate) turns: u32,
    /// Whether the caller has slept since the last receive.
    pub(crate) has_slept: bool,
    /// When connections are next looked at for debts.
    pub(crate) judge_at: Time,
}

impl TcpIo {
    /// Opens a backend at `address`; port 0 lets the system choose one.
    ///
    /// # Errors
    /// See [`SetupError`].
    pub fn bind(address: SocketAddr, config: TcpConfig) -> Result<TcpIo, SetupError> {
        TcpIo::bind_with_clock(address, config, Clock::system())
    }

    /// Like [`TcpIo::bind`], with the clock that its patience is measured with.
    ///
    /// # Errors
    /// See [`SetupError`].
    pub fn bind_with_clock(
        address: SocketAddr,
        config: TcpConfig,
        clock: Clock,
    ) -> Result<TcpIo, SetupError> {
        config.check()?;
        let listener = Listener::bind(address, config.dual_stack, config.patience)?;
        let epoll = events::watch_listener(&listener)?;
        Ok(TcpIo {
            listener,
            has_callers: false,
            is_out_of_descriptors: false,
            epoll,
            connections: Connections::default(),
            routes: RouteTable::new(config.routes_max),
            receiver: Receiver::new(),
            judge_at: clock.now(),
            clock,
            stats: IoStats::default(),
            tcp_stats: TcpStats::default(),
            turns: 0,
            has_slept: false,
            config,
        })
    }

    /// Whether batches are sent in one system call; any thread may change it.
    pub fn gathering(&self) -> &Switch {
        &self.config.gathering
    }

    /// Counters of connections.
    pub fn tcp_stats(&self) -> TcpStats {
        self.tcp_stats
    }

    /// Connections that are open now, or being dialled.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    fn check_peer(&self, peer: SocketAddr) -> Result<(), RouteError> {
        if !self.listener.is_dual_stack() {
            check_peer(self.local_address(), peer)?;
        } else if peer.port() == 0 {
            return Err(RouteError::Unreachable(ErrorKind::InvalidInput.into()));
        }
        match self.config.loopback_only && !peer.ip().to_canonical().is_loopback() {
            true => Err(RouteError::Unreachable(ErrorKind::PermissionDenied.into())),
            false => Ok(()),
        }
    }
}

impl PacketIo for TcpIo {
    #[inline]
    fn receive(&mut self) -> RxBatch<'_> {
        self.turns = self.turns.wrapping_add(1);
        if self.has_slept || self.turns.is_multiple_of(events::LOOK_INTERVAL_TURNS) {
            self.keep_up();
        } else if !self.connections.has_ready() || self.turns.is_multiple_of(POLL_INTERVAL_TURNS) {
            self.poll_events();
        }
        self.collect();
        self.receiver.batch()
    }

    #[inline]
    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> usize {
        let mut taken = 0;
        for run in packets.chunk_by(|one, next| one.route == next.route) {
            let count = self.transmit_run(run[0].route, run);
            taken += count;
            if count < run.len() {
                break;
            }
        }
        taken
    }

    #[inline]
    fn transmit_train(&mut self, route: Route, bytes: &[u8], segment_bytes: usize) -> usize {
        self.transmit_records(route, bytes, segment_bytes)
    }

    /// Each peer has its own connection.
    fn holds_back(&self, full: Route, other: Route) -> bool {
        full == other
    }

    fn route(&mut self, peer: SocketAddr) -> Result<Route, RouteError> {
        self.check_peer(peer)?;
        let peer = canonical(peer);
        let (route, is_new) = self.routes.hold(peer)?;
        if is_new && let Some(index) = self.connections.of_peer(peer) {
            self.adopt(index, route);
        }
        Ok(route)
    }

    /// After the last release, the connection stays for a while, as a stranger's.
    fn release_route(&mut self, route: Route) {
        let freed = self.routes.release(route).filter(|index| *index != NONE);
        let Some(index) = freed else { return };
        let now = self.clock.now();
        if let Some(connection) = self.connections.get_mut(index) {
            connection.make_stranger(now);
            self.connections.estrange(index);
            self.limit_strangers();
        }
    }

    fn origin(&self, route: Route) -> Origin {
        Origin(route.0)
    }

    fn local_address(&self) -> SocketAddr {
        self.listener.local_address()
    }

    fn datagram_bytes_max(&self, route: Route) -> usize {
        self.routes.get(route).map_or(0, |_| self.config.datagram_bytes_max)
    }

    fn receive_buffer_bytes(&self) -> usize {
        self.config.receive_buffer_bytes
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.epoll.as_fd())
    }

    fn prepare_to_sleep(&mut self) -> bool {
        self.has_slept = true;
        !self.connections.has_ready() && !self.has_callers
    }

    fn stats(&self) -> IoStats {
        self.stats
    }
}
