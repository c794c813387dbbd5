//! Everything slow: accepting peers, noticing that they are gone, finding them again.
//!
//! It happens in [`ShmIo::route`], after a sleep, and once in
//! [`crate::LOOK_INTERVAL_TURNS`] receives.

use std::net::SocketAddr;

use petasos_netio::{PacketIo, RouteError};
use rustix::event::{Timespec, epoll};

use crate::ShmIo;
use crate::link::Link;
use crate::rendezvous;
use crate::routes::NO_LINK;

/// Stands for the listening socket among the epoll descriptor's data; others are link indices.
pub(crate) const LISTENER: u64 = u64::MAX;

/// Events handled, and connections accepted, in one look; the rest waits for the next.
const EVENTS_MAX: usize = 16;

/// When to try again to reach peers that are gone: after 1, 2, 4, … looks, at most this many.
const LOOKS_BETWEEN_TRIES_MAX: u32 = 1024;

/// Peers tried in one look.
const TRIES_MAX: usize = 4;

#[derive(Debug, Default)]
pub(crate) struct Retry {
    /// Looks until the next try; only counted while a route has no link.
    wait: u32,
    /// How many to wait after a failure.
    interval: u32,
}

impl ShmIo {
    /// Looks at all sockets, without waiting.
    #[cold]
    pub(crate) fn look(&mut self) {
        let mut events = [const { core::mem::MaybeUninit::uninit() }; EVENTS_MAX];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        self.stats.rx_syscalls += 1;
        // An error means a look that saw nothing; the next one will.
        let found = epoll::wait(&self.epoll, &mut events, Some(&at_once));
        let found = found.map_or(&mut [][..], |(found, _)| found);
        self.stats.rx_syscalls_empty += u64::from(found.is_empty());
        for event in found {
            match event.data.u64() {
                LISTENER => self.accept(),
                index => self.look_at(index as u32),
            }
        }
        if self.routes.held().any(|entry| entry.link == NO_LINK) {
            self.look_for_peers();
        }
    }

    fn look_at(&mut self, index: u32) {
        match self.links.get_mut(index) {
            Some(link) => link.read_socket(),
            None => self.greet(index),
        }
    }

    fn accept(&mut self) {
        for _ in 0..EVENTS_MAX {
            // A lack of descriptors leaves the connection where it is: until there are some.
            let Ok(Some(accepted)) = self.listener.accept() else { return };
            match accepted {
                Ok(pending) if self.has_room() => {
                    let index = self.links.insert_pending(pending);
                    self.watch(index);
                    self.greet(index);
                }
                _ => self.link_stats.links_refused += 1,
            }
        }
    }

    /// Opens the link at `index` if its greeting has come.
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

    /// Has the epoll descriptor tell of the socket at `index`. Without that, which takes a lack of
    /// memory, its wake-ups and its end go unnoticed, so it is closed.
    fn watch(&mut self, index: u32) {
        let data = epoll::EventData::new_u64(u64::from(index));
        let added = self
            .links
            .socket(index)
            .map(|socket| epoll::add(&self.epoll, socket, data, epoll::EventFlags::IN));
        if matches!(added, Some(Err(_))) {
            self.links.remove(index);
        }
    }

    /// Whether another link may be made; closes one that nobody here holds a route to, if it must.
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

    /// A link to `peer`: one that exists, or a new one.
    pub(crate) fn link_to(&mut self, peer: SocketAddr) -> Result<(u32, usize), RouteError> {
        if let Some((index, link)) = self.links.find(peer) {
            return Ok((index, link.datagram_bytes_max));
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
        self.watch(index);
        Ok((index, limit))
    }

    /// Tries to find links for routes that have none, less and less often.
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
        self.retry = match all {
            true => Retry::default(),
            false => {
                let interval = (2 * self.retry.interval).clamp(1, LOOKS_BETWEEN_TRIES_MAX);
                Retry { wait: interval, interval }
            }
        };
    }

    /// Has packets to `peer` take the link at `index` if they have none.
    pub(crate) fn lead_over(&mut self, peer: SocketAddr, index: u32, limit: usize) {
        for entry in self.routes.held() {
            if entry.peer == peer && entry.link == NO_LINK {
                (entry.link, entry.datagram_bytes_max) = (index, limit);
            }
        }
    }

    /// Closes the link at `index`, whose peer is gone or broke the rules. Packets to it take
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
        for entry in self.routes.held() {
            if entry.link == index {
                entry.link = NO_LINK;
            }
        }
        if let Some((other, limit)) =
            self.links.find(peer).map(|(other, link)| (other, link.datagram_bytes_max))
        {
            self.lead_over(peer, other, limit);
        }
    }
}
