//! A record: a header of 24 bytes, its data, and zeros up to a multiple of 8 (QR18).
//!
//! ```text
//! 0  length of the data, 24 bits, and kind, 8 bits
//! 4  CRC32C over the 4 bytes before, the 16 behind, and the data with its padding
//! 8  place
//! 16 term
//! 24 data
//! ```
//!
//! The sum goes on from that of the record before, and the first one's from the segment's header.
//! So a record counts only behind its own predecessor: what is left of an earlier write, or of
//! another file, does not.

use crate::bytes::{u32_at, u64_at};

/// What is appended: one place of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its place: the first is 1, and there are no gaps.
    pub place: u64,
    /// Any number, kept with it.
    pub term: u64,
    /// Any kind, kept with it.
    pub kind: u8,
    /// What is to be remembered.
    pub data: &'a [u8],
}

/// A record that owns its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRecord {
    /// See [`Record::place`].
    pub place: u64,
    /// See [`Record::term`].
    pub term: u64,
    /// See [`Record::kind`].
    pub kind: u8,
    /// See [`Record::data`].
    pub data: Vec<u8>,
}

impl OwnedRecord {
    /// The same, borrowed.
    pub fn borrow(&self) -> Record<'_> {
        let OwnedRecord { place, term, kind, ref data } = *self;
        Record { place, term, kind, data }
    }
}

/// The bytes before a record's data.
pub const HEADER_BYTES: usize = 24;

/// The largest data that a header can say; a segment may be too short for it.
pub(crate) const DATA_BYTES_MAX: usize = (1 << 24) - 1;

/// A header, as it claims to be. Its sum has not been looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) data_bytes: usize,
    pub(crate) kind: u8,
    pub(crate) place: u64,
    pub(crate) term: u64,
    sum: u32,
}

/// The bytes that data of this length takes in a segment, with header and padding.
pub(crate) const fn record_bytes(data_bytes: usize) -> usize {
    HEADER_BYTES + data_bytes.next_multiple_of(8)
}

impl Record<'_> {
    /// The bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        record_bytes(self.data.len())
    }

    /// Appends it to `out`, behind a record with the sum `before`. Gives its own.
    pub(crate) fn encode(&self, before: u32, out: &mut Vec<u8>) -> u32 {
        let start = out.len();
        let length = u32::try_from(self.data.len()).expect("a record's length is checked");
        out.extend_from_slice(&(length | u32::from(self.kind) << 24).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.place.to_le_bytes());
        out.extend_from_slice(&self.term.to_le_bytes());
        out.extend_from_slice(self.data);
        out.resize(start + self.bytes(), 0);
        let sum = sum(&out[start..], before);
        out[start + 4..start + 8].copy_from_slice(&sum.to_le_bytes());
        sum
    }
}

impl Header {
    /// What the first bytes of a record claim; nothing if it is no place of a log.
    pub(crate) fn parse(bytes: &[u8; HEADER_BYTES]) -> Option<Header> {
        let word = u32_at(bytes, 0);
        let place = u64_at(bytes, 8);
        let data_bytes = (word & 0xff_ffff) as usize;
        let kind = (word >> 24) as u8;
        let header = Header { data_bytes, kind, place, term: u64_at(bytes, 16), sum: 0 };
        (place != 0).then_some(Header { sum: u32_at(bytes, 4), ..header })
    }

    /// The bytes of the whole record.
    pub(crate) fn bytes(&self) -> usize {
        record_bytes(self.data_bytes)
    }

    /// The record's sum, if `record` is what was written behind a record with the sum `before`.
    pub(crate) fn check(&self, record: &[u8], before: u32) -> Option<u32> {
        (sum(record, before) == self.sum).then_some(self.sum)
    }
}

fn sum(record: &[u8], before: u32) -> u32 {
    let first = crc32c::crc32c_append(before, &record[..4]);
    crc32c::crc32c_append(first, &record[8..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        Record { place: 9, term: 4, kind: 200, data }.encode(17, &mut out);
        out
    }

    fn header(bytes: &[u8]) -> Option<Header> {
        Header::parse(bytes[..HEADER_BYTES].try_into().expect("24 bytes"))
    }

    #[test]
    fn qr18_a_record_has_24_bytes_before_its_data_and_is_padded_to_8() {
        for length in [0, 1, 7, 8, 9, 1000] {
            let record = encoded(&vec![5; length]);
            assert_eq!(record.len(), 24 + length.next_multiple_of(8));
            let header = header(&record).expect("place 9");
            assert_eq!((header.data_bytes, header.kind), (length, 200));
            assert_eq!((header.place, header.term), (9, 4));
            assert!(header.check(&record, 17).is_some());
            assert!(header.check(&record, 18).is_none(), "it is behind its own predecessor");
        }
    }

    #[test]
    fn qr18_no_flipped_bit_is_accepted() {
        let record = encoded(b"some data");
        for bit in 0..record.len() * 8 {
            let mut flipped = record.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let accepted = header(&flipped).is_some_and(|header| {
                header.bytes() == flipped.len() && header.check(&flipped, 17).is_some()
            });
            assert!(!accepted, "bit {bit}");
        }
    }

    #[test]
    fn zeros_are_no_record() {
        assert_eq!(Header::parse(&[0; HEADER_BYTES]), None);
    }
}
