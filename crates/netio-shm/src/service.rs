//! The slow path: accepting peers, noticing that they are gone, and finding them again.
//!
//! It runs in [`ShmIo::route`], after a sleep, and once in [`crate::LOOK_INTERVAL_TURNS`] receives.

use std::net::SocketAddr;

use core::time::Duration;

use petasos_base::Time;
use petasos_netio::{PacketIo, Route, RouteError};
use rustix::event::{Timespec, epoll};

use crate::ShmIo;
use crate::link::Link;
use crate::looks::{EVENTS_MAX, LISTENER, OnLost, Retry};
use crate::rendezvous;
use crate::routes::NO_LINK;

/// The most peers tried in one look.
const TRIES_MAX: usize = 4;

/// How long a route may be without a lasting link before it counts as lost. A peer that has merely
/// stopped reading keeps its link; this is for peers that do not listen, or that refuse.
pub const LINK_PATIENCE: Duration = Duration::from_secs(1);

/// How long a new link must last to replace a lost one: a peer that refuses closes the socket at
/// its next look.
const SETTLED_AFTER: Duration = Duration::from_millis(100);

impl ShmIo {
    /// Polls all sockets, without waiting.
    #[cold]
    pub(crate) fn look(&mut self) {
        let mut events = [const { core::mem::MaybeUninit::uninit() }; EVENTS_MAX];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        self.stats.rx_syscalls += 1;
        // After an error this look has seen nothing; the next one will.
        let found = epoll::wait(&self.epoll, &mut events, Some(&at_once));
        let found = found.map_or(&mut [][..], |(found, _)| found);
        self.stats.rx_syscalls_empty += u64::from(found.is_empty());
        for event in found {
            match event.data.u64() {
                LISTENER => self.accept(),
                index => self.look_at(index as u32),
            }
        }
        if self.routes.held().any(|entry| entry.is_cut()) {
            self.mend();
        }
    }

    /// Finds new links for routes that have lost theirs, and reports routes that get none.
    fn mend(&mut self) {
        let now = self.clock.now();
        let mut all = true;
        for entry in self.routes.held().filter(|entry| entry.is_cut()) {
            let lasts = entry.link != NO_LINK && now >= entry.linked_at + SETTLED_AFTER;
            if lasts {
                (entry.cut_since, entry.told) = (Time::NEVER, false);
            }
            all &= lasts;
        }
        if all {
            self.retry = Retry::default();
            return;
        }
        if self.routes.held().any(|entry| entry.link == NO_LINK) {
            self.look_for_peers();
        }
        let lost = self.routes.take_lost(now, LINK_PATIENCE);
        if let Some(OnLost(tell)) = &mut self.on_lost {
            lost.into_iter().for_each(tell);
        }
    }

    /// Makes sure that packets on `route`, which is held, have a link.
    pub(crate) fn renew(&mut self, route: Route) -> Result<(), RouteError> {
        if self.is_linked(route) {
            return Ok(());
        }
        self.look();
        if self.is_linked(route) {
            return Ok(());
        }
        let now = self.clock.now();
        let entry = self.routes.get_mut(route).expect("a held route exists");
        // A link whose peer has hung up stays until everything in it has been received.
        entry.cut(now);
        let peer = entry.peer;
        let (index, limit) = self.link_to(peer)?;
        self.lead_over(peer, index, limit);
        Ok(())
    }

    /// Whether packets on `route` have a link, whose peer has not hung up so far.
    fn is_linked(&mut self, route: Route) -> bool {
        let entry = self.routes.get(route).expect("a held route exists");
        let Some(link) = self.links.get_mut(entry.link) else { return false };
        link.is_alive()
    }

    fn look_at(&mut self, index: u32) {
        match self.links.get_mut(index) {
            Some(link) => link.read_socket(),
            None => self.greet(index),
        }
    }

    fn accept(&mut self) {
        for _ in 0..EVENTS_MAX {
            // Without free descriptors the connection stays in the queue until there are some.
            let Ok(Some(accepted)) = self.listener.accept() else { return };
            match accepted {
                Ok(pending) if self.has_room() => {
                    let index = self.links.insert_pending(pending);
                    match self.watch(index) {
                        true => self.greet(index),
                        false => self.link_stats.links_refused += 1,
                    }
                }
                _ => self.link_stats.links_refused += 1,
            }
        }
    }

