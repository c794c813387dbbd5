//! The format of a connection's bytes (W33), as pure functions.
//!
//! Each end sends [`PREAMBLE`] once, then records. A record is a head of [`HEAD_BYTES`] and a train
//! of datagrams, which lie next to each other:
//!
//! | offset | bytes | field | must be |
//! |---|---|---|---|
//! | 0 | 4 | bytes of all datagrams together | 1 to [`RECORD_BYTES_MAX`] |
//! | 4 | 4 | bytes of each datagram; the last may be shorter | 1 to the field before |
//! | 8 | … | the datagrams | |
//!
//! Numbers are little-endian. For any input, a [`Reader`] reports only records within the bytes,
//! and reports the same records however the bytes are cut into pieces.

/// What each end sends first: it tells a port that speaks something else.
pub const PREAMBLE: [u8; 8] = *b"PETATCP\x01";

/// The most bytes of a record's datagrams.
pub const RECORD_BYTES_MAX: usize = 65_536;

/// The bytes of a record's head.
pub const HEAD_BYTES: usize = 8;

/// The most bytes that can be left over by [`Reader::read`].
pub const UNFINISHED_BYTES_MAX: usize = HEAD_BYTES + RECORD_BYTES_MAX - 1;

/// A record within the bytes that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where its datagrams begin.
    pub offset: usize,
    /// Bytes of all datagrams together: 1 to [`RECORD_BYTES_MAX`].
    pub len: usize,
    /// Bytes of each datagram; the last may be shorter. 1 to `len`.
    pub segment_bytes: usize,
}

/// The peer does not speak this protocol, or breaks it. The connection is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// It began with something else.
    Preamble,
    /// A record has an impossible length.
    Length,
}

/// The head of a record with `len` bytes of datagrams.
#[inline]
pub fn head(len: usize, segment_bytes: usize) -> [u8; HEAD_BYTES] {
    debug_assert!((1..=RECORD_BYTES_MAX).contains(&len) && (1..=len).contains(&segment_bytes));
    (len as u64 | (segment_bytes as u64) << 32).to_le_bytes()
}

/// Reads what one end of a connection sends.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    /// Whether the preamble has been read.
    greeted: bool,
}

impl Reader {
    /// Whether the peer has sent its preamble.
    pub fn is_greeted(&self) -> bool {
        self.greeted
    }

    /// Reports the complete records in `bytes`, and returns how many bytes are done with. The rest,
    /// at most [`UNFINISHED_BYTES_MAX`], must precede the bytes of the next call.
    ///
    /// # Errors
    /// See [`Malformed`]. Records before the flaw have been reported.
    #[inline]
    pub fn read(
        &mut self,
        bytes: &[u8],
        mut report: impl FnMut(Record),
    ) -> Result<usize, Malformed> {
        let mut at = 0;
        if !self.greeted {
            let Some(preamble) = bytes.first_chunk::<{ PREAMBLE.len() }>() else {
                let is_start = PREAMBLE.starts_with(bytes);
                return if is_start { Ok(0) } else { Err(Malformed::Preamble) };
            };
            if *preamble != PREAMBLE {
                return Err(Malformed::Preamble);
            }
            self.greeted = true;
            at = PREAMBLE.len();
        }
        while let Some(head) = bytes[at..].first_chunk::<HEAD_BYTES>() {
            let numbers = u64::from_le_bytes(*head);
            let (len, segment_bytes) = (numbers as u32 as usize, (numbers >> 32) as usize);
            if !(1..=RECORD_BYTES_MAX).contains(&len) || !(1..=len).contains(&segment_bytes) {
                return Err(Malformed::Length);
            }
            let offset = at + HEAD_BYTES;
            if bytes.len() - offset < len {
                break;
            }
            report(Record { offset, len, segment_bytes });
            at = offset + len;
        }
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads `bytes` in pieces of the given lengths. Returns the records' datagrams and the flaw.
    fn read_in_pieces(
        bytes: &[u8],
        pieces: &[usize],
    ) -> (Vec<(Vec<u8>, usize)>, Option<Malformed>) {
        let (mut reader, mut unread, mut records) = (Reader::default(), Vec::new(), Vec::new());
        let mut rest = bytes;
        let mut lengths = pieces.iter().copied().chain(core::iter::repeat(usize::MAX));
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(lengths.next().unwrap_or(1).clamp(1, rest.len()));
            unread.extend_from_slice(piece);
            rest = after;
            let mut found = Vec::new();
            let read = reader.read(&unread, |record| found.push(record));
            for Record { offset, len, segment_bytes } in found {
                assert!((1..=len).contains(&segment_bytes) && len <= RECORD_BYTES_MAX);
                records.push((unread[offset..offset + len].to_vec(), segment_bytes));
            }
            match read {
                Ok(done) => drop(unread.drain(..done)),
                Err(flaw) => return (records, Some(flaw)),
            }
            assert!(unread.len() <= UNFINISHED_BYTES_MAX);
        }
        (records, None)
    }

    fn stream(records: &[(Vec<u8>, usize)]) -> Vec<u8> {
        let mut bytes = PREAMBLE.to_vec();
        for (datagrams, segment_bytes) in records {
            bytes.extend(head(datagrams.len(), *segment_bytes));
            bytes.extend(datagrams);
        }
        bytes
    }

    fn record() -> impl Strategy<Value = (Vec<u8>, usize)> {
        (prop::collection::vec(any::<u8>(), 1..200), any::<prop::sample::Index>())
            .prop_map(|(bytes, at)| (bytes.clone(), at.index(bytes.len()) + 1))
    }

    proptest! {
        #[test]
        fn w33_records_come_back_however_the_stream_is_cut(
            records in prop::collection::vec(record(), 0..8),
            pieces in prop::collection::vec(1usize..40, 0..60),
        ) {
            prop_assert_eq!(read_in_pieces(&stream(&records), &pieces), (records, None));
        }

        #[test]
        fn any_bytes_are_records_or_an_error(
            mut bytes in prop::collection::vec(any::<u8>(), 0..300),
            is_greeting in any::<bool>(),
            pieces in prop::collection::vec(1usize..40, 0..60),
        ) {
            if is_greeting {
                bytes.splice(..0, PREAMBLE);
            }
            prop_assert_eq!(read_in_pieces(&bytes, &pieces), read_in_pieces(&bytes, &[]));
        }
    }

    #[test]
    fn w33_impossible_lengths_are_refused_at_the_head() {
        let over = RECORD_BYTES_MAX as u32 + 1;
        for (len, segment) in [(0u32, 0u32), (0, 1), (5, 0), (5, 6), (over, 1), (u32::MAX, 1)] {
            let head = [len.to_le_bytes(), segment.to_le_bytes()].concat();
            let bytes = [&PREAMBLE[..], &head].concat();
            let (records, flaw) = read_in_pieces(&bytes, &[]);
            assert_eq!((records, flaw), (Vec::new(), Some(Malformed::Length)), "{len}, {segment}");
        }
    }

    #[test]
    fn w33_another_protocol_is_refused_at_its_first_byte() {
        assert_eq!(read_in_pieces(b"G", &[]).1, Some(Malformed::Preamble));
        assert_eq!(read_in_pieces(b"PETATCP\x02", &[]).1, Some(Malformed::Preamble));
        assert_eq!(read_in_pieces(b"PETA", &[]).1, None);
    }
}
