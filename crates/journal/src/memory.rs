//! Files in memory, for who keeps nothing beyond the process: snapshots on their way to others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{File, FileError, Files};

/// A directory in memory. It ends with its last clone.
#[derive(Clone, Debug, Default)]
pub struct MemoryFiles(Arc<Mutex<BTreeMap<String, MemoryFile>>>);

/// A file of it.
#[derive(Clone, Debug, Default)]
pub struct MemoryFile(Arc<Mutex<Vec<u8>>>);

/// What a panic has left is what was written: there is nothing to be torn.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Files for MemoryFiles {
    type File = MemoryFile;
    type Lock = ();

    /// One that is there is replaced by an empty one, as files that end with the process need no
    /// protection.
    fn create(&self, name: &str) -> Result<MemoryFile, FileError> {
        let file = MemoryFile::default();
        lock(&self.0).insert(name.to_owned(), file.clone());
        Ok(file)
    }

    fn open(&self, name: &str) -> Result<MemoryFile, FileError> {
        lock(&self.0).get(name).cloned().ok_or(FileError::NotFound)
    }

    fn open_read_only(&self, name: &str) -> Result<MemoryFile, FileError> {
        self.open(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), FileError> {
        let mut files = lock(&self.0);
        let file = files.remove(from).ok_or(FileError::NotFound)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), FileError> {
        lock(&self.0).remove(name).map(drop).ok_or(FileError::NotFound)
    }

    fn list(&self) -> Result<Vec<String>, FileError> {
        Ok(lock(&self.0).keys().cloned().collect())
    }

    fn sync_directory(&self) -> Result<(), FileError> {
        Ok(())
    }

    fn lock(&self, _: &str) -> Result<(), FileError> {
        Ok(())
    }

    fn is_locked(&self, _: &str) -> Result<bool, FileError> {
        Ok(false)
    }
}

impl File for MemoryFile {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> Result<usize, FileError> {
        let file = lock(&self.0);
        let at = usize::try_from(at).map_or(file.len(), |at| at.min(file.len()));
        let count = bytes.len().min(file.len() - at);
        bytes[..count].copy_from_slice(&file[at..at + count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> Result<(), FileError> {
        let mut file = lock(&self.0);
        let at = usize::try_from(at).map_err(|_| FileError::NoSpace)?;
        let end = at.checked_add(bytes.len()).ok_or(FileError::NoSpace)?;
        if end > file.len() {
            file.resize(end, 0);
        }
        file[at..end].copy_from_slice(bytes);
        Ok(())
    }

    fn bytes(&self) -> Result<u64, FileError> {
        Ok(lock(&self.0).len() as u64)
    }

    fn preallocate(&self, bytes: u64) -> Result<(), FileError> {
        let bytes = usize::try_from(bytes).map_err(|_| FileError::NoSpace)?;
        lock(&self.0).resize(bytes, 0);
        Ok(())
    }

    fn sync(&self) -> Result<(), FileError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SnapshotHead, SnapshotReader, SnapshotWriter};

    #[test]
    fn snapshots_can_be_kept_there() {
        let files = MemoryFiles::default();
        let configuration = b"members".to_vec();
        let head = SnapshotHead { group: 1, index: 7, term: 2, configuration };
        let mut writer = SnapshotWriter::begin(files.clone(), head.clone()).unwrap();
        let state = vec![5; 200_000];
        writer.write(&state).unwrap();
        let id = writer.finish().unwrap();
        let mut reader = SnapshotReader::open(&files, 1, 7).unwrap();
        assert_eq!(reader.head(), &head);
        let (mut read, mut part) = (Vec::new(), Vec::new());
        while reader.next(&mut part).unwrap() {
            read.extend_from_slice(&part);
        }
        assert_eq!((read, reader.verify().unwrap()), (state, id));
        assert_eq!(files.list().unwrap().len(), 1);
        assert_eq!(files.open("other").unwrap_err(), FileError::NotFound);
    }
}
