//! Memory files: how they are made and sealed, and what is checked before another's is mapped.
//!
//! The seals fix a file's length, so that nobody can shrink it under a mapping, and the seals
//! themselves. Huge pages are refused: their absence shows as a signal at the first access. Holes
//! punched into a file later read as zeros, which whoever may write there could have written.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags};

/// The file system of shared memory (`TMPFS_MAGIC`).
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// The system refused; a retry may succeed when descriptors or memory are free.
#[derive(Debug, thiserror::Error)]
#[error("cannot {attempt}: {error}")]
pub struct SystemError {
    /// What was attempted.
    pub attempt: &'static str,
    /// What the system said.
    pub error: io::Error,
}

/// Why the file of another process was not mapped. A retry with the same file fails again, except
/// after [`FileError::System`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The peer's file is no ordinary shared memory. The peer's fault.
    #[error("the peer's file is not shared memory")]
    NotSharedMemory,
    /// The peer's file does not have the seals that it should have, and only these. The peer's
    /// fault.
    #[error("the peer's memory is not sealed as agreed")]
    NotSealed,
    /// The peer's file does not have the agreed length. The peer's fault.
    #[error("the peer's memory has {found} bytes instead of {expected}")]
    Length {
        /// The agreed length, in bytes.
        expected: u64,
        /// The file's length, in bytes.
        found: u64,
    },
    /// The system refused.
    #[error(transparent)]
    System(#[from] SystemError),
}

/// Who may write a file once it is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writers {
    /// Everybody who has its descriptor.
    All,
    /// Whoever has mapped it before it was sealed, and nobody else in any way.
    Earlier,
}

/// Makes a file of so many bytes, all zeros, without seals.
pub(crate) fn make(bytes: u64) -> Result<OwnedFd, SystemError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("petasos-shm", flags).map_err(failed("make a memfd"))?;
    rustix::fs::ftruncate(&file, bytes).map_err(failed("size a memfd"))?;
    Ok(file)
}

/// Fixes the file's length, its writers and its seals, for good.
pub(crate) fn seal(file: BorrowedFd<'_>, writers: Writers) -> Result<(), SystemError> {
    rustix::fs::fcntl_add_seals(file, seals(writers)).map_err(failed("seal a memfd"))
}

/// Whether this is shared memory of so many bytes that has been sealed so.
pub(crate) fn check(file: BorrowedFd<'_>, bytes: u64, writers: Writers) -> Result<(), FileError> {
    let found = rustix::fs::fcntl_get_seals(file).map_err(|_| FileError::NotSharedMemory)?;
    let system = rustix::fs::fstatfs(file).map_err(failed("examine the peer's memory"))?;
    if system.f_type as u64 != TMPFS_MAGIC {
        return Err(FileError::NotSharedMemory);
    }
    // The system may have added a seal against execution on its own.
    if found - SealFlags::EXEC != seals(writers) {
        return Err(FileError::NotSealed);
    }
    let status = rustix::fs::fstat(file).map_err(failed("examine the peer's memory"))?;
    let found = status.st_size as u64;
    if found != bytes {
        return Err(FileError::Length { expected: bytes, found });
    }
    Ok(())
}

/// Says of a system call what was attempted.
pub(crate) fn failed(attempt: &'static str) -> impl FnOnce(rustix::io::Errno) -> SystemError {
    move |error| SystemError { attempt, error: error.into() }
}

fn seals(writers: Writers) -> SealFlags {
    let length = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    match writers {
        Writers::All => length,
        Writers::Earlier => length | SealFlags::FUTURE_WRITE,
    }
}
