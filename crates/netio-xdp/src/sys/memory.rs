//! Memory mappings that are unmapped with their owner.

use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};
use std::io;
use std::os::fd::BorrowedFd;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// A readable and writable mapping of `len` bytes, aligned to a page.
pub(super) struct Mapping {
    pointer: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to the thread that made it, and only its owner
// hands out pointers into it.
unsafe impl Send for Mapping {}

// SAFETY: a shared reference to a mapping gives access only to its address, not to its memory.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Zeroed memory of this process. With `huge`, it comes from the pool of huge pages, or from
    /// ordinary pages if the pool has none free. Also returns whether the pages are huge.
    pub(super) fn anonymous(len: usize, huge: bool) -> io::Result<(Mapping, bool)> {
        // Populated at once, because a first access during traffic would cost a page fault.
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        if huge {
            let len = len.next_multiple_of(HUGE_PAGE_BYTES);
            // SAFETY: the kernel chooses the place, so no other mapping is affected.
            let mapped =
                unsafe { mmap_anonymous(null_mut(), len, READ_WRITE, flags | MapFlags::HUGETLB) };
            if let Ok(pointer) = mapped {
                return Ok((Mapping::new(pointer, len), true));
            }
        }
        // SAFETY: the kernel chooses the place, so no other mapping is affected.
        let pointer = unsafe { mmap_anonymous(null_mut(), len, READ_WRITE, flags) }?;
        let mapping = Mapping::new(pointer, len);
        if huge {
            // SAFETY: the advice concerns the mapping just made, and changes no content. It is not
            // an error if the kernel does not follow it.
            let _ = unsafe { madvise(pointer, len, Advice::LinuxHugepage) };
        }
        Ok((mapping, false))
    }

    /// A window into a socket's rings or a BPF map, shared with the kernel.
    pub(super) fn of_file(fd: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<Mapping> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: the kernel chooses the place, so no other mapping is affected.
        let pointer = unsafe { mmap(null_mut(), len, READ_WRITE, flags, fd, offset) }?;
        Ok(Mapping::new(pointer, len))
    }

    fn new(pointer: *mut c_void, len: usize) -> Mapping {
        let pointer = NonNull::new(pointer.cast()).expect("a mapping is never at address zero");
        Mapping { pointer, len }
    }

    pub(super) fn as_ptr(&self) -> *mut u8 {
        self.pointer.as_ptr()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the owner is gone, and no pointers outlive the owner.
        let result = unsafe { munmap(self.pointer.as_ptr().cast(), self.len) };
        result.expect("a mapping can be undone once");
    }
}

const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// The default size of huge pages on the architectures that support this size.
const HUGE_PAGE_BYTES: usize = 2 << 20;
