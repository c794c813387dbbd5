//! The backend: a socket, its steering, its routes, and the counters.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use arrayvec::ArrayVec;
use petasos_netio::{
    Ecn, IoStats, Origin, PacketIo, Route, RouteError, RxBatch, RxChunk, TxPacket, check_peer,
};

use crate::error::{XdpError, system};
use crate::program::Steering;
use crate::socket::{CopyMode, XskSocket, reserve};
use crate::stats::XdpStats;
use crate::sys::{self, RX_BATCH_MAX};
use crate::upkeep::{Upkeep, now, read_changes};
use crate::{XdpConfig, XdpMode};
use petasos_netio_frame::RouteTable;
use petasos_netio_frame::{ETHERNET_BYTES, Mac, Template, UDP_BYTES, V4_BYTES, V6_BYTES, validate};
use petasos_netlink::{Interface, NeighbourState, Netlink};

/// Packet I/O over one AF_XDP socket.
///
/// It is opened in the network namespace of the calling thread and stays in it. Afterwards any
/// thread may use it, one at a time.
///
/// The counters: [`IoStats::rx_errors`] counts faulty frames, which [`XdpStats`] tells apart.
/// [`IoStats::rx_overflows`] is the kernel's count of frames that found no room.
/// [`IoStats::tx_frames`] counts frames passed to the driver; if the driver drops one,
/// [`IoStats::tx_errors`] counts it as well.
///
/// While the interface is down, packets are accepted, counted and dropped; when it is up again,
/// sending continues. A route's limit is what the path allows when the route is made.
pub struct XdpIo {
    // Dropped in this order: first no more frames are steered here, then the socket is closed.
    steering: Steering,
    socket: XskSocket,
    chunks: ArrayVec<RxChunk, RX_BATCH_MAX>,
    /// Where each chunk comes from.
    origins: ArrayVec<Origin, RX_BATCH_MAX>,
    routes: RouteTable,
    netlink: Netlink,
    upkeep: Upkeep,
    /// Holds the UDP port. It receives, drops and counts the datagrams that the steering program
    /// leaves to the kernel.
    reservation: UdpSocket,
    local: (Mac, SocketAddr),
    interface: Interface,
    ecn: Ecn,
    partial_checksums: bool,
    datagram_bytes_max: usize,
    receive_buffer_bytes: usize,
    resolve_wait: Duration,
    /// Whether the interface was down when it was last used.
    down: bool,
    /// Whether the transmit ring has frames that the kernel refused.
    unsent: bool,
    /// Whether more follows at once, so that the kernel is not told of each part.
    in_batch: bool,
    stats: IoStats,
    own_stats: XdpStats,
}

impl XdpIo {
    /// Opens a backend at `address`, which must belong to an interface; with port 0 the system
    /// chooses one. An ordinary socket reserves the port for as long as the backend exists.
    ///
    /// # Errors
    /// See [`XdpError`].
    pub fn bind(address: SocketAddr, config: &XdpConfig) -> Result<XdpIo, XdpError> {
        check_address(address.ip())?;
        let mut netlink = Netlink::open().map_err(|error| system("open netlink", error))?;
        let reservation = reserve(address)?;
        let port = reservation.local_addr().map_err(|error| system("read the port", error))?;
        let address = SocketAddr::new(address.ip(), port.port());
        let interface = find_interface(&mut netlink, address.ip(), config)?;
        let mac = check_interface(&interface, config)?;
        let mut steering = Steering::attach(&mut netlink, &interface, config.attach)?;
        let socket_config = config.socket(&interface, steering.mode())?;
        let socket = XskSocket::open(interface.index, config.queue, &socket_config)?;
        steering.start(address, config.queue, &socket)?;
        let frame_bytes_max = socket_config.rx_frame_bytes_max();
        let frame_bytes_max = frame_bytes_max.min(interface.mtu as usize + ETHERNET_BYTES);
        Ok(XdpIo {
            steering,
            socket,
            chunks: ArrayVec::new(),
            origins: ArrayVec::new(),
            routes: RouteTable::new(config.routes_max),
            netlink,
            upkeep: Upkeep::new(),
            reservation,
            local: (mac, address),
            ecn: if config.ecn_capable { Ecn::Capable0 } else { Ecn::NotCapable },
            partial_checksums: config.partial_checksums,
            datagram_bytes_max: config.datagram_bytes_max,
            receive_buffer_bytes: (config.rx_frames as usize - RX_BATCH_MAX) * frame_bytes_max,
            resolve_wait: Duration::from_millis(config.resolve_wait_ms),
            interface,
            down: false,
            unsent: false,
            in_batch: false,
            stats: IoStats::default(),
            own_stats: XdpStats::default(),
        })
    }

