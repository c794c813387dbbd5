//! Packets that nobody should send, too many of them, and clocks that jump.

use core::time::Duration;

use petasos_netio::PacketIo;
use petasos_wire::RoutePolicy;

use crate::{PAYLOAD, PlaneFactory, World};

/// How many altered packets.
const ROUNDS: usize = 5_000;
/// The longest packet that is tried, in bytes.
const LONG_BYTES_MAX: usize = 9_000;

/// RT1, RT2, RT4: each by its fault. None takes a number of a worker, and nobody is told anything.
pub fn short_long_and_unknown_packets_are_counted_and_cost_nothing<F: PlaneFactory>(factory: &F) {
    let mut world = World::new(factory, "rr", 1, 64);
    let good = world.first(b"good", |_| {});
    world.send(&good);
    world.send(&good);
    assert_eq!(world.stats().repeated, 1);
    let mut reserved = world.first(b"x", |_| {});
    reserved[25] |= 2;
    let mut short = world.first(b"a message", |_| {});
    short.pop();
    let long = world.first(&[0; PAYLOAD as usize + 1], |_| {});
    let route = world.io.route(world.client_address(0)).expect("it was reachable before");
    let longest = world.io.datagram_bytes_max(route).min(LONG_BYTES_MAX);
    world.io.release_route(route);
    let mut longest_bytes = good.clone();
    longest_bytes.resize(longest, 0);
    for bytes in [&reserved, &short, &long, &longest_bytes] {
        world.send(bytes);
    }
    assert_eq!(world.stats().void, 4);
    for bytes in [&good[..1], &good[..20], &good[..23], &good[..63]] {
        world.send(bytes);
    }
    // Another version, no kind at all, and each kind that no router takes.
    let (version, kind) = (good[0] & 0xf, good[0] >> 4);
    for first in (0..16).filter(|other| *other != kind).map(|other| version | other << 4) {
        world.send(&[&[first][..], &good[1..]].concat());
    }
    world.send(&[&[version ^ 8 | kind << 4][..], &good[1..]].concat());
    let stats = world.stats();
    assert_eq!((stats.malformed + stats.void, stats.void_feedback), (24, 0), "{stats:?}");
    // As long as feedback, and none.
    world.send(&good[..24]);
    assert_eq!(world.stats().void_feedback, 1);
    world.ask(b"next");
    let numbers: Vec<_> = world.given(0).iter().map(|packet| packet.number).collect();
    assert_eq!(numbers, [1, 2]);
    assert!(world.rejections().is_empty());
}

/// Whatever bytes arrive: nothing panics, and every frame comes back.
pub fn altered_packets_do_no_harm<F: PlaneFactory>(factory: &F) {
    let mut world = World::new(factory, "jbsq1", 2, 2);
    let mut rng = petasos_base::Rng::new(7);
    for round in 0..ROUNDS {
        if round % 50 == 0 {
            // An altered number may be the highest for long.
            let old = world.client.0.client;
            world.plane.detach(&mut world.io, old);
            world.plane.give_back(old);
            world.client = world.attach(0);
        }
        let (policy, priority) = ([0, 0, 1, 2][rng.below(4) as usize], rng.below(16) as u8);
        let mut bytes = world.first(&[7; 40], |block| {
            block.policy = RoutePolicy::from_number(policy).expect("it is assigned");
            block.priority = priority;
        });
        for _ in 0..rng.below(3) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << rng.below(8);
        }
        bytes.truncate(if rng.below(8) == 0 { 1 + rng.below(64) as usize } else { bytes.len() });
        world.send(&bytes);
        if rng.below(3) == 0 {
            let (at, field, bit) = (rng.below(2) as usize, rng.below(4), rng.below(20));
            let known = world.plane.worker(world.workers[at].joined.id).expect("it is there");
            let held = known.account.given() as u32 - world.workers[at].counts.settled;
            world.feed_back(at, held, |told| match field {
                0 => told.counts.settled ^= 1 << bit,
                1 => told.counts.received ^= 1 << bit,
                2 => told.tag ^= 1 << bit,
                _ => {}
            });
        }
        world.client_inbox(0);
        (0..2).for_each(|at| _ = world.worker_inbox(at));
        assert!(world.plane.waiting() <= 8);
    }
    assert!(world.stats().given > ROUNDS as u64 / 20, "{:?}", world.stats());
    let ids = [0, 1].map(|at| world.workers[at].joined.id);
    for id in ids {
        world.plane.end(&mut world.io, id);
    }
    world.turn();
    assert_eq!(world.waiting(), 0, "nobody is left who would take it");
}

/// RT24: each request of another client is given, and after no more than the flood may have of the
/// queue.
pub fn rt24_a_client_that_floods_keeps_others_waiting_for_its_share_at_most<F: PlaneFactory>(
    factory: &F,
) {
    let mut world = World::new(factory, "jbsq1", 1, 1);
    let (flooding, other) = (world.client, world.attach(1));
    for round in 0..20u8 {
        world.client = flooding;
        (0..10).for_each(|_| world.ask(b"flood"));
        assert!(world.waiting() <= 4, "half of eight");
        world.client = other;
        world.ask(&[round]);
        assert!(world.rejections().is_empty(), "there is room in round {round}");
        let before = world.waiting();
        (0..before).for_each(|_| world.feed_back(0, 1, |_| {}));
        let last = world.messages(0).pop();
        assert_eq!((last, world.waiting()), (Some(vec![round]), 0));
    }
    assert_eq!(world.client_inbox(flooding.1).len() as u64, world.plane.rejections().queue_full);
    assert!(world.plane.rejections().queue_full > 100);
}

/// Clocks are monotonic, but a machine may be stopped for hours. What has waited is rejected, what
/// workers have stays theirs, and others are given after they were heard.
pub fn time_that_jumps_loses_no_slot<F: PlaneFactory>(factory: &F) {
    let mut world = World::new(factory, "jbsq2", 2, 2);
    for hours in [1, 24, 10_000] {
        (0..6u8).for_each(|byte| world.ask(&[byte]));
        let has = [0, 1].map(|at| world.requests(at).len());
        assert_eq!((has, world.waiting()), ([2, 2], 2));
        world.now = world.now + Duration::from_secs(hours * 3600);
        (0..3).for_each(|_| world.turn());
        // What a tier has parked goes by its own clock, which has not jumped.
        let (rejected, parked) = (world.rejections().len(), world.waiting());
        assert!(rejected + parked == 2 && (parked == 0 || world.has_tier()));
        let held = [0, 1].map(|at| world.outstanding(at));
        for (at, held) in held.into_iter().enumerate() {
            world.feed_back(at, held, |_| {});
        }
        let has = [0, 1].map(|at| world.requests(at).len());
        assert_eq!(has.iter().sum::<usize>(), parked);
        for at in [0, 1] {
            let held = world.outstanding(at);
            world.feed_back(at, held, |_| {});
            assert_eq!(world.outstanding(at), 0);
        }
        assert_eq!(world.plane.members().count(), 2);
    }
}
