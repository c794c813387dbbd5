//! What decoding allocates (M30). A program of its own: the allocator counts for all threads.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![allow(dead_code, reason = "each test program uses some of what they share")]

#[path = "protobuf/random.rs"]
mod random;
#[path = "../../schema/tests/common/random.rs"]
mod schemas;
#[path = "protobuf/support.rs"]
mod support;

use std::alloc::System;

use petasos_base::Rng;
use petasos_message::DecodeLimits;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use prost_reflect::prost::Message as _;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use support::Fixture;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// M30
#[test]
fn a_decode_allocates_no_more_than_it_may() {
    hostile_input();
    damaged_input();
}

/// Alternating fields defeat counting ahead; members of a oneof replace each other; maps come
/// descending.
fn hostile_input() {
    let fixture = Fixture::wide();
    for pair in [[0x52, 0, 0x20, 0], [0x3a, 0, 0x42, 0], [0x12, 0, 0x52, 0], [0x1a, 0, 0x52, 0]] {
        within_limits(&fixture, "M", &[pair; 100_000].concat());
    }
    let entries: Vec<_> = (0..50_000u32).rev().map(entry).collect();
    within_limits(&fixture, "M", &entries.concat());
}

/// An entry of `map<int32, M> c = 3` with a key of three bytes.
fn entry(key: u32) -> [u8; 6] {
    let low = |shift: u32| (key >> shift) as u8 & 0x7f;
    [0x1a, 4, 0x08, low(0) | 0x80, low(7) | 0x80, low(14)]
}

fn damaged_input() {
    let mut runner = TestRunner::deterministic();
    let mut rng = Rng::new(7);
    for _ in 0..200 {
        let set = schemas::descriptor_set().new_tree(&mut runner).unwrap().current();
        let fixture = Fixture::of(&set.encode_to_vec());
        for descriptor in fixture.pool.all_messages().filter(|it| !it.is_map_entry()) {
            let mut bytes = random::message(&descriptor, &mut rng, false, 3).encode_to_vec();
            if !bytes.is_empty() {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = rng.next_u64() as u8;
            }
            within_limits(&fixture, descriptor.full_name(), &bytes);
        }
    }
}

/// Decodes, and holds what was allocated against limits that are wide, tight and hopeless.
fn within_limits(fixture: &Fixture, name: &str, bytes: &[u8]) {
    let usual = DecodeLimits::for_input(bytes.len());
    for memory_bytes_max in [usual.memory_bytes_max, 8 * bytes.len() + 4096, 2048] {
        let limits = DecodeLimits { memory_bytes_max, ..usual };
        let region = Region::new(ALLOCATOR);
        let decoded = fixture.decode_within(name, bytes, &limits);
        let allocated = region.change().bytes_allocated;
        drop(decoded);
        assert!(allocated <= memory_bytes_max, "{allocated} > {memory_bytes_max}");
    }
}
