//! UDP and rings combined: routes, batches and sleep.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use arrayvec::ArrayVec;
use petasos_netio::{
    IoStats, Origin, PacketIo, Route, RouteError, RxBatch, SetupError, TX_BATCH_MAX, TxPacket,
};
use petasos_netio_shm::{ShmConfig, ShmIo, ShmStats};
use petasos_netio_udp::UdpIo;
use rustix::event::epoll;

use crate::config::{LocalConfig, LocalPolicy};
use crate::turns::Turns;

/// Marks routes over UDP. The routes of rings are passed through unchanged, because a turn takes
/// much less time there.
const UDP_BIT: u32 = 1 << 31;

/// Packet I/O over UDP and, to processes of the same host, shared memory.
pub struct LocalIo {
    udp: UdpIo,
    shm: Option<ShmIo>,
    /// Waits for the socket and the rings together.
    epoll: Option<OwnedFd>,
    turns: Turns,
}

impl LocalIo {
    /// Opens a socket at `address`, and rings whose name is independent of it.
    ///
    /// # Errors
    /// The socket's: see [`SetupError`]. If there can be no rings, that is no error: see
    /// [`LocalIo::has_rings`].
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

    /// How many processes of this host are connected by rings now.
    pub fn links(&self) -> usize {
        self.shm.as_ref().map_or(0, ShmIo::links)
    }

    /// Counters of the links; zeros without rings.
    pub fn link_stats(&self) -> ShmStats {
        self.shm.as_ref().map_or(ShmStats::default(), ShmIo::link_stats)
    }

    /// Starts to use ECN: see [`UdpIo::set_ecn_capable`].
    ///
    /// # Errors
    /// The system's.
    pub fn set_ecn_capable(&mut self) -> Result<(), SetupError> {
        self.udp.set_ecn_capable()
    }

    /// The rings, if there are any.
    pub fn rings(&self) -> Option<&ShmIo> {
        self.shm.as_ref()
    }

    /// How many bytes can wait where packets from the peer on `route` arrive.
    pub fn room_bytes(&self, route: Route) -> usize {
        match &self.shm {
            Some(shm) if !is_udp(route) => shm.receive_buffer_bytes(),
            _ => self.udp.receive_buffer_bytes(),
        }
    }

    /// Calls `tell` with routes over rings that are lost: see [`ShmIo::on_lost`].
    pub fn on_lost(&mut self, tell: impl FnMut(Route) + Send + 'static) {
        if let Some(shm) = &mut self.shm {
            shm.on_lost(tell);
        }
    }

    /// A route over the rings to the process with this name.
    ///
    /// # Errors
    /// See [`RouteError`]; `Unsupported` without rings.
    pub fn local_route(&mut self, name: SocketAddr) -> Result<Route, RouteError> {
        self.with_rings(|shm| shm.route(name))
    }

    /// A route over the rings to the process with this name, which has already connected to this
    /// one.
    ///
    /// # Errors
    /// See [`RouteError`]; `Unsupported` without rings.
    pub fn local_route_met(&mut self, name: SocketAddr) -> Result<Route, RouteError> {
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

/// `None` if the system does not allow rings.
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

    /// The socket's address.
    fn local_address(&self) -> SocketAddr {
        self.udp.local_address()
    }

    fn datagram_bytes_max(&self, route: Route) -> usize {
        match &self.shm {
            Some(shm) if !is_udp(route) => shm.datagram_bytes_max(route),
            _ => self.udp.datagram_bytes_max(without_bit(route)),
        }
    }

    /// The socket's buffer.
    fn receive_buffer_bytes(&self) -> usize {
        self.udp.receive_buffer_bytes()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.epoll.as_ref().map(AsFd::as_fd).or_else(|| self.udp.descriptor())
    }

    fn prepare_to_sleep(&mut self) -> bool {
        self.shm.as_mut().is_none_or(ShmIo::prepare_to_sleep) && self.udp.prepare_to_sleep()
    }

    /// The sums over both.
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
