//! The backend: its links, its routes, and the path of packets.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use petasos_base::SystemClock;
use petasos_netio::{
    IoStats, Origin, PacketIo, Route, RouteError, RxBatch, SetupError, TxPacket, check_peer,
};
use rustix::event::epoll;

use crate::link::Unsent;
use crate::links::Links;
use crate::looks::{LISTENER, LOOKS_FOR_CONNECTED, OnLost, Retry};
use crate::receive::Receiver;
use crate::rendezvous::Listener;
use crate::routes::RouteTable;
use crate::{ShmConfig, ShmStats, name};

/// A spinning backend polls its sockets once in this many receives.
pub const LOOK_INTERVAL_TURNS: u32 = 1024;
const _: () = assert!(LOOK_INTERVAL_TURNS.is_multiple_of(CONFIRM_INTERVAL_TURNS));

/// Once in this many receives, the backend checks with a fence whether a peer fell asleep just when
/// records were published for it. It does not do so each time, because the fence waits until the
/// peer's processor has given up the cache line: a quarter of a round trip.
const CONFIRM_INTERVAL_TURNS: u32 = 64;

/// Packet I/O over shared-memory rings.
///
/// The counters: [`IoStats::tx_errors`] counts packets that are too long, and packets dropped
/// because the peer is gone or has stopped reading ([`ShmStats`] tells these apart).
/// [`IoStats::tx_full`] counts how often a full ring made `transmit` stop, [`IoStats::tx_syscalls`]
/// the wake-ups sent, and [`IoStats::rx_syscalls`] the looks at sockets. Once a packet is in a
/// ring, it is lost only if the peer dies.
///
/// Packets sent just before a process ends still arrive. A route outlives its peer: packets on it
/// are dropped until a process listens at that address again. If none does, [`ShmIo::on_lost`]
/// reports it, and asking for the route again is an error.
pub struct ShmIo {
    pub(crate) config: ShmConfig,
    pub(crate) listener: Listener,
    pub(crate) epoll: OwnedFd,
    pub(crate) links: Links,
    pub(crate) routes: RouteTable,
    pub(crate) receiver: Receiver,
    pub(crate) retry: Retry,
    /// Read only while a route is cut.
    pub(crate) clock: SystemClock,
    pub(crate) on_lost: Option<OnLost>,
    pub(crate) stats: IoStats,
    pub(crate) link_stats: ShmStats,
    /// Links on which records were published since the last check with a fence.
    unconfirmed: Vec<u32>,
    /// Which open link the next receive starts with, so that none starves the others.
    first: usize,
    turns: u32,
    /// Whether the peers have been told that this side sleeps.
    asleep: bool,
}

