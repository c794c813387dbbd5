//! Writes a snapshot.

use super::UNSYNCED_BYTES_MAX;
use super::format::{
    BLOCK_BYTES, CONFIGURATION_BYTES_MAX, SnapshotHead, SnapshotId, block_head, name, trailer,
    unfinished_name,
};
use crate::error::Doing;
use crate::{Error, File, Files};

/// A snapshot that is being written. Dropped before [`SnapshotWriter::finish`], it is removed.
pub struct SnapshotWriter<F: Files> {
    files: F,
    file: F::File,
    head: SnapshotHead,
    /// Data of the block that is not full yet.
    block: Vec<u8>,
    data_bytes: u64,
    at: u64,
    synced: u64,
    sum: u32,
    is_finished: bool,
}

impl<F: Files> SnapshotWriter<F> {
    /// Begins the snapshot that `head` describes.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for its configuration; [`Error::Full`]; errors of files.
    pub fn begin(files: F, head: SnapshotHead) -> Result<SnapshotWriter<F>, Error> {
        let (bytes, max) = (head.configuration.len(), CONFIGURATION_BYTES_MAX);
        if bytes > max {
            return Err(Error::TooLarge { bytes, max });
        }
        let unfinished = unfinished_name(head.index);
        let file = files.create(&unfinished).doing("making", &unfinished)?;
        let (bytes, sum) = head.encode();
        let block = Vec::with_capacity(BLOCK_BYTES);
        let mut writer = SnapshotWriter {
            files,
            file,
            head,
            block,
            data_bytes: 0,
            at: 0,
            synced: 0,
            sum,
            is_finished: false,
        };
        writer.put(&bytes)?;
        Ok(writer)
    }

    /// Appends to the state.
    ///
    /// # Errors
    /// [`Error::Full`]: the snapshot is to be dropped, and tried again when there is space.
    /// [`Error::Failed`] is final.
    pub fn write(&mut self, mut data: &[u8]) -> Result<(), Error> {
        while !data.is_empty() {
            let part = data.len().min(BLOCK_BYTES - self.block.len());
            self.block.extend_from_slice(&data[..part]);
            data = &data[part..];
            if self.block.len() == BLOCK_BYTES {
                self.put_block()?;
            }
        }
        Ok(())
    }

    /// Makes the snapshot durable, and gives it its name.
    ///
    /// # Errors
    /// As [`SnapshotWriter::write`].
    pub fn finish(mut self) -> Result<SnapshotId, Error> {
        if !self.block.is_empty() {
            self.put_block()?;
        }
        let (bytes, sum) = trailer(self.data_bytes, self.sum);
        self.put(&bytes)?;
        let SnapshotHead { index, term, .. } = self.head;
        let unfinished = unfinished_name(index);
        self.file.sync().or_failed("syncing", &unfinished)?;
        publish(&self.files, &unfinished, index)?;
        self.is_finished = true;
        Ok(SnapshotId { index, term, bytes: self.at, sum })
    }

    fn put_block(&mut self) -> Result<(), Error> {
        let block = std::mem::take(&mut self.block);
        let (head, sum) = block_head(&block, self.sum);
        self.put(&head)?;
        self.put(&block)?;
        self.sum = sum;
        self.data_bytes += block.len() as u64;
        self.block = block;
        self.block.clear();
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let name = unfinished_name(self.head.index);
        self.file.write_at(bytes, self.at).doing("writing", &name)?;
        self.at += bytes.len() as u64;
        if self.at - self.synced > UNSYNCED_BYTES_MAX {
            self.file.sync().or_failed("syncing", &name)?;
            self.synced = self.at;
        }
        Ok(())
    }
}

impl<F: Files> Drop for SnapshotWriter<F> {
    fn drop(&mut self) {
        if !self.is_finished {
            // If that fails, the next start does it.
            let _ = self.files.remove(&unfinished_name(self.head.index));
        }
    }
}

/// Gives a snapshot that is whole and durable its name.
pub(super) fn publish(files: &impl Files, unfinished: &str, index: u64) -> Result<(), Error> {
    files.rename(unfinished, &name(index)).doing("renaming", unfinished)?;
    files.sync_directory().or_failed("syncing", ".")
}
