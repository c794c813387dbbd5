//! Thousands of seeded runs: no stream stops, nothing is lost, doubled, out of order or unbounded.

use super::world::{World, check_stream};
use crate::Code;

/// More than any run takes that gets on.
const STEPS_MAX: u32 = 400_000;

fn run(seed: u64, slots: u32, streams: usize) -> World {
    let mut world = World::new(seed, slots);
    let ends_at = world.rng.chance(0.1).then(|| world.rng.below(3000) as u32);
    world.open();
    for step in 0..STEPS_MAX {
        if world.up && world.callers.len() < streams {
            world.open();
        }
        if world.up && ends_at.is_some_and(|at| step >= at) {
            world.end_session();
        }
        world.step();
        let opened = world.callers.len() == streams || !world.up;
        if opened && world.is_over() {
            return world;
        }
    }
    panic!(
        "a stream stopped: {:?}",
        world.callers.iter().map(|side| &side.app).collect::<Vec<_>>()
    );
}

fn check(mut world: World) {
    // Handlers learn of what the network has brought, at their pace.
    for _ in 0..100_000 {
        if world.servers.iter().all(|side| side.app.ended || side.app.reset || !side.app.started) {
            break;
        }
        world.step();
    }
    world.check_empty();
    for caller in &world.callers {
        let number = caller.stream.number();
        let server = world.servers.iter().find(|side| side.number == number);
        check_stream(caller, server, world.up);
    }
}

/// Each run names its seed before it can fail.
fn each(seeds: std::ops::Range<u64>, mut body: impl FnMut(u64)) {
    for seed in seeds {
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(seed)));
        if let Err(panic) = failed {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn r14_to_r20_single_streams_end_as_they_should() {
    each(0..4000, |seed| {
        let world = run(seed, 2, 1);
        let caller = &world.callers[0];
        if caller.app.end.as_ref().is_some_and(|end| end.code() == Code::Ok) {
            // Nothing circulates: beyond messages there are the first exchange, and what turns
            // bare exchanges round (R18). A message that fills the receiver's half makes it turn
            // twice.
            let (mine, theirs) = (&caller.app, &world.servers[0].app);
            let small = mine.sizes.never_fill() && theirs.sizes.never_fill();
            let per_message = if small { 1 } else { 2 };
            let messages = mine.sent + theirs.sent;
            let exchanges = caller.exchanges;
            assert!(exchanges <= messages * per_message + 3, "{exchanges}, {messages}, {small}");
        }
        check(world);
    });
}

#[test]
fn r14_r15_r19_r21_many_streams_share_a_session_and_leave_nothing() {
    each(10_000..10_400, |seed| check(run(seed, 8, 24)));
}

#[test]
fn r14_r15_r17_a_stream_with_a_session_to_itself_grows_wide() {
    let mut widest = 0;
    each(20_000..20_600, |seed| {
        let world = run(seed, 32, 1);
        widest = widest.max(world.widest);
        check(world);
    });
    assert_eq!(widest, usize::from(super::super::WIDTH_MAX));
}

#[test]
fn r14_r19_wide_streams_share_a_session_and_give_back_what_they_were_lent() {
    each(30_000..30_200, |seed| check(run(seed, 64, 40)));
    each(31_000..31_200, |seed| check(run(seed, 6, 8)));
}