    /// Where the steering program runs.
    pub fn mode(&self) -> XdpMode {
        self.steering.mode()
    }

    /// Whether the driver copies.
    pub fn copy_mode(&self) -> CopyMode {
        self.socket.copy_mode()
    }

    /// Whether the frames lie in huge pages.
    pub fn huge_pages(&self) -> bool {
        self.socket.huge_pages()
    }

    /// The name of the interface in use, as it was when the backend was opened.
    pub fn interface(&self) -> &str {
        &self.interface.name
    }

    /// How many queues the interface had when the backend was opened. This one hears what arrives
    /// on one of them.
    pub fn interface_queues(&self) -> u32 {
        self.interface.rx_queues
    }

    /// Whether the interface was up when it was last used to send.
    pub fn is_up(&self) -> bool {
        !self.down
    }

    /// Sets the ECN bits of all packets sent from now on.
    pub fn set_ecn(&mut self, ecn: Ecn) {
        self.ecn = ecn;
        self.routes.set_ecn(ecn);
    }

    /// The AF_XDP socket, for measurements. Frames that are received or queued on it directly are
    /// neither counted nor checked.
    pub fn socket(&mut self) -> &mut XskSocket {
        &mut self.socket
    }

    /// The Ethernet frame that carries `payload` to `route`; `None` if it would not be sent.
    pub fn frame(&self, route: Route, payload: &[u8]) -> Option<Vec<u8>> {
        let entry = self.routes.get(route);
        let entry =
            entry.filter(|entry| (1..=entry.datagram_bytes_max).contains(&payload.len()))?;
        let mut frame = vec![0; payload.len() + FRAME_OVERHEAD_BYTES_MAX];
        let len = entry.template.write(&mut frame, payload, &[]);
        frame.truncate(len);
        Some(frame)
    }

    /// What happened to packets, in detail.
    pub fn xdp_stats(&self) -> XdpStats {
        let mut stats = self.own_stats;
        stats.rx_diverted = sys::drops(&self.reservation).map_or(0, u64::from);
        if let Ok(kernel) = self.socket.kernel_statistics() {
            stats.rx_no_frame = kernel.rx_dropped;
            stats.rx_ring_full = kernel.rx_ring_full.unwrap_or(0);
        }
        stats
    }

    /// Maintenance work that is done in every 64th call.
    #[cold]
    fn look_up(&mut self) {
        if self.unsent {
            self.flush();
        }
        if self.upkeep.is_due() {
            let index = self.interface.index;
            let changes = self.upkeep.run(&mut self.netlink, index, &mut self.routes);
            self.own_stats.neighbour_changes += changes;
        }
    }

    /// Writes a packet into a frame of the transmit ring. Returns false if there is no free frame.
    #[inline]
    fn push(&mut self, packet: &TxPacket<'_>) -> bool {
        let len = packet.len();
        let entry = self.routes.get(packet.route);
        let Some(entry) = entry.filter(|entry| len > 0 && len <= entry.datagram_bytes_max) else {
            self.stats.tx_errors += 1;
            return true;
        };
        let (_, tx) = self.socket.halves();
        let Some(frame) = tx.frame() else { return false };
        let frame_len = entry.template.write(frame, packet.head, packet.body);
        tx.push(frame_len);
        self.stats.tx_frames += 1;
        self.stats.tx_bytes += len as u64;
        true
    }

