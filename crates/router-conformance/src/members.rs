//! Clients and workers that go, and others that come after them.

use petasos_wire::RoutePolicy;

use crate::{PlaneFactory, World};

/// Also when another has its place.
pub fn a_worker_that_has_gone_is_given_nothing<F: PlaneFactory>(factory: &F) {
    let mut world = World::new(factory, "rr", 2, 64);
    let gone = world.workers[0].joined.id;
    assert_eq!(world.plane.end(&mut world.io, gone), Some(1));
    assert_eq!(world.plane.end(&mut world.io, gone), None);
    (0..4).for_each(|_| world.ask(b"x"));
    assert_eq!((world.given(0).len(), world.given(1).len()), (0, 4));
    world.join(1, true);
    assert_eq!(world.workers[2].joined.session, world.workers[0].joined.session);
    assert_eq!(world.plane.members().count(), 2);
    let primary = world.first(b"x", |block| block.policy = RoutePolicy::Primary);
    world.send(&primary);
    assert_eq!((world.given(2).len(), world.given(0).len()), (1, 0));
}

/// A request that waits is of the client that asked, not of the next one with its number.
pub fn a_client_that_is_gone_leaves_nothing_to_the_next_with_its_number<F: PlaneFactory>(
    factory: &F,
) {
    let mut world = World::new(factory, "jbsq1", 1, 1);
    world.ask(b"one");
    world.ask(b"two");
    assert_eq!((world.given(0).len(), world.waiting()), (1, 1));
    let old = world.client.0.client;
    assert!(world.plane.detach(&mut world.io, old) && world.plane.give_back(old));
    let next = world.attach(1);
    // Numbers are given in the order in which they became free: this is the old one.
    assert_eq!(next.0.client, old);
    world.feed_back(0, 1, |_| {});
    assert!(world.given(0).is_empty(), "it is not given under another's name");
    assert_eq!((world.stats().orphaned, world.waiting()), (1, 0));
    assert!(world.client_inbox(1).is_empty(), "and the other is told nothing");
}
