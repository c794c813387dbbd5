//! The format of messages (W34), as pure functions.
//!
//! A message is one record or several, up to its end, with [`DATAGRAMS_MAX`] datagrams at most. A
//! record is a head of [`HEAD_BYTES`] and a train of datagrams, which lie next to each other:
//!
//! | offset | bytes | field | must be |
//! |---|---|---|---|
//! | 0 | 2 | bytes of all datagrams together | 1 up to the rest of the message |
//! | 2 | 2 | bytes of each datagram; the last may be shorter | 1 to the field before |
//! | 4 | … | the datagrams | |
//!
//! Numbers are little-endian. For any bytes, [`records`] reports only records within them, and ends
//! after the first flaw.

/// The bytes of a record's head.
pub const HEAD_BYTES: usize = 4;

/// The most datagrams of a message.
pub const DATAGRAMS_MAX: usize = 64;

/// The most bytes of a datagram, and of the datagrams of a record.
pub const DATAGRAM_BYTES_MAX: usize = u16::MAX as usize;

/// Datagrams of a message, next to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where they begin in the message.
    pub offset: usize,
    /// Bytes of all together, at least 1.
    pub len: usize,
    /// Bytes of each; the last may be shorter. 1 to `len`.
    pub segment_bytes: usize,
}

impl Record {
    /// How many datagrams it has, at least 1.
    #[inline]
    pub fn datagrams(&self) -> usize {
        self.len.div_ceil(self.segment_bytes)
    }
}

/// Whoever sent the message does not speak this protocol, or breaks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// It ends within a head, or has none.
    Head,
    /// A record has an impossible length.
    Length,
    /// It has more than [`DATAGRAMS_MAX`] datagrams.
    Count,
}

/// The records of a message.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    message: &'a [u8],
    /// Where the next record begins.
    at: usize,
    /// How many more datagrams it may have.
    datagrams: usize,
    is_over: bool,
}

/// Reads a message. Use its records only if none is an error.
#[inline]
pub fn records(message: &[u8]) -> Records<'_> {
    Records { message, at: 0, datagrams: DATAGRAMS_MAX, is_over: false }
}

impl Records<'_> {
    #[inline]
    fn read(&mut self) -> Result<Record, Malformed> {
        let rest = &self.message[self.at..];
        let Some((head, rest)) = rest.split_first_chunk::<HEAD_BYTES>() else {
            return Err(Malformed::Head);
        };
        let numbers = u32::from_le_bytes(*head);
        let (len, segment_bytes) = ((numbers & 0xffff) as usize, (numbers >> 16) as usize);
        if !(1..=rest.len()).contains(&len) || !(1..=len).contains(&segment_bytes) {
            return Err(Malformed::Length);
        }
        let record = Record { offset: self.at + HEAD_BYTES, len, segment_bytes };
        let left = self.datagrams.checked_sub(record.datagrams());
        self.datagrams = left.ok_or(Malformed::Count)?;
        self.at = record.offset + len;
        Ok(record)
    }
}

impl Iterator for Records<'_> {
    type Item = Result<Record, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Result<Record, Malformed>> {
        if self.is_over {
            return None;
        }
        let record = self.read();
        self.is_over = record.is_err() || self.at == self.message.len();
        Some(record)
    }
}

/// What a message has so far. Its bytes are in the memory that the caller gives each time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Writer {
    len: usize,
    datagrams: usize,
    /// Where the head of the latest record is.
    head: usize,
    segment_bytes: usize,
}

impl Writer {
    /// Its bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no datagram yet.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.datagrams == 0
    }

    /// How many datagrams it has.
    #[inline]
    pub fn datagrams(&self) -> usize {
        self.datagrams
    }

    /// Whether another datagram, of `bytes`, fits a message of at most `message_bytes_max`.
    #[inline]
    pub fn fits(&self, bytes: usize, message_bytes_max: usize) -> bool {
        let head = if self.continues(bytes) { 0 } else { HEAD_BYTES };
        self.datagrams < DATAGRAMS_MAX && self.len + head + bytes <= message_bytes_max
    }

    /// Adds a datagram, whose two pieces are not both empty, to the message in `memory`.
    ///
    /// # Panics
    /// If it does not fit `memory`, or is too long for any message: see [`Writer::fits`].
    #[inline]
    pub fn push(&mut self, memory: &mut [u8], [first, second]: [&[u8]; 2]) {
        let bytes = first.len() + second.len();
        if !self.continues(bytes) {
            (self.head, self.segment_bytes) = (self.len, bytes);
            self.len += HEAD_BYTES;
        }
        for piece in [first, second] {
            memory[self.len..self.len + piece.len()].copy_from_slice(piece);
            self.len += piece.len();
        }
        self.datagrams += 1;
        let len = self.record_bytes();
        assert!((1..=DATAGRAM_BYTES_MAX).contains(&len) && self.datagrams <= DATAGRAMS_MAX);
        let numbers = len as u32 | (self.segment_bytes as u32) << 16;
        memory[self.head..self.head + HEAD_BYTES].copy_from_slice(&numbers.to_le_bytes());
    }

    /// Bytes of the datagrams of the latest record.
    #[inline]
    fn record_bytes(&self) -> usize {
        self.len - self.head - HEAD_BYTES
    }

    /// Whether a datagram of `bytes` needs no head of its own: all before it in the latest record
    /// are equally long, and it is not longer.
    #[inline]
    fn continues(&self, bytes: usize) -> bool {
        !self.is_empty()
            && bytes <= self.segment_bytes
            && self.record_bytes().is_multiple_of(self.segment_bytes)
            && self.record_bytes() + bytes <= DATAGRAM_BYTES_MAX
    }
}

#[cfg(test)]
mod tests;
