//! The demonstration services: the encoding of their calls, for both sides.
//!
//! Numbers are little-endian. Keys are 8 bytes; a value is any bytes up to the message limit.
//!
//! | method | request | response |
//! |---|---|---|
//! | [`ECHO`] | any bytes | the same bytes |
//! | [`PUT`] | key u64, value | status |
//! | [`GET`] | key u64 | status, value |
//! | [`STATS`] | nothing | lines of text, `name value` |
//! | [`SLOW`] | delay u32 in milliseconds, any bytes | these bytes, after the delay |
//! | [`SCAN`] | first key u64, count u32 | status, the values of these keys one after another |
//! | [`READ`] | key u64, offset u64, length u32 | status, that part of the value |
//! | [`SIZED`] | length u32, any bytes | that many arbitrary bytes |
//!
//! A status is one byte ([`Status`]); only [`Status::Done`] is followed by more. Decoding is total:
//! requests that do not match the table are answered with [`Status::Malformed`].

pub mod handlers;
mod store;
pub mod typed;

pub use handlers::{Server, register, sized};
pub use store::Shared;

/// Returns the request's bytes.
pub const ECHO: u16 = 1;
/// Stores a value under a key, and replaces an earlier one.
pub const PUT: u16 = 2;
/// Returns the value of a key.
pub const GET: u16 = 3;
/// Returns statistics of the server.
pub const STATS: u16 = 4;
/// Returns the request's bytes after a delay.
pub const SLOW: u16 = 5;
/// Returns the values of several consecutive keys as one.
pub const SCAN: u16 = 6;
/// Returns a part of a value.
pub const READ: u16 = 7;
/// Returns the requested number of bytes: `petasos bench --connect` calls this.
pub const SIZED: u16 = 64;

/// The length of a key, in bytes.
pub const KEY_BYTES: usize = 8;
/// The length of the status at the start of a response, in bytes.
pub const STATUS_BYTES: usize = 1;

/// The result of a request to the key-value store: the first byte of its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// Success; the requested data follow.
    Done = 0,
    /// There is no value under the key, or under one of the keys.
    NotFound = 1,
    /// The store has no room for the value. Nothing was changed.
    Full = 2,
    /// The request is malformed. The caller's fault.
    Malformed = 3,
    /// The value is shorter than the requested part.
    OutOfRange = 4,
    /// The response would exceed the message limit.
    TooLong = 5,
}

impl Status {
    /// The status with this number.
    pub fn from_byte(byte: u8) -> Option<Status> {
        use Status::{Done, Full, Malformed, NotFound, OutOfRange, TooLong};
        [Done, NotFound, Full, Malformed, OutOfRange, TooLong].get(usize::from(byte)).copied()
    }

    /// Splits a response; `None` if it is empty, or does not begin with a status.
    pub fn split(response: &[u8]) -> Option<(Status, &[u8])> {
        let (first, rest) = response.split_first()?;
        Some((Status::from_byte(*first)?, rest))
    }
}

/// A read request to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// The whole value of `key`.
    Get {
        /// The key of the value.
        key: u64,
    },
    /// The values of `count` keys, starting at `first`.
    Scan {
        /// The first key.
        first: u64,
        /// The number of keys.
        count: u32,
    },
    /// Bytes `offset..offset + len` of the value of `key`.
    Read {
        /// The key of the value.
        key: u64,
        /// The position in the value.
        offset: u64,
        /// The number of bytes.
        len: u32,
    },
}

/// The longest encoded [`Query`].
pub const QUERY_BYTES_MAX: usize = 20;

impl Query {
    /// The method for this query.
    pub fn method(&self) -> u16 {
        match self {
            Query::Get { .. } => GET,
            Query::Scan { .. } => SCAN,
            Query::Read { .. } => READ,
        }
    }

    /// Encodes the request into `out`, and returns its length.
    pub fn encode(&self, out: &mut [u8; QUERY_BYTES_MAX]) -> usize {
        match *self {
            Query::Get { key } => {
                out[..8].copy_from_slice(&key.to_le_bytes());
                8
            }
            Query::Scan { first, count } => {
                out[..8].copy_from_slice(&first.to_le_bytes());
                out[8..12].copy_from_slice(&count.to_le_bytes());
                12
            }
            Query::Read { key, offset, len } => {
                out[..8].copy_from_slice(&key.to_le_bytes());
                out[8..16].copy_from_slice(&offset.to_le_bytes());
                out[16..].copy_from_slice(&len.to_le_bytes());
                20
            }
        }
    }

    /// Decodes a request to `method`; `None` if its length is wrong.
    pub fn decode(method: u16, bytes: &[u8]) -> Option<Query> {
        let (key, rest) = split_u64(bytes)?;
        match method {
            GET => rest.is_empty().then_some(Query::Get { key }),
            SCAN => {
                let count = u32::from_le_bytes(rest.try_into().ok()?);
                Some(Query::Scan { first: key, count })
            }
            READ => {
                let (offset, rest) = split_u64(rest)?;
                let len = u32::from_le_bytes(rest.try_into().ok()?);
                Some(Query::Read { key, offset, len })
            }
            _ => None,
        }
    }
}

/// Splits a number off the start of `bytes`.
pub fn split_u64(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u64::from_le_bytes(*number), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_survive_the_wire() {
        let queries = [
            Query::Get { key: u64::MAX },
            Query::Scan { first: 1, count: u32::MAX },
            Query::Read { key: 7, offset: 1 << 40, len: 4096 },
        ];
        for query in queries {
            let mut bytes = [0; QUERY_BYTES_MAX];
            let len = query.encode(&mut bytes);
            assert_eq!(Query::decode(query.method(), &bytes[..len]), Some(query));
        }
    }

    #[test]
    fn a_query_of_another_length_is_none() {
        for (method, right) in [(GET, 8), (SCAN, 12), (READ, 20)] {
            for len in (0..32).filter(|len| *len != right) {
                assert_eq!(Query::decode(method, &vec![0xff; len]), None, "{method} {len}");
            }
        }
        assert_eq!(Query::decode(ECHO, &[0; 8]), None);
    }

    #[test]
    fn statuses_survive_the_wire_and_nothing_else_is_one() {
        for byte in 0..=u8::MAX {
            if let Some(status) = Status::from_byte(byte) {
                assert_eq!(status as u8, byte);
            }
        }
        assert_eq!(Status::from_byte(6), None);
        assert_eq!(Status::split(&[]), None);
        assert_eq!(Status::split(b"\0abc"), Some((Status::Done, b"abc".as_slice())));
    }
}
