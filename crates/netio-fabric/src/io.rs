//! The backend: an endpoint, its routes, and the counters.

use std::fs;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use arrayvec::ArrayVec;
use petasos_netio::{
    Ecn, IoStats, Origin, PacketIo, Route, RouteError, RxBatch, RxChunk, TxPacket, check_peer,
};

use crate::routes::RouteTable;
use crate::sys::{Endpoint, Forced, Outcome, POLL_MAX, Peer, Polled, Queue, check_specific};
use crate::transmit::TxRing;
use crate::{FabricConfig, FabricError, FabricStats};

/// Packet I/O over one libfabric datagram endpoint, with a domain of its own.
///
/// The counters: providers make the system calls, which are not visible here, so their counts stay
/// 0. So does [`IoStats::rx_overflows`], because providers silently drop packets for which no slot
/// was posted or the kernel's socket has no room. [`IoStats::tx_errors`] counts packets that the
/// provider refused or reported as failed; [`IoStats::tx_frames`] includes the latter.
///
/// ECN bits are not visible through libfabric: all frames have [`Ecn::NotCapable`].
pub struct FabricIo {
    endpoint: Endpoint,
    routes: RouteTable,
    tx: TxRing,
    /// A packet to be injected, after room for the provider's prefix.
    scratch: Box<[u8]>,
    chunks: ArrayVec<RxChunk, POLL_MAX>,
    /// The origins of the chunks, if the provider reports them.
    origins: ArrayVec<Origin, POLL_MAX>,
    /// Receive slots that belong to us: lent with the latest batch, or refused by the provider.
    ours: Vec<usize>,
    inject_bytes_max: usize,
    receive_buffer_bytes: usize,
    stats: IoStats,
    own_stats: FabricStats,
}

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
        let rx_slots = endpoint.rx_slots();
        let scratch = vec![0; endpoint.prefix_bytes() + endpoint.payload_bytes_max()];
        let waiting = rx_slots * endpoint.payload_bytes_max();
        let mut io = FabricIo {
            routes: RouteTable::new(config.routes_max),
            tx: TxRing::new(endpoint.tx_slots() as u32, config.signal_interval, endpoint.ordered()),
            scratch: scratch.into_boxed_slice(),
            chunks: ArrayVec::new(),
            origins: ArrayVec::new(),
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
        self.endpoint.payload_bytes_max()
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
        let (prefix, limit) = (self.endpoint.prefix_bytes(), self.endpoint.payload_bytes_max());
        for at in 0..count {
            let (slot, len) = self.endpoint.completion(Queue::Receive, at);
            self.ours.push(slot);
            // The provider's own packets may be shorter than the prefix.
            let len = len.saturating_sub(prefix);
            if len == 0 {
                self.own_stats.rx_empty += 1;
            } else if len > limit {
                self.stats.rx_truncated += 1;
            } else {
                let offset = (slot * self.endpoint.stride() + prefix) as u32;
                let (len, ecn) = (len as u32, Ecn::NotCapable);
                self.chunks.push(RxChunk { offset, len, segment_bytes: len, ecn });
                if self.endpoint.has_sources() {
                    self.origins.push(self.routes.origin(self.endpoint.source(at)));
                }
                self.stats.rx_bytes += u64::from(len);
            }
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

    /// Takes back transmit slots whose packets have left.
    fn reclaim(&mut self) {
        loop {
            match self.endpoint.poll(Queue::Transmit, POLL_MAX) {
                Polled::Completions(count) => {
                    for at in 0..count {
                        self.tx.complete(self.endpoint.completion(Queue::Transmit, at).0);
                    }
                    self.own_stats.tx_completions += count as u64;
                    if count < POLL_MAX {
                        return;
                    }
                }
                Polled::Failed { slot, .. } => {
                    self.tx.complete(slot);
                    self.stats.tx_errors += 1;
                }
                Polled::Broken => return,
            }
        }
    }

    #[inline]
    fn hand_over(&mut self, peer: Peer, packet: &TxPacket<'_>) -> Outcome {
        let prefix = self.endpoint.prefix_bytes();
        let len = prefix + packet.len();
        if packet.len() <= self.inject_bytes_max {
            let outcome = if prefix == 0 && packet.body.is_empty() {
                self.endpoint.inject(packet.head, peer)
            } else {
                fill(&mut self.scratch[prefix..], packet);
                self.endpoint.inject(&self.scratch[..len], peer)
            };
            self.own_stats.tx_injected += u64::from(outcome == Outcome::Taken);
            return outcome;
        }
        let Some((slot, report)) = self.tx.next() else { return Outcome::Full };
        fill(&mut self.endpoint.tx_slot(slot)[prefix..], packet);
        let outcome = self.endpoint.send(slot, len, peer, report);
        if outcome == Outcome::Taken {
            self.tx.push();
        }
        outcome
    }

    /// Sends a packet, or drops and counts it. Returns false if there is no room for it.
    #[inline]
    fn push(&mut self, packet: &TxPacket<'_>) -> bool {
        let fits = (1..=self.endpoint.payload_bytes_max()).contains(&packet.len());
        let Some(peer) = self.routes.get(packet.route).filter(|_| fits) else {
            self.stats.tx_errors += 1;
            return true;
        };
        let mut outcome = self.hand_over(peer, packet);
        if outcome == Outcome::Full {
            self.reclaim();
            outcome = self.hand_over(peer, packet);
        }
        match outcome {
            Outcome::Taken => {
                self.stats.tx_frames += 1;
                self.stats.tx_bytes += packet.len() as u64;
            }
            Outcome::Failed => self.stats.tx_errors += 1,
            Outcome::Full => self.stats.tx_full += 1,
        }
        outcome != Outcome::Full
    }
}

impl PacketIo for FabricIo {
    #[inline]
    fn receive(&mut self) -> RxBatch<'_> {
        self.post();
        self.chunks.clear();
        self.origins.clear();
        let mut looked = 0;
        // Software providers return one packet per poll.
        while looked < POLL_MAX {
            match self.endpoint.poll(Queue::Receive, POLL_MAX - looked) {
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
        self.stats.rx_frames += self.chunks.len() as u64;
        let (memory, origins) = (self.endpoint.rx_memory(), &self.origins);
        RxBatch { memory, chunks: &self.chunks, origins }
    }

    #[inline]
    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> usize {
        packets.iter().take_while(|packet| self.push(packet)).count()
    }

    #[inline]
    fn transmit_train(&mut self, route: Route, bytes: &[u8], segment_bytes: usize) -> usize {
        let packets = bytes.chunks(segment_bytes).map(|head| TxPacket { route, head, body: &[] });
        packets.take_while(|packet| self.push(packet)).count()
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
        if let Some(place) = self.routes.release(route) {
            self.endpoint.remove(place);
        }
    }

    fn origin(&self, route: Route) -> Origin {
        match self.endpoint.has_sources() {
            true => self.routes.origin(self.routes.get(route)),
            false => Origin::UNTOLD,
        }
    }

    fn local_address(&self) -> SocketAddr {
        self.endpoint.local_address()
    }

    fn datagram_bytes_max(&self, route: Route) -> usize {
        self.routes.get(route).map_or(0, |_| self.endpoint.payload_bytes_max())
    }

    /// The total of all slots, each of which holds one packet. With software providers, it is at
    /// most the kernel's default for a socket, which they do not change.
    fn receive_buffer_bytes(&self) -> usize {
        self.receive_buffer_bytes
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.endpoint.descriptor()
    }

    fn prepare_to_sleep(&mut self) -> bool {
        // A packet is noticed only if a slot is posted, and nothing posts slots during sleep.
        self.post();
        self.endpoint.may_wait()
    }

    fn stats(&self) -> IoStats {
        self.stats
    }
}

/// Copies a packet to the start of `room`, which is long enough.
#[inline]
fn fill(room: &mut [u8], packet: &TxPacket<'_>) {
    let (head, rest) = room.split_at_mut(packet.head.len());
    head.copy_from_slice(packet.head);
    rest[..packet.body.len()].copy_from_slice(packet.body);
}

/// The default receive buffer of the kernel's sockets.
fn socket_buffer_bytes() -> usize {
    let text = fs::read_to_string("/proc/sys/net/core/rmem_default").ok();
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(212_992)
}

#[cfg(test)]
mod tests;
