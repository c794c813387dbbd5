//! The backend: an endpoint, its routes, and the counters.

use std::fs;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use petasos_netio::{
    Ecn, IoStats, Origin, PacketIo, Route, RouteError, RxBatch, RxChunk, Switch, TxPacket,
    check_peer,
};

use crate::drafts::Drafts;
use crate::message::{DATAGRAMS_MAX, records};
use crate::routes::RouteTable;
use crate::sys::{Endpoint, Forced, POLL_MAX, Polled, Queue, check_specific};
use crate::transmit::TxSlots;
use crate::{FabricConfig, FabricError, FabricStats};

/// Packet I/O over one libfabric datagram endpoint, with a domain of its own.
///
/// The counters: providers make the system calls, which are not visible here, so their counts stay
/// 0. So does [`IoStats::rx_overflows`], because providers silently drop messages for which no slot
/// was posted or the kernel's socket has no room. [`IoStats::tx_errors`] counts packets that the
/// provider refused, and messages that it reported as failed; [`IoStats::tx_frames`] includes
/// packets of the latter. A message for which the provider has no room waits in its slot, and is
/// offered again before any other.
///
/// ECN bits are not visible through libfabric: all frames have [`Ecn::NotCapable`].
pub struct FabricIo {
    pub(crate) endpoint: Endpoint,
    pub(crate) routes: RouteTable,
    pub(crate) tx: TxSlots,
    pub(crate) drafts: Drafts,
    fusing: Switch,
    /// Whether packets of the batch that is under way share messages.
    pub(crate) fuses: bool,
    in_batch: bool,
    /// At most [`CHUNKS_MAX`], for which it has room.
    chunks: Vec<RxChunk>,
    /// The origins of the chunks, if the provider reports them.
    origins: Vec<Origin>,
    /// Receive slots that belong to us: lent with the latest batch, or refused by the provider.
    ours: Vec<usize>,
    pub(crate) inject_bytes_max: usize,
    receive_buffer_bytes: usize,
    pub(crate) stats: IoStats,
    pub(crate) own_stats: FabricStats,
}

/// The most records that one receive returns.
const CHUNKS_MAX: usize = 16 * DATAGRAMS_MAX;

impl FabricIo {
    /// Opens a backend at `address`, which determines the NIC. Port 0 lets the system choose one if
    /// the provider uses IP addresses; otherwise, the port is the provider's service number.
    ///
    /// # Errors
    /// See [`FabricError`].
    pub fn bind(address: SocketAddr, config: &FabricConfig) -> Result<FabricIo, FabricError> {
        FabricIo::bind_forced(address, config, Forced::default())
    }

    pub(crate) fn bind_forced(
        address: SocketAddr,
        config: &FabricConfig,
        forced: Forced,
    ) -> Result<FabricIo, FabricError> {
        check_specific(address.ip())?;
        let endpoint = Endpoint::open(address, config, forced)?;
        let (rx_slots, tx_slots) = (endpoint.rx_slots(), endpoint.tx_slots());
        // A peer that does not fuse fills a slot with each packet.
        let waiting = rx_slots * endpoint.datagram_bytes_max();
        let mut io = FabricIo {
            routes: RouteTable::new(config.routes_max),
            tx: TxSlots::new(tx_slots, config.signal_interval, endpoint.ordered()),
            drafts: Drafts::new(tx_slots),
            fusing: config.fusing.clone(),
            fuses: false,
            in_batch: false,
            chunks: Vec::with_capacity(CHUNKS_MAX),
            origins: Vec::with_capacity(CHUNKS_MAX),
            ours: (0..rx_slots).rev().collect(),
            inject_bytes_max: config.inject_bytes_max.min(endpoint.inject_bytes_max()),
            receive_buffer_bytes: if endpoint.software() {
                waiting.min(socket_buffer_bytes())
            } else {
                waiting
            },
            stats: IoStats::default(),
            own_stats: FabricStats::default(),
            endpoint,
        };
        io.post();
        Ok(io)
    }

