//! The table of peers. Each address is encoded once and counted, with what is known about its path.

use std::collections::HashMap;
use std::net::SocketAddr;

use petasos_netio::{Origin, Route, RouteError};

use crate::sys::SocketAddress;

/// One peer. The entry of a released route stays in place with all limits 0, so that every packet
/// to it is refused as too long.
pub(crate) struct RouteEntry {
    /// The peer's address in the kernel's encoding.
    pub encoded: SocketAddress,
    /// The peer's address.
    pub peer: SocketAddr,
    /// The largest datagram payload, in bytes, that goes to the peer unfragmented, as of when the
    /// route was last asked for.
    pub datagram_bytes_max: usize,
    /// The largest datagram payload, in bytes, that is accepted: the largest limit that any holder
    /// was told. So if the path's MTU falls, holders may keep using the length that they were told.
    pub taken_bytes_max: usize,
    /// The largest datagram payload, in bytes, that may be sent unfragmented: everything that is
    /// accepted, unless the path is in doubt.
    pub whole_bytes_max: usize,
    /// The batch in which `run` was set: see [`RouteTable::next_batch`].
    pub run_batch: u64,
    /// The run to this peer that later packets of the batch may join.
    pub run: u8,
    holds: u32,
}

/// Payload of the longest datagram that every IPv6 path carries unfragmented: 1280 bytes with
/// headers.
pub(crate) const SURE_BYTES_MAX: usize = 1280 - 40 - 8;

impl RouteEntry {
    fn trust_nothing(&mut self) {
        (self.datagram_bytes_max, self.taken_bytes_max, self.whole_bytes_max) = (0, 0, 0);
    }
}

/// Routes by index and by address. An address has at most one route.
pub(crate) struct RouteTable {
    entries: Vec<RouteEntry>,
    by_address: HashMap<SocketAddr, u32>,
    free: Vec<u32>,
    routes_max: usize,
    batch: u64,
    /// Counts the changes of `by_address`.
    changes: u64,
}

impl RouteTable {
    pub(crate) fn new(routes_max: usize) -> RouteTable {
        RouteTable {
            entries: Vec::new(),
            by_address: HashMap::new(),
            free: Vec::new(),
            // Higher numbers are origins with other meanings.
            routes_max: routes_max.min(Origin::UNTOLD.0 as usize),
            batch: 0,
            changes: 0,
        }
    }

    /// Adds a hold to the peer's route, if it has one, and updates what its path allows.
    pub(crate) fn hold(&mut self, peer: SocketAddr, datagram_bytes_max: usize) -> Option<Route> {
        let index = *self.by_address.get(&peer)?;
        let entry = &mut self.entries[index as usize];
        entry.holds += 1;
        entry.datagram_bytes_max = datagram_bytes_max;
        let trusted = entry.whole_bytes_max == entry.taken_bytes_max;
        entry.taken_bytes_max = entry.taken_bytes_max.max(datagram_bytes_max);
        if trusted {
            entry.whole_bytes_max = entry.taken_bytes_max;
        }
        Some(Route(index))
    }

    /// The origin of frames from `source`: the number of the peer's route, if it has one.
    #[inline]
    pub(crate) fn origin_of(&self, source: &SocketAddress) -> Origin {
        let index = source.decode().and_then(|peer| self.by_address.get(&peer));
        index.map_or(Origin::STRANGER, |index| Origin(*index))
    }

