//! The addresses of a heap, and what is mapped there. This is the only code of heaps that maps.
//!
//! Invariant: all addresses of the range belong to it until it is dropped. A place of it is either
//! *reserved* (no access), an extent's *memory*, or private *zeros*. A place changes from one to
//! another in one step, during which accesses by other threads wait.

use core::ptr::{NonNull, null_mut};
use std::os::fd::BorrowedFd;

use petasos_abi::{Extent, HEAP_BYTES_MAX};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use super::HeapError;
use crate::file::{SystemError, failed};

/// Reserved addresses, until it is dropped.
#[derive(Debug)]
pub(super) struct Range {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it is a range of addresses; `owned`, `slice` and the users of `AdoptedHeap::start` decide
// who may access it and how.
unsafe impl Send for Range {}
// SAFETY: as above. Methods with `&self` only change what is mapped, which the system does in steps
// that other threads do not see halfway.
unsafe impl Sync for Range {}

impl Range {
    /// Reserves so many addresses, without memory.
    pub(super) fn reserve(heap_bytes: u64) -> Result<Range, HeapError> {
        let bytes = usize::try_from(heap_bytes).map_err(|_| HeapError::Range(heap_bytes))?;
        if heap_bytes == 0 || heap_bytes > HEAP_BYTES_MAX {
            return Err(HeapError::Range(heap_bytes));
        }
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: the system chooses addresses that nothing else uses.
        let start = unsafe { mmap_anonymous(null_mut(), bytes, ProtFlags::empty(), flags) };
        let start = start.map_err(failed("reserve addresses for a heap"))?;
        let start = NonNull::new(start.cast()).expect("no mapping starts at address 0");
        Ok(Range { start, bytes })
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The address of `bytes` bytes at `offset`.
    ///
    /// # Panics
    /// If they do not lie in the range.
    #[inline]
    pub(super) fn at(&self, offset: u64, bytes: usize) -> NonNull<u8> {
        let end = (offset as usize).checked_add(bytes);
        assert!(end.is_some_and(|end| end <= self.bytes), "places are checked against the extents");
        // SAFETY: the range is one mapping or several that are next to each other, and the bytes
        // lie in it.
        unsafe { self.start.add(offset as usize) }
    }

    /// Gives a place the memory of a file that is as long as the extent.
    pub(super) fn map(
        &self,
        file: BorrowedFd<'_>,
        extent: Extent,
        access: ProtFlags,
    ) -> Result<(), SystemError> {
        let (at, bytes) = self.place(extent);
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: the place belongs to this range, and no extent is there.
        let mapped = unsafe { mmap(at, bytes, access, flags, file, 0) };
        if mapped.is_err() {
            // Some systems take away what was there before they refuse a file. If something is
            // there, this fails and changes nothing.
            let _ = self.private(extent, ProtFlags::empty(), MapFlags::FIXED_NOREPLACE);
        }
        mapped.map(drop).map_err(failed("map shared memory"))
    }

    /// Takes a place's memory away, and makes it read as zeros.
    pub(super) fn zero(&self, extent: Extent) -> Result<(), SystemError> {
        self.private(extent, ProtFlags::READ, MapFlags::FIXED)
    }

    /// Takes a place's memory away, so that nothing can be read there.
    pub(super) fn vacate(&self, extent: Extent) -> Result<(), SystemError> {
        self.private(extent, ProtFlags::empty(), MapFlags::FIXED)
    }

    fn private(
        &self,
        extent: Extent,
        access: ProtFlags,
        fixed: MapFlags,
    ) -> Result<(), SystemError> {
        let (at, bytes) = self.place(extent);
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | fixed;
        // SAFETY: the place belongs to this range, and no references lead into it. Of private
        // memory, the system refuses what it refuses before it takes away what was there.
        let mapped = unsafe { mmap_anonymous(at, bytes, access, flags) };
        mapped.map(drop).map_err(failed("take shared memory away"))
    }

    fn place(&self, extent: Extent) -> (*mut core::ffi::c_void, usize) {
        let bytes = extent.bytes as usize;
        (self.at(extent.offset, bytes).as_ptr().cast(), bytes)
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        // SAFETY: all these addresses are this range's, and no pointers into it are left. Unmapping
        // fails only for what is no mapping, so the result can be ignored.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
