//! The table of peers, each with its index in the provider's address vector.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use petasos_netio::{Origin, Route, RouteError};

use crate::sys::Peer;

/// One peer; `place` is `None` once its route was released.
struct RouteEntry {
    place: Option<Place>,
    address: SocketAddr,
    holds: u32,
}

/// How messages reach a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its index in the address vector.
    pub(crate) peer: Peer,
    /// Long messages seem to get lost on the way.
    pub(crate) is_doubted: bool,
}

/// Routes by index, address and place. An address has at most one route, and so does a place.
pub(crate) struct RouteTable {
    entries: Vec<RouteEntry>,
    by_address: BTreeMap<SocketAddr, u32>,
    by_place: BTreeMap<u64, u32>,
    free: Vec<u32>,
    routes_max: usize,
}

impl RouteTable {
    pub(crate) fn new(routes_max: usize) -> RouteTable {
        RouteTable {
            entries: Vec::new(),
            by_address: BTreeMap::new(),
            by_place: BTreeMap::new(),
            free: Vec::new(),
            routes_max: routes_max.min(u32::MAX as usize),
        }
    }

    /// Adds a reference to the peer's route, if it has one.
    pub(crate) fn hold(&mut self, peer: SocketAddr) -> Option<Route> {
        let index = *self.by_address.get(&peer)?;
        self.entries[index as usize].holds += 1;
        Some(Route(index))
    }

    /// Whether another route can be inserted.
    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty() || self.entries.len() < self.routes_max
    }

    /// Adds a route to a peer that has none, with one reference.
    pub(crate) fn insert(&mut self, address: SocketAddr, peer: Peer) -> Result<Route, RouteError> {
        if !self.has_room() {
            return Err(RouteError::TableFull);
        }
        let place = Some(Place { peer, is_doubted: false });
        let entry = RouteEntry { place, address, holds: 1 };
        let index = match self.free.pop() {
            Some(index) => {
                self.entries[index as usize] = entry;
                index
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        let previous = self.by_address.insert(address, index);
        assert!(previous.is_none(), "a peer has at most one route");
        self.by_place.insert(peer.0, index);
        Ok(Route(index))
    }

    /// Removes a reference from `route`. With the last one, frees it and returns its place.
    ///
    /// # Panics
    /// If nobody holds the route: the caller released it too often.
    pub(crate) fn release(&mut self, route: Route) -> Option<Peer> {
        let entry = self.entries.get_mut(route.0 as usize).filter(|entry| entry.holds > 0);
        let entry = entry.expect("a released route is held");
        entry.holds -= 1;
        if entry.holds > 0 {
            return None;
        }
        self.by_address.remove(&entry.address);
        self.free.push(route.0);
        let peer = entry.place.take()?.peer;
        self.by_place.remove(&peer.0);
        Some(peer)
    }

    /// Long messages on `route` seem to get lost.
    pub(crate) fn doubt(&mut self, route: Route) {
        let entry = self.entries.get_mut(route.0 as usize);
        if let Some(place) = entry.and_then(|entry| entry.place.as_mut()) {
            place.is_doubted = true;
        }
    }

    /// Undoes every [`RouteTable::doubt`].
    pub(crate) fn trust_all(&mut self) {
        let places = self.entries.iter_mut().filter_map(|entry| entry.place.as_mut());
        places.for_each(|place| place.is_doubted = false);
    }

    /// The origin of frames from the peer in this place: the number of its route.
    #[inline]
    pub(crate) fn origin(&self, place: Option<Peer>) -> Origin {
        let route = place.and_then(|place| self.by_place.get(&place.0));
        route.map_or(Origin::STRANGER, |route| Origin(*route))
    }

    /// The place of a route that somebody holds.
    #[inline]
    pub(crate) fn get(&self, route: Route) -> Option<Place> {
        self.entries.get(route.0 as usize)?.place
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
        let route = table.insert(peer(1), Peer(7)).expect("there is room");
        assert_eq!(table.hold(peer(1)), Some(route));
        assert_eq!(table.release(route), None);
        assert_eq!(table.get(route), Some(Place { peer: Peer(7), is_doubted: false }));
        assert_eq!(table.origin(Some(Peer(7))), Origin(route.0));
        assert_eq!(table.release(route), Some(Peer(7)));
        assert_eq!(table.origin(Some(Peer(7))), Origin::STRANGER);
        assert_eq!(table.origin(None), Origin::STRANGER);
        assert_eq!((table.hold(peer(1)), table.get(route)), (None, None));
    }

    #[test]
    fn a_doubted_route_is_trusted_again() {
        let mut table = RouteTable::new(8);
        let routes = [1, 2].map(|at| table.insert(peer(at), Peer(at.into())).expect("room"));
        table.doubt(routes[1]);
        table.doubt(Route(9));
        let doubted = |table: &RouteTable| {
            routes.map(|route| table.get(route).expect("it is held").is_doubted)
        };
        assert_eq!(doubted(&table), [false, true]);
        table.trust_all();
        assert_eq!(doubted(&table), [false, false]);
    }

    #[test]
    fn free_indices_are_reused_and_the_limit_holds() {
        let mut table = RouteTable::new(2);
        let first = table.insert(peer(1), Peer(0)).expect("there is room");
        table.insert(peer(2), Peer(1)).expect("there is room");
        assert!(matches!(table.insert(peer(3), Peer(2)), Err(RouteError::TableFull)));
        table.release(first);
        assert_eq!(table.insert(peer(3), Peer(3)).expect("one was freed"), first);
    }

    #[test]
    #[should_panic(expected = "a released route is held")]
    fn releasing_too_often_is_a_bug_of_the_caller() {
        let mut table = RouteTable::new(2);
        let route = table.insert(peer(1), Peer(0)).expect("there is room");
        table.release(route);
        table.release(route);
    }
}
