//! Packet I/O between ports in one thread's memory: no system calls.
//!
//! A [`Hub`] joins [`MemoryIo`] ports. A *direct* hub puts a transmitted packet into the receiver's
//! inbox at once (the `loopback` transport: only the protocol's own cost remains). A *captured* hub
//! hands it to the hub's driver, who delivers it later, twice, damaged, or never (simulation).
//!
//! An inbox is two buffers that swap: one fills while the frames of the other are borrowed.

mod rings;

use core::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use self::rings::{Arrived, Rings, is_ring};
use crate::{Ecn, IoStats, Origin, PacketIo, Route, RouteError, RxBatch, RxChunk, TxPacket};

pub use self::rings::RingConfig;

/// Limits of a hub's ports.
#[derive(Clone, Copy, Debug)]
pub struct MemoryConfig {
    /// Largest datagram payload, in bytes.
    pub datagram_bytes_max: usize,
    /// The most frames that an inbox holds. Further ones are dropped and counted.
    pub inbox_frames_max: usize,
}

impl Default for MemoryConfig {
    fn default() -> MemoryConfig {
        MemoryConfig { datagram_bytes_max: 1472, inbox_frames_max: 4096 }
    }
}

/// A packet that a captured hub took from a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Port number of the sender.
    pub from: u32,
    /// Port number of the receiver.
    pub to: u32,
    /// The datagram's payload.
    pub bytes: Vec<u8>,
}

#[derive(Default)]
struct Inbox {
    memory: Vec<u8>,
    chunks: Vec<RxChunk>,
    frames: usize,
    arrived: Arrived,
}

impl Inbox {
    #[inline]
    fn push(&mut self, head: &[u8], body: &[u8], ecn: Ecn) {
        let offset = self.memory.len() as u32;
        self.memory.extend_from_slice(head);
        self.memory.extend_from_slice(body);
        let len = self.memory.len() as u32 - offset;
        self.chunks.push(RxChunk { offset, len, segment_bytes: len, ecn });
        self.frames += 1;
    }

    /// Takes as many frames of a train as there is room for below `frames_max`; returns how many.
    fn push_train(&mut self, train: &[u8], segment_bytes: usize, frames_max: usize) -> usize {
        let frames = train.len().div_ceil(segment_bytes);
        let taken = frames.min(frames_max - self.frames);
        let len = train.len().min(taken * segment_bytes);
        if len > 0 {
            let offset = self.memory.len() as u32;
            self.memory.extend_from_slice(&train[..len]);
            let (len, segment_bytes) = (len as u32, segment_bytes as u32);
            self.chunks.push(RxChunk { offset, len, segment_bytes, ecn: Ecn::Capable0 });
            self.frames += taken;
        }
        taken
    }

    fn clear(&mut self) {
        self.memory.clear();
        self.chunks.clear();
        self.frames = 0;
        self.arrived.clear();
    }
}

struct Port {
    inbox: Inbox,
    overflows: u64,
}

struct Shared {
    ports: Vec<Port>,
    captured: Option<Vec<Captured>>,
    /// Whether the ports of a captured hub refuse everything that is sent.
    blocked: bool,
    rings: Option<Rings>,
    config: MemoryConfig,
}

/// Joins ports. A clone is another handle to the same hub.
#[derive(Clone)]
pub struct Hub {
    shared: Rc<RefCell<Shared>>,
}

impl Hub {
    /// A hub that delivers packets at once.
    pub fn direct(config: MemoryConfig) -> Hub {
        Hub::with_capture(config, None)
    }

    /// A hub that keeps every packet for [`Hub::take_captured`].
    pub fn captured(config: MemoryConfig) -> Hub {
        Hub::with_capture(config, Some(Vec::new()))
    }

    fn with_capture(config: MemoryConfig, captured: Option<Vec<Captured>>) -> Hub {
        let (ports, rings) = (Vec::new(), None);
        let shared = Shared { ports, captured, blocked: false, rings, config };
        Hub { shared: Rc::new(RefCell::new(shared)) }
    }

    /// Adds a port. Ports are numbered from 0 in the order of their creation.
    pub fn port(&self) -> MemoryIo {
        let mut shared = self.shared.borrow_mut();
        let number = shared.ports.len() as u32;
        shared.ports.push(Port { inbox: Inbox::default(), overflows: 0 });
        MemoryIo {
            config: shared.config,
            shared: Rc::clone(&self.shared),
            number,
            draining: Inbox::default(),
            stats: IoStats::default(),
        }
    }

    /// Makes the ports of a captured hub refuse all packets, as a full socket does, or accept them
    /// again.
    pub fn block(&self, blocked: bool) {
        self.shared.borrow_mut().blocked = blocked;
    }

    /// Appends the packets that ports have sent since the last call to `packets`, in the order of
    /// sending. A direct hub has none.
    pub fn take_captured(&self, packets: &mut Vec<Captured>) {
        if let Some(captured) = &mut self.shared.borrow_mut().captured {
            packets.append(captured);
        }
    }

    /// Puts a datagram into the inbox of port `to`. Returns false if the inbox is full or there is
    /// no such port.
    pub fn deliver(&self, to: u32, bytes: &[u8], ecn: Ecn) -> bool {
        let mut shared = self.shared.borrow_mut();
        match shared.rings {
            Some(_) => shared.deliver_beside_rings(to, bytes, ecn),
            None => shared.deliver(to, bytes, &[], ecn),
        }
    }