    #[inline]
    fn push_all<'p>(&mut self, packets: impl Iterator<Item = TxPacket<'p>>) -> usize {
        let mut taken = 0;
        for packet in packets {
            if !self.push(&packet) {
                // Sending the queued frames may free some at once.
                self.flush();
                if self.down {
                    self.drop_packet();
                } else if !self.push(&packet) {
                    self.stats.tx_full += 1;
                    break;
                }
            }
            taken += 1;
        }
        if !self.in_batch {
            self.flush();
        }
        taken
    }

    /// Sends the frames in the ring.
    #[inline]
    fn flush(&mut self) {
        let (_, tx) = self.socket.halves();
        let flush = tx.flush();
        self.unsent = tx.unsent() > 0;
        self.stats.tx_syscalls += u64::from(flush.syscalls);
        self.stats.tx_errors += u64::from(flush.dropped);
        self.own_stats.tx_dropped += u64::from(flush.dropped);
        self.down = flush.down;
    }

    /// Whether the interface is still down, after an attempt to send what is left in the ring.
    #[cold]
    fn still_down(&mut self) -> bool {
        self.flush();
        self.down
    }

    #[cold]
    fn drop_packet(&mut self) {
        self.stats.tx_errors += 1;
        self.own_stats.tx_down += 1;
    }

    /// The Ethernet address of a neighbour. Waits for a while if the kernel has to ask for it.
    fn resolve(&mut self, hop: IpAddr, peer: IpAddr) -> io::Result<Mac> {
        let index = self.interface.index;
        let mut asked = false;
        let end = now() + self.resolve_wait;
        loop {
            // Read first, so that a change after the question below ends the wait.
            read_changes(&mut self.netlink, index, &mut self.routes);
            match self.netlink.neighbour(index, hop)?.map(|neighbour| neighbour.state) {
                Some(NeighbourState::Known(mac)) => return Ok(mac),
                Some(NeighbourState::Failed) if asked => {
                    return Err(io::ErrorKind::HostUnreachable.into());
                }
                _ if !asked => {
                    self.ask_for(hop, peer)?;
                    asked = true;
                }
                _ => {
                    let rest = end - now();
                    if rest.is_zero() {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    self.netlink.wait_for_change(rest)?;
                }
            }
        }
    }

    /// Makes the kernel ask for a neighbour. For IPv6 it takes an empty datagram to the discard
    /// port: without one, the kernel asks from the interface's link-local address only, and an
    /// interface may have none yet.
    fn ask_for(&mut self, hop: IpAddr, peer: IpAddr) -> io::Result<()> {
        match hop {
            IpAddr::V4(_) => self.netlink.resolve(self.interface.index, hop),
            IpAddr::V6(_) => {
                let mut discard = SocketAddr::new(peer, DISCARD_PORT);
                if let SocketAddr::V6(v6) = &mut discard {
                    v6.set_scope_id(self.interface.index);
                }
                self.reservation.send_to(&[], discard).map(drop)
            }
        }
    }

    /// The neighbour on the way to `peer`, and the largest datagram that goes there unfragmented.
    fn find_way(&mut self, peer: IpAddr) -> io::Result<(IpAddr, usize)> {
        let index = self.interface.index;
        let info = self.netlink.route(peer, self.local.1.ip(), index)?;
        if !info.unicast {
            let text =
                format!("{peer} is this host's own or a group's: AF_XDP reaches others only");
            return Err(io::Error::other(text));
        }
        if info.interface != index {
            let text = format!("the way to {peer} does not lead over {}", self.interface.name);
            return Err(io::Error::other(text));
        }
        let headers = UDP_BYTES + if peer.is_ipv4() { V4_BYTES } else { V6_BYTES };
        let mtu = self.interface.mtu.min(info.mtu.unwrap_or(u32::MAX)) as usize;
        let limit = mtu.saturating_sub(headers).min(self.datagram_bytes_max);
        Ok((info.gateway.unwrap_or(peer), limit))
    }
}