    /// How often addresses have got or lost routes. A result of [`RouteTable::origin_of`] is valid
    /// until this changes.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Adds a route to a peer that has none, with one hold.
    pub(crate) fn insert(
        &mut self,
        peer: SocketAddr,
        datagram_bytes_max: usize,
    ) -> Result<Route, RouteError> {
        let encoded = SocketAddress::new(peer);
        let entry = RouteEntry {
            encoded,
            peer,
            datagram_bytes_max,
            taken_bytes_max: datagram_bytes_max,
            whole_bytes_max: datagram_bytes_max,
            run_batch: 0,
            run: 0,
            holds: 1,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.entries[index as usize] = entry;
                index
            }
            None if self.entries.len() < self.routes_max => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
            None => return Err(RouteError::TableFull),
        };
        self.changes += 1;
        let previous = self.by_address.insert(peer, index);
        assert!(previous.is_none(), "a peer has at most one route");
        Ok(Route(index))
    }

    /// Removes a hold from `route`, and frees the route after the last one.
    ///
    /// # Panics
    /// If nobody holds the route: the caller released it too often.
    pub(crate) fn release(&mut self, route: Route) {
        let entry = self.entries.get_mut(route.0 as usize).filter(|entry| entry.holds > 0);
        let entry = entry.expect("a released route is held");
        entry.holds -= 1;
        if entry.holds == 0 {
            entry.trust_nothing();
            self.changes += 1;
            self.by_address.remove(&entry.peer);
            self.free.push(route.0);
        }
    }

    /// Lets packets on `route` go unfragmented only if every IPv6 path carries their length.
    /// Returns whether that changes anything.
    pub(crate) fn doubt(&mut self, route: Route) -> bool {
        let Some(entry) = self.entries.get_mut(route.0 as usize) else { return false };
        // IPv4 packets are fragmented by routers; IPv6 packets only by their sender.
        let sure = entry.peer.ip().to_canonical().is_ipv4() || entry.holds == 0;
        if sure || entry.whole_bytes_max <= SURE_BYTES_MAX {
            return false;
        }
        entry.whole_bytes_max = SURE_BYTES_MAX;
        true
    }

    /// Lets all accepted packets go unfragmented.
    pub(crate) fn trust(&mut self) {
        for entry in &mut self.entries {
            entry.whole_bytes_max = entry.taken_bytes_max;
        }
    }

    /// Starts a batch: runs of earlier batches are closed.
    #[inline]
    pub(crate) fn next_batch(&mut self) -> u64 {
        self.batch += 1;
        self.batch
    }

    #[inline]
    pub(crate) fn get(&self, route: Route) -> Option<&RouteEntry> {
        self.entries.get(route.0 as usize)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, route: Route) -> Option<&mut RouteEntry> {
        self.entries.get_mut(route.0 as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn an_address_keeps_its_route_until_the_last_hold_is_released() {
        let mut table = RouteTable::new(8);
        let route = table.insert(peer(1), 100).expect("there is room");
        assert_eq!(table.hold(peer(1), 100), Some(route));
        table.release(route);
        assert_eq!(table.hold(peer(1), 100), Some(route));
        table.release(route);
        table.release(route);
        assert_eq!(table.hold(peer(1), 100), None);
        assert_eq!(table.get(route).map(|entry| entry.datagram_bytes_max), Some(0));
    }

    #[test]
    fn a_new_holder_is_told_the_path_of_today_and_earlier_ones_keep_theirs() {
        let mut table = RouteTable::new(8);
        let route = table.insert(peer(1), 1472).expect("there is room");
        for (path, taken) in [(1272, 1472), (8972, 8972), (1472, 8972)] {
            table.hold(peer(1), path).expect("it exists");
            let entry = table.get(route).expect("it is held");
            assert_eq!((entry.datagram_bytes_max, entry.taken_bytes_max), (path, taken));
        }
    }

    #[test]
    fn a_doubt_ends_at_once_for_all_or_with_the_route() {
        let mut table = RouteTable::new(8);
        let v6 = |port| SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, port));
        let routes = [v6(1), peer(2), v6(3)].map(|peer| table.insert(peer, 1452).expect("room"));
        let whole = |table: &RouteTable, at: usize| {
            table.get(routes[at]).map(|entry| entry.whole_bytes_max)
        };
        assert_eq!(routes.map(|route| table.doubt(route)), [true, false, true], "IPv6 only");
        assert!(!table.doubt(routes[0]), "it is in doubt already");
        table.hold(v6(1), 8932).expect("it exists");
        assert_eq!([0, 1, 2].map(|at| whole(&table, at)), [1232, 1452, 1232].map(Some));
        table.release(routes[2]);
        table.trust();
        assert_eq!([0, 1, 2].map(|at| whole(&table, at)), [8932, 1452, 0].map(Some));
        assert!(!table.doubt(routes[2]), "nobody holds it");
    }

    #[test]
    fn free_indices_are_reused_and_the_limit_holds() {
        let mut table = RouteTable::new(2);
        let first = table.insert(peer(1), 100).expect("there is room");
        table.insert(peer(2), 100).expect("there is room");
        assert!(matches!(table.insert(peer(3), 100), Err(RouteError::TableFull)));
        table.release(first);
        assert_eq!(table.insert(peer(3), 100).expect("one was freed"), first);
    }

    #[test]
    #[should_panic(expected = "a released route is held")]
    fn releasing_too_often_is_a_bug_of_the_caller() {
        let mut table = RouteTable::new(2);
        let route = table.insert(peer(1), 100).expect("there is room");
        table.release(route);
        table.release(route);
    }
}
