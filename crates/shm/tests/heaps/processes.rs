//! An application that is a process of its own.

use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};

use petasos_abi::Extent;
use petasos_shm::{AdoptedHeap, HeapKind, OwnedHeap};
use rustix::fs::{FallocateFlags, fallocate};

use crate::{UNIT, load, pattern, pointer};

/// Which heap's extent a child process has as its standard input.
const HEAP: &str = "PETASOS_SHM_TEST_HEAP";
const EXTENT: Extent = Extent { offset: UNIT, bytes: 2 * UNIT };
const AT: u64 = 2 * UNIT - 77;

fn adopt(kind: HeapKind) -> AdoptedHeap {
    let mut heap = AdoptedHeap::reserve(kind, 8 * UNIT).expect("there are addresses");
    heap.map(std::io::stdin().as_fd(), EXTENT).expect("the parent has made it");
    heap
}

/// Not a test of its own: what a child process does.
#[test]
fn adopt_as_a_child() {
    match std::env::var(HEAP).as_deref() {
        Ok("send") => {
            let heap = adopt(HeapKind::Send);
            let to = pointer(&heap, AT, 500);
            // SAFETY: the place has memory, and nobody else accesses it before this process ends.
            unsafe { core::ptr::copy_nonoverlapping(pattern(500).as_ptr(), to, 500) }
        }
        Ok("receive") => {
            assert_eq!(load(&adopt(HeapKind::Receive), AT, 500), pattern(500));
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(std::io::stdin(), hole, 0, UNIT).expect_err("the service alone writes");
            rustix::io::write(std::io::stdin(), &[0; 100]).expect_err("the service alone writes");
            let mut heap = AdoptedHeap::reserve(HeapKind::Send, 8 * UNIT).expect("as above");
            heap.map(std::io::stdin().as_fd(), EXTENT).expect_err("it cannot be written");
        }
        _ => {}
    }
}

/// Runs the child until it has ended well.
fn run(kind: &str, file: OwnedFd) {
    let status = Command::new(std::env::current_exe().expect("a test has a file"))
        .args(["--exact", "processes::adopt_as_a_child", "--nocapture"])
        .env(HEAP, kind)
        .stdin(Stdio::from(file))
        .stdout(Stdio::null())
        .status()
        .expect("a process can be started");
    assert!(status.success(), "{status}");
}

fn heap(kind: HeapKind) -> (OwnedHeap, OwnedFd) {
    let mut heap = OwnedHeap::reserve(kind, 8 * UNIT).expect("there are addresses");
    heap.grow(UNIT).expect("there is memory");
    let (extent, file) = heap.grow(EXTENT.bytes).expect("there is memory");
    assert_eq!(extent, EXTENT);
    (heap, file)
}

#[test]
fn d2_a_process_writes_what_the_service_reads() {
    let (heap, file) = heap(HeapKind::Send);
    run("send", file);
    let mut out = vec![0; 500];
    heap.copy_out(AT, &mut out).expect("the place has memory");
    assert_eq!(out, pattern(500));
}

#[test]
fn d2_a_process_reads_what_the_service_wrote_and_cannot_change_it() {
    let (mut heap, file) = heap(HeapKind::Receive);
    heap.write(AT, &pattern(500)).expect("the place has memory");
    run("receive", file);
    let mut out = vec![0; 500];
    heap.copy_out(AT, &mut out).expect("the place has memory");
    assert_eq!(out, pattern(500));
}
