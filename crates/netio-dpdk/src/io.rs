//! The backend: a port, its neighbours, its routes, and the counters.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use arrayvec::ArrayVec;
use petasos_base::Clock;
use petasos_netio::{
    Ecn, IoStats, Origin, PacketIo, Route, RouteError, RxBatch, RxChunk, TxPacket, check_peer,
};
use petasos_netio_frame::{
    Flaw, Mac, Neighbour, NeighbourFrame, RouteTable, Template, UDP_BYTES, V4_BYTES, V6_BYTES,
    validate,
};

use crate::config::is_virtual;
use crate::neighbours::Neighbours;
use crate::sys::{BURST_MAX, Port};
use crate::{DpdkConfig, DpdkError, DpdkStats};

/// Packet I/O over one DPDK port.
///
/// It may be used from any thread, one at a time. It has no descriptor to sleep on, because DPDK's
/// drivers only work by polling.
///
/// The counters: the driver makes the system calls, which are not visible here.
/// [`IoStats::rx_errors`] counts frames with a flaw, which [`DpdkStats`] tells apart, and those
/// that the device found damaged. [`IoStats::rx_overflows`] counts frames that the device dropped,
/// if it counts them.
///
/// Without a link, the driver either accepts packets and loses them, or refuses them as if its ring
/// were full. That depends on the driver.
pub struct DpdkIo {
    port: Port,
    chunks: ArrayVec<RxChunk, BURST_MAX>,
    /// Where each chunk comes from.
    origins: ArrayVec<Origin, BURST_MAX>,
    heard: ArrayVec<Neighbour, BURST_MAX>,
    routes: RouteTable,
    neighbours: Neighbours,
    local: (Mac, SocketAddr),
    ecn: Ecn,
    limit: usize,
    resolve_wait: Duration,
    is_virtual: bool,
    /// Keeps the kernel from giving the port to other sockets, and from answering datagrams to it.
    _beside: Option<UdpSocket>,
    stats: IoStats,
    own_stats: DpdkStats,
}

impl DpdkIo {
    /// Opens a backend on `config.device`. It must be the only one with `address` there. Port 0
    /// takes any free one.
    ///
    /// The kernel may have the same address, if it also has the device (packet sockets, bifurcated
    /// drivers). Then the port is reserved in the kernel as well.
    ///
    /// # Errors
    /// See [`DpdkError`].
    pub fn bind(address: SocketAddr, config: &DpdkConfig) -> Result<DpdkIo, DpdkError> {
        let ip = address.ip();
        if ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() {
            return Err(DpdkError::AddressUnspecific(ip));
        }
        let neighbours = Neighbours::new(ip, config)?;
        let (address, beside) = reserve(address)?;
        let port = Port::open(config)?;
        let headers = UDP_BYTES + if ip.is_ipv4() { V4_BYTES } else { V6_BYTES };
        let limit = port.setup.mtu.saturating_sub(headers).min(config.datagram_bytes_max);
        Ok(DpdkIo {
            chunks: ArrayVec::new(),
            origins: ArrayVec::new(),
            heard: ArrayVec::new(),
            routes: RouteTable::new(config.routes_max),
            neighbours,
            local: (port.setup.mac, address),
            ecn: if config.ecn_capable { Ecn::Capable0 } else { Ecn::NotCapable },
            limit,
            resolve_wait: Duration::from_millis(config.resolve_wait_ms),
            is_virtual: is_virtual(&config.device),
            _beside: beside,
            stats: IoStats::default(),
            own_stats: DpdkStats::default(),
            port,
        })
    }

    /// Our Ethernet address.
    pub fn mac(&self) -> Mac {
        self.local.0
    }

    /// Whether the port has a link.
    pub fn is_up(&self) -> bool {
        self.port.is_up()
    }

    /// Whether the port is a virtual device, which is software that shares the processors with
    /// others.
    pub fn is_virtual(&self) -> bool {
        self.is_virtual
    }

    /// The largest datagram payload, in bytes, which is the same for every peer.
    pub fn payload_bytes_max(&self) -> usize {
        self.limit
    }

    /// Sets the ECN bits of all packets sent from now on.
    pub fn set_ecn(&mut self, ecn: Ecn) {
        self.ecn = ecn;
        self.routes.set_ecn(ecn);
    }

