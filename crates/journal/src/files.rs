//! What the journal asks of a file system, so that a simulated one can break every promise of it
//! that a real one breaks.
//!
//! A promise is made by syncs only: what was written, made, renamed or removed, and not synced, is
//! there or not after a crash of the host, in any combination. Writes are torn at sectors.
//!
//! Invariant: an error of [`File::sync`] or [`Files::sync_directory`] says nothing about what is on
//! the disk, and a later success does not either.

use std::io;

use thiserror::Error;

/// A directory. A clone is the same one. Names are plain: they have no separators.
pub trait Files: Clone + Send + 'static {
    /// An open file.
    type File: File;
    /// Held as long as nobody else may have the directory.
    type Lock: Send + 'static;

    /// Makes a file, which is empty.
    ///
    /// # Errors
    /// [`FileError::Exists`], and others.
    fn create(&self, name: &str) -> Result<Self::File, FileError>;

    /// Opens a file to read and write it.
    ///
    /// # Errors
    /// [`FileError::NotFound`], and others.
    fn open(&self, name: &str) -> Result<Self::File, FileError>;

    /// Opens a file that is only read.
    ///
    /// # Errors
    /// [`FileError::NotFound`], and others.
    fn open_read_only(&self, name: &str) -> Result<Self::File, FileError>;

    /// Gives a file another name. A file that had that name is gone, at once.
    ///
    /// # Errors
    /// [`FileError::NotFound`], and others.
    fn rename(&self, from: &str, to: &str) -> Result<(), FileError>;

    /// Takes a file's name away. Who has the file open can still read it.
    ///
    /// # Errors
    /// [`FileError::NotFound`], and others.
    fn remove(&self, name: &str) -> Result<(), FileError>;

    /// The names of all files, in any order.
    ///
    /// # Errors
    /// If the directory cannot be read, or has absurdly many files.
    fn list(&self) -> Result<Vec<String>, FileError>;

    /// Makes durable which files there are, by which names.
    ///
    /// # Errors
    /// Final: see the module.
    fn sync_directory(&self) -> Result<(), FileError>;

    /// Locks the file `name`, which is made if it is not there, until the lock is dropped or the
    /// process ends.
    ///
    /// # Errors
    /// [`FileError::Locked`] if another has it, and others.
    fn lock(&self, name: &str) -> Result<Self::Lock, FileError>;

    /// Whether somebody has locked the file `name`. Nothing is changed, but who locks it at the
    /// same instant may be refused.
    ///
    /// # Errors
    /// If that cannot be found out.
    fn is_locked(&self, name: &str) -> Result<bool, FileError>;
}

/// An open file.
pub trait File: Send + 'static {
    /// Reads from `at` on until `bytes` is full or the file ends. Gives how much was read.
    ///
    /// # Errors
    /// If the system gives one.
    fn read_at(&self, bytes: &mut [u8], at: u64) -> Result<usize, FileError>;

    /// Writes all of `bytes`; the file grows if it has to.
    ///
    /// # Errors
    /// [`FileError::NoSpace`], and others. Parts may have been written.
    fn write_at(&self, bytes: &[u8], at: u64) -> Result<(), FileError>;

    /// Its length in bytes.
    ///
    /// # Errors
    /// If the system gives one.
    fn bytes(&self) -> Result<u64, FileError>;

    /// Makes the file `bytes` long, all zero, in such a way that writing within needs no space, and
    /// syncing what was written no metadata.
    ///
    /// # Errors
    /// [`FileError::NoSpace`], and others.
    fn preallocate(&self, bytes: u64) -> Result<(), FileError>;

    /// Makes durable what was written, and the length.
    ///
    /// # Errors
    /// Final: see the module.
    fn sync(&self) -> Result<(), FileError>;
}

/// What went wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file system is full, or the user's share of it.
    #[error("no space is left")]
    NoSpace,
    /// There is no such file.
    #[error("it is not there")]
    NotFound,
    /// There is such a file.
    #[error("it is there already")]
    Exists,
    /// Another process has locked it.
    #[error("it is in use by another process")]
    Locked,
    /// Everything else, as the system tells it.
    #[error("{what}")]
    Other {
        /// The kind of error.
        kind: io::ErrorKind,
        /// For people.
        what: String,
    },
}

impl FileError {
    /// An error that only people tell from others.
    pub fn other(kind: io::ErrorKind, what: impl Into<String>) -> FileError {
        FileError::Other { kind, what: what.into() }
    }
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> FileError {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FileError::NoSpace,
            io::ErrorKind::NotFound => FileError::NotFound,
            io::ErrorKind::AlreadyExists => FileError::Exists,
            io::ErrorKind::WouldBlock => FileError::Locked,
            kind => FileError::other(kind, error.to_string()),
        }
    }
}

impl From<rustix::io::Errno> for FileError {
    fn from(error: rustix::io::Errno) -> FileError {
        io::Error::from(error).into()
    }
}
