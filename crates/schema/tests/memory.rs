//! What hostile input makes the crate allocate.

use std::alloc::System;
use std::sync::{Mutex, MutexGuard, PoisonError};

use petasos_schema::{Limits, Options, Schema};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The allocator counts for the whole process: each test holds this from its beginning, since what
/// another prepares would be counted, too.
fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bytes that `work` allocates over its whole run, freed ones too.
fn allocated(work: impl FnOnce()) -> usize {
    let region = Region::new(ALLOCATOR);
    work();
    region.change().bytes_allocated
}

/// `count` times the field `tag` with `body`.
fn repeated(tag: u8, body: &[u8], count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..count {
        bytes.extend([tag, body.len() as u8]);
        bytes.extend(body);
    }
    bytes
}

fn load(bytes: &[u8]) -> usize {
    allocated(|| assert!(Schema::from_descriptors(bytes, &Options::default()).is_err()))
}

#[test]
fn descriptors_are_counted_before_they_are_stored() {
    let _alone = alone();
    // Two bytes for each empty file, until the limit of elements.
    let bytes = repeated(0x0a, b"", 2 << 20);
    let spent = load(&bytes);
    assert!(spent < Limits::default().elements_max * 1000, "{spent}");
    // The same within one file: messages, enums, services, and source locations.
    for tag in [0x22, 0x2a, 0x32, 0x4a] {
        let mut file = match tag {
            0x4a => {
                let locations = repeated(0x0a, b"", 1 << 20);
                [&b"\x4a\x80\x80\x80\x01"[..], &locations].concat()
            }
            _ => repeated(tag, b"", 1 << 20),
        };
        let mut length = file.len();
        let mut set = vec![0x0a];
        while length > 0x7f {
            set.push(0x80 | (length & 0x7f) as u8);
            length >>= 7;
        }
        set.push(length as u8);
        set.append(&mut file);
        let spent = load(&set);
        assert!(spent < Limits::default().elements_max * 1000, "{tag}: {spent}");
    }
}

#[test]
fn a_length_alone_costs_nothing() {
    let _alone = alone();
    // Descriptors and a compact form that announce far more than they have.
    assert!(load(b"\x0a\xff\xff\xff\x01\x0a") < 10_000);
    let spent = allocated(|| {
        let limits = Limits { elements_max: usize::MAX, ..Limits::default() };
        assert!(Schema::decode(b"\x01\xff\xff\xff\xff\xff\x01", &limits).is_err());
        assert!(Schema::decode(b"\x01\xff\x01", &limits).is_err());
        assert!(Schema::decode(b"\x01\x01\xff\xff\xff\x7fa", &limits).is_err());
    });
    assert!(spent < 10_000, "{spent}");
}

#[test]
fn a_compact_form_costs_a_multiple_of_its_length() {
    let _alone = alone();
    // Messages of one letter, nine bytes of input each at most, that are not sorted in the end.
    let count = 100_000;
    let mut bytes = vec![1, 0, 0xa0, 0x8d, 0x06];
    (0..count).for_each(|_| bytes.extend(b"\x01a\x00\x00\x00"));
    bytes.push(0);
    let limits = Limits::default();
    let spent = allocated(|| assert!(Schema::decode(&bytes, &limits).is_err()));
    assert!(spent < bytes.len() * 200, "{spent} for {} bytes", bytes.len());
}

#[test]
fn long_packages_do_not_multiply() {
    let _alone = alone();
    // A package of 100 kB with a thousand messages in it.
    let mut file = b"\x12\xa0\x8d\x06".to_vec();
    file.extend(vec![b'p'; 100_000]);
    file.extend(b"\x62\x06proto3");
    (0..1000).for_each(|at| file.extend(format!("\x22\x07\x0a\x05M{at:04}").as_bytes()));
    let length = file.len();
    let mut set = vec![0x0a, 0x80 | (length & 0x7f) as u8, 0x80 | (length >> 7 & 0x7f) as u8];
    set.push((length >> 14) as u8);
    set.extend(file);
    assert!(load(&set) < 1_000_000);
}
