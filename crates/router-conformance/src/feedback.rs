//! Feedback: when it is heard, what of it is believed, and what happens without it.

use core::time::Duration;

use petasos_router::Ejection;
use petasos_router_plane::PlaneConfig;
use petasos_wire::{Feedback, SETTLED_NUMBERS, WorkerCounts};

use crate::{PlaneFactory, World, config};

/// RT20: what a worker has settled is known before it is decided about first packets that came
/// with the feedback, or before it.
pub fn rt20_feedback_is_heard_before_first_packets_of_the_same_batch<F: PlaneFactory>(factory: &F) {
    let mut world = World::new(factory, "jbsq1", 1, 1);
    world.ask(b"one");
    let two = world.first(b"two", |_| {});
    world.post_from_client(0, &two);
    let told = world.told(0, 1);
    world.post_from_worker(0, &told.to_bytes());
    world.turn();
    assert_eq!(world.messages(0), [b"one", b"two"]);
    // A tier takes them as they come.
    assert!(world.stats().waited == 0 || world.has_tier());
    assert_eq!(world.waiting(), 0);
}

/// RT20: no payload, no block, no flag.
pub fn rt20_feedback_with_more_than_its_header_is_void<F: PlaneFactory>(factory: &F) {
    let mut world = World::new(factory, "jbsq1", 1, 1);
    world.ask(b"one");
    world.ask(b"waits");
    let told = world.told(0, 1);
    let longer = [&told.to_bytes()[..], &[0]].concat();
    let flagged = told.header().with_checksum();
    for bytes in [&longer[..], &told.to_bytes()[..23], &flagged.to_bytes()] {
        world.post_from_worker(0, bytes);
        world.turn();
    }
    let stats = world.stats();
    assert_eq!((stats.void_feedback, stats.malformed, world.waiting()), (1, 2, 1));
    world.post_from_worker(0, &told.to_bytes());
    world.turn();
    assert_eq!(world.waiting(), 0, "as it should be, it is believed");
}

/// RT22: feedback has to have all marks of its worker, and to come from its address.
pub fn rt22_feedback_of_strangers_frees_nothing<F: PlaneFactory>(factory: &F) {
    let mut world = World::new(factory, "jbsq1", 2, 1);
    world.ask(b"one");
    world.ask(b"two");
    world.ask(b"waits");
    let of_other = world.workers[1].joined.session;
    let good = world.told(0, 1);
    let forged = [
        Feedback { tag: good.tag ^ 1, ..good },
        Feedback { secret: good.secret ^ 1, ..good },
        Feedback { session: of_other, ..good },
        Feedback { session: 4000, ..good },
    ];
    for told in forged {
        world.post_from_worker(0, &told.to_bytes());
        world.turn();
    }
    assert_eq!((world.stats().void_feedback, world.waiting()), (4, 1));
    if factory.tells_origins() {
        world.post_from_worker(1, &good.to_bytes());
        world.post_from_client(0, &good.to_bytes());
        world.turn();
        assert_eq!((world.stats().void_feedback, world.waiting()), (6, 1));
    }
    world.post_from_worker(0, &good.to_bytes());
    world.turn();
    assert_eq!(world.waiting(), 0, "what it says itself is believed");
}

/// RT22: by its number, and by counts that do not fit what was given.
pub fn rt22_feedback_that_is_not_newer_or_cannot_be_is_void<F: PlaneFactory>(factory: &F) {
    let mut world = World::new(factory, "jbsq3", 1, 3);
    for message in [b"1", b"2", b"3", b"4"] {
        world.ask(message);
    }
    let older = world.told(0, 3);
    world.feed_back(0, 0, |told| told.counts.settled = 9);
    assert_eq!((world.plane.counts().wrong_counts, world.waiting()), (1, 1));
    world.feed_back(0, 0, |told| told.counts.received = 4);
    assert_eq!((world.plane.counts().wrong_counts, world.waiting()), (2, 1));
    world.feed_back(0, 0, |told| told.counts.settled = 1);
    assert_eq!(world.waiting(), 0);
    // Now fewer than before, and then what was sent first.
    world.feed_back(0, 0, |told| told.counts.settled = 0);
    assert_eq!(world.plane.counts().wrong_counts, 3);
    // What a tier has heeded and passed on is no news either.
    let stale = world.plane.counts().stale;
    world.post_from_worker(0, &older.to_bytes());
    world.turn();
    assert_eq!(world.plane.counts().stale, stale + 1);
    world.ask(b"5");
    assert_eq!((world.messages(0).len(), world.waiting()), (4, 1), "three are outstanding");
}

