//! Heaps whose two sides are both in this process, unless a test says otherwise.
#![cfg(not(loom))]

mod buffers;
mod changes;
mod contents;
mod model;
mod processes;
mod refused;
mod sealed;

use std::os::fd::{AsFd, OwnedFd};

use petasos_abi::{EXTENT_BYTES_MIN, Extent};
use petasos_base::sync::{AtomicBool, AtomicU64, Ordering};
use petasos_shm::{AdoptedHeap, HeapKind, OwnedHeap};

/// Of which extents are made.
pub const UNIT: u64 = EXTENT_BYTES_MIN;

/// Both sides of a heap.
pub struct Heap {
    /// It makes the memory.
    pub service: OwnedHeap,
    /// It maps what was made.
    pub application: AdoptedHeap,
}

impl Heap {
    /// Without extents yet, with room for so many units.
    pub fn new(kind: HeapKind, units: u64) -> Heap {
        let service = OwnedHeap::reserve(kind, units * UNIT).expect("there are addresses");
        let application = AdoptedHeap::reserve(kind, units * UNIT).expect("there are addresses");
        Heap { service, application }
    }

    /// With one extent of so many units, and its descriptor.
    pub fn with_extent(kind: HeapKind, units: u64) -> (Heap, OwnedFd) {
        let mut heap = Heap::new(kind, 4 * units);
        let (_, file) = heap.grow(units);
        (heap, file)
    }

    /// A new extent at both sides.
    pub fn grow(&mut self, units: u64) -> (Extent, OwnedFd) {
        let (extent, file) = self.service.grow(units * UNIT).expect("there is memory");
        self.application.map(file.as_fd(), extent).expect("it was just made");
        (extent, file)
    }

    /// The application writes.
    pub fn store(&mut self, offset: u64, bytes: &[u8]) {
        let to = pointer(&self.application, offset, bytes.len());
        // SAFETY: the place has memory, and nobody else writes.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
    }

    /// What the application reads.
    pub fn load(&self, offset: u64, bytes: usize) -> Vec<u8> {
        load(&self.application, offset, bytes)
    }

    /// What the service reads.
    pub fn copy(&self, offset: u64, bytes: usize) -> Vec<u8> {
        let mut out = vec![0xdd; bytes];
        self.service.copy_out(offset, &mut out).expect("the place has memory");
        out
    }
}

/// What an application reads.
pub fn load(application: &AdoptedHeap, offset: u64, bytes: usize) -> Vec<u8> {
    let from = pointer(application, offset, bytes);
    let mut out = vec![0xdd; bytes];
    // SAFETY: the place has memory, and nobody writes meanwhile.
    unsafe { core::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), bytes) }
    out
}

/// The address of a place at the application.
pub fn pointer(application: &AdoptedHeap, offset: u64, bytes: usize) -> *mut u8 {
    assert!(application.extents().covers(offset, bytes as u64), "the place has memory");
    // SAFETY: the place lies in the range.
    unsafe { application.start().as_ptr().add(offset as usize) }
}

/// A word at the application, which it changes while the service reads.
pub fn word(application: &AdoptedHeap, offset: u64) -> &AtomicU64 {
    let word = pointer(application, offset, 8).cast::<u64>();
    assert!(word.is_aligned());
    // SAFETY: the word is aligned and has memory, and is accessed only as an atomic.
    unsafe { AtomicU64::from_ptr(word) }
}

/// Bytes of which each differs from its neighbours.
pub fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index * 7 + index / 251) as u8).collect()
}

/// Tells a thread to end when this is dropped, even if by a failed assertion.
pub struct DoneWhenDropped<'a>(pub &'a AtomicBool);

impl Drop for DoneWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