    /// The provider in use.
    pub fn provider(&self) -> &str {
        self.endpoint.provider()
    }

    /// Whether this is software over kernel sockets.
    pub fn is_software(&self) -> bool {
        self.endpoint.software()
    }

    /// The largest datagram payload, in bytes, which is the same for every peer.
    pub fn payload_bytes_max(&self) -> usize {
        self.endpoint.datagram_bytes_max()
    }

    /// The most bytes of a message with several packets.
    pub fn fused_bytes_max(&self) -> usize {
        self.endpoint.fused_bytes_max()
    }

    /// Whether packets share messages; any thread may change it.
    pub fn fusing(&self) -> &Switch {
        &self.fusing
    }

    /// Detailed counters.
    pub fn fabric_stats(&self) -> FabricStats {
        self.own_stats
    }

    /// Gives our receive slots back to the provider.
    #[inline]
    fn post(&mut self) {
        while let Some(slot) = self.ours.pop() {
            if !self.endpoint.post(slot) {
                self.ours.push(slot);
                self.own_stats.rx_unposted += 1;
                return;
            }
        }
    }

    /// Notes `count` receptions that the latest poll completed.
    #[inline]
    fn note_received(&mut self, count: usize) {
        let (prefix, limit) = (self.endpoint.prefix_bytes(), self.endpoint.message_bytes_max());
        for at in 0..count {
            let (slot, len) = self.endpoint.completion(Queue::Receive, at);
            self.ours.push(slot);
            // The provider's own messages may be shorter than the prefix.
            let len = len.saturating_sub(prefix);
            if len == 0 {
                self.own_stats.rx_empty += 1;
            } else if len > limit {
                self.stats.rx_truncated += 1;
            } else {
                let start = slot * self.endpoint.stride() + prefix;
                let first = self.chunks.len();
                match self.split(start, len) {
                    true => self.note_message(at, first),
                    false => self.own_stats.rx_malformed += 1,
                }
            }
        }
    }

    /// Notes where the packets of a message are. Returns false if the message is malformed: then
    /// nothing is noted.
    #[inline]
    fn split(&mut self, start: usize, len: usize) -> bool {
        let chunks = self.chunks.len();
        for record in records(&self.endpoint.rx_memory()[start..start + len]) {
            let Ok(record) = record else {
                self.chunks.truncate(chunks);
                return false;
            };
            self.chunks.push(RxChunk {
                offset: (start + record.offset) as u32,
                len: record.len as u32,
                segment_bytes: record.segment_bytes as u32,
                ecn: Ecn::NotCapable,
            });
        }
        true
    }

    /// Counts the message of completion `at`, whose chunks begin with `first`, and notes its
    /// origin.
    #[inline]
    fn note_message(&mut self, at: usize, first: usize) {
        if self.endpoint.has_sources() {
            let origin = self.routes.origin(self.endpoint.source(at));
            self.origins.resize(self.chunks.len(), origin);
        }
        self.own_stats.rx_messages += 1;
        for chunk in &self.chunks[first..] {
            self.stats.rx_frames += u64::from(chunk.len.div_ceil(chunk.segment_bytes));
            self.stats.rx_bytes += u64::from(chunk.len);
        }
    }

    /// Notes whether the packets of a batch that begins share messages.
    #[inline]
    fn look_at_switch(&mut self) {
        if !self.in_batch {
            self.fuses = self.fusing.is_on();
        }
    }

    #[inline]
    fn send_unless_in_batch(&mut self) {
        if !self.in_batch {
            self.send_all();
        }
    }

    #[cold]
    fn note_failed_reception(&mut self, slot: usize, truncated: bool) {
        self.ours.push(slot);
        if truncated {
            self.stats.rx_truncated += 1;
        } else {
            self.stats.rx_errors += 1;
        }
    }
}