/// RT22.
pub fn rt22_a_worker_that_says_nothing_is_probed<F: PlaneFactory>(factory: &F) {
    let mut world = World::new(factory, "jbsq1", 1, 1);
    world.ask(b"lost");
    world.given(0);
    for _ in 0..200 {
        world.now = world.now + Duration::from_micros(100);
        world.turn();
    }
    let given = world.given(0);
    assert!(!given.is_empty() && given.iter().all(|packet| packet.is_probe), "{given:?}");
    assert_eq!(given[0].number, 2);
    assert_eq!(world.stats().probes, given.len() as u64);
}

/// RT22: less than *n*, whatever the policy, and nothing at 0.
pub fn rt22_nobody_is_given_more_than_it_has_announced<F: PlaneFactory>(factory: &F) {
    for policy in ["rr", "jsq", "random", "jbsq3"] {
        let mut world = World::new(factory, policy, 1, 2);
        (0..4u8).for_each(|byte| world.ask(&[byte]));
        assert_eq!((world.messages(0).len(), world.waiting()), (2, 2), "{policy}");
        world.feed_back(0, 1, |told| told.counts.bound = 0);
        assert!(world.given(0).is_empty(), "{policy}: it drains");
        assert_eq!(world.plane.counts().unwanted, 2, "{policy}: and nobody else is there");
    }
}

/// After a pause of the router, feedback waits to be heard: nobody is asked before.
pub fn a_router_that_paused_asks_nobody_whose_feedback_waits<F: PlaneFactory>(factory: &F) {
    let mut world = World::new(factory, "jbsq1", 2, 1);
    world.ask(b"one");
    world.ask(b"two");
    assert_eq!([0, 1].map(|at| world.given(at).len()), [1, 1]);
    world.now = world.now + Duration::from_millis(30);
    // The first of them is heard by itself, unless a tier has heard both.
    let both = [0, 1].map(|at| world.told(at, 1).to_bytes());
    for (at, told) in both.iter().enumerate() {
        world.post_from_worker(at, told);
        if !world.has_tier() {
            world.turn();
        }
    }
    (0..3).for_each(|_| world.turn());
    assert_eq!(world.stats().probes, 0);
    // But timers do not wait for ever.
    world.ask(b"three");
    world.now = world.now + Duration::from_millis(30);
    for _ in 0..20 {
        let bytes = world.first(b"x", |block| block.epoch = 9);
        world.send(&bytes);
    }
    assert_eq!(world.stats().probes, 1);
}

/// RT22: no, many, few, impossible and fewer than before: the group's limit holds, and what a
/// worker does not take goes to others.
pub fn rt22_a_worker_that_announces_anything_takes_nothing_from_others<F: PlaneFactory>(
    factory: &F,
) {
    const LIMIT: u16 = 3;
    let mut world = World::new(factory, "jbsq3", 2, LIMIT);
    let mut wrong = 0;
    for announced in [0, 4095, 2, 1, 0, 4095] {
        let held = world.outstanding(0);
        world.feed_back(0, held, |told| told.counts.bound = announced);
        let cannot_be: [fn(&mut WorkerCounts); 3] = [
            |counts| counts.settled = counts.settled.wrapping_sub(1) % SETTLED_NUMBERS,
            |counts| counts.settled += 9,
            |counts| counts.received += 9,
        ];
        for change in cannot_be {
            world.feed_back(0, 0, |told| change(&mut told.counts));
            wrong += 1;
        }
        assert_eq!(world.plane.counts().wrong_counts, wrong);
        (0..6u8).for_each(|byte| world.ask(&[byte]));
        let most = usize::from(announced.min(LIMIT));
        assert_eq!(world.messages(0).len(), most, "of {announced}");
        let held = world.outstanding(1);
        world.feed_back(1, held, |_| {});
        assert_eq!((world.messages(1).len(), world.waiting()), (6 - most, 0));
        let held = world.outstanding(1);
        world.feed_back(1, held, |_| {});
        assert!(world.rejections().is_empty(), "others serve");
    }
}

