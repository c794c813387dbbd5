//! What the system says of a heap's mappings. One test, so that no other thread maps meanwhile.
#![cfg(not(loom))]

use core::ops::Range;
use std::os::fd::AsFd;

use petasos_abi::EXTENT_BYTES_MIN;
use petasos_shm::{AdoptedHeap, HeapKind, OwnedHeap};
use rustix::fs::fstat;

const HEAP_BYTES: u64 = 16 << 30;

/// The system's lines about what is mapped, with the addresses of each.
fn mappings() -> Vec<(Range<u64>, String)> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("the system tells");
    let address = |text: &str| u64::from_str_radix(text, 16).expect("an address");
    let parse = |line: &str| {
        let (start, rest) = line.split_once('-').expect("two addresses");
        let (end, rest) = rest.split_once(' ').expect("two addresses");
        (address(start)..address(end), rest.to_owned())
    };
    maps.lines().map(parse).collect()
}

fn is_of(inode: u64, text: &str) -> bool {
    text.split_whitespace().nth(3) == Some(&inode.to_string())
}

/// How many mappings there are of a file.
fn mappings_of(inode: u64) -> usize {
    mappings().iter().filter(|(_, text)| is_of(inode, text)).count()
}

/// How the service and the application may access an extent, as the system says it.
fn accesses(kind: HeapKind) -> [String; 2] {
    let mut service = OwnedHeap::reserve(kind, HEAP_BYTES).expect("there are addresses");
    let mut application = AdoptedHeap::reserve(kind, HEAP_BYTES).expect("there are addresses");
    let (extent, file) = service.grow(EXTENT_BYTES_MIN).expect("there is memory");
    application.map(file.as_fd(), extent).expect("it was just made");
    let inode = fstat(&file).expect("it is a file").st_ino;
    let start = application.start().as_ptr() as u64;
    let access = |by_application: bool| {
        let is_it = |(at, text): &(Range<u64>, String)| {
            is_of(inode, text) && (at.start == start) == by_application
        };
        mappings().into_iter().find(is_it).expect("it is mapped").1[..4].to_owned()
    };
    [access(false), access(true)]
}

/// How many bytes cannot be accessed or are shared, of so many from `start` on.
fn bytes_of_heap(start: u64, bytes: u64) -> u64 {
    let is_heap = |text: &str| text.starts_with("---p") || text[3..].starts_with('s');
    let inside = |at: &Range<u64>| at.end.min(start + bytes).saturating_sub(at.start.max(start));
    mappings().iter().filter(|(_, text)| is_heap(text)).map(|(at, _)| inside(at)).sum()
}

#[test]
fn d2_extents_are_accessed_as_their_heap_says_and_unmapped_with_it() {
    assert_eq!(accesses(HeapKind::Send), ["r--s", "rw-s"]);
    assert_eq!(accesses(HeapKind::Receive), ["rw-s", "r--s"]);
    a_range_is_mapped_until_the_heap_and_its_slices_are_dropped();
}

fn a_range_is_mapped_until_the_heap_and_its_slices_are_dropped() {
    let mut service = OwnedHeap::reserve(HeapKind::Send, HEAP_BYTES).expect("there are addresses");
    let (extent, file) = service.grow(EXTENT_BYTES_MIN).expect("there is memory");
    let inode = fstat(&file).expect("it is a file").st_ino;
    let slice = service.slice(0, 1).expect("the place has memory");
    let mut application = AdoptedHeap::reserve(HeapKind::Send, HEAP_BYTES).expect("as above");
    application.map(file.as_fd(), extent).expect("it was just made");
    let start = application.start().as_ptr() as u64;
    assert_eq!((mappings_of(inode), bytes_of_heap(start, HEAP_BYTES)), (2, HEAP_BYTES));

    application.unmap(0).expect("it was mapped");
    assert_eq!((mappings_of(inode), bytes_of_heap(start, HEAP_BYTES)), (1, HEAP_BYTES));
    application.map(file.as_fd(), extent).expect("as before");
    drop(application);
    assert_eq!((mappings_of(inode), bytes_of_heap(start, HEAP_BYTES)), (1, 0));

    drop(service);
    assert_eq!(mappings_of(inode), 1, "a slice keeps it");
    drop(slice);
    assert_eq!(mappings_of(inode), 0);
}