    /// Detailed counters.
    pub fn dpdk_stats(&self) -> DpdkStats {
        let counters = self.port.counters();
        DpdkStats { rx_missed: counters.rx_missed + counters.rx_no_mbuf, ..self.own_stats }
    }

    /// Lends the received frames, and notes where their datagrams are.
    #[inline]
    fn poll(&mut self) {
        self.chunks.clear();
        self.origins.clear();
        let (count, dropped) = self.port.receive();
        self.own_stats.rx_uncopied += u64::from(dropped);
        for at in 0..count {
            let (start, len) = self.port.lent(at);
            let frame = &self.port.memory()[start..start + len];
            match validate(frame, &self.local.1, false) {
                Ok(datagram) if datagram.len > 0 => {
                    let (offset, len) = ((start + datagram.offset) as u32, datagram.len as u32);
                    let ecn = datagram.ecn;
                    self.chunks.push(RxChunk { offset, len, segment_bytes: len, ecn });
                    self.origins.push(self.routes.origin_of(datagram.source));
                    self.stats.rx_bytes += u64::from(len);
                }
                Ok(_) => self.own_stats.rx_empty += 1,
                Err(flaw) => match Neighbour::parse(frame).filter(|_| flaw == Flaw::Protocol) {
                    Some(neighbour) => self.heard.push(neighbour),
                    None => self.own_stats.note(flaw),
                },
            }
        }
        self.stats.rx_frames += self.chunks.len() as u64;
        if !self.heard.is_empty() {
            self.heed();
        }
    }

    /// Answers a neighbour message, and learns from it.
    #[cold]
    fn heed(&mut self) {
        for neighbour in core::mem::take(&mut self.heard) {
            match neighbour {
                Neighbour::Says { address, mac } => self.learn(address, mac),
                Neighbour::Asks { target, from } if target == self.local.1.ip() => {
                    let answer = NeighbourFrame::answer((self.local.0, target), from);
                    let sent = self.send_frame(answer.bytes());
                    self.own_stats.neighbour_answers += u64::from(sent);
                    // The asker is about to send to us (RFC 826, "Packet Reception").
                    if let Some(asker) = from.0 {
                        self.learn(asker, from.1);
                    }
                }
                Neighbour::Asks { .. } => self.own_stats.rx_foreign += 1,
            }
        }
    }

    fn learn(&mut self, address: IpAddr, mac: Mac) {
        if self.neighbours.learn(address, mac) && self.routes.set_mac(address, mac) {
            self.own_stats.neighbour_changes += 1;
        }
    }

    /// Sends a frame unchanged. Returns false if there is no room for it.
    fn send_frame(&mut self, bytes: &[u8]) -> bool {
        if self.port.spare() == 0 {
            return false;
        }
        self.port.fill(0, |room| {
            room[..bytes.len()].copy_from_slice(bytes);
            bytes.len()
        });
        self.port.send(1) == 1
    }

    /// A neighbour's Ethernet address. Waits for a while if it has to be asked for.
    fn resolve(&mut self, hop: IpAddr) -> io::Result<Mac> {
        let clock = Clock::system();
        let end = clock.now() + self.resolve_wait;
        let question = NeighbourFrame::question((self.local.0, self.local.1.ip()), hop);
        let mut next_question = clock.now();
        loop {
            if let Some(mac) = self.neighbours.mac(hop) {
                return Ok(mac);
            }
            let now = clock.now();
            if now >= end {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if now >= next_question {
                self.send_frame(question.bytes());
                next_question = now + QUESTION_INTERVAL;
            }
            self.poll();
            self.own_stats.rx_while_resolving += self.chunks.len() as u64;
            std::thread::yield_now();
        }
    }

    /// Writes packets into spare frames and sends them in bursts. Returns how many were accepted.
    #[inline]
    fn push_all<'p>(&mut self, mut packets: impl Iterator<Item = TxPacket<'p>> + Clone) -> usize {
        let mut taken = 0;
        loop {
            let spare = self.port.spare();
            let (mut filled, mut bytes, mut unfit) = (0, [0u16; BURST_MAX], false);
            let mut burst = packets.clone();
            while filled < spare {
                let Some(packet) = burst.next() else { break };
                let len = packet.len();
                let entry = self.routes.get(packet.route);
                let fits = |max: usize| (1..=max.min(self.limit)).contains(&len);
                let Some(entry) = entry.filter(|entry| fits(entry.datagram_bytes_max)) else {
                    unfit = true;
                    break;
                };
                self.port.fill(filled, |room| entry.template.write(room, packet.head, packet.body));
                bytes[filled] = len as u16;
                filled += 1;
            }
            let sent = if filled > 0 { self.port.send(filled) } else { 0 };
            self.stats.tx_frames += sent as u64;
            self.stats.tx_bytes += bytes[..sent].iter().map(|len| u64::from(*len)).sum::<u64>();
            taken += sent;
            if sent < filled || (spare == 0 && burst.next().is_some()) {
                self.stats.tx_full += 1;
                return taken;
            }
            if unfit {
                self.stats.tx_errors += 1;
                taken += 1;
            } else if filled < spare || spare == 0 {
                return taken;
            }
            packets = burst;
        }
    }
}

