//! One packet I/O made of two: UDP to other hosts, shared-memory rings to processes of this one.
//!
//! Which of the two a session takes is agreed when it is set up (`docs/spec/control.md`, C17);
//! from then on its route says it. What holds:
//!
//! - **A busy ring costs UDP nothing but a bounded delay, and UDP costs a busy ring no system call
//!   per turn.** See [`UDP_PATIENCE`]. While the rings bring nothing, UDP is asked in every turn.
//! - **The rings may be missing.** Policy may forbid them, and so may the system: then everything
//!   goes over UDP.
//! - A full ring holds back packets to its peer only, a full socket those over UDP.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use arrayvec::ArrayVec;
use petasos_netio::{
    IoStats, Origin, PacketIo, Route, RouteError, RxBatch, SetupError, TX_BATCH_MAX, TxPacket,
};
use petasos_netio_shm::{ShmConfig, ShmIo, ShmStats};
use petasos_netio_udp::{UdpConfig, UdpIo};
use rustix::event::epoll;

use crate::backend::PathLimits;

/// When packets to processes of the same host go through shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LocalPolicy {
    /// Whenever both ends can: same host, same user, same network, mount and user namespace.
    #[default]
    Auto,
    /// Never.
    Never,
}

/// Settings of a [`LocalIo`].
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalConfig {
    /// Of the socket.
    pub udp: UdpConfig,
    /// Of the rings.
    pub shm: ShmConfig,
    /// When to use the rings.
    pub local: LocalPolicy,
}

/// How long UDP may have to wait while the rings are busy: one for each turn, and one more for
/// each [`PATIENCE_BYTES`] that a turn brings.
///
/// A turn that receives from a ring takes 25 ns to 0.3 µs with small packets, and 5 µs with the
/// 32 KiB that a ring gives at most, which count as 17: so UDP is asked every 3 to 40 µs. That is
/// no more than its own round trip adds, and far less than a receive buffer of 4 MiB takes to
/// overflow (600 µs at the 58 Gbit/s that loopback reaches). An empty look at the socket costs
/// 0.2 µs, a hundredth to a twentieth of that time.
const UDP_PATIENCE: u32 = 128;

/// See [`UDP_PATIENCE`].
const PATIENCE_BYTES: usize = 2048;

/// Turns in a row in which the rings bring nothing after which they no longer count as busy: some
/// 10 µs, longer than a round trip through them.
const BUSY_TURNS: u32 = 512;

/// Marks routes that lead over UDP. The rings' routes go through as they are, since there a turn
/// is short.
const UDP_BIT: u32 = 1 << 31;

/// Packet I/O over UDP and, to processes of the same host, shared memory.
pub struct LocalIo {
    udp: UdpIo,
    shm: Option<ShmIo>,
    /// Waits for both.
    epoll: Option<OwnedFd>,
    turns: Turns,
}

impl LocalIo {
    /// Opens a socket at `address`, and rings under a name of their own.
    ///
    /// # Errors
    /// The socket's: see [`SetupError`]. Rings may be missing: see [`LocalIo::has_rings`].
    pub fn bind(address: SocketAddr, config: &LocalConfig) -> Result<LocalIo, SetupError> {
        let udp = UdpIo::bind(address, config.udp)?;
        let rings = match config.local {
            LocalPolicy::Auto => open_rings(&udp, config.shm),
            LocalPolicy::Never => None,
        };
        let (shm, epoll) = rings.unzip();
        Ok(LocalIo { udp, shm, epoll, turns: Turns::default() })
    }

    /// Whether there are rings.
    pub fn has_rings(&self) -> bool {
        self.shm.is_some()
    }

    /// Processes of this host that are connected by rings now.
    pub fn links(&self) -> usize {
        self.shm.as_ref().map_or(0, ShmIo::links)
    }

    /// What became of links; zeros without rings.
    pub fn link_stats(&self) -> ShmStats {
        self.shm.as_ref().map_or(ShmStats::default(), ShmIo::link_stats)
    }

    /// Understands the marks of congested switches: see [`UdpIo::set_ecn_capable`].
    pub(crate) fn set_ecn_capable(&mut self) -> Result<(), SetupError> {
        self.udp.set_ecn_capable()
    }

