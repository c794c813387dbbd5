//! What is checked before a peer's memory is mapped.
#![cfg(not(loom))]

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use petasos_shm::{FileError, RegionError, RingShape, ShapeError, adopt, create};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

const SHAPE: RingShape = RingShape { slots: 8, data_bytes: 4096, record_bytes_max: 2048 };

/// A memory file of `len` bytes with `seals`.
fn file(len: usize, seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create("test", flags).expect("the host has memory files");
    ftruncate(&file, len as u64).expect("there is memory");
    fcntl_add_seals(&file, seals).expect("sealing was allowed");
    file
}

fn good_seals() -> SealFlags {
    SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL
}

#[test]
fn a_created_region_is_adopted_and_cannot_change_its_length() {
    let (_ends, region) = create(SHAPE).expect("the host has memory files");
    adopt(region.as_fd(), SHAPE).expect("it was just created");
    for len in [0, SHAPE.region_bytes() * 2] {
        ftruncate(&region, len as u64).expect_err("it is sealed");
    }
    adopt(file(SHAPE.region_bytes(), good_seals()).as_fd(), SHAPE).expect("it is as it should be");
}

#[test]
fn memory_that_can_shrink_or_be_sealed_later_is_refused() {
    let all = good_seals();
    for missing in [SealFlags::SHRINK, SealFlags::GROW, SealFlags::SEAL] {
        let file = file(SHAPE.region_bytes(), all - missing);
        let refused = adopt(file.as_fd(), SHAPE);
        assert!(
            matches!(refused, Err(RegionError::File(FileError::NotSealed))),
            "{missing:?}: {refused:?}"
        );
    }
}

#[test]
fn memory_of_another_length_is_refused() {
    for len in [0, SHAPE.region_bytes() - 1, SHAPE.region_bytes() + 4096] {
        let refused = adopt(file(len, good_seals()).as_fd(), SHAPE);
        let Err(RegionError::File(FileError::Length { expected, found })) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!((expected, found), (SHAPE.region_bytes() as u64, len as u64));
    }
}

#[test]
fn files_that_are_no_memory_are_refused() {
    let program = std::env::current_exe().expect("a test has a file");
    for file in [File::open("/dev/null"), File::open(program)] {
        let refused = adopt(file.expect("it can be read").as_fd(), SHAPE);
        assert!(
            matches!(refused, Err(RegionError::File(FileError::NotSharedMemory))),
            "{refused:?}"
        );
    }
}

#[test]
fn memory_that_cannot_be_written_is_refused_and_no_fault_at_the_first_access() {
    for seal in [SealFlags::WRITE, SealFlags::FUTURE_WRITE] {
        let file = file(SHAPE.region_bytes(), good_seals() | seal);
        let refused = adopt(file.as_fd(), SHAPE);
        assert!(matches!(refused, Err(RegionError::File(FileError::NotSealed))), "{refused:?}");
    }
}

#[test]
fn impossible_sizes_make_no_region() {
    let bad = RingShape { slots: 7, ..SHAPE };
    let refused = create(bad);
    assert!(matches!(refused, Err(RegionError::Shape(ShapeError(shape))) if shape == bad));
}
