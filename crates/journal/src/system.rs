//! Files of the operating system.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use rustix::io::Errno;

use crate::{File, FileError, Files};

/// A directory of the system.
#[derive(Clone, Debug)]
pub struct SystemFiles {
    folder: PathBuf,
}

impl SystemFiles {
    /// The directory `folder`, which is made, readable by its owner only, if it is not there.
    ///
    /// # Errors
    /// If it cannot be made, or is no directory.
    pub fn create(folder: &Path) -> Result<SystemFiles, FileError> {
        use std::os::unix::fs::DirBuilderExt;
        if !folder.is_dir() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            if let Some(parent) = folder.parent().filter(|parent| parent.is_dir()) {
                fs::File::open(parent)?.sync_all()?;
            }
        }
        SystemFiles::open(folder)
    }

    /// The directory `folder`.
    ///
    /// # Errors
    /// [`FileError::NotFound`] if it is not there, and others.
    pub fn open(folder: &Path) -> Result<SystemFiles, FileError> {
        if !fs::metadata(folder)?.is_dir() {
            return Err(FileError::other(io::ErrorKind::NotADirectory, "it is no directory"));
        }
        Ok(SystemFiles { folder: folder.to_owned() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Files for SystemFiles {
    type File = SystemFile;
    type Lock = SystemLock;

    fn create(&self, name: &str) -> Result<SystemFile, FileError> {
        use std::os::unix::fs::OpenOptionsExt;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        Ok(SystemFile { file: options.open(self.path(name))? })
    }

    fn open(&self, name: &str) -> Result<SystemFile, FileError> {
        let file = OpenOptions::new().read(true).write(true).open(self.path(name))?;
        Ok(SystemFile { file })
    }

    fn open_read_only(&self, name: &str) -> Result<SystemFile, FileError> {
        Ok(SystemFile { file: fs::File::open(self.path(name))? })
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), FileError> {
        Ok(fs::rename(self.path(from), self.path(to))?)
    }

    fn remove(&self, name: &str) -> Result<(), FileError> {
        Ok(fs::remove_file(self.path(name))?)
    }

    fn list(&self) -> Result<Vec<String>, FileError> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            // What is not UTF-8 is none of the journal's.
            names.extend(entry?.file_name().into_string().ok());
            if names.len() > NAMES_MAX {
                let what = format!("there are more than {NAMES_MAX} files");
                return Err(FileError::other(io::ErrorKind::Other, what));
            }
        }
        Ok(names)
    }

    fn sync_directory(&self) -> Result<(), FileError> {
        Ok(fs::File::open(&self.folder)?.sync_all()?)
    }

    fn lock(&self, name: &str) -> Result<SystemLock, FileError> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).open(self.path(name))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(SystemLock { _file: file })
    }

    fn is_locked(&self, name: &str) -> Result<bool, FileError> {
        let file = match fs::File::open(self.path(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            file => file?,
        };
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) => Ok(true),
            taken => Ok(taken.map(|()| false)?),
        }
    }
}

/// An open file of the system.
#[derive(Debug)]
pub struct SystemFile {
    file: fs::File,
}

impl File for SystemFile {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> Result<usize, FileError> {
        let mut done = 0;
        while done < bytes.len() {
            match self.file.read_at(&mut bytes[done..], at + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(done)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> Result<(), FileError> {
        Ok(self.file.write_all_at(bytes, at)?)
    }

    fn bytes(&self) -> Result<u64, FileError> {
        Ok(self.file.metadata()?.len())
    }

    /// Space is asked for first, since that fails early; but what is only allocated turns into
    /// written space when it is first written, which is metadata that a sync would have to wait
    /// for. So zeros are written as well.
    fn preallocate(&self, bytes: u64) -> Result<(), FileError> {
        match fallocate(&self.file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(error) => return Err(error.into()),
        }
        let zeros = vec![0; ZEROS_BYTES.min(bytes as usize)];
        let mut at = 0;
        while at < bytes {
            let part = zeros.len().min((bytes - at) as usize);
            self.write_at(&zeros[..part], at)?;
            at += part as u64;
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), FileError> {
        Ok(self.file.sync_data()?)
    }
}

/// The lock of a directory; the system ends it with the process.
#[derive(Debug)]
pub struct SystemLock {
    _file: fs::File,
}

/// Files that a directory may have: a journal has a few dozen.
const NAMES_MAX: usize = 1 << 16;
/// Written at a time when a file is made.
const ZEROS_BYTES: usize = 1 << 20;
