//! Extents that are taken away while slices of them are held.

use std::os::fd::AsFd;
use std::sync::Barrier;

use petasos_base::sync::{AtomicBool, Ordering};
use petasos_shm::{HeapKind, HeapSlice, Outside};

use crate::{DoneWhenDropped, Heap, UNIT, pattern};

fn read(slice: &HeapSlice) -> Vec<u8> {
    let mut out = vec![0xdd; slice.bytes()];
    slice.copy_to(0, &mut out).expect("it is the whole slice");
    out
}

#[test]
fn d2_d3_what_was_removed_is_outside_and_zeros_for_those_who_hold_it() {
    let mut heap = Heap::new(HeapKind::Send, 4);
    (0..3).for_each(|_| drop(heap.grow(1)));
    let bytes = pattern(3 * UNIT as usize);
    heap.store(0, &bytes);
    let slice = heap.service.slice(0, 3 * UNIT).unwrap();
    assert_eq!(heap.service.remove(UNIT).unwrap().bytes, UNIT);
    let mut expected = bytes.clone();
    expected[UNIT as usize..2 * UNIT as usize].fill(0);
    assert_eq!(read(&slice), expected);
    assert_eq!(heap.service.copy_out(UNIT, &mut [0]), Err(Outside { offset: UNIT, bytes: 1 }));
    assert!(heap.service.slice(UNIT - 1, 2).is_err());
    assert_eq!(heap.copy(2 * UNIT, 100), bytes[2 * UNIT as usize..][..100]);
    assert_eq!(heap.load(0, bytes.len()), bytes, "the application keeps its own mapping");
    assert_eq!(heap.service.extents().bytes(), 2 * UNIT);
}

#[test]
fn d2_a_place_is_used_again_when_no_slice_is_left_that_was_made_before() {
    let (mut heap, _) = Heap::with_extent(HeapKind::Send, 1);
    heap.store(0, &[7; 100]);
    let [early, late] = [(); 2].map(|()| heap.service.slice(0, 100).unwrap());
    heap.service.remove(0).unwrap();
    heap.application.unmap(0).unwrap();
    for (next, slices) in [(1, vec![early]), (2, vec![late])] {
        let (extent, _) = heap.grow(1);
        assert_eq!(extent.offset, next * UNIT, "the place is held");
        heap.store(extent.offset, &[9; 100]);
        slices.iter().for_each(|slice| assert_eq!(read(slice), [0; 100]));
    }
    let of_another = heap.service.slice(UNIT, 100).unwrap();
    let (extent, _) = heap.grow(1);
    assert_eq!(extent.offset, 0, "a slice that was made later does not hold it");
    assert_eq!(heap.copy(0, 100), [0; 100], "memory is new");
    assert_eq!(read(&of_another), [9; 100]);
}

/// A slice holds what is removed after it was made, however many other removals there were.
#[test]
fn d2_a_slice_outlasts_several_removals() {
    let mut heap = Heap::new(HeapKind::Send, 4);
    (0..4).for_each(|_| drop(heap.grow(1)));
    heap.store(2 * UNIT, &[7; 100]);
    let slice = heap.service.slice(2 * UNIT, 100).unwrap();
    for unit in [0, 1, 2] {
        heap.service.slice(unit * UNIT, 1).unwrap();
        heap.service.remove(unit * UNIT).unwrap();
        assert!(heap.service.grow(UNIT).is_err(), "unit {unit}");
    }
    assert_eq!(read(&slice), [0; 100]);
    drop(slice);
    let free = [(); 3].map(|()| heap.service.grow(UNIT).unwrap().0.offset / UNIT);
    assert_eq!(free, [0, 1, 2]);
}

#[test]
fn d2_a_slice_keeps_a_dropped_heap_mapped() {
    let (mut heap, _) = Heap::with_extent(HeapKind::Send, 1);
    heap.store(100, &pattern(1000));
    let slice = heap.service.slice(100, 1000).unwrap();
    drop(heap);
    assert_eq!(read(&slice.clone()), pattern(1000));
}

#[test]
fn d9_what_was_received_is_read_where_it_lies_until_the_slice_is_dropped() {
    let (mut heap, _) = Heap::with_extent(HeapKind::Receive, 2);
    heap.service.write(UNIT - 100, &pattern(1000)).unwrap();
    let slice = heap.application.slice(UNIT - 100, 1000).unwrap();
    assert_eq!(slice.as_ref(), pattern(1000));
    let at = heap.application.start().as_ptr().wrapping_add(UNIT as usize - 100);
    assert_eq!(slice.as_ref().as_ptr(), at.cast_const());
    assert!(heap.application.slice(2 * UNIT - 1, 2).is_err());
    drop(heap);
    assert_eq!(slice.as_ref(), pattern(1000));
}

/// A service that takes an extent away too early does no harm: nothing else is put there.
#[test]
fn d2_an_extent_is_given_up_when_no_slice_is_left() {
    let (mut heap, _) = Heap::with_extent(HeapKind::Receive, 1);
    heap.service.write(0, &pattern(1000)).unwrap();
    let slice = heap.application.slice(0, 1000).unwrap();
    heap.application.unmap(0).unwrap();
    heap.service.remove(0).unwrap();
    assert!(heap.application.slice(0, 1).is_err(), "it is not there for others");
    assert_eq!(slice.as_ref(), pattern(1000));
    let (extent, file) = heap.service.grow(UNIT).unwrap();
    assert_eq!(extent.offset, 0);
    assert!(heap.application.map(file.as_fd(), extent).is_err(), "the place is held");
    assert_eq!(slice.as_ref(), pattern(1000));
    drop(slice);
    heap.application.map(file.as_fd(), extent).unwrap();
    assert_eq!(heap.load(0, 100), [0; 100]);
}

/// The system swaps the memory in one step: the reader neither faults nor sees anything else.
#[test]
fn d2_an_extent_is_removed_while_another_thread_reads_it() {
    let mut heap = Heap::new(HeapKind::Send, 8);
    for round in 0..300 {
        let (extent, _) = heap.grow(1);
        heap.store(extent.offset, &[7; UNIT as usize]);
        let slice = heap.service.slice(extent.offset, UNIT).unwrap();
        let (started, done) = (&Barrier::new(2), &AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                started.wait();
                while !done.load(Ordering::Relaxed) {
                    assert!(read(&slice).iter().all(|byte| [0, 7].contains(byte)), "{round}");
                }
                assert_eq!(read(&slice), vec![0; UNIT as usize], "round {round}");
            });
            let _done = DoneWhenDropped(done);
            started.wait();
            assert_eq!(read(&slice), vec![7; UNIT as usize], "round {round}");
            heap.service.remove(extent.offset).unwrap();
        });
        heap.application.unmap(extent.offset).unwrap();
    }
}
