//! What an application tries with the descriptors that it is given.

use core::ffi::c_void;
use core::ptr::null_mut;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use petasos_shm::HeapKind;
use rustix::fs::{FallocateFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use rustix::mm::{madvise, mmap, mprotect, munmap};

use crate::{Heap, UNIT, pattern, pointer};

const BYTES: usize = UNIT as usize;

/// A receive heap with an extent full of bytes, which `attack` tries to change.
fn attacked(attack: impl FnOnce(&Heap, BorrowedFd<'_>)) {
    let (mut heap, file) = Heap::with_extent(HeapKind::Receive, 1);
    heap.service.write(0, &pattern(BYTES)).expect("the place has memory");
    attack(&heap, file.as_fd());
    assert_eq!(heap.copy(0, BYTES), pattern(BYTES));
    assert_eq!(heap.load(0, BYTES), pattern(BYTES));
    heap.service.write(1, &[0xee; 3]).expect("as before");
    assert_eq!(heap.load(1, 3), [0xee; 3], "the service still writes");
}

fn map(
    file: BorrowedFd<'_>,
    access: ProtFlags,
    flags: MapFlags,
) -> rustix::io::Result<*mut c_void> {
    // SAFETY: the system chooses addresses that nothing else uses.
    unsafe { mmap(null_mut(), BYTES, access, flags, file, 0) }
}

fn unmap(mapped: *mut c_void) {
    // SAFETY: `map` has made the mapping, and nothing leads into it any more.
    unsafe { munmap(mapped, BYTES) }.expect("it is a mapping");
}

/// Every change that takes no mapping is refused.
fn write_in_vain(file: BorrowedFd<'_>) {
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    assert_eq!(rustix::io::write(file, b"mine"), Err(Errno::PERM));
    assert_eq!(rustix::io::pwrite(file, b"mine", 100), Err(Errno::PERM));
    assert_eq!(fallocate(file, hole, 0, 4096), Err(Errno::PERM));
    for len in [0, UNIT - 4096, 2 * UNIT] {
        assert_eq!(ftruncate(file, len), Err(Errno::PERM));
    }
    for flags in [MapFlags::SHARED, MapFlags::SHARED_VALIDATE] {
        for access in [ProtFlags::WRITE, ProtFlags::READ | ProtFlags::WRITE] {
            assert_eq!(map(file, access, flags), Err(Errno::PERM));
        }
    }
}

#[test]
fn d2_a_receive_extent_cannot_be_written_by_its_descriptor() {
    attacked(|_, file| write_in_vain(file));
}

#[test]
fn d2_a_receive_extent_cannot_be_written_by_opening_it_again() {
    attacked(|_, file| {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let again = OpenOptions::new().read(true).write(true).open(&path).expect("the same user");
        write_in_vain(again.as_fd());
        let emptied = File::create(&path).expect_err("this would shrink it");
        assert_eq!(emptied.raw_os_error(), Some(Errno::PERM.raw_os_error()));
    });
}

#[test]
fn d2_a_receive_extent_cannot_be_written_by_mapping_it_to_be_read() {
    attacked(|heap, file| {
        let read = map(file, ProtFlags::READ, MapFlags::SHARED).expect("reading is allowed");
        // SAFETY: nothing leads into the mapping.
        let made_writable = unsafe { mprotect(read, BYTES, MprotectFlags::WRITE) };
        assert_eq!(made_writable, Err(Errno::ACCESS));
        // SAFETY: as above.
        let punched = unsafe { madvise(read, BYTES, Advice::LinuxRemove) };
        assert_eq!(punched, Err(Errno::ACCESS));
        unmap(read);
        let memory = OpenOptions::new().write(true).open("/proc/self/mem").expect("it is ours");
        let address = pointer(&heap.application, 0, BYTES) as u64;
        memory.write_at(b"mine", address).expect_err("the application may only read there");
    });
}

#[test]
fn d2_what_is_written_to_a_private_mapping_stays_private() {
    attacked(|_, file| {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let private = map(file, access, MapFlags::PRIVATE).expect("it changes no file");
        // SAFETY: the mapping has these bytes, and nothing else leads into it.
        unsafe { private.cast::<u8>().write_bytes(0xff, BYTES) }
        unmap(private);
    });
}

#[test]
fn d2_nobody_changes_the_length_or_the_seals_of_an_extent() {
    for kind in [HeapKind::Send, HeapKind::Receive] {
        let (_heap, file) = Heap::with_extent(kind, 1);
        for len in [0, UNIT - 1, UNIT + 1] {
            assert_eq!(ftruncate(&file, len), Err(Errno::PERM));
        }
        assert_eq!(fallocate(&file, FallocateFlags::empty(), UNIT, 1), Err(Errno::PERM));
        for seal in [SealFlags::WRITE, SealFlags::FUTURE_WRITE] {
            assert_eq!(fcntl_add_seals(&file, seal), Err(Errno::PERM));
        }
    }
}

#[test]
fn d2_an_application_writes_its_send_heap_by_the_descriptor_as_well() {
    let (heap, file) = Heap::with_extent(HeapKind::Send, 1);
    rustix::io::pwrite(&file, b"mine", 3).expect("it is the application's memory");
    assert_eq!((heap.copy(3, 4), heap.load(3, 4)), (b"mine".to_vec(), b"mine".to_vec()));
}
