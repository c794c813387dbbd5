//! Sealed memory files, mapped once, readable and writable by both processes. Whoever adopts one
//! checks it before it is mapped (`file`).

use core::ptr::NonNull;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::mm::{MapFlags, ProtFlags};

use crate::file::{self, FileError, SystemError, Writers};
use crate::shape::ShapeError;

/// Why a region could not be made or adopted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// The sizes are impossible. The code that chose them is at fault.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The peer's file is not what was agreed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The system refused.
    #[error(transparent)]
    System(#[from] SystemError),
}

/// A mapping of a whole memory file, until it is dropped.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: it is a range of addresses; `mapped` decides who may access it and how.
unsafe impl Send for Region {}
// SAFETY: as above; its methods only return the range.
unsafe impl Sync for Region {}

impl Region {
    /// A sealed region of `len` bytes, and the descriptor for the other process.
    pub(crate) fn create(len: usize) -> Result<(Region, OwnedFd), RegionError> {
        let file = file::make(len as u64)?;
        file::seal(file.as_fd(), Writers::All)?;
        Ok((Region::map(file.as_fd(), len)?, file))
    }

    /// Checks and maps the region of another process.
    pub(crate) fn adopt(file: BorrowedFd<'_>, len: usize) -> Result<Region, RegionError> {
        file::check(file, len as u64, Writers::All)?;
        Ok(Region::map(file, len)?)
    }

    fn map(fd: BorrowedFd<'_>, len: usize) -> Result<Region, SystemError> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the system chooses addresses that nothing else uses.
        let start = unsafe { rustix::mm::mmap(core::ptr::null_mut(), len, access, flags, fd, 0) };
        let start = start.map_err(file::failed("map shared memory"))?;
        let start = NonNull::new(start.cast()).expect("no mapping starts at address 0");
        Ok(Region { start, len })
    }

    /// A second mapping, as in another process.
    #[cfg(test)]
    pub(crate) fn map_for_tests(fd: BorrowedFd<'_>, len: usize) -> Region {
        Region::map(fd, len).expect("a region can be mapped twice")
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: `map` made exactly this mapping, and no pointers into it are left. Unmapping
        // fails only for what is no mapping, so the result can be ignored.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
