//! What one side writes and the other reads.

use petasos_base::sync::{AtomicBool, Ordering};
use petasos_shm::{HeapKind, Outside};
use rustix::fs::{FallocateFlags, fallocate};

use crate::{DoneWhenDropped, Heap, UNIT, pattern, pointer, word};

#[test]
fn d2_what_the_application_writes_is_at_the_same_offset_for_the_service() {
    let (mut heap, _) = Heap::with_extent(HeapKind::Send, 1);
    let bytes = pattern(UNIT as usize);
    heap.store(0, &bytes);
    for at in [0, 1, 7, 8, 4096, 65_000] {
        for len in [1, 3, 8, 56, 255, 256, 257, 500] {
            let expected = &bytes[at..at + len];
            assert_eq!(heap.copy(at as u64, len), expected, "{at} {len}");
            let mut out = vec![0; len];
            let slice = heap.service.slice(at as u64, len as u64).unwrap();
            slice.copy_to(0, &mut out).unwrap();
            assert_eq!((out.as_slice(), slice.bytes()), (expected, len), "{at} {len}");
        }
    }
}

#[test]
fn d2_what_the_service_writes_is_at_the_same_offset_for_the_application() {
    let (mut heap, _) = Heap::with_extent(HeapKind::Receive, 1);
    for (at, len) in [(0, 1), (3, 300), (4096, 17), (UNIT - 1, 1), (100, 60_000)] {
        heap.service.write(at, &pattern(len)).unwrap();
        assert_eq!(heap.load(at, len), pattern(len), "{at} {len}");
        assert_eq!(heap.copy(at, len), pattern(len), "{at} {len}");
    }
}

#[test]
fn d3_a_place_may_lie_in_extents_that_are_next_to_each_other() {
    let mut heap = Heap::new(HeapKind::Send, 4);
    heap.grow(1);
    heap.grow(1);
    heap.store(UNIT - 10, &pattern(300));
    assert_eq!(heap.copy(UNIT - 10, 300), pattern(300));
    let mut out = vec![0; 297];
    heap.service.slice(UNIT - 10, 300).unwrap().copy_to(3, &mut out).unwrap();
    assert_eq!(out, pattern(300)[3..]);
}

#[test]
fn d3_bytes_without_memory_are_outside_and_nothing_is_copied() {
    let mut heaps = [HeapKind::Send, HeapKind::Receive].map(|kind| Heap::with_extent(kind, 1).0);
    for (offset, bytes) in [(UNIT, 1), (UNIT - 1, 2), (UNIT - 7, 8), (0, 0), (u64::MAX, 1)] {
        let outside = Err(Outside { offset, bytes });
        let mut out = vec![0xdd; bytes as usize];
        for heap in &mut heaps {
            assert_eq!(heap.service.copy_out(offset, &mut out), outside);
            assert!(out.iter().all(|byte| *byte == 0xdd));
        }
        assert_eq!(heaps[0].service.slice(offset, bytes).map(drop), outside);
        assert_eq!(heaps[1].service.write(offset, &out), outside);
    }
    assert_eq!(heaps[1].load(UNIT - 8, 8), [0; 8]);
    let slice = heaps[0].service.slice(8, 16).unwrap();
    for (at, len) in [(16, 1), (15, 2), (0, 17), (17, 0), (usize::MAX, 1)] {
        let outside = Outside { offset: at as u64, bytes: len as u64 };
        assert_eq!(slice.copy_to(at, &mut vec![0; len]), Err(outside));
    }
}

/// So a pointer that is relative to itself leads to the same object.
#[test]
fn d2_extents_are_equally_far_apart_at_both_sides() {
    let mut heap = Heap::new(HeapKind::Send, 64);
    let (from, to) = (heap.grow(3).0.offset + 40, heap.grow(2).0.offset + UNIT + 8);
    let [pointer, object] = [from, to].map(|at| pointer(&heap.application, at, 8) as i64);
    heap.store(from, &(object - pointer).to_le_bytes());
    heap.store(to, b"an objec");
    let mut relative = [0; 8];
    heap.service.copy_out(from, &mut relative).unwrap();
    let found = from.checked_add_signed(i64::from_le_bytes(relative)).unwrap();
    assert_eq!(heap.copy(found, 8), b"an objec");
}

