//! In steady state a short call allocates nothing, and neither do its messages.

mod greeter;

use std::alloc::System;

use greeter::*;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const CALLS: usize = 1000;

/// What `CALLS` calls allocate.
fn of_calls(world: &World, bytes: &[u8]) -> usize {
    let client = world.client.clone();
    let bytes = bytes.to_vec();
    let task = world.home.spawn(async move {
        let region = Region::new(ALLOCATOR);
        for _ in 0..CALLS {
            let echoed = client.echo(blob(&bytes)).await.expect("the handler answers");
            assert_eq!(echoed.bytes().len(), bytes.len());
        }
        region.change().allocations
    });
    world.home.block_on(task).expect("it does not panic")
}

/// One test only: the counter sees every thread of the process.
#[test]
fn short_calls_allocate_nothing() {
    let region = Region::new(ALLOCATOR);
    drop(std::hint::black_box(vec![1u8; 100]));
    assert!(region.change().allocations > 0, "the counter counts");
    let world = World::new();
    for bytes in [0, 32, 300] {
        let bytes = vec![7; bytes];
        of_calls(&world, &bytes);
        // Threads of the test runner may allocate, too, but hardly each time.
        let calls = (0..3).map(|_| of_calls(&world, &bytes)).min().expect("three runs");
        assert_eq!(calls, 0, "with {} bytes", bytes.len());
    }
}