impl ShmIo {
    /// Opens a backend at `address`, whose ports are independent of UDP's and TCP's: see the
    /// crate's documentation. Port 0 chooses a free one at random.
    ///
    /// # Errors
    /// See [`SetupError`].
    pub fn bind(address: SocketAddr, config: ShmConfig) -> Result<ShmIo, SetupError> {
        config.check()?;
        let listener = Listener::bind(address, &config)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|error| name::failed("make an epoll descriptor", error))?;
        let data = epoll::EventData::new_u64(LISTENER);
        epoll::add(&epoll, &listener, data, epoll::EventFlags::IN)
            .map_err(|error| name::failed("watch the listening socket", error))?;
        Ok(ShmIo {
            config,
            listener,
            epoll,
            links: Links::default(),
            routes: RouteTable::default(),
            receiver: Receiver::new(),
            retry: Retry::default(),
            clock: SystemClock::default(),
            on_lost: None,
            stats: IoStats::default(),
            link_stats: ShmStats::default(),
            unconfirmed: Vec::new(),
            first: 0,
            turns: 0,
            asleep: false,
        })
    }

    /// The configuration of this backend.
    pub fn config(&self) -> &ShmConfig {
        &self.config
    }

    /// Counters of links and wake-ups.
    pub fn link_stats(&self) -> ShmStats {
        self.link_stats
    }

    /// Peers that are connected now.
    pub fn links(&self) -> usize {
        self.links.open_count()
    }

    /// A route to a peer that should have connected to this side. If it has, this is better than
    /// [`PacketIo::route`]: a side that opens a link is not told if the other refuses it, while a
    /// link that the peer has opened exists at both ends.
    ///
    /// # Errors
    /// `NotConnected` if there is no link to `peer`: it has not connected, is gone, or this side
    /// has refused it.
    pub fn route_to_connected(&mut self, peer: SocketAddr) -> Result<Route, RouteError> {
        let found = (0..LOOKS_FOR_CONNECTED).any(|_| {
            let found = self.live_link(peer).is_some();
            if !found {
                self.look();
            }
            found
        });
        if !found {
            return Err(RouteError::Unreachable(std::io::ErrorKind::NotConnected.into()));
        }
        self.route(peer)
    }

    /// Calls `tell`, from within [`PacketIo::receive`] or [`PacketIo::route`], with every route
    /// that has had no lasting link for [`crate::LINK_PATIENCE`]: its peer is gone, or it lives but
    /// refuses or does not listen. A route is reported once, until it gets a lasting link or is
    /// asked for again.
    pub fn on_lost(&mut self, tell: impl FnMut(Route) + Send + 'static) {
        self.on_lost = Some(OnLost(Box::new(tell)));
    }

    /// Puts a packet into its peer's ring without publishing it; `false` if the ring is full.
    #[inline]
    fn send(&mut self, link: u32, packet: &TxPacket<'_>) -> bool {
        let sent = match self.links.get_mut(link) {
            Some(link) => link.push(packet),
            None => return self.drop_unlinked(packet.route, packet.len(), 1),
        };
        match sent {
            Ok(()) => {
                self.stats.tx_frames += 1;
                self.stats.tx_bytes += packet.len() as u64;
                true
            }
            Err(unsent) => self.refuse(link, unsent, 1),
        }
    }

    /// Sends one record of a train. Returns how many datagrams were sent or dropped; 0 if the ring
    /// is full.
    fn send_train(&mut self, route: Route, rest: &[u8], segment_bytes: usize) -> usize {
        let (link, limit) = self.way(route);
        let datagrams = rest.len().div_ceil(segment_bytes);
        if segment_bytes > limit {
            // All except perhaps the last are too long.
            let head = &rest[..rest.len().min(segment_bytes)];
            return usize::from(self.send(link, &TxPacket { route, head, body: &[] }));
        }
        let sent = match self.links.get_mut(link) {
            Some(link) => link.push_train(rest, segment_bytes),
            None => {
                self.drop_unlinked(route, segment_bytes, datagrams);
                return datagrams;
            }
        };
        match sent {
            Ok(count) => {
                self.stats.tx_frames += count as u64;
                self.stats.tx_bytes += rest.len().min(count * segment_bytes) as u64;
                count
            }
            Err(unsent) if self.refuse(link, unsent, datagrams) => datagrams,
            Err(_) => 0,
        }
    }

    /// The link of `route`, and the longest datagram that fits it.
    #[inline]
    fn way(&self, route: Route) -> (u32, usize) {
        const NOWHERE: (u32, usize) = (crate::routes::NO_LINK, 0);
        self.routes.get(route).map_or(NOWHERE, |entry| (entry.link, entry.datagram_bytes_max))
    }

    /// Counts and drops packets whose route has no link. They count as sent.
    #[cold]
    fn drop_unlinked(&mut self, route: Route, len: usize, count: usize) -> bool {
        self.stats.tx_errors += count as u64;
        let (_, limit) = self.way(route);
        self.link_stats.drops_unlinked += if len > limit { 0 } else { count as u64 };
        true
    }

    /// Counts packets that the link refused. Returns whether they count as sent.
    #[cold]
    fn refuse(&mut self, link: u32, unsent: Unsent, count: usize) -> bool {
        match unsent {
            Unsent::Full => {
                self.stats.tx_full += 1;
                return false;
            }
            Unsent::Stalled => self.link_stats.drops_stalled += count as u64,
            Unsent::Impossible => {}
            Unsent::Broken => self.close(link),
        }
        self.stats.tx_errors += count as u64;
        true
    }

    /// Makes the pushed records visible to the peer of `link`.
    #[inline]
    fn publish(&mut self, index: u32) {
        let Some(link) = self.links.get_mut(index) else { return };
        if link.publish() {
            self.stats.tx_syscalls += 1;
            self.link_stats.peers_woken += 1;
        } else if !link.unconfirmed {
            link.unconfirmed = true;
            self.unconfirmed.push(index);
        }
    }

    /// Wakes peers that fell asleep while records were published for them.
    fn confirm(&mut self) {
        while let Some(index) = self.unconfirmed.pop() {
            let woken = self.links.get_mut(index).is_some_and(|link| link.confirm());
            self.stats.tx_syscalls += u64::from(woken);
            self.link_stats.peers_woken += u64::from(woken);
        }
    }

    /// What a receive does now and then besides receiving.
    #[cold]
    fn keep_up(&mut self) {
        self.confirm();
        if self.asleep {
            self.rise();
            self.look();
        } else if self.turns.is_multiple_of(LOOK_INTERVAL_TURNS) {
            self.look();
        }
    }

    fn rise(&mut self) {
        self.asleep = false;
        self.links.iter_mut().for_each(|(_, link)| link.consumer.rise());
    }

    /// Copies what has arrived to the receiver's memory.
    #[inline]
    fn collect(&mut self) {
        self.receiver.clear();
        let mut ended = None;
        for _ in 0..self.links.open_count() {
            if self.first >= self.links.open_count() {
                self.first = 0;
            }
            let index = self.links.open_index(self.first);
            let Some(link) = self.links.get_mut(index) else { break };
            if !self.receiver.take(link, &mut self.stats) {
                // This link has more. The next receive starts with the link after it.
                self.first += 1;
                break;
            }
            if link.broken || link.hung_up {
                ended = Some(index);
            }
            self.first += 1;
        }
        if let Some(index) = ended {
            self.close(index);
        }
    }
}

