//! The table of peers. Each address is counted, and has the link that its packets use.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use core::time::Duration;

use petasos_base::Time;
use petasos_netio::{Route, RouteError};

/// Stands for "no link".
pub(crate) const NO_LINK: u32 = u32::MAX;

/// One peer. The entry of a released route stays in place, with [`NO_LINK`] and no holds.
pub(crate) struct RouteEntry {
    pub(crate) peer: SocketAddr,
    /// Index of the link that packets use, or [`NO_LINK`].
    pub(crate) link: u32,
    /// The limit of the latest link, in bytes; 0 once released.
    pub(crate) datagram_bytes_max: usize,
    pub(crate) holds: u32,
    /// Since when there has been no lasting link; [`Time::NEVER`] while there is one. A held route
    /// without a link always has a time here.
    pub(crate) cut_since: Time,
    /// When the route last got a link. Only kept while `cut_since` is a time.
    pub(crate) linked_at: Time,
    /// Whether the owner has been told that the route is lost.
    pub(crate) told: bool,
}

impl RouteEntry {
    /// Notes that the route's link is gone.
    pub(crate) fn cut(&mut self, now: Time) {
        self.link = NO_LINK;
        self.cut_since = self.cut_since.min(now);
    }

    /// Whether the route has had no lasting link recently.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut_since != Time::NEVER
    }
}

/// Routes by index and by address. An address has at most one route.
#[derive(Default)]
pub(crate) struct RouteTable {
    entries: Vec<RouteEntry>,
    by_address: BTreeMap<SocketAddr, u32>,
    free: Vec<u32>,
}

impl RouteTable {
    /// The peer's route, if it has one.
    pub(crate) fn find(&self, peer: SocketAddr) -> Option<Route> {
        self.by_address.get(&peer).copied().map(Route)
    }

    /// Adds a route over `link` to a peer that has none, with one hold.
    pub(crate) fn insert(
        &mut self,
        peer: SocketAddr,
        link: u32,
        datagram_bytes_max: usize,
    ) -> Result<Route, RouteError> {
        let entry = RouteEntry {
            peer,
            link,
            datagram_bytes_max,
            holds: 1,
            cut_since: Time::NEVER,
            linked_at: Time::ZERO,
            told: false,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.entries[index as usize] = entry;
                index
            }
            None => {
                let index = u32::try_from(self.entries.len()).map_err(|_| RouteError::TableFull)?;
                self.entries.push(entry);
                index
            }
        };
        let previous = self.by_address.insert(peer, index);
        assert!(previous.is_none(), "a peer has at most one route");
        Ok(Route(index))
    }

    /// Removes a hold from `route`, and frees the route after the last one.
    ///
    /// # Panics
    /// If nobody holds the route: the caller released it too often.
    pub(crate) fn release(&mut self, route: Route) {
        let entry = self.get_mut(route).filter(|entry| entry.holds > 0);
        let entry = entry.expect("a released route is held");
        entry.holds -= 1;
        if entry.holds == 0 {
            (entry.link, entry.datagram_bytes_max) = (NO_LINK, 0);
            let peer = entry.peer;
            self.by_address.remove(&peer);
            self.free.push(route.0);
        }
    }

    #[inline]
    pub(crate) fn get(&self, route: Route) -> Option<&RouteEntry> {
        self.entries.get(route.0 as usize)
    }

    pub(crate) fn get_mut(&mut self, route: Route) -> Option<&mut RouteEntry> {
        self.entries.get_mut(route.0 as usize)
    }

    /// The routes in use.
    pub(crate) fn held(&mut self) -> impl Iterator<Item = &mut RouteEntry> {
        self.entries.iter_mut().filter(|entry| entry.holds > 0)
    }

    /// The held routes that have been cut for `patience`, have no link, and whose owner has not
    /// been told. Marks them as told.
    pub(crate) fn take_lost(&mut self, now: Time, patience: Duration) -> Vec<Route> {
        let entries = self.entries.iter_mut().enumerate().filter(|(_, entry)| entry.holds > 0);
        let lost = entries.filter(|(_, entry)| {
            entry.link == NO_LINK && entry.cut_since + patience <= now && !entry.told
        });
        let told = lost.map(|(index, entry)| {
            entry.told = true;
            Route(index as u32)
        });
        told.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn a_route_is_free_after_its_last_release() {
        let mut table = RouteTable::default();
        let route = table.insert(peer(1), 7, 100).expect("there is room");
        table.get_mut(route).expect("it is there").holds += 1;
        table.release(route);
        assert_eq!(table.find(peer(1)), Some(route));
        table.release(route);
        assert_eq!(table.find(peer(1)), None);
        assert_eq!(table.get(route).map(|entry| entry.link), Some(NO_LINK));
        assert_eq!(table.held().count(), 0);
        assert_eq!(table.insert(peer(2), 8, 100).expect("one was freed"), route);
    }

    #[test]
    #[should_panic(expected = "a released route is held")]
    fn releasing_too_often_is_a_bug_of_the_caller() {
        let mut table = RouteTable::default();
        let route = table.insert(peer(1), 7, 100).expect("there is room");
        table.release(route);
        table.release(route);
    }
}
