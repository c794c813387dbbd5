//! The table of peers with their headers, and of the neighbours through which they are reached.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::Bound;

use petasos_netio::{Ecn, Origin, Route, RouteError};

use crate::{Mac, Template};

/// One peer. After its release, the entry keeps its index with `datagram_bytes_max` 0, so that
/// every packet to it is refused as too long.
pub struct RouteEntry {
    /// The headers of packets to the peer.
    pub template: Template,
    /// The largest datagram payload, in bytes, that reaches the peer unfragmented.
    pub datagram_bytes_max: usize,
    peer: SocketAddr,
    /// The neighbour that packets are sent to: a router, or the peer itself.
    hop: IpAddr,
    holds: u32,
}

struct Hop {
    mac: Mac,
    /// The number of routes through this neighbour: at least 1.
    routes: u32,
}

/// Routes by index and by address, and the neighbours (hops) that they use. An address has at most
/// one route. A backend has one interface, so the scopes of addresses do not matter.
pub struct RouteTable {
    entries: Vec<RouteEntry>,
    by_address: BTreeMap<(IpAddr, u16), u32>,
    free: Vec<u32>,
    hops: BTreeMap<IpAddr, Hop>,
    routes_max: usize,
    /// The origin of the latest frame. Most frames come from the same peer as the one before.
    latest: Option<(SocketAddr, Origin)>,
}

fn key(peer: SocketAddr) -> (IpAddr, u16) {
    (peer.ip(), peer.port())
}

impl RouteTable {
    /// A table with room for `routes_max` routes.
    pub fn new(routes_max: usize) -> RouteTable {
        RouteTable {
            entries: Vec::new(),
            by_address: BTreeMap::new(),
            free: Vec::new(),
            hops: BTreeMap::new(),
            // Greater numbers are origins with another meaning.
            routes_max: routes_max.min(Origin::UNTOLD.0 as usize),
            latest: None,
        }
    }

    /// Adds a reference to the peer's route, if it has one.
    pub fn hold(&mut self, peer: SocketAddr) -> Option<Route> {
        let index = *self.by_address.get(&key(peer))?;
        self.entries[index as usize].holds += 1;
        Some(Route(index))
    }

    /// Whether another route can be inserted.
    pub fn has_room(&self) -> bool {
        !self.free.is_empty() || self.entries.len() < self.routes_max
    }

    /// Adds a route to a peer that has none, with one reference.
    ///
    /// # Errors
    /// [`RouteError::TableFull`].
    ///
    /// # Panics
    /// If the peer has a route already.
    pub fn insert(
        &mut self,
        peer: SocketAddr,
        (hop, mac): (IpAddr, Mac),
        template: Template,
        datagram_bytes_max: usize,
    ) -> Result<Route, RouteError> {
        if !self.has_room() {
            return Err(RouteError::TableFull);
        }
        let entry = RouteEntry { template, datagram_bytes_max, peer, hop, holds: 1 };
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
        self.latest = None;
        let previous = self.by_address.insert(key(peer), index);
        assert!(previous.is_none(), "a peer has at most one route");
        self.hops.entry(hop).or_insert(Hop { mac, routes: 0 }).routes += 1;
        self.set_mac(hop, mac);
        Ok(Route(index))
    }

    /// Removes a reference from `route`, and frees it with the last one.
    ///
    /// # Panics
    /// If nobody holds the route: the caller released it too often.
    pub fn release(&mut self, route: Route) {
        let entry = self.entries.get_mut(route.0 as usize).filter(|entry| entry.holds > 0);
        let entry = entry.expect("a released route is held");
        entry.holds -= 1;
        if entry.holds > 0 {
            return;
        }
        entry.datagram_bytes_max = 0;
        self.latest = None;
        self.by_address.remove(&key(entry.peer));
        self.free.push(route.0);
        let hop = self.hops.get_mut(&entry.hop).expect("a route's hop is known");
        hop.routes -= 1;
        if hop.routes == 0 {
            self.hops.remove(&entry.hop);
        }
    }

    /// The origin of frames from `source`: the number of the peer's route, if it has one.
    #[inline]
    pub fn origin_of(&mut self, source: SocketAddr) -> Origin {
        match self.latest {
            Some((latest, origin)) if latest == source => origin,
            _ => self.look_up(source),
        }
    }

    fn look_up(&mut self, source: SocketAddr) -> Origin {
        let index = self.by_address.get(&key(source));
        let origin = index.map_or(Origin::STRANGER, |index| Origin(*index));
        self.latest = Some((source, origin));
        origin
    }

    /// The route's entry. That of a released route refuses every packet as too long.
    #[inline]
    pub fn get(&self, route: Route) -> Option<&RouteEntry> {
        self.entries.get(route.0 as usize)
    }

    /// Notes a neighbour's Ethernet address. Returns whether a route uses the neighbour and its
    /// address has changed.
    pub fn set_mac(&mut self, hop: IpAddr, mac: Mac) -> bool {
        let Some(entry) = self.hops.get_mut(&hop) else { return false };
        if entry.mac == mac {
            return false;
        }
        entry.mac = mac;
        let there = self.entries.iter_mut().filter(|entry| entry.hop == hop);
        there.for_each(|entry| entry.template.set_mac(mac));
        true
    }

