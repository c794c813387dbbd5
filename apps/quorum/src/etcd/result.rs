//! What the store answers.
//!
//! A result, and an answer to a query, is status (1: 0, or a [`Refusal`]) and the store's revision
//! after it (8), and then what was done or found.

use petasos_base::ByteReader;

use super::command::{push_i64, read_bool, read_i64};

/// Why a command was not done, or a query has no answer. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u8)]
pub enum Refusal {
    /// The revision was compacted.
    #[error("mvcc: required revision has been compacted")]
    Compacted = 1,
    /// The revision is not there yet.
    #[error("mvcc: required revision is a future revision")]
    FutureRevision = 2,
    /// The store is full, or has as many leases as it may have.
    #[error("mvcc: database space exceeded")]
    NoSpace = 3,
    /// There is no key whose value or lease could be kept.
    #[error("key not found")]
    KeyNotFound = 4,
    /// There is no such lease.
    #[error("requested lease not found")]
    LeaseNotFound = 5,
    /// There is one with this number.
    #[error("lease already exists")]
    LeaseExists = 6,
    /// Nobody lives that long.
    #[error("too large lease TTL")]
    TtlTooLarge = 7,
    /// It would touch more keys at once, or have a longer result, than the store allows.
    #[error("request is too large")]
    TooLarge = 8,
}

impl Refusal {
    fn of(number: u8) -> Option<Refusal> {
        use Refusal::{
            Compacted, FutureRevision, KeyNotFound, LeaseExists, LeaseNotFound, NoSpace, TooLarge,
            TtlTooLarge,
        };
        let all = [
            Compacted,
            FutureRevision,
            NoSpace,
            KeyNotFound,
            LeaseNotFound,
            LeaseExists,
            TtlTooLarge,
            TooLarge,
        ];
        all.into_iter().find(|refusal| *refusal as u8 == number)
    }
}

/// A result's head. What was done follows, if it was.
#[derive(Clone, Debug)]
pub struct Answer<'a> {
    /// The store's revision.
    pub revision: i64,
    /// What was done or found, or why not.
    pub body: Result<ByteReader<'a>, Refusal>,
}

impl<'a> Answer<'a> {
    /// Reads one, from bytes that nobody vouches for.
    pub fn decode(bytes: &'a [u8]) -> Option<Answer<'a>> {
        let mut reader = ByteReader::new(bytes);
        let (status, revision) = (reader.u8()?, read_i64(&mut reader)?);
        match status {
            0 => Some(Answer { revision, body: Ok(reader) }),
            _ => {
                let refusal = Refusal::of(status)?;
                reader.end(Answer { revision, body: Err(refusal) })
            }
        }
    }
}

pub(super) fn push_head(to: &mut Vec<u8>, refusal: Option<Refusal>, revision: i64) {
    to.push(refusal.map_or(0, |refusal| refusal as u8));
    push_i64(to, revision);
}

/// A key and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The revision that created it.
    pub created: i64,
    /// The revision that wrote it last.
    pub modified: i64,
    /// How often it was written since it was created.
    pub version: i64,
    /// Its lease; 0 for none.
    pub lease: i64,
    /// Its value.
    pub value: &'a [u8],
}

impl<'a> Item<'a> {
    /// Reads one, from bytes that nobody vouches for.
    pub fn read(bytes: &mut ByteReader<'a>) -> Option<Item<'a>> {
        let key = bytes.short()?;
        let (created, modified) = (read_i64(bytes)?, read_i64(bytes)?);
        let (version, lease) = (read_i64(bytes)?, read_i64(bytes)?);
        Some(Item { key, created, modified, version, lease, value: bytes.long()? })
    }
}

/// A list of items, preceded by its length (4).
fn read_items<'a>(bytes: &mut ByteReader<'a>) -> Option<Vec<Item<'a>>> {
    let count = bytes.u32()?;
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(Item::read(bytes)?);
    }
    Some(items)
}

/// What a part of a transaction has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationResult<'a> {
    /// What was read.
    Range {
        /// The store's revision then.
        revision: i64,
        /// How many keys the range has.
        count: u64,
        /// Those that were wanted.
        items: Vec<Item<'a>>,
    },
    /// What was there before, if that was wanted.
    Put(Option<Item<'a>>),
    /// What was deleted.
    Delete {
        /// The store's revision after it.
        revision: i64,
        /// How many keys.
        deleted: u64,
        /// The keys, if that was wanted.
        items: Vec<Item<'a>>,
    },
    /// What the transaction within has done.
    Txn(TxnResult<'a>),
}

/// What a transaction has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnResult<'a> {
    /// Whether all comparisons were true.
    pub succeeded: bool,
    /// What each part has done.
    pub results: Vec<OperationResult<'a>>,
}

pub(super) const RANGE: u8 = 1;
pub(super) const PUT: u8 = 2;
pub(super) const DELETE: u8 = 3;
pub(super) const TXN: u8 = 4;

impl<'a> TxnResult<'a> {
    /// Reads one, from bytes that nobody vouches for.
    pub fn read(bytes: &mut ByteReader<'a>) -> Option<TxnResult<'a>> {
        TxnResult::read_at(bytes, super::command::DEPTH_MAX)
    }

    fn read_at(bytes: &mut ByteReader<'a>, depth: usize) -> Option<TxnResult<'a>> {
        let depth = depth.checked_sub(1)?;
        let (succeeded, count) = (read_bool(bytes)?, bytes.u16()?);
        let mut results = Vec::new();
        for _ in 0..count {
            results.push(match bytes.u8()? {
                RANGE => {
                    let (revision, count) = (read_i64(bytes)?, bytes.u64()?);
                    OperationResult::Range { revision, count, items: read_items(bytes)? }
                }
                PUT => OperationResult::Put(read_items(bytes)?.pop()),
                DELETE => {
                    let (revision, deleted) = (read_i64(bytes)?, bytes.u64()?);
                    OperationResult::Delete { revision, deleted, items: read_items(bytes)? }
                }
                TXN => OperationResult::Txn(TxnResult::read_at(bytes, depth)?),
                _ => return None,
            });
        }
        Some(TxnResult { succeeded, results })
    }
}

/// A lease's number and time to live in seconds, which is 0 if there is no such lease.
pub fn read_lease(bytes: &mut ByteReader<'_>) -> Option<(i64, i64)> {
    Some((read_i64(bytes)?, read_i64(bytes)?))
}
