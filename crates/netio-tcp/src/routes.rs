//! The table of peers. It counts the holders of each address, and names the connection for its
//! packets.

use std::collections::HashMap;
use std::net::SocketAddr;

use petasos_base::Time;
use petasos_netio::{Route, RouteError};

/// Stands for "no connection".
pub(crate) const NONE: u32 = u32::MAX;

/// One peer. The entry of a released route stays in place, with [`NONE`] and no holds.
pub(crate) struct RouteEntry {
    pub(crate) peer: SocketAddr,
    /// Index of the connection that packets use, or [`NONE`].
    pub(crate) connection: u32,
    pub(crate) holds: u32,
    /// When the peer may be dialled again.
    pub(crate) dial_at: Time,
}

/// Routes by index and by address. An address has at most one route.
pub(crate) struct RouteTable {
    entries: Vec<RouteEntry>,
    by_address: HashMap<SocketAddr, u32>,
    free: Vec<u32>,
    routes_max: usize,
}

impl RouteTable {
    pub(crate) fn new(routes_max: usize) -> RouteTable {
        let (entries, by_address, free) = (Vec::new(), HashMap::new(), Vec::new());
        RouteTable { entries, by_address, free, routes_max }
    }

    /// The peer's route, if it has one.
    pub(crate) fn find(&self, peer: SocketAddr) -> Option<Route> {
        self.by_address.get(&peer).copied().map(Route)
    }

    /// Adds a hold to the route of `peer`, which gets one if it has none. Returns whether it is
    /// new.
    pub(crate) fn hold(&mut self, peer: SocketAddr) -> Result<(Route, bool), RouteError> {
        if let Some(route) = self.find(peer) {
            self.entries[route.0 as usize].holds += 1;
            return Ok((route, false));
        }
        if self.by_address.len() >= self.routes_max {
            return Err(RouteError::TableFull);
        }
        let entry = RouteEntry { peer, connection: NONE, holds: 1, dial_at: Time::ZERO };
        let index = self.free.pop().unwrap_or(self.entries.len() as u32);
        match self.entries.get_mut(index as usize) {
            Some(free) => *free = entry,
            None => self.entries.push(entry),
        }
        self.by_address.insert(peer, index);
        Ok((Route(index), true))
    }

    /// Removes a hold from `route`, and frees the route after the last one. Then it returns the
    /// index of the connection that the route had, which may be [`NONE`].
    ///
    /// # Panics
    /// If nobody holds the route: the caller released it too often.
    pub(crate) fn release(&mut self, route: Route) -> Option<u32> {
        let entry = self.entries.get_mut(route.0 as usize).filter(|entry| entry.holds > 0);
        let entry = entry.expect("a released route is held");
        entry.holds -= 1;
        if entry.holds > 0 {
            return None;
        }
        self.by_address.remove(&entry.peer);
        self.free.push(route.0);
        Some(core::mem::replace(&mut entry.connection, NONE))
    }

    /// The entry of a route that is held.
    #[inline]
    pub(crate) fn get(&self, route: Route) -> Option<&RouteEntry> {
        self.entries.get(route.0 as usize).filter(|entry| entry.holds > 0)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, route: Route) -> Option<&mut RouteEntry> {
        self.entries.get_mut(route.0 as usize).filter(|entry| entry.holds > 0)
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
        let mut table = RouteTable::new(1);
        let (route, is_new) = table.hold(peer(1)).expect("there is room");
        assert!(is_new);
        table.get_mut(route).expect("it is held").connection = 7;
        assert_eq!(table.hold(peer(1)).expect("it has one"), (route, false));
        assert!(matches!(table.hold(peer(2)), Err(RouteError::TableFull)));
        assert_eq!(table.release(route), None);
        assert_eq!(table.find(peer(1)), Some(route));
        assert_eq!(table.release(route), Some(7));
        assert!(table.find(peer(1)).is_none() && table.get(route).is_none());
        assert_eq!(table.hold(peer(2)).expect("one was freed"), (route, true));
        assert_eq!(table.get(route).map(|entry| entry.connection), Some(NONE));
    }

    #[test]
    #[should_panic(expected = "a released route is held")]
    fn releasing_too_often_is_a_bug_of_the_caller() {
        let mut table = RouteTable::new(9);
        let (route, _) = table.hold(peer(1)).expect("there is room");
        table.release(route);
        table.release(route);
    }
}
