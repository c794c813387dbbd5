//! Packet I/O without packets: for loops whose sessions are all external.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use petasos_netio::{IoStats, PacketIo, Route, RouteError, RxBatch, TxPacket};
use rustix::event::{EventfdFlags, eventfd};

/// Reaches nobody, and costs a turn of the loop nothing.
pub struct NoPackets {
    /// Never readable. A loop sleeps only if its packet I/O has a descriptor.
    descriptor: OwnedFd,
}

impl NoPackets {
    /// # Errors
    /// The system's, if it has no descriptor left.
    pub fn new() -> io::Result<NoPackets> {
        Ok(NoPackets { descriptor: eventfd(0, EventfdFlags::CLOEXEC)? })
    }
}

impl PacketIo for NoPackets {
    fn receive(&mut self) -> RxBatch<'_> {
        RxBatch::EMPTY
    }

    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> usize {
        packets.len()
    }

    fn transmit_train(&mut self, _: Route, bytes: &[u8], segment_bytes: usize) -> usize {
        bytes.len().div_ceil(segment_bytes.max(1))
    }

    fn route(&mut self, _: SocketAddr) -> Result<Route, RouteError> {
        Err(RouteError::Unreachable(io::ErrorKind::Unsupported.into()))
    }

    fn release_route(&mut self, _: Route) {}

    /// None: the unspecified address.
    fn local_address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))
    }

    fn datagram_bytes_max(&self, _: Route) -> usize {
        0
    }

    fn receive_buffer_bytes(&self) -> usize {
        0
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.descriptor.as_fd())
    }

    fn stats(&self) -> IoStats {
        IoStats::default()
    }
}