    /// Changes the ECN bits of sent packets on every route.
    pub fn set_ecn(&mut self, ecn: Ecn) {
        self.entries.iter_mut().for_each(|entry| entry.template.set_ecn(ecn));
    }

    /// The number of hops.
    pub fn hops(&self) -> usize {
        self.hops.len()
    }

    /// The hop after `last`, cyclically.
    pub fn hop_after(&self, last: Option<IpAddr>) -> Option<IpAddr> {
        let after = last.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = self.hops.range((after, Bound::Unbounded));
        rest.next().or_else(|| self.hops.first_key_value()).map(|(hop, _)| *hop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: (Mac, SocketAddr) =
        ([2, 0, 0, 0, 0, 1], SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1));

    fn peer(port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], port))
    }

    fn insert(table: &mut RouteTable, port: u16, hop: u8, mac: Mac) -> Result<Route, RouteError> {
        let template = Template::new(LOCAL, (mac, peer(port)), Ecn::NotCapable);
        table.insert(peer(port), ([10, 0, 0, hop].into(), mac), template, 100)
    }

    fn mac_of(table: &RouteTable, route: Route) -> Mac {
        let mut frame = [0; 128];
        table.get(route).expect("it exists").template.write(&mut frame, &[1], &[]);
        frame[..6].try_into().expect("six bytes")
    }

    #[test]
    fn an_address_keeps_its_route_until_the_last_hold_is_released() {
        let mut table = RouteTable::new(8);
        let route = insert(&mut table, 1, 1, [1; 6]).expect("there is room");
        assert_eq!(table.hold(peer(1)), Some(route));
        table.release(route);
        assert_eq!(table.hold(peer(1)), Some(route));
        table.release(route);
        table.release(route);
        assert_eq!(table.hold(peer(1)), None);
        assert_eq!(table.get(route).map(|entry| entry.datagram_bytes_max), Some(0));
        assert_eq!(table.hops(), 0);
    }

    #[test]
    fn free_indices_are_reused_and_the_limit_holds() {
        let mut table = RouteTable::new(2);
        let first = insert(&mut table, 1, 1, [1; 6]).expect("there is room");
        insert(&mut table, 2, 1, [1; 6]).expect("there is room");
        assert!(matches!(insert(&mut table, 3, 1, [1; 6]), Err(RouteError::TableFull)));
        table.release(first);
        assert_eq!(insert(&mut table, 3, 1, [1; 6]).expect("one was freed"), first);
    }

    #[test]
    fn w32_frames_come_from_the_route_of_their_source() {
        let mut table = RouteTable::new(8);
        let [first, second] =
            [1, 2].map(|port| insert(&mut table, port, 1, [1; 6]).expect("there is room"));
        let origins = [1, 1, 2, 3].map(|port| table.origin_of(peer(port)));
        assert_eq!(origins, [Origin(first.0), Origin(first.0), Origin(second.0), Origin::STRANGER]);
        assert_eq!(table.origin_of(SocketAddr::from(([10, 0, 0, 2], 1))), Origin::STRANGER);
        // The cached lookup must not outlive its route, and neither must a cached miss.
        table.origin_of(peer(1));
        table.release(first);
        assert_eq!(table.origin_of(peer(1)), Origin::STRANGER);
        let third = insert(&mut table, 1, 1, [1; 6]).expect("there is room");
        assert_eq!(table.origin_of(peer(1)), Origin(third.0));
    }

    #[test]
    fn a_neighbour_that_moves_takes_all_its_routes_along() {
        let mut table = RouteTable::new(8);
        let [first, second] =
            [1, 2].map(|port| insert(&mut table, port, 1, [1; 6]).expect("there is room"));
        let other = insert(&mut table, 3, 2, [3; 6]).expect("there is room");
        assert!(!table.set_mac([10, 0, 0, 1].into(), [1; 6]), "nothing has changed");
        assert!(!table.set_mac([10, 0, 0, 9].into(), [9; 6]), "not one of ours");
        assert!(table.set_mac([10, 0, 0, 1].into(), [7; 6]));
        let macs = [first, second, other].map(|route| mac_of(&table, route));
        assert_eq!(macs, [[7; 6], [7; 6], [3; 6]]);
        // A route made later brings its own news of the hop.
        insert(&mut table, 4, 2, [8; 6]).expect("there is room");
        assert_eq!(mac_of(&table, other), [8; 6]);
    }

    #[test]
    fn hops_are_visited_in_a_circle() {
        let mut table = RouteTable::new(8);
        assert_eq!(table.hop_after(None), None);
        for hop in [3, 1, 2] {
            insert(&mut table, hop.into(), hop, [1; 6]).expect("there is room");
        }
        let mut last = None;
        let visited: Vec<_> = (0..4)
            .map(|_| {
                last = table.hop_after(last);
                last
            })
            .collect();
        assert_eq!(visited, [1, 2, 3, 1].map(|hop| Some(IpAddr::from([10, 0, 0, hop]))));
    }

    #[test]
    #[should_panic(expected = "a released route is held")]
    fn releasing_too_often_is_a_bug_of_the_caller() {
        let mut table = RouteTable::new(2);
        let route = insert(&mut table, 1, 1, [1; 6]).expect("there is room");
        table.release(route);
        table.release(route);
    }
}
