//! What a router rejects itself (RT25).

use petasos_wire::{RejectCode, RoutePolicy};

use crate::{PlaneFactory, World};

/// RT24, RT25. The form of each is checked by [`World::rejections`].
pub fn rt25_rejections_say_why_and_go_to_the_reply_address<F: PlaneFactory>(factory: &F) {
    let mut world = World::new(factory, "jbsq1", 1, 1);
    world.client = world.attach(1);
    let epoch = world.first(b"x", |block| block.epoch = 9);
    let expired = world.first(b"x", |block| block.lifetime_us = Some(0));
    let probe = world.first(b"x", |block| block.policy = RoutePolicy::Probe);
    let mut unknown = world.first(b"x", |_| {});
    unknown[24] |= 5;
    let primary = world.first(b"x", |block| block.policy = RoutePolicy::Primary);
    for (bytes, code) in [
        (epoch, RejectCode::Again),
        (expired, RejectCode::Expired),
        (probe, RejectCode::UnknownPolicy),
        (unknown, RejectCode::UnknownPolicy),
        (primary, RejectCode::NoWorker),
    ] {
        world.send(&bytes);
        assert_eq!(world.rejections(), [code]);
    }
    assert!(world.client_inbox(0).is_empty(), "another client is told nothing");
    let counts = *world.plane.rejections();
    assert_eq!(
        (counts.again, counts.expired, counts.unknown_policy, counts.no_worker),
        (1, 1, 2, 1)
    );
    world.plane.begin_epoch(9, None);
    let newest = world.first(b"newest", |block| block.epoch = 9);
    world.send(&newest);
    assert_eq!(world.given(0).len(), 1);
    let id = world.workers[0].joined.id;
    world.plane.drain(id, true);
    world.ask(b"late");
    assert_eq!(world.rejections(), [RejectCode::NoWorker]);
}
