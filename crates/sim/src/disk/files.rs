//! The disk as a process sees it.

use petasos_journal::{File, FileError, Files};

use super::SimDisk;

/// The disk's files, for one process: after a crash they fail.
#[derive(Clone)]
pub struct SimFiles {
    disk: SimDisk,
    life: u64,
}

impl SimFiles {
    pub(super) fn new(disk: SimDisk, life: u64) -> SimFiles {
        SimFiles { disk, life }
    }

    fn file(&self, number: usize, is_read_only: bool) -> SimFile {
        SimFile { files: self.clone(), number, is_read_only }
    }
}

impl Files for SimFiles {
    type File = SimFile;
    type Lock = SimLock;

    fn create(&self, name: &str) -> Result<SimFile, FileError> {
        let number = self.disk.lock().create(self.life, name)?;
        Ok(self.file(number, false))
    }

    fn open(&self, name: &str) -> Result<SimFile, FileError> {
        let number = self.disk.lock().open(self.life, name)?;
        Ok(self.file(number, false))
    }

    fn open_read_only(&self, name: &str) -> Result<SimFile, FileError> {
        let number = self.disk.lock().open(self.life, name)?;
        Ok(self.file(number, true))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), FileError> {
        self.disk.lock().rename(self.life, from, to)
    }

    fn remove(&self, name: &str) -> Result<(), FileError> {
        self.disk.lock().remove(self.life, name)
    }

    fn list(&self) -> Result<Vec<String>, FileError> {
        self.disk.lock().list(self.life)
    }

    fn sync_directory(&self) -> Result<(), FileError> {
        self.disk.lock().sync_directory(self.life)
    }

    fn lock(&self, name: &str) -> Result<SimLock, FileError> {
        let number = self.disk.lock().lock(self.life, name)?;
        Ok(SimLock { disk: self.disk.clone(), number })
    }

    fn is_locked(&self, name: &str) -> Result<bool, FileError> {
        self.disk.lock().is_locked(self.life, name)
    }
}

/// An open file.
pub struct SimFile {
    files: SimFiles,
    number: usize,
    is_read_only: bool,
}

impl SimFile {
    /// # Panics
    /// If the file was opened for reading only: the caller's fault.
    fn check_writable(&self) {
        assert!(!self.is_read_only, "it was opened for reading only");
    }
}

impl File for SimFile {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> Result<usize, FileError> {
        self.files.disk.lock().read(self.files.life, self.number, at, bytes)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> Result<(), FileError> {
        self.check_writable();
        self.files.disk.lock().write(self.files.life, self.number, at, bytes)
    }

    fn bytes(&self) -> Result<u64, FileError> {
        self.files.disk.lock().bytes(self.files.life, self.number)
    }

    fn preallocate(&self, bytes: u64) -> Result<(), FileError> {
        self.check_writable();
        self.files.disk.lock().grow(self.files.life, self.number, bytes)
    }

    fn sync(&self) -> Result<(), FileError> {
        self.check_writable();
        self.files.disk.lock().sync(self.files.life, self.number)
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.files.disk.lock().close(self.files.life, self.number);
    }
}

/// A file that is locked until this is dropped, or the process ends.
pub struct SimLock {
    disk: SimDisk,
    number: u64,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.lock().unlock(self.number);
    }
}