    /// Trains waiting in the inbox of port `number`. A single frame counts as a train.
    pub fn waiting_trains(&self, number: u32) -> usize {
        self.shared.borrow().ports[number as usize].inbox.chunks.len()
    }

    /// Frames waiting in the inbox of port `number`.
    pub fn waiting(&self, number: u32) -> usize {
        self.shared.borrow().ports[number as usize].inbox.frames
    }
}

impl Shared {
    #[inline]
    fn deliver(&mut self, to: u32, head: &[u8], body: &[u8], ecn: Ecn) -> bool {
        let Some(port) = self.ports.get_mut(to as usize) else { return false };
        if port.inbox.frames >= self.config.inbox_frames_max {
            port.overflows += 1;
            return false;
        }
        port.inbox.push(head, body, ecn);
        true
    }
}

/// One port of a [`Hub`].
pub struct MemoryIo {
    config: MemoryConfig,
    shared: Rc<RefCell<Shared>>,
    number: u32,
    draining: Inbox,
    stats: IoStats,
}

impl MemoryIo {
    /// The address of port `number`: a loopback address, because ports have no address family.
    pub fn address(number: u32) -> SocketAddr {
        let [_, high, middle, low] = number.to_be_bytes();
        SocketAddr::from((Ipv4Addr::new(127, high, middle, low), 1))
    }

    /// This port's number.
    pub fn number(&self) -> u32 {
        self.number
    }
}

impl PacketIo for MemoryIo {
    #[inline]
    fn receive(&mut self) -> RxBatch<'_> {
        self.draining.clear();
        {
            let mut shared = self.shared.borrow_mut();
            let port = &mut shared.ports[self.number as usize];
            core::mem::swap(&mut port.inbox, &mut self.draining);
        }
        self.stats.rx_frames += self.draining.frames as u64;
        self.stats.rx_bytes += self.draining.memory.len() as u64;
        RxBatch {
            memory: &self.draining.memory,
            chunks: &self.draining.chunks,
            origins: &self.draining.arrived.origins,
        }
    }

    #[inline]
    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> usize {
        let mut shared = self.shared.borrow_mut();
        if shared.blocked {
            return 0;
        }
        for (at, packet) in packets.iter().enumerate() {
            if packet.len() > self.config.datagram_bytes_max || packet.is_empty() {
                self.stats.tx_errors += 1;
                continue;
            }
            self.stats.tx_frames += 1;
            self.stats.tx_bytes += packet.len() as u64;
            match &mut shared.captured {
                None => _ = shared.deliver(packet.route.0, packet.head, packet.body, Ecn::Capable0),
                Some(_) if is_ring(packet.route) => {
                    if !shared.ring(self.number, packet) {
                        self.stats.tx_frames -= 1;
                        self.stats.tx_bytes -= packet.len() as u64;
                        return at;
                    }
                }
                Some(captured) => captured.push(Captured {
                    from: self.number,
                    to: packet.route.0,
                    bytes: [packet.head, packet.body].concat(),
                }),
            }
        }
        packets.len()
    }

    #[inline]
    fn transmit_train(&mut self, route: Route, bytes: &[u8], segment_bytes: usize) -> usize {
        let frames = bytes.len().div_ceil(segment_bytes);
        let mut shared = self.shared.borrow_mut();
        let direct = shared.captured.is_none() && segment_bytes <= self.config.datagram_bytes_max;
        if !direct {
            drop(shared);
            let packet = |head| TxPacket { route, head, body: &[] };
            return bytes.chunks(segment_bytes).map(|head| self.transmit(&[packet(head)])).sum();
        }
        self.stats.tx_frames += frames as u64;
        self.stats.tx_bytes += bytes.len() as u64;
        let frames_max = self.config.inbox_frames_max;
        if let Some(port) = shared.ports.get_mut(route.0 as usize) {
            let taken = port.inbox.push_train(bytes, segment_bytes, frames_max);
            port.overflows += (frames - taken) as u64;
        }
        frames
    }

    fn route(&mut self, peer: SocketAddr) -> Result<Route, RouteError> {
        match peer {
            SocketAddr::V4(v4) if v4.ip().octets()[0] == 127 && v4.port() == 1 => {
                let [_, high, middle, low] = v4.ip().octets();
                Ok(Route(u32::from_be_bytes([0, high, middle, low])))
            }
            _ => Err(RouteError::WrongFamily(peer)),
        }
    }

    fn release_route(&mut self, _route: Route) {}

    /// A full ring holds back only packets into that ring.
    fn holds_back(&self, full: Route, other: Route) -> bool {
        !is_ring(full) || full == other
    }

    fn origin(&self, route: Route) -> Origin {
        self.origin_of(route)
    }

    fn local_address(&self) -> SocketAddr {
        MemoryIo::address(self.number)
    }

    fn datagram_bytes_max(&self, _route: Route) -> usize {
        self.config.datagram_bytes_max
    }

    fn receive_buffer_bytes(&self) -> usize {
        self.config.inbox_frames_max * self.config.datagram_bytes_max
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn stats(&self) -> IoStats {
        let overflows = self.shared.borrow().ports[self.number as usize].overflows;
        IoStats { rx_overflows: overflows, ..self.stats }
    }
}