    /// The rings' name, and what a session can have in them.
    pub(crate) fn name(&self) -> Option<(SocketAddr, PathLimits)> {
        let shm = self.shm.as_ref()?;
        let datagram_bytes_max = shm.config().datagram_bytes_max;
        Some((
            shm.local_address(),
            PathLimits { datagram_bytes_max, room_bytes: shm.receive_buffer_bytes() },
        ))
    }

    /// Bytes that can wait where packets of peers on `route` arrive.
    pub(crate) fn room_bytes(&self, route: Route) -> usize {
        match &self.shm {
            Some(shm) if !is_udp(route) => shm.receive_buffer_bytes(),
            _ => self.udp.receive_buffer_bytes(),
        }
    }

    /// Has `tell` called with routes through the rings that are lost: see [`ShmIo::on_lost`].
    pub(crate) fn on_lost(&mut self, tell: impl FnMut(Route) + Send + 'static) {
        if let Some(shm) = &mut self.shm {
            shm.on_lost(tell);
        }
    }

    /// A route through the rings to the process with this name.
    pub(crate) fn local_route(&mut self, name: SocketAddr) -> Result<Route, RouteError> {
        self.with_rings(|shm| shm.route(name))
    }

    /// A route through the rings to the process with this name, which has met this one there.
    pub(crate) fn local_route_met(&mut self, name: SocketAddr) -> Result<Route, RouteError> {
        self.with_rings(|shm| shm.route_to_connected(name))
    }

    fn with_rings(
        &mut self,
        find: impl FnOnce(&mut ShmIo) -> Result<Route, RouteError>,
    ) -> Result<Route, RouteError> {
        let unsupported = || RouteError::Unreachable(std::io::ErrorKind::Unsupported.into());
        let route = find(self.shm.as_mut().ok_or_else(unsupported)?)?;
        assert!(!is_udp(route), "2^31 routes do not fit any memory");
        Ok(route)
    }
}

/// Whose turn it is to be asked for packets.
#[derive(Default)]
struct Turns {
    /// What is left of UDP's patience while the rings are busy.
    patience: u32,
    /// What UDP's next patience will be: halved by packets, doubled by their absence.
    interval: u32,
    /// Turns until the rings no longer count as busy.
    busy: u32,
    /// The rings are asked first: UDP brought something the last time.
    rings_first: bool,
}

impl Turns {
    /// Begins a turn. Returns whether UDP is asked at all.
    #[inline]
    fn next(&mut self) -> bool {
        if self.busy == 0 {
            return true;
        }
        self.busy -= 1;
        self.patience = self.patience.saturating_sub(1);
        self.patience == 0
    }

    #[inline]
    fn note_rings(&mut self, batch: &RxBatch<'_>) {
        self.rings_first = false;
        if !batch.chunks.is_empty() {
            let bytes: usize = batch.chunks.iter().map(|chunk| chunk.len as usize).sum();
            self.patience = self.patience.saturating_sub((bytes / PATIENCE_BYTES) as u32);
            self.busy = BUSY_TURNS;
        }
    }

    #[inline]
    fn note_udp(&mut self, batch: &RxBatch<'_>) {
        self.rings_first = !batch.chunks.is_empty();
        self.interval = match self.rings_first {
            true => self.interval / 2,
            false => (2 * self.interval).clamp(1, UDP_PATIENCE),
        };
        self.patience = self.interval;
    }
}

/// `None` where the system gives none.
fn open_rings(udp: &UdpIo, config: ShmConfig) -> Option<(ShmIo, OwnedFd)> {
    let shm = ShmIo::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), config).ok()?;
    let joint = epoll::create(epoll::CreateFlags::CLOEXEC).ok()?;
    for fd in [udp.descriptor()?, shm.descriptor()?] {
        epoll::add(&joint, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN).ok()?;
    }
    Some((shm, joint))
}

#[inline]
fn is_udp(route: Route) -> bool {
    route.0 & UDP_BIT != 0
}

#[inline]
fn without_bit(route: Route) -> Route {
    Route(route.0 & !UDP_BIT)
}