    /// Opens the link at `index` if its greeting has arrived.
    fn greet(&mut self, index: u32) {
        let Some(pending) = self.links.lift(index) else { return };
        match pending.greet() {
            Ok(Ok(connection)) => {
                self.link_stats.links_accepted += 1;
                self.receiver.provide_for(connection.ends.consumer.record_bytes_max());
                let link = Link::new(connection);
                let (peer, limit) = (link.peer, link.datagram_bytes_max);
                self.links.complete(index, link);
                self.lead_over(peer, index, limit);
            }
            Ok(Err(pending)) => self.links.put_back(index, pending),
            Err(_) => {
                self.link_stats.links_refused += 1;
                self.links.remove(index);
            }
        }
    }

    /// Adds the socket at `index` to the epoll descriptor. If that fails, which only a lack of
    /// memory can cause, its wake-ups and its end would go unnoticed, so it is closed. Returns
    /// whether it is open.
    fn watch(&mut self, index: u32) -> bool {
        let data = epoll::EventData::new_u64(u64::from(index));
        let added = self
            .links
            .socket(index)
            .map(|socket| epoll::add(&self.epoll, socket, data, epoll::EventFlags::IN));
        let failed = matches!(added, Some(Err(_)));
        if failed {
            self.links.remove(index);
        }
        !failed
    }

    /// Whether another link may be made. If necessary, closes one to which nobody here holds a
    /// route.
    fn has_room(&mut self) -> bool {
        if self.links.count() < self.config.links_max {
            return true;
        }
        let in_use: Vec<u32> = self.routes.held().map(|entry| entry.link).collect();
        let idle = self.links.iter_mut().map(|(index, _)| index);
        let idle = idle.into_iter().find(|index| !in_use.contains(index));
        if let Some(index) = idle {
            self.link_stats.links_evicted += 1;
            self.links.remove(index);
        }
        idle.is_some()
    }

    /// An existing link to `peer`, and its limit. The peer may have died right after it connected;
    /// its socket shows that.
    pub(crate) fn live_link(&mut self, peer: SocketAddr) -> Option<(u32, usize)> {
        loop {
            let (index, link) = self.links.find(peer)?;
            if link.is_alive() {
                return Some((index, link.datagram_bytes_max));
            }
        }
    }

    /// A link to `peer`: an existing one, or a new one.
    pub(crate) fn link_to(&mut self, peer: SocketAddr) -> Result<(u32, usize), RouteError> {
        if let Some(link) = self.live_link(peer) {
            return Ok(link);
        }
        if !self.has_room() {
            return Err(RouteError::TableFull);
        }
        let connection = rendezvous::connect(self.local_address(), peer, &self.config)
            .map_err(RouteError::Unreachable)?;
        self.link_stats.links_opened += 1;
        self.receiver.provide_for(connection.ends.consumer.record_bytes_max());
        let limit = connection.datagram_bytes_max;
        let index = self.links.insert_open(Link::new(connection));
        if !self.watch(index) {
            return Err(RouteError::TableFull);
        }
        Ok((index, limit))
    }

    /// Tries to find links for routes that have none, at growing intervals.
    fn look_for_peers(&mut self) {
        if self.retry.wait > 0 {
            self.retry.wait -= 1;
            return;
        }
        let peers: Vec<SocketAddr> = self
            .routes
            .held()
            .filter(|entry| entry.link == NO_LINK)
            .map(|entry| entry.peer)
            .take(TRIES_MAX)
            .collect();
        let mut all = true;
        for peer in peers {
            match self.link_to(peer) {
                Ok((index, limit)) => self.lead_over(peer, index, limit),
                Err(_) => all = false,
            }
        }
        if !all {
            self.retry.back_off();
        }
    }

    /// Makes packets to `peer` use the link at `index`, if they have none.
    pub(crate) fn lead_over(&mut self, peer: SocketAddr, index: u32, limit: usize) {
        let now = self.clock.now();
        for entry in self.routes.held() {
            if entry.peer == peer && entry.link == NO_LINK {
                (entry.link, entry.datagram_bytes_max) = (index, limit);
                entry.linked_at = now;
            }
        }
    }

    /// Closes the link at `index`, whose peer is gone or broke the rules. Its packets go over
    /// another link if there is one.
    #[cold]
    pub(crate) fn close(&mut self, index: u32) {
        let Some(link) = self.links.get_mut(index) else { return };
        let peer = link.peer;
        match link.broken {
            true => self.link_stats.links_broken += 1,
            false => self.link_stats.links_lost += 1,
        }
        self.links.remove(index);
        let now = self.clock.now();
        let mut fleeting = false;
        for entry in self.routes.held().filter(|entry| entry.link == index) {
            fleeting |= entry.is_cut();
            entry.cut(now);
        }
        if fleeting {
            self.retry.back_off();
        }
        if let Some((other, limit)) =
            self.links.find(peer).map(|(other, link)| (other, link.datagram_bytes_max))
        {
            self.lead_over(peer, other, limit);
        }
    }
}
