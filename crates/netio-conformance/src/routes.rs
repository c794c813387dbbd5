//! Properties of routes: which route an address gets, and how long it stays valid.

use petasos_netio::{Origin, PacketIo, RouteError};

use crate::BackendFactory;
use crate::harness::{
    expect, expect_nothing, origin_of_next, packet, pair, payload, send_all, trio,
};

/// The same address gives the same route, and another address another.
pub fn gives_one_route_per_address<F: BackendFactory>(factory: &F) {
    let (mut from, to, routes) = trio(factory);
    assert_ne!(routes[0], routes[1]);
    for (io, route) in to.iter().zip(routes) {
        assert_eq!(from.route(io.local_address()).expect("it was reachable before"), route);
    }
}

/// A route held twice works after one release.
pub fn keeps_a_route_until_its_last_release<F: BackendFactory>(factory: &F) {
    let (mut from, mut to, route) = pair(factory);
    let again = from.route(to.local_address()).expect("it was reachable before");
    from.release_route(again);
    let bytes = payload(1, 50);
    send_all(&mut from, &[packet(route, &bytes)]);
    expect(&mut to, &[bytes]);
    assert!(from.datagram_bytes_max(route) >= 50);
}

/// After its last release, a peer can get a route again, and packets go to the peer of the new
/// route.
pub fn takes_a_released_address_again<F: BackendFactory>(factory: &F) {
    let (mut from, mut to, routes) = trio(factory);
    routes.iter().for_each(|route| from.release_route(*route));
    // In the opposite order, so that a backend that reuses indices swaps them.
    for at in [1, 0] {
        let route = from.route(to[at].local_address()).expect("it was reachable before");
        let bytes = payload(at, 50);
        send_all(&mut from, &[packet(route, &bytes)]);
        expect(&mut to[at], &[bytes]);
        expect_nothing(&mut to[1 - at]);
    }
}

/// An address of another family is refused with the right error, and the backend still works.
pub fn refuses_the_wrong_family<F: BackendFactory>(factory: &F) {
    let (mut from, mut to, route) = pair(factory);
    let foreign = factory.foreign_address();
    match from.route(foreign) {
        Err(RouteError::WrongFamily(address)) => assert_eq!(address, foreign),
        other => panic!("{foreign} gave {other:?}"),
    }
    let bytes = payload(1, 50);
    send_all(&mut from, &[packet(route, &bytes)]);
    expect(&mut to, &[bytes]);
}

/// A route's limit has room for a header and some data, and both directions agree on it.
pub fn names_a_useful_limit<F: BackendFactory>(factory: &F) {
    let (from, mut to, route) = pair(factory);
    let back = to.route(from.local_address()).expect("ports reach each other");
    assert!(from.datagram_bytes_max(route) >= 1024);
    assert_eq!(from.datagram_bytes_max(route), to.datagram_bytes_max(back));
}

/// W32: a frame reports the route to its sender, and none if the sender has no route. Otherwise, no
/// frame and no route reports an origin at all.
pub fn tells_where_frames_come_from<F: BackendFactory>(factory: &F) {
    let [mut to, mut known, mut other]: [F::Io; 3] =
        factory.ports(3).try_into().ok().expect("the factory makes as many as it is asked for");
    let route = to.route(known.local_address()).expect("ports reach each other");
    let origin_from = |from: &mut F::Io, to: &mut F::Io| {
        let there = from.route(to.local_address()).expect("ports reach each other");
        send_all(from, &[packet(there, &payload(1, 50))]);
        origin_of_next(to)
    };
    let origins = [&mut known, &mut other].map(|from| origin_from(from, &mut to));
    if !factory.tells_origins() {
        assert_eq!((origins, to.origin(route)), ([None, None], Origin::UNTOLD));
        return;
    }
    assert_eq!(origins[0], Some(to.origin(route)));
    if to.origin(route) == Origin::RINGS {
        return assert_eq!(origins[1], Some(Origin::RINGS));
    }
    assert_eq!(origins[1], Some(Origin::STRANGER));
    let second = to.route(other.local_address()).expect("ports reach each other");
    assert_eq!(origin_from(&mut other, &mut to), Some(to.origin(second)));
    assert_ne!(to.origin(route), to.origin(second));
    to.release_route(second);
    assert_eq!(origin_from(&mut other, &mut to), Some(Origin::STRANGER));
    assert_eq!(origin_from(&mut known, &mut to), Some(to.origin(route)));
}