/// RT23: what it was given is given to nobody else, and nothing more waits for it.
pub fn rt23_a_worker_that_stops_delays_what_it_has_and_nothing_else<F: PlaneFactory>(factory: &F) {
    const BOUND: usize = 3;
    let mut world = World::new(factory, "jbsq3", 2, BOUND as u16);
    (0..6u8).for_each(|number| world.ask(&[number]));
    let mut given = [Vec::new(), Vec::new()];
    for number in 6..60u8 {
        for (at, given) in given.iter_mut().enumerate() {
            given.extend(world.requests(at).iter().map(|message| message[0]));
        }
        world.now = world.now + Duration::from_millis(2);
        let held = world.outstanding(1);
        world.feed_back(1, held, |_| {});
        world.ask(&[number]);
    }
    given[1].extend(world.requests(1).iter().map(|message| message[0]));
    assert_eq!(given[0].len(), BOUND, "as many as it takes, and no more");
    let mut all = given.concat();
    all.sort_unstable();
    assert_eq!(all, (0..60).collect::<Vec<_>>(), "each to one");
    assert!(world.rejections().is_empty() && world.waiting() == 0);
    assert_eq!(world.outstanding(0) - world.stats().probes as u32, BOUND as u32);
    // It goes on: its slots are there again.
    let held = [0, 1].map(|at| world.outstanding(at));
    held.iter().enumerate().for_each(|(at, held)| world.feed_back(at, *held, |_| {}));
    world.given(0);
    (0..6u8).for_each(|number| world.ask(&[number]));
    assert_eq!(world.requests(0).len(), BOUND);
}

/// RT20, RT23: it says so itself. What it has is settled as ever, and after its time it is given
/// something again.
pub fn rt23_a_worker_that_fails_much_is_given_nothing_for_a_while<F: PlaneFactory>(factory: &F) {
    let mut config: PlaneConfig = config("jbsq1");
    config.core.ejection = Some(Ejection { failures_min: 3, ..Ejection::default() });
    let mut world = World::with(factory, &config, 2, 1);
    world.ask(b"one");
    world.ask(b"two");
    world.feed_back(0, 1, |told| told.failed = 2);
    world.ask(b"three");
    assert_eq!(world.requests(0).len(), 2, "two failures are few");
    world.feed_back(0, 1, |told| told.failed = 1);
    world.ask(b"waits");
    assert_eq!((world.waiting(), world.requests(0).len()), (1, 0), "it is out");
    world.feed_back(1, 1, |_| {});
    assert_eq!((world.waiting(), world.requests(1).len()), (0, 2));
    world.feed_back(1, 1, |_| {});
    world.now = world.now + Duration::from_millis(1100);
    world.turn();
    world.ask(b"four");
    world.ask(b"five");
    assert_eq!([0, 1].map(|at| world.requests(at).len()), [1, 1], "its time is over");
}

/// Somebody on the path, who knows all that a worker's feedback has, says that it is done and takes
/// many. What it has is counted wrongly, but never above the limit, until it has told itself.
pub fn rt22_forged_counts_are_set_right_by_the_worker_itself<F: PlaneFactory>(factory: &F) {
    const LIMIT: u32 = 3;
    let mut world = World::new(factory, "jbsq3", 1, LIMIT as u16);
    let ask = |world: &mut World<F::Io>| {
        (0..4u8).for_each(|byte| world.ask(&[byte]));
        assert_eq!(world.outstanding(0), LIMIT);
        world.messages(0).len() as u32
    };
    for round in 1..=5 {
        let honest = world.workers[0].counts;
        assert_eq!(ask(&mut world), LIMIT);
        world.feed_back(0, LIMIT, |forged| forged.counts.bound = 4095);
        assert_eq!(ask(&mut world), LIMIT, "as if it had nothing left");
        let sequence = world.workers[0].counts.sequence;
        world.workers[0].counts = WorkerCounts { sequence, ..honest };
        // Less than was forged: that is void, until it is true.
        world.feed_back(0, 1, |_| {});
        assert_eq!(world.plane.counts().wrong_counts, round);
        assert!(world.messages(0).is_empty());
        world.feed_back(0, 2 * LIMIT - 1, |_| {});
        let waited = world.messages(0).len() as u32;
        assert_eq!((waited, world.outstanding(0)), (2, 2));
        world.feed_back(0, waited, |_| {});
        assert_eq!((world.outstanding(0), world.waiting()), (0, 0));
    }
}