impl PacketIo for FabricIo {
    #[inline]
    fn receive(&mut self) -> RxBatch<'_> {
        self.hand_over();
        self.post();
        self.chunks.clear();
        self.origins.clear();
        let mut looked = 0;
        // Software providers return one message per poll.
        while looked < POLL_MAX {
            let room = (CHUNKS_MAX - self.chunks.len()) / DATAGRAMS_MAX;
            if room == 0 {
                break;
            }
            match self.endpoint.poll(Queue::Receive, room.min(POLL_MAX - looked)) {
                Polled::Completions(0) | Polled::Broken => break,
                Polled::Completions(count) => {
                    self.note_received(count);
                    looked += count;
                }
                Polled::Failed { slot, truncated } => {
                    self.note_failed_reception(slot, truncated);
                    looked += 1;
                }
            }
        }
        let (memory, origins) = (self.endpoint.rx_memory(), &self.origins);
        RxBatch { memory, chunks: &self.chunks, origins }
    }

    #[inline]
    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> usize {
        self.look_at_switch();
        let taken = packets.iter().take_while(|packet| self.push(packet)).count();
        self.send_unless_in_batch();
        taken
    }

    #[inline]
    fn transmit_train(&mut self, route: Route, bytes: &[u8], segment_bytes: usize) -> usize {
        let packets = bytes.chunks(segment_bytes).map(|head| TxPacket { route, head, body: &[] });
        self.look_at_switch();
        let taken = packets.take_while(|packet| self.push(packet)).count();
        self.send_unless_in_batch();
        taken
    }

    #[inline]
    fn begin_batch(&mut self) {
        self.look_at_switch();
        self.in_batch = true;
    }

    #[inline]
    fn end_batch(&mut self) {
        self.in_batch = false;
        self.send_all();
    }

    fn route(&mut self, peer: SocketAddr) -> Result<Route, RouteError> {
        check_peer(self.endpoint.local_address(), peer)?;
        if let Some(route) = self.routes.hold(peer) {
            return Ok(route);
        }
        if !self.routes.has_room() {
            return Err(RouteError::TableFull);
        }
        let place = self.endpoint.insert(peer).map_err(RouteError::Unreachable)?;
        self.routes.insert(peer, place)
    }

    fn release_route(&mut self, route: Route) {
        if let Some(peer) = self.routes.release(route) {
            self.drop_messages_to(peer);
            self.endpoint.remove(peer);
        }
    }

    /// Messages with several packets are longer than those that session set-up has agreed on, and
    /// the network may not take them.
    fn doubt_path(&mut self, route: Route) {
        self.routes.doubt(route);
    }

    fn trust_paths(&mut self) {
        self.routes.trust_all();
    }

    fn origin(&self, route: Route) -> Origin {
        match self.endpoint.has_sources() {
            true => self.routes.origin(self.routes.get(route).map(|place| place.peer)),
            false => Origin::UNTOLD,
        }
    }

    fn local_address(&self) -> SocketAddr {
        self.endpoint.local_address()
    }

    fn datagram_bytes_max(&self, route: Route) -> usize {
        self.routes.get(route).map_or(0, |_| self.endpoint.datagram_bytes_max())
    }

    /// One packet in each slot, although several may share one. With software providers, it is at
    /// most the kernel's default for a socket, which they do not change.
    fn receive_buffer_bytes(&self) -> usize {
        self.receive_buffer_bytes
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.endpoint.descriptor()
    }

    fn prepare_to_sleep(&mut self) -> bool {
        // A message is noticed only if a slot is posted, and nothing posts slots during sleep. Nor
        // is one offered again that the provider had no room for.
        self.post();
        self.hand_over() && self.endpoint.may_wait()
    }

    fn stats(&self) -> IoStats {
        self.stats
    }
}

/// The default receive buffer of the kernel's sockets.
fn socket_buffer_bytes() -> usize {
    let text = fs::read_to_string("/proc/sys/net/core/rmem_default").ok();
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(212_992)
}

#[cfg(test)]
mod tests;
