//! The packet I/O backends that an endpoint can own: a closed set, matched once per batch.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use petasos_netio::memory::MemoryIo;
use petasos_netio::{IoStats, PacketIo, Route, RouteError, RxBatch, TxPacket};
use petasos_netio_udp::UdpIo;

/// One of the backends. Variants differ in size; there is one per endpoint, so that is fine.
pub enum Backend {
    /// Kernel UDP sockets.
    Udp(Box<UdpIo>),
    /// Ports in this thread's memory: loopback and simulation.
    Memory(MemoryIo),
}

macro_rules! each {
    ($backend:expr, $io:ident => $call:expr) => {
        match $backend {
            Backend::Udp($io) => $call,
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

    fn route(&mut self, peer: SocketAddr) -> Result<Route, RouteError> {
        each!(self, io => io.route(peer))
    }

    fn release_route(&mut self, route: Route) {
        each!(self, io => io.release_route(route));
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

    fn stats(&self) -> IoStats {
        each!(self, io => io.stats())
    }
}
