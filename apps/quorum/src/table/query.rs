//! Queries of the table: kind (1), limit (4), then one key, or two.

use super::command::KEY_BYTES_MAX;
use petasos_base::ByteReader;

use crate::bytes::{push_long, push_short, push_u64};

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query<'a> {
    /// The item of a key.
    Get(&'a [u8]),
    /// Items from a key on, before another one (empty for no end), at most so many.
    Range {
        /// The first key.
        from: &'a [u8],
        /// The first one that is not meant, or nothing.
        until: &'a [u8],
        /// How many, at most [`RANGE_MAX`].
        limit: u32,
    },
}

/// The most items of an answer.
pub const RANGE_MAX: u32 = 10_000;
/// Once an answer has so many bytes, it has no further items.
pub const ANSWER_BYTES: usize = 1 << 20;

const GET: u8 = 1;
const RANGE: u8 = 2;

impl<'a> Query<'a> {
    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match *self {
            Query::Get(key) => {
                bytes.push(GET);
                push_short(&mut bytes, key);
            }
            Query::Range { from, until, limit } => {
                bytes.push(RANGE);
                bytes.extend_from_slice(&limit.to_le_bytes());
                push_short(&mut bytes, from);
                push_short(&mut bytes, until);
            }
        }
        bytes
    }

    /// Reads one, from bytes that nobody vouches for.
    pub fn decode(bytes: &'a [u8]) -> Option<Query<'a>> {
        let mut bytes = ByteReader::new(bytes);
        let fits = |key: &[u8]| key.len() <= KEY_BYTES_MAX;
        let query = match bytes.u8()? {
            GET => {
                let key = bytes.short().filter(|key| !key.is_empty() && fits(key))?;
                Query::Get(key)
            }
            RANGE => {
                let limit = bytes.u32().filter(|limit| (1..=RANGE_MAX).contains(limit))?;
                let from = bytes.short().filter(|key| fits(key))?;
                let until = bytes.short().filter(|key| fits(key))?;
                Query::Range { from, until, limit }
            }
            _ => return None,
        };
        bytes.end(query)
    }
}

/// An item of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// The number of the command that wrote it.
    pub stamp: u64,
}

pub(super) fn push_item(to: &mut Vec<u8>, key: &[u8], value: &[u8], stamp: u64) {
    push_short(to, key);
    push_u64(to, stamp);
    push_long(to, value);
}

/// The items of an answer. The last byte of an answer says whether there are more.
pub fn decode_items(answer: &[u8]) -> Option<(Vec<Item>, bool)> {
    let (has_more, items) = answer.split_last()?;
    let mut bytes = ByteReader::new(items);
    let mut items = Vec::new();
    while !bytes.is_empty() {
        let (key, stamp, value) = (bytes.short()?, bytes.u64()?, bytes.long()?);
        items.push(Item { key: key.to_vec(), value: value.to_vec(), stamp });
    }
    (*has_more <= 1).then_some((items, *has_more == 1))
}
