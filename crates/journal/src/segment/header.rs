//! The first block of a segment, and the name of its file.

use crate::Identity;
use crate::bytes::{seal, sealed, u32_at, u64_at, u128_at};
use crate::error::Damage;

use super::RECORDS_AT;

/// What a segment says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    /// Whose it is.
    pub(crate) identity: Identity,
    /// Counts segments; as in the file's name.
    pub(crate) number: u64,
    /// The place of its first record.
    pub(crate) first_place: u64,
    /// The length of the file.
    pub(crate) bytes: u32,
    /// Whether the log begins here, whatever is before: it was reset to a snapshot.
    pub(crate) begins: bool,
}

/// A header as it is in the file.
pub(crate) struct HeaderBlock {
    pub(crate) bytes: [u8; HEADER_BLOCK_BYTES],
    pub(crate) sum: u32,
}

pub(crate) const HEADER_BLOCK_BYTES: usize = 512;
/// A segment that small is for tests: its records have less than 4 KiB.
pub(crate) const SEGMENT_BYTES_MIN: u32 = 2 * RECORDS_AT;
/// Places in a segment are 32-bit numbers.
pub(crate) const SEGMENT_BYTES_MAX: u32 = 1 << 30;

const MAGIC: [u8; 8] = *b"petasosS";

/// The file's name.
pub(crate) fn name(number: u64) -> String {
    format!("log-{number:016x}")
}

/// The number in a segment's name, if it is one.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let number = u64::from_str_radix(name.strip_prefix("log-")?, 16).ok()?;
    (self::name(number) == name).then_some(number)
}

/// Where a segment of `data_bytes` of records ends.
pub(crate) const fn segment_end(data_bytes: usize) -> u64 {
    RECORDS_AT as u64 + data_bytes as u64
}

impl SegmentHeader {
    pub(crate) fn block(&self) -> HeaderBlock {
        let mut bytes = [0; HEADER_BLOCK_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&u32::from(self.begins).to_le_bytes());
        bytes[16..32].copy_from_slice(&self.identity.group.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.identity.member.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.number.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.first_place.to_le_bytes());
        let sum = seal(&mut bytes, 0);
        HeaderBlock { bytes, sum }
    }

    /// The header of a file of `file_bytes` bytes with that name, and its sum.
    pub(crate) fn parse(
        block: &[u8; HEADER_BLOCK_BYTES],
        name: &str,
        file_bytes: u64,
        identity: Identity,
    ) -> Result<(SegmentHeader, u32), Damage> {
        let damage = |what: &str| Damage::new(name, 0, what);
        let sum = sealed(block, 0).ok_or_else(|| damage("the header has a wrong sum"))?;
        let header = SegmentHeader {
            identity: Identity { group: u128_at(block, 16), member: u64_at(block, 32) },
            number: u64_at(block, 40),
            first_place: u64_at(block, 48),
            bytes: u32_at(block, 8),
            begins: u32_at(block, 12) == 1,
        };
        // It is written again at a start: it has nothing that would not be.
        let plausible = header.block().bytes == *block
            && number_of(name) == Some(header.number)
            && (1..=u64::MAX >> 1).contains(&header.first_place)
            && (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&header.bytes);
        if !plausible {
            return Err(damage("the header is not of this file"));
        }
        if header.identity != identity {
            return Err(damage("the header is of another group or member"));
        }
        if file_bytes < u64::from(header.bytes) {
            return Err(damage("the file is shorter than its header says"));
        }
        Ok((header, sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> SegmentHeader {
        let identity = Identity { group: 5, member: 2 };
        SegmentHeader { identity, number: 3, first_place: 9, bytes: 8192, begins: false }
    }

    fn parse(block: &[u8; HEADER_BLOCK_BYTES]) -> Result<SegmentHeader, Damage> {
        let parsed = SegmentHeader::parse(block, &name(3), 8192, header().identity);
        parsed.map(|(header, _)| header)
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        assert_eq!(parse(&header().block().bytes), Ok(header()));
    }

    /// A start would have written them as zeros, and the sums of all records would have been wrong:
    /// found by the fuzz target `journal`.
    #[test]
    fn bytes_that_mean_nothing_are_not_accepted_with_a_good_sum() {
        for at in [13, 14, 56, 100, 507] {
            let mut block = header().block().bytes;
            block[at] = 1;
            seal(&mut block, 0);
            assert!(parse(&block).is_err(), "byte {at}");
        }
    }
}