impl PacketIo for ShmIo {
    #[inline]
    fn receive(&mut self) -> RxBatch<'_> {
        self.turns = self.turns.wrapping_add(1);
        if self.asleep || self.turns.is_multiple_of(CONFIRM_INTERVAL_TURNS) {
            self.keep_up();
        }
        self.collect();
        self.receiver.batch()
    }

    #[inline]
    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> usize {
        let mut open = None;
        let mut taken = packets.len();
        for (index, packet) in packets.iter().enumerate() {
            let (link, _) = self.way(packet.route);
            if let Some(before) = open.replace(link).filter(|before| *before != link) {
                self.publish(before);
            }
            if !self.send(link, packet) {
                taken = index;
                break;
            }
        }
        if let Some(link) = open {
            self.publish(link);
        }
        taken
    }

    #[inline]
    fn transmit_train(&mut self, route: Route, bytes: &[u8], segment_bytes: usize) -> usize {
        let (mut rest, mut taken) = (bytes, 0);
        while !rest.is_empty() {
            let count = self.send_train(route, rest, segment_bytes);
            if count == 0 {
                break;
            }
            taken += count;
            rest = rest.get(count * segment_bytes..).unwrap_or(&[]);
        }
        let (link, _) = self.way(route);
        self.publish(link);
        taken
    }

    /// Each peer has its own ring.
    fn holds_back(&self, full: Route, other: Route) -> bool {
        full == other
    }

    fn route(&mut self, peer: SocketAddr) -> Result<Route, RouteError> {
        check_peer(self.local_address(), peer)?;
        let peer = SocketAddr::new(peer.ip(), peer.port());
        if let Some(route) = self.routes.find(peer) {
            self.renew(route)?;
            let entry = self.routes.get_mut(route).expect("a route that is found exists");
            entry.holds += 1;
            // The new holder has not been told.
            entry.told = false;
            return Ok(route);
        }
        // Meanwhile a link may have been opened from there, or one may have ended.
        self.look();
        let (link, limit) = self.link_to(peer)?;
        self.routes.insert(peer, link, limit)
    }

    fn release_route(&mut self, route: Route) {
        self.routes.release(route);
    }

    /// A process chooses its own name, so the name proves no origin. That the frame came over a
    /// ring does.
    fn origin(&self, _route: Route) -> Origin {
        Origin::RINGS
    }

    fn local_address(&self) -> SocketAddr {
        self.listener.local_address()
    }

    fn datagram_bytes_max(&self, route: Route) -> usize {
        self.way(route).1
    }

    fn receive_buffer_bytes(&self) -> usize {
        self.config.rings.data_bytes as usize
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.epoll.as_fd())
    }

    fn prepare_to_sleep(&mut self) -> bool {
        self.confirm();
        self.asleep = true;
        let may = self.links.iter_mut().all(|(_, link)| link.consumer.doze());
        if !may {
            self.rise();
        }
        may
    }

    fn stats(&self) -> IoStats {
        self.stats
    }
}
