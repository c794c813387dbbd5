//! The bytes of a snapshot's file, and the names of files.
//!
//! ```text
//! 0   "petasosP", format (4), length of the configuration (4), group (16), index (8), term (8)
//! 48  configuration
//! ..  CRC32C of everything before (4)
//! ..  blocks: length of the data (4), running CRC32C (4), data: 64 KiB, the last one less
//! ..  all ones (4), running CRC32C (4), bytes of all data (8)
//! ```
//!
//! The running sum goes on from that of the block before, over the block's length and data (at the
//! end, the bytes of all data): each block's shows what is wrong in it, and the last one is the sum
//! over all.

use crate::bytes::{sealed, u32_at, u64_at, u128_at};
use crate::identity::FORMAT;

/// The data of a block: all have as much but the last.
pub const BLOCK_BYTES: usize = 64 << 10;

/// The longest configuration.
pub const CONFIGURATION_BYTES_MAX: usize = 64 << 10;

/// What a snapshot is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotHead {
    /// The group.
    pub group: u128,
    /// The place of the last record that the state has applied.
    pub index: u64,
    /// That record's term.
    pub term: u64,
    /// The group's configuration at that place, as the caller writes it.
    pub configuration: Vec<u8>,
}

/// Which file a snapshot is, so that it can be received in pieces over several connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotId {
    /// See [`SnapshotHead::index`].
    pub index: u64,
    /// See [`SnapshotHead::term`].
    pub term: u64,
    /// The length of the file.
    pub bytes: u64,
    /// The sum over all of it.
    pub sum: u32,
}

pub(super) const FIXED_BYTES: usize = 48;
pub(super) const BLOCK_HEAD_BYTES: usize = 8;
pub(super) const TRAILER_BYTES: usize = 16;
/// In the place of a block's length: the end.
pub(super) const TRAILER: u32 = u32::MAX;

const MAGIC: [u8; 8] = *b"petasosP";

/// The name of a snapshot.
pub(super) fn name(index: u64) -> String {
    format!("snapshot-{index:016x}")
}

/// The name under which it is written.
pub(super) fn unfinished_name(index: u64) -> String {
    format!("snapshot-{index:016x}.new")
}

/// The name under which it is received.
pub(super) fn receipt_name(id: &SnapshotId) -> String {
    let SnapshotId { index, term, bytes, sum } = *id;
    format!("receipt-{index:016x}-{term:016x}-{bytes:016x}-{sum:08x}")
}

/// The index in a snapshot's name.
pub(super) fn index_of(name: &str) -> Option<u64> {
    let index = u64::from_str_radix(name.strip_prefix("snapshot-")?, 16).ok()?;
    (self::name(index) == name).then_some(index)
}

/// Which file a receipt is of.
pub(super) fn receipt_of(name: &str) -> Option<SnapshotId> {
    let mut parts = name.strip_prefix("receipt-")?.split('-');
    let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
    let (index, term, bytes) = (number()?, number()?, number()?);
    let id = SnapshotId { index, term, bytes, sum: u32::try_from(number()?).ok()? };
    (receipt_name(&id) == name).then_some(id)
}

pub(super) fn is_unfinished_write(name: &str) -> bool {
    name.starts_with("snapshot-") && name.ends_with(".new")
}

impl SnapshotHead {
    /// The file's first bytes, and their sum.
    pub(super) fn encode(&self) -> (Vec<u8>, u32) {
        let mut bytes = Vec::with_capacity(FIXED_BYTES + self.configuration.len() + 4);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        let configuration = u32::try_from(self.configuration.len()).expect("its length is checked");
        bytes.extend_from_slice(&configuration.to_le_bytes());
        bytes.extend_from_slice(&self.group.to_le_bytes());
        bytes.extend_from_slice(&self.index.to_le_bytes());
        bytes.extend_from_slice(&self.term.to_le_bytes());
        bytes.extend_from_slice(&self.configuration);
        let sum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        (bytes, sum)
    }

    /// How many bytes the head has that begins like this.
    pub(super) fn bytes(fixed: &[u8]) -> Result<usize, &'static str> {
        let configuration = u32_at(fixed, 12) as usize;
        if fixed[..8] != MAGIC {
            return Err("it does not begin as a snapshot does");
        }
        if u32_at(fixed, 8) != FORMAT {
            return Err("it has an unknown format");
        }
        if configuration > CONFIGURATION_BYTES_MAX {
            return Err("its configuration is too long");
        }
        Ok(FIXED_BYTES + configuration + 4)
    }

    /// A whole head, and its sum.
    pub(super) fn parse(bytes: &[u8]) -> Result<(SnapshotHead, u32), &'static str> {
        let sum = sealed(bytes, 0).ok_or("its head has a wrong sum")?;
        let head = SnapshotHead {
            group: u128_at(bytes, 16),
            index: u64_at(bytes, 32),
            term: u64_at(bytes, 40),
            configuration: bytes[FIXED_BYTES..bytes.len() - 4].to_vec(),
        };
        Ok((head, sum))
    }
}

/// A block's head.
pub(super) fn block_head(data: &[u8], before: u32) -> ([u8; BLOCK_HEAD_BYTES], u32) {
    let length = u32::try_from(data.len()).expect("a block is short");
    head(length, data, before)
}

/// The file's last bytes.
pub(super) fn trailer(data_bytes: u64, before: u32) -> ([u8; TRAILER_BYTES], u32) {
    let mut trailer = [0; TRAILER_BYTES];
    let (head, sum) = head(TRAILER, &data_bytes.to_le_bytes(), before);
    trailer[..BLOCK_HEAD_BYTES].copy_from_slice(&head);
    trailer[BLOCK_HEAD_BYTES..].copy_from_slice(&data_bytes.to_le_bytes());
    (trailer, sum)
}

fn head(length: u32, data: &[u8], before: u32) -> ([u8; BLOCK_HEAD_BYTES], u32) {
    let mut head = [0; BLOCK_HEAD_BYTES];
    head[..4].copy_from_slice(&length.to_le_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c_append(before, &head[..4]), data);
    head[4..].copy_from_slice(&sum.to_le_bytes());
    (head, sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let id = SnapshotId { index: 5, term: 6, bytes: 7, sum: 8 };
        assert_eq!(receipt_of(&receipt_name(&id)), Some(id));
        assert_eq!(index_of(&name(5)), Some(5));
        assert!(
            is_unfinished_write(&unfinished_name(5)) && index_of(&unfinished_name(5)).is_none()
        );
        assert_eq!(index_of("snapshot-5"), None);
        assert_eq!(receipt_of("receipt-5-6-7-8"), None);
    }
}
