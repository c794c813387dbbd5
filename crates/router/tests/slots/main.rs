//! Slots at both ends: the router's core and the worker's numbers, over a link that loses, copies
//! and reorders (RT19 to RT23).

mod world;

use proptest::prelude::*;

use crate::world::{Link, World};

/// Where counts begin: at 0, and so that given numbers, messages and settled ones wrap.
fn starts() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => Just(0u64),
        1 => Just((1 << 20) - 60),
        1 => Just((1 << 24) - 60),
        1 => Just((1 << 28) - 60),
    ]
}

proptest! {
    #![proptest_config(petasos_cases::kept_with(150))]

    /// Each request runs once at most and its number is settled once, no worker has more than *n*,
    /// and when the link is whole again, all slots are back in bounded time.
    #[test]
    fn rt19_to_rt23_slots_come_back_whatever_the_link_does(
        seed: u64,
        start in starts(),
        loss in prop_oneof![Just(0.0), Just(0.01), Just(0.3)],
        copies in prop_oneof![Just(0.0), Just(0.2)],
        is_slow: bool,
    ) {
        let link = Link { loss, copies, is_slow };
        World::new(seed, start, link).run();
    }
}

/// With *n* = 1, every loss is at the end of a row: only probes show it.
#[test]
fn rt22_probes_find_what_no_later_number_shows() {
    for seed in 0..50 {
        let link = Link { loss: 0.5, copies: 0.0, is_slow: false };
        let world = World::new(seed, 0, link).with_n(1).run();
        assert!(world.probes() > 0);
    }
}

/// A link that is broken for long: the workers are silent, keep what they have, and come back with
/// the first feedback.
#[test]
fn rt23_silent_workers_keep_their_slots_and_come_back() {
    for seed in 0..20 {
        let link = Link { loss: 0.01, copies: 0.1, is_slow: false };
        let world = World::new(seed, (1 << 28) - 60, link).broken_for_a_second().run();
        assert!(world.silences() > 0);
    }
}
