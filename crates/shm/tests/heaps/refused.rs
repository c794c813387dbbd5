//! What neither side takes.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use petasos_abi::{EXTENTS_MAX, Extent, ExtentError, HEAP_BYTES_MAX};
use petasos_shm::{AdoptError, AdoptedHeap, FileError, HeapError, HeapKind, OwnedHeap};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use crate::{Heap, UNIT};

const KINDS: [HeapKind; 2] = [HeapKind::Send, HeapKind::Receive];

/// A memory file of `len` bytes with `seals`.
fn file(len: u64, seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create("test", flags).expect("the host has memory files");
    ftruncate(&file, len).expect("there is memory");
    fcntl_add_seals(&file, seals).expect("sealing was allowed");
    file
}

fn good_seals(kind: HeapKind) -> SealFlags {
    let length = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    match kind {
        HeapKind::Send => length,
        HeapKind::Receive => length | SealFlags::FUTURE_WRITE,
    }
}

/// That an application does not map this file as its first extent, but then a good one.
fn refused(kind: HeapKind, bad: &OwnedFd) -> FileError {
    let mut heap = AdoptedHeap::reserve(kind, 4 * UNIT).expect("there are addresses");
    let extent = Extent { offset: UNIT, bytes: UNIT };
    let Err(AdoptError::File(error)) = heap.map(bad.as_fd(), extent) else {
        panic!("it was mapped");
    };
    assert_eq!(heap.extents().bytes(), 0);
    heap.map(file(UNIT, good_seals(kind)).as_fd(), extent).expect("nothing is in its way");
    error
}

#[test]
fn d2_files_without_the_seals_of_their_heap_are_refused() {
    for kind in KINDS {
        let good = good_seals(kind);
        for missing in good.iter() {
            let error = refused(kind, &file(UNIT, good - missing));
            assert!(matches!(error, FileError::NotSealed), "{kind:?} {missing:?}: {error:?}");
        }
        let error = refused(kind, &file(UNIT, good | SealFlags::WRITE));
        assert!(matches!(error, FileError::NotSealed), "{kind:?}: {error:?}");
    }
    let error = refused(HeapKind::Send, &file(UNIT, good_seals(HeapKind::Receive)));
    assert!(matches!(error, FileError::NotSealed), "{error:?}");
}

#[test]
fn d2_files_of_another_length_are_refused() {
    for len in [0, UNIT - 1, UNIT - 4096, UNIT + 1, 2 * UNIT] {
        for kind in KINDS {
            let error = refused(kind, &file(len, good_seals(kind)));
            let FileError::Length { expected: UNIT, found } = error else { panic!("{error:?}") };
            assert_eq!(found, len);
        }
    }
}

#[test]
fn d2_files_that_are_no_memory_are_refused() {
    let program = std::env::current_exe().expect("a test has a file");
    let (reader, _writer) = std::io::pipe().expect("the host has pipes");
    let files = [File::open("/dev/zero"), File::open(program)].map(|file| file.unwrap().into());
    for file in files.into_iter().chain([reader.into()]) {
        let error = refused(HeapKind::Send, &file);
        assert!(matches!(error, FileError::NotSharedMemory), "{error:?}");
    }
}

/// Of one kind of heap only: the other's is only read.
#[test]
fn d2_a_descriptor_that_cannot_write_is_refused_for_a_send_heap() {
    let read_only = |kind| {
        let file = file(UNIT, good_seals(kind));
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        OwnedFd::from(File::open(path).unwrap())
    };
    let error = refused(HeapKind::Send, &read_only(HeapKind::Send));
    assert!(matches!(error, FileError::System(_)), "{error:?}");
    let mut heap = AdoptedHeap::reserve(HeapKind::Receive, UNIT).unwrap();
    let extent = Extent { offset: 0, bytes: UNIT };
    heap.map(read_only(HeapKind::Receive).as_fd(), extent).expect("reading is enough");
}

#[test]
fn d2_extents_that_do_not_fit_the_heap_are_refused_without_a_change() {
    let (mut heap, file) = Heap::with_extent(HeapKind::Send, 2);
    heap.store(0, b"still there");
    let at = |offset, bytes| Extent { offset, bytes };
    let [overlap, end] = [at(UNIT, 2 * UNIT), at(7 * UNIT, 2 * UNIT)];
    let [unaligned, odd, empty] = [at(4 * UNIT + 4096, 2 * UNIT), at(0, 4096), at(4 * UNIT, 0)];
    let far = at(u64::MAX - UNIT + 1, 2 * UNIT);
    for (extent, expected) in [
        (overlap, ExtentError::Overlap(overlap)),
        (end, ExtentError::Outside(end)),
        (far, ExtentError::Outside(far)),
        (unaligned, ExtentError::Shape(unaligned)),
        (odd, ExtentError::Shape(odd)),
        (empty, ExtentError::Shape(empty)),
    ] {
        let refused = heap.application.map(file.as_fd(), extent);
        assert!(matches!(refused, Err(AdoptError::Extent(found)) if found == expected));
    }
    assert_eq!(heap.application.extents().iter().collect::<Vec<_>>(), [at(0, 2 * UNIT)]);
    assert_eq!(heap.load(0, 11), b"still there");
}

