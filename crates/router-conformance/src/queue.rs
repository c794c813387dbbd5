//! The router's queue (RT24).

use core::time::Duration;

use petasos_wire::{RejectCode, RoutePolicy};

use crate::{PlaneFactory, World, config};

/// RT6: what a packet has waited is taken off its time, and none goes that has expired.
pub fn rt6_what_waits_goes_when_a_worker_has_settled<F: PlaneFactory>(factory: &F) {
    let mut world = World::new(factory, "jbsq1", 1, 1);
    world.ask(b"first");
    let (lifetime_us, waited) = (10_000_000, Duration::from_millis(4));
    let later = world.first(b"second", |block| block.lifetime_us = Some(lifetime_us));
    world.send(&later);
    assert_eq!((world.given(0).len(), world.waiting()), (1, 1));
    world.pass(waited);
    world.feed_back(0, 1, |_| {});
    let given = world.given(0);
    assert_eq!((given[0].number, given[0].message.as_slice()), (2, b"second".as_slice()));
    let left = given[0].lifetime_us.expect("it has a limit");
    // A tier tells the time itself.
    let least = if world.has_tier() { lifetime_us / 2 } else { lifetime_us - 4_100 };
    assert!((least..=lifetime_us - 4_000).contains(&left), "{left}");
    assert_eq!(world.waiting(), 0);
    let late = world.first(b"third", |block| block.lifetime_us = Some(1_000));
    world.send(&late);
    world.pass(Duration::from_millis(2));
    world.turn();
    assert_eq!(world.rejections(), [RejectCode::Expired]);
    assert!(world.given(0).iter().all(|packet| packet.is_probe));
}

/// RT24.
pub fn rt24_the_most_urgent_goes_first_and_within_that_who_came_first<F: PlaneFactory>(
    factory: &F,
) {
    let mut world = World::new(factory, "jbsq1", 1, 1);
    world.ask(b"now");
    for (message, priority) in [(b"a", 1), (b"b", 9), (b"c", 1), (b"d", 9)] {
        let bytes = world.first(message, |block| block.priority = priority);
        world.send(&bytes);
    }
    (0..4).for_each(|_| world.feed_back(0, 1, |_| {}));
    assert_eq!(world.messages(0), [b"now".as_slice(), b"b", b"d", b"a", b"c"]);
}

/// RT24: of eight that wait, the one that came last among the least urgent gives way to one that
/// is more urgent, and another is rejected itself.
pub fn rt24_a_full_queue_drops_the_newest_of_the_least_urgent<F: PlaneFactory>(factory: &F) {
    let many = petasos_router_plane::PlaneConfig { clients_max: 16, ..config("jbsq1") };
    let mut world = World::with(factory, &many, 1, 1);
    world.ask(b"now");
    for (number, priority) in (0..8u8).zip([2, 1, 2, 1, 2, 2, 2, 2]) {
        // A client each: the first request of each has room as long as there is any.
        world.client = world.attach(0);
        let bytes = world.first(&[number], |block| block.priority = priority);
        world.send(&bytes);
    }
    assert_eq!((world.rejections(), world.waiting()), (vec![], 8));
    for (message, priority) in [(b"least", 0), (b"equal", 1), (b"above", 3)] {
        world.client = world.attach(0);
        let bytes = world.first(message, |block| block.priority = priority);
        world.send(&bytes);
        assert_eq!((world.rejections(), world.waiting()), (vec![RejectCode::QueueFull], 8));
    }
    (0..8).for_each(|_| world.feed_back(0, 1, |_| {}));
    let order: [&[u8]; 9] = [b"now", b"above", &[0], &[2], &[4], &[5], &[6], &[7], &[1]];
    assert_eq!(world.messages(0), order, "3 was the newest of the least urgent");
}

/// RT24: a client may have as much of the queue as it leaves free.
pub fn rt24_one_client_leaves_room_for_others<F: PlaneFactory>(factory: &F) {
    let mut world = World::new(factory, "jbsq1", 1, 1);
    (0..9).for_each(|_| world.ask(b"x"));
    assert_eq!(world.waiting(), 4, "half of eight");
    assert_eq!(world.rejections(), [RejectCode::QueueFull; 4]);
    let first = world.client;
    world.client = world.attach(1);
    world.ask(b"other");
    assert_eq!((world.rejections(), world.waiting()), (vec![], 5));
    // The first client goes: what it has asked goes with it.
    world.plane.detach(&mut world.io, first.0.client);
    (0..5).for_each(|_| world.feed_back(0, 1, |_| {}));
    assert_eq!((world.waiting(), world.stats().orphaned), (0, 4));
    assert_eq!(world.messages(0), [b"x".as_slice(), b"other"]);
}

/// RT24: a primary that hangs keeps no others waiting.
pub fn rt24_what_is_for_the_primary_has_half_of_the_queue<F: PlaneFactory>(factory: &F) {
    let many = petasos_router_plane::PlaneConfig { clients_max: 16, ..config("jbsq1") };
    let mut world = World::with(factory, &many, 1, 1);
    let primary = world.workers[0].joined.id;
    world.plane.set_primary(Some(primary));
    world.ask(b"now");
    for number in 0..5 {
        world.client = world.attach(0);
        let bytes = world.first(b"w", |block| block.policy = RoutePolicy::Primary);
        world.send(&bytes);
        let rejected = world.rejections();
        assert_eq!(rejected, vec![RejectCode::QueueFull; usize::from(number == 4)]);
    }
    world.client = world.attach(0);
    world.ask(b"any");
    assert_eq!((world.rejections(), world.waiting()), (vec![], 5));
}

/// RT24: at most `age`, also for a worker that is silent.
pub fn rt24_nothing_waits_for_longer_than_it_may<F: PlaneFactory>(factory: &F) {
    let mut world = World::new(factory, "jbsq1", 1, 1);
    world.ask(b"lost");
    world.ask(b"waits");
    let mut turns = 0;
    while world.waiting() == 1 {
        world.now = world.now + Duration::from_millis(10);
        world.turn();
        turns += 1;
        assert!(turns < 102, "a second");
    }
    assert!(turns > 98, "{turns}: a silent worker is waited for");
    assert_eq!(world.rejections(), [RejectCode::QueueFull]);
    assert_eq!(world.plane.counts().aged, 1);
}

/// RT24.
pub fn rt24_what_waits_is_rejected_when_the_last_worker_drains<F: PlaneFactory>(factory: &F) {
    let mut world = World::new(factory, "jbsq1", 2, 1);
    (0..4).for_each(|_| world.ask(b"x"));
    let [first, last] = [0, 1].map(|at| world.workers[at].joined.id);
    world.plane.drain(first, true);
    world.turn();
    assert_eq!((world.rejections(), world.waiting()), (vec![], 2));
    world.plane.drain(last, true);
    world.turn();
    assert_eq!(world.rejections(), [RejectCode::NoWorker; 2]);
    assert_eq!(world.waiting(), 0);
}