#[test]
fn d2_a_hole_that_the_application_punches_reads_as_zeros() {
    let (mut heap, file) = Heap::with_extent(HeapKind::Send, 2);
    heap.store(0, &pattern(2 * UNIT as usize));
    let slice = heap.service.slice(UNIT, UNIT).unwrap();
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, hole, 4096, 2 * UNIT - 4096).expect("it is the application's memory");
    let mut expected = pattern(2 * UNIT as usize);
    expected[4096..].fill(0);
    assert_eq!(heap.copy(0, 2 * UNIT as usize), expected);
    let mut out = vec![0xdd; UNIT as usize];
    slice.copy_to(0, &mut out).unwrap();
    assert!(out.iter().all(|byte| *byte == 0));
}

const VALUES: [u64; 2] = [0x0123_4567_89ab_cdef, 0xf0e1_d2c3_b4a5_9687];

/// Calls `check` while another thread changes every word of the first 4096 bytes again and again.
fn while_words_change(check: impl FnOnce(&Heap)) {
    let (heap, _) = Heap::with_extent(HeapKind::Send, 1);
    let (application, done) = (&heap.application, &AtomicBool::new(false));
    let words: Vec<_> = (0..512).map(|index| word(application, 8 * index)).collect();
    let store_all = |value| words.iter().for_each(|word| word.store(value, Ordering::Relaxed));
    store_all(VALUES[0]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                VALUES.into_iter().for_each(store_all);
            }
        });
        let _done = DoneWhenDropped(done);
        check(&heap);
    });
}

#[test]
fn d3_words_that_change_during_a_copy_have_one_of_their_values() {
    while_words_change(|heap| {
        for round in 0..2000 {
            // Longer ones are copied as bytes: the next test.
            for len in [8, 64, 248, 256] {
                let copied = heap.copy(0, len);
                let (words, _) = copied.as_chunks::<8>();
                let known = |word: &[u8; 8]| VALUES.contains(&u64::from_le_bytes(*word));
                assert!(words.iter().all(known), "round {round}, {len} bytes");
            }
        }
    });
}

#[test]
fn d3_bytes_that_change_during_a_copy_at_any_offset_have_one_of_their_values() {
    let values = VALUES.map(u64::to_le_bytes);
    while_words_change(|heap| {
        for (round, at) in (0..2000).zip((1..100).cycle()) {
            for len in [5, 255, 2000] {
                let copied = heap.copy(at as u64, len);
                let known = |(index, byte): (usize, &u8)| {
                    values.iter().any(|value| value[(at + index) % 8] == *byte)
                };
                assert!(copied.iter().enumerate().all(known), "round {round}, {len} at {at}");
            }
        }
    });
}

/// The optimiser must not read the heap a second time where the copy is used.
#[test]
fn d3_a_copy_does_not_change_after_it_was_made() {
    while_words_change(|heap| {
        let mut differed = false;
        let mut previous = [0; 8];
        for _ in 0..100_000 {
            let mut copied = [0; 8];
            heap.service.copy_out(8, &mut copied).unwrap();
            let (first, second) = (u64::from_le_bytes(copied), u64::from_le_bytes(copied));
            assert_eq!(first, second);
            differed |= copied != core::mem::replace(&mut previous, copied);
            let mut long = [0; 2048];
            heap.service.copy_out(0, &mut long).unwrap();
            let sum = |bytes: &[u8]| bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>();
            assert_eq!(sum(&long), sum(core::hint::black_box(&long)));
        }
        assert!(differed, "the words change");
    });
}