#[test]
fn d2_sizes_that_no_extent_has_are_refused_without_a_change() {
    let mut heap = OwnedHeap::reserve(HeapKind::Send, 4 * UNIT).unwrap();
    for bytes in [0, 1, UNIT - 1, UNIT + 4096] {
        let refused = heap.grow(bytes);
        assert!(matches!(refused, Err(HeapError::Extent(ExtentError::Shape(_)))), "{refused:?}");
    }
    for bytes in [5 * UNIT, u64::MAX - UNIT + 1, u64::MAX] {
        let refused = heap.grow(bytes);
        assert!(matches!(refused, Err(HeapError::NoRoom(found)) if found == bytes), "{refused:?}");
    }
    heap.grow(4 * UNIT).expect("the whole heap is free");
    assert!(matches!(heap.grow(UNIT), Err(HeapError::NoRoom(UNIT))));
    assert_eq!(heap.extents().bytes(), 4 * UNIT);
}

#[test]
fn d2_a_heap_has_at_most_so_many_extents_at_both_sides() {
    let mut heap = Heap::new(HeapKind::Receive, HEAP_BYTES_MAX / UNIT);
    (0..EXTENTS_MAX).for_each(|_| drop(heap.grow(1)));
    let refused = heap.service.grow(UNIT);
    assert!(matches!(refused, Err(HeapError::Extent(ExtentError::TooMany))), "{refused:?}");
    let more = file(UNIT, good_seals(HeapKind::Receive));
    let extent = Extent { offset: HEAP_BYTES_MAX - UNIT, bytes: UNIT };
    let refused = heap.application.map(more.as_fd(), extent);
    assert!(matches!(refused, Err(AdoptError::Extent(ExtentError::TooMany))), "{refused:?}");
    heap.service.write(EXTENTS_MAX as u64 * UNIT - 5, b"bytes").unwrap();
    assert_eq!(heap.load(EXTENTS_MAX as u64 * UNIT - 5, 5), b"bytes");
    heap.service.remove(0).unwrap();
    heap.application.unmap(0).unwrap();
    assert_eq!(heap.grow(1).0.offset, 0);
}

#[test]
fn d2_ranges_that_no_heap_has_are_refused() {
    for bytes in [0, HEAP_BYTES_MAX + 1, u64::MAX] {
        let refused = OwnedHeap::reserve(HeapKind::Send, bytes);
        assert!(matches!(refused, Err(HeapError::Range(found)) if found == bytes), "{refused:?}");
        let refused = AdoptedHeap::reserve(HeapKind::Send, bytes);
        assert!(matches!(refused, Err(HeapError::Range(found)) if found == bytes), "{refused:?}");
    }
}

#[test]
fn d2_what_is_no_extent_cannot_be_taken_away() {
    let (mut heap, _) = Heap::with_extent(HeapKind::Send, 2);
    for offset in [1, UNIT, 2 * UNIT, u64::MAX] {
        let refused = heap.service.remove(offset);
        assert!(matches!(refused, Err(HeapError::NoExtent(found)) if found == offset));
        let refused = heap.application.unmap(offset);
        assert!(matches!(refused, Err(HeapError::NoExtent(found)) if found == offset));
    }
    assert_eq!(heap.copy(2 * UNIT - 1, 1), heap.load(2 * UNIT - 1, 1));
}

#[test]
#[should_panic(expected = "slices are of what the service writes")]
fn d2_a_program_borrows_nothing_of_what_it_writes() {
    let (heap, _) = Heap::with_extent(HeapKind::Send, 1);
    let _ = heap.application.slice(0, 1);
}

#[test]
#[should_panic(expected = "the service writes receive heaps only")]
fn d2_the_service_does_not_write_a_send_heap() {
    let (mut heap, _) = Heap::with_extent(HeapKind::Send, 1);
    let _ = heap.service.write(0, &[1]);
}

#[test]
#[should_panic(expected = "slices are of what the application writes")]
fn d2_there_are_no_slices_of_a_receive_heap() {
    let (heap, _) = Heap::with_extent(HeapKind::Receive, 1);
    let _ = heap.service.slice(0, 1);
}