impl PacketIo for LocalIo {
    #[inline]
    fn receive(&mut self) -> RxBatch<'_> {
        let Some(shm) = &mut self.shm else { return self.udp.receive() };
        let due = self.turns.next();
        if !due || self.turns.rings_first {
            let batch = shm.receive();
            self.turns.note_rings(&batch);
            if !due || !batch.chunks.is_empty() {
                return batch;
            }
            let batch = self.udp.receive();
            self.turns.note_udp(&batch);
            return batch;
        }
        let batch = self.udp.receive();
        self.turns.note_udp(&batch);
        if !batch.chunks.is_empty() {
            return batch;
        }
        let batch = shm.receive();
        self.turns.note_rings(&batch);
        batch
    }

    #[inline]
    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> usize {
        let mut taken = 0;
        for run in packets.chunk_by(|one, next| is_udp(one.route) == is_udp(next.route)) {
            let count = match &mut self.shm {
                Some(shm) if !is_udp(run[0].route) => shm.transmit(run),
                _ => transmit_udp(&mut self.udp, run),
            };
            taken += count;
            if count < run.len() {
                break;
            }
        }
        taken
    }

    #[inline]
    fn transmit_train(&mut self, route: Route, bytes: &[u8], segment_bytes: usize) -> usize {
        match &mut self.shm {
            Some(shm) if !is_udp(route) => shm.transmit_train(route, bytes, segment_bytes),
            _ => self.udp.transmit_train(without_bit(route), bytes, segment_bytes),
        }
    }

    fn holds_back(&self, full: Route, other: Route) -> bool {
        match &self.shm {
            Some(shm) if !is_udp(full) => shm.holds_back(full, other),
            _ => is_udp(other),
        }
    }

    /// A route over UDP.
    fn route(&mut self, peer: SocketAddr) -> Result<Route, RouteError> {
        let route = self.udp.route(peer)?;
        assert!(!is_udp(route), "2^31 routes do not fit any memory");
        Ok(Route(route.0 | UDP_BIT))
    }

    fn release_route(&mut self, route: Route) {
        match &mut self.shm {
            Some(shm) if !is_udp(route) => shm.release_route(route),
            _ => self.udp.release_route(without_bit(route)),
        }
    }

    fn doubt_path(&mut self, route: Route) {
        if is_udp(route) {
            self.udp.doubt_path(without_bit(route));
        }
    }

    fn trust_paths(&mut self) {
        self.udp.trust_paths();
    }

    fn origin(&self, route: Route) -> Origin {
        if is_udp(route) { self.udp.origin(without_bit(route)) } else { Origin::RINGS }
    }

    /// The socket's.
    fn local_address(&self) -> SocketAddr {
        self.udp.local_address()
    }

    fn datagram_bytes_max(&self, route: Route) -> usize {
        match &self.shm {
            Some(shm) if !is_udp(route) => shm.datagram_bytes_max(route),
            _ => self.udp.datagram_bytes_max(without_bit(route)),
        }
    }

    /// The socket's.
    fn receive_buffer_bytes(&self) -> usize {
        self.udp.receive_buffer_bytes()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.epoll.as_ref().map(AsFd::as_fd).or_else(|| self.udp.descriptor())
    }

    fn prepare_to_sleep(&mut self) -> bool {
        self.shm.as_mut().is_none_or(ShmIo::prepare_to_sleep) && self.udp.prepare_to_sleep()
    }

    /// Both together.
    fn stats(&self) -> IoStats {
        let mut stats = self.udp.stats();
        if let Some(shm) = &self.shm {
            stats.add(&shm.stats());
        }
        stats
    }
}

fn transmit_udp(udp: &mut UdpIo, packets: &[TxPacket<'_>]) -> usize {
    let mut taken = 0;
    for batch in packets.chunks(TX_BATCH_MAX) {
        let batch: ArrayVec<TxPacket<'_>, TX_BATCH_MAX> = batch
            .iter()
            .map(|packet| TxPacket { route: without_bit(packet.route), ..*packet })
            .collect();
        let count = udp.transmit(&batch);
        taken += count;
        if count < batch.len() {
            break;
        }
    }
    taken
}

#[cfg(test)]
mod tests;