impl PacketIo for DpdkIo {
    #[inline]
    fn receive(&mut self) -> RxBatch<'_> {
        self.poll();
        RxBatch { memory: self.port.memory(), chunks: &self.chunks, origins: &self.origins }
    }

    #[inline]
    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> usize {
        self.push_all(packets.iter().copied())
    }

    #[inline]
    fn transmit_train(&mut self, route: Route, bytes: &[u8], segment_bytes: usize) -> usize {
        self.push_all(bytes.chunks(segment_bytes).map(|head| TxPacket { route, head, body: &[] }))
    }

    fn route(&mut self, peer: SocketAddr) -> Result<Route, RouteError> {
        check_peer(self.local.1, peer)?;
        if peer.ip() == self.local.1.ip() {
            return Err(RouteError::Unreachable(io::ErrorKind::InvalidInput.into()));
        }
        if let Some(route) = self.routes.hold(peer) {
            return Ok(route);
        }
        if !self.routes.has_room() {
            return Err(RouteError::TableFull);
        }
        let hop = self.neighbours.hop(peer.ip());
        let nowhere = || RouteError::Unreachable(io::ErrorKind::NetworkUnreachable.into());
        let hop = hop.ok_or_else(nowhere)?;
        let mac = self.resolve(hop).map_err(RouteError::Unreachable)?;
        let template = Template::new(self.local, (mac, peer), self.ecn);
        self.routes.insert(peer, (hop, mac), template, self.limit)
    }

    fn release_route(&mut self, route: Route) {
        self.routes.release(route);
    }

    fn origin(&self, route: Route) -> Origin {
        Origin(route.0)
    }

    fn local_address(&self) -> SocketAddr {
        self.local.1
    }

    fn datagram_bytes_max(&self, route: Route) -> usize {
        self.routes.get(route).map_or(0, |entry| entry.datagram_bytes_max)
    }

    /// Each packet takes a whole frame, however short it is. So this counts as many packets of the
    /// greatest length as there are descriptors.
    fn receive_buffer_bytes(&self) -> usize {
        self.port.setup.rx_descriptors * self.limit
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn stats(&self) -> IoStats {
        let counters = self.port.counters();
        IoStats {
            rx_overflows: counters.rx_missed + counters.rx_no_mbuf,
            rx_errors: self.own_stats.flawed() + counters.rx_errors,
            ..self.stats
        }
    }
}

/// The address with a port, and the kernel's socket for it if the kernel has the address, too. The
/// socket is never read: once it is full, the kernel drops its copies of our datagrams.
fn reserve(address: SocketAddr) -> Result<(SocketAddr, Option<UdpSocket>), DpdkError> {
    let system = |error| DpdkError::System { attempt: "reserve the UDP port", error };
    let error = match UdpSocket::bind(address) {
        Ok(socket) => return Ok((socket.local_addr().map_err(system)?, Some(socket))),
        Err(error) => error,
    };
    match (error.kind(), address.port()) {
        (io::ErrorKind::AddrInUse, _) => Err(DpdkError::AddressInUse(address)),
        (io::ErrorKind::PermissionDenied, _) => Err(system(error)),
        // The kernel does not have the address, so all of its ports are free for us.
        (_, 0) => Ok((SocketAddr::new(address.ip(), PORT_ALONE), None)),
        _ => Ok((address, None)),
    }
}

/// The UDP port of an endpoint that does not share its address.
const PORT_ALONE: u16 = 7412;
const QUESTION_INTERVAL: Duration = Duration::from_millis(20);
