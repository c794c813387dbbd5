//! A router's packet I/O, of which a test decides what is one batch.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use petasos_netio::{
    Frame, IoStats, Origin, PacketIo, Route, RouteError, RxBatch, RxChunk, TxPacket,
};
use petasos_netio_conformance::turns;

/// A packet I/O that receives all that is under way to it as one batch. Origins are those that it
/// reports itself, at that moment.
pub struct Gathered<I> {
    io: I,
    /// Packets that were sent here, and those of them that were received.
    expected: u64,
    received: u64,
    /// Those that a tier has taken.
    taken: Option<Box<dyn Fn() -> u64>>,
    /// Whether it takes nothing, as a socket that is full.
    pub is_full: bool,
    /// How many packets each train had that has left.
    pub trains: Vec<usize>,
    memory: Vec<u8>,
    chunks: Vec<RxChunk>,
    origins: Vec<Origin>,
}

impl<I: PacketIo> Gathered<I> {
    pub(crate) fn new(io: I) -> Gathered<I> {
        let (memory, chunks, origins, trains) = Default::default();
        let (expected, received, taken, is_full) = (0, 0, None, false);
        Gathered { io, expected, received, taken, is_full, trains, memory, chunks, origins }
    }

    /// A tier takes packets, so many by now.
    pub(crate) fn set_taken(&mut self, taken: Box<dyn Fn() -> u64>) {
        self.taken = Some(taken);
    }

    /// The plane's packet I/O itself.
    pub(crate) fn inner(&self) -> &I {
        &self.io
    }

    /// A packet is under way.
    pub(crate) fn expect(&mut self) {
        self.expected += 1;
    }

    fn is_all_there(&self) -> bool {
        let taken = self.taken.as_ref().map_or(0, |taken| taken());
        assert!(self.received + taken <= self.expected, "only ports of the test send");
        self.received + taken == self.expected
    }

    fn gather(&mut self) {
        let mut frames = self.io.receive().frames();
        while let Some(Frame { bytes, ecn }) = frames.next() {
            let (offset, len) = (self.memory.len() as u32, bytes.len() as u32);
            self.memory.extend_from_slice(bytes);
            self.chunks.push(RxChunk { offset, len, segment_bytes: len, ecn });
            self.origins.extend(frames.origin());
            self.received += 1;
        }
    }
}

impl<I: PacketIo> PacketIo for Gathered<I> {
    fn receive(&mut self) -> RxBatch<'_> {
        self.memory.clear();
        self.chunks.clear();
        self.origins.clear();
        for _ in turns() {
            self.gather();
            if self.is_all_there() {
                break;
            }
            std::thread::yield_now();
        }
        assert!(self.is_all_there(), "packets have not arrived");
        RxBatch { memory: &self.memory, chunks: &self.chunks, origins: &self.origins }
    }

    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> usize {
        if self.is_full { 0 } else { self.io.transmit(packets) }
    }

    fn transmit_train(&mut self, route: Route, bytes: &[u8], segment_bytes: usize) -> usize {
        if self.is_full {
            return 0;
        }
        let taken = self.io.transmit_train(route, bytes, segment_bytes);
        self.trains.extend((taken > 0).then_some(taken));
        taken
    }

    fn begin_batch(&mut self) {
        self.io.begin_batch();
    }

    fn end_batch(&mut self) {
        self.io.end_batch();
    }

    fn route(&mut self, peer: SocketAddr) -> Result<Route, RouteError> {
        self.io.route(peer)
    }

    fn release_route(&mut self, route: Route) {
        self.io.release_route(route);
    }

    fn origin(&self, route: Route) -> Origin {
        self.io.origin(route)
    }

    fn local_address(&self) -> SocketAddr {
        self.io.local_address()
    }

    fn datagram_bytes_max(&self, route: Route) -> usize {
        self.io.datagram_bytes_max(route)
    }

    fn receive_buffer_bytes(&self) -> usize {
        self.io.receive_buffer_bytes()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.io.descriptor()
    }

    fn stats(&self) -> IoStats {
        self.io.stats()
    }
}
