//! Sealed memory files, mapped once, readable and writable.
//!
//! The process that adopts a region checks it before mapping it. The file must be ordinary shared
//! memory (not huge pages, whose absence shows as a signal at the first access), of exactly the
//! agreed length, and sealed, so that its owner can neither shrink it under the mapping nor add
//! seals. Holes punched into it later read as zeros, which a peer could have written as well.

use core::ptr::NonNull;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

use crate::shape::ShapeError;

/// The file system of shared memory (`TMPFS_MAGIC`).
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// Why a region could not be made or adopted.
#[derive(Debug)]
#[non_exhaustive]
pub enum RegionError {
    /// The sizes are impossible. The code that chose them is at fault.
    Shape(ShapeError),
    /// The peer's file is no ordinary shared memory. The peer's fault.
    NotSharedMemory,
    /// The peer's file can still change its length or its seals. The peer's fault.
    NotSealed,
    /// The peer's file does not have the agreed length. The peer's fault.
    Length {
        /// The agreed length, in bytes.
        expected: usize,
        /// The file's length, in bytes.
        found: u64,
    },
    /// The operating system refused; a retry may succeed when descriptors or memory are free.
    System {
        /// What was attempted.
        attempt: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

impl core::fmt::Display for RegionError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            RegionError::Shape(error) => error.fmt(f),
            RegionError::NotSharedMemory => write!(f, "the peer's file is not shared memory"),
            RegionError::NotSealed => write!(f, "the peer's memory is not sealed"),
            RegionError::Length { expected, found } => {
                write!(f, "the peer's memory has {found} bytes instead of {expected}")
            }
            RegionError::System { attempt, error } => write!(f, "cannot {attempt}: {error}"),
        }
    }
}

impl std::error::Error for RegionError {}

impl From<ShapeError> for RegionError {
    fn from(error: ShapeError) -> RegionError {
        RegionError::Shape(error)
    }
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
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file =
            rustix::fs::memfd_create("petasos-shm", flags).map_err(failed("make a memfd"))?;
        rustix::fs::ftruncate(&file, len as u64).map_err(failed("size a memfd"))?;
        rustix::fs::fcntl_add_seals(&file, seals()).map_err(failed("seal a memfd"))?;
        Ok((Region::map(file.as_fd(), len)?, file))
    }

    /// Checks and maps the region of another process.
    pub(crate) fn adopt(file: BorrowedFd<'_>, len: usize) -> Result<Region, RegionError> {
        check(file, len)?;
        Region::map(file, len)
    }

    fn map(fd: BorrowedFd<'_>, len: usize) -> Result<Region, RegionError> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the system chooses addresses that nothing else uses.
        let start = unsafe { rustix::mm::mmap(core::ptr::null_mut(), len, access, flags, fd, 0) };
        let start = start.map_err(failed("map shared memory"))?;
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

fn check(file: BorrowedFd<'_>, len: usize) -> Result<(), RegionError> {
    let found = rustix::fs::fcntl_get_seals(file).map_err(|_| RegionError::NotSharedMemory)?;
    let system = rustix::fs::fstatfs(file).map_err(failed("examine the peer's memory"))?;
    if system.f_type as u64 != TMPFS_MAGIC {
        return Err(RegionError::NotSharedMemory);
    }
    if !found.contains(seals()) {
        return Err(RegionError::NotSealed);
    }
    let status = rustix::fs::fstat(file).map_err(failed("examine the peer's memory"))?;
    let found = status.st_size as u64;
    if found != len as u64 {
        return Err(RegionError::Length { expected: len, found });
    }
    Ok(())
}

/// The seals fix the length and the seals themselves (so no seal against writing can follow).
fn seals() -> SealFlags {
    SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL
}

fn failed(attempt: &'static str) -> impl FnOnce(rustix::io::Errno) -> RegionError {
    move |error| RegionError::System { attempt, error: error.into() }
}