impl PacketIo for XdpIo {
    #[inline]
    fn receive(&mut self) -> RxBatch<'_> {
        if self.upkeep.tick() {
            self.look_up();
        }
        let (rx, _) = self.socket.halves();
        let (memory, descs) = rx.receive();
        self.chunks.clear();
        self.origins.clear();
        for desc in descs {
            let start = desc.offset as usize;
            let frame = &memory[start..start + desc.len as usize];
            match validate(frame, &self.local.1, self.partial_checksums) {
                Ok(datagram) if datagram.len > 0 => {
                    let (offset, len) = ((start + datagram.offset) as u32, datagram.len as u32);
                    self.chunks.push(RxChunk {
                        offset,
                        len,
                        segment_bytes: len,
                        ecn: datagram.ecn,
                    });
                    self.origins.push(self.routes.origin_of(datagram.source));
                    self.stats.rx_bytes += u64::from(len);
                }
                Ok(_) => self.own_stats.rx_empty += 1,
                Err(flaw) => self.own_stats.note(flaw),
            }
        }
        self.stats.rx_frames += self.chunks.len() as u64;
        RxBatch { memory, chunks: &self.chunks, origins: &self.origins }
    }

    #[inline]
    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> usize {
        if self.down && self.still_down() {
            packets.iter().for_each(|_| self.drop_packet());
            return packets.len();
        }
        self.push_all(packets.iter().copied())
    }

    #[inline]
    fn transmit_train(&mut self, route: Route, bytes: &[u8], segment_bytes: usize) -> usize {
        let packets = bytes.chunks(segment_bytes).map(|head| TxPacket { route, head, body: &[] });
        if self.down && self.still_down() {
            return packets.inspect(|_| self.drop_packet()).count();
        }
        self.push_all(packets)
    }

    /// One call to the kernel sends frames of several trains.
    #[inline]
    fn begin_batch(&mut self) {
        self.in_batch = true;
    }

    #[inline]
    fn end_batch(&mut self) {
        self.in_batch = false;
        self.flush();
    }

    fn route(&mut self, peer: SocketAddr) -> Result<Route, RouteError> {
        check_peer(self.local.1, peer)?;
        if let Some(route) = self.routes.hold(peer) {
            return Ok(route);
        }
        if !self.routes.has_room() {
            return Err(RouteError::TableFull);
        }
        let (hop, limit) = self.find_way(peer.ip()).map_err(RouteError::Unreachable)?;
        let mac = self.resolve(hop, peer.ip()).map_err(RouteError::Unreachable)?;
        let template = Template::new(self.local, (mac, peer), self.ecn);
        self.routes.insert(peer, (hop, mac), template, limit)
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

    /// Each packet takes a whole frame, however short it is: as many of the longest as there are
    /// frames, less those that are lent.
    fn receive_buffer_bytes(&self) -> usize {
        self.receive_buffer_bytes
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn stats(&self) -> IoStats {
        let own = self.xdp_stats();
        let (wakeups, empty) = self.socket.wakeups();
        IoStats {
            rx_syscalls: wakeups,
            rx_syscalls_empty: empty,
            rx_overflows: own.rx_no_frame + own.rx_ring_full,
            rx_errors: own.flawed(),
            ..self.stats
        }
    }
}

/// Checks that an address can belong to one interface.
pub(crate) fn check_address(ip: IpAddr) -> Result<(), XdpError> {
    let is_of_one = !ip.is_unspecified() && !ip.is_multicast();
    is_of_one.then_some(()).ok_or(XdpError::AddressUnspecific(ip))
}

/// The interface that was named, or the one that has the address.
pub(crate) fn find_interface(
    netlink: &mut Netlink,
    address: IpAddr,
    config: &XdpConfig,
) -> Result<Interface, XdpError> {
    let ask = |error| system("list the interfaces", error);
    let interfaces = netlink.interfaces().map_err(ask)?;
    let owners = netlink.addresses().map_err(ask)?;
    let has = |index| owners.contains(&(index, address));
    match &config.interface {
        Some(name) => {
            let named = interfaces.into_iter().find(|interface| interface.name == *name);
            let named = named.ok_or_else(|| XdpError::InterfaceMissing(name.clone()))?;
            let elsewhere = || XdpError::AddressElsewhere { name: name.clone(), address };
            has(named.index).then_some(named).ok_or_else(elsewhere)
        }
        None => {
            let owner = interfaces.into_iter().find(|interface| has(interface.index));
            owner.ok_or(XdpError::AddressNotLocal(SocketAddr::new(address, 0)))
        }
    }
}

/// Checks what can be checked before anything is attached. Returns the interface's Ethernet
/// address.
pub(crate) fn check_interface(interface: &Interface, config: &XdpConfig) -> Result<Mac, XdpError> {
    let mac = check_link(interface)?;
    if config.queue >= interface.rx_queues.min(interface.tx_queues) {
        return Err(XdpError::QueueMissing { queue: config.queue });
    }
    crate::config::frame_bytes(config.frame_bytes, interface)?;
    Ok(mac)
}

/// Whether frames of Ethernet come and go. Returns the interface's Ethernet address.
pub(crate) fn check_link(interface: &Interface) -> Result<Mac, XdpError> {
    let name = interface.name.clone();
    if interface.loopback {
        return Err(XdpError::InterfaceUnsuitable { name, kind: "loopback" });
    }
    let Some(mac) = interface.mac else {
        return Err(XdpError::InterfaceUnsuitable { name, kind: "another link type" });
    };
    if !interface.up {
        return Err(XdpError::InterfaceDown(name));
    }
    Ok(mac)
}

/// At least the bytes of all headers.
const FRAME_OVERHEAD_BYTES_MAX: usize = 64;
/// The discard port (RFC 863): datagrams to it are dropped.
const DISCARD_PORT: u16 = 9;
