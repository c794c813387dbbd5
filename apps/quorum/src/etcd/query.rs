//! Queries of the store: kind (1), and what its kind needs.

use petasos_base::ByteReader;

use super::command::{push_i64, push_keys, read_bool, read_i64, read_keys};
use super::operation::Keys;
use super::result::Item;
use crate::bytes::push_u64;

/// What is asked. Answers are bounded: whoever wants more goes on where one ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtcdQuery<'a> {
    /// Keys and values, in the order of the keys.
    Range(RangeQuery<'a>),
    /// Changes, in the order of their revisions.
    Events(EventsQuery<'a>),
    /// A lease.
    Lease {
        /// Its number.
        id: i64,
        /// Whether its keys are wanted.
        wants_keys: bool,
    },
    /// The numbers of leases, from one on.
    Leases(i64),
    /// How large the store is.
    Size,
}

/// Asks for keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeQuery<'a> {
    /// Which.
    pub keys: Keys<'a>,
    /// As of which revision; 0 for the latest.
    pub revision: i64,
    /// At most so many items; what is beyond them is counted.
    pub limit: u64,
    /// Without their values.
    pub keys_only: bool,
}

/// Asks for changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventsQuery<'a> {
    /// Of which keys.
    pub keys: Keys<'a>,
    /// From which revision on.
    pub from: i64,
    /// Whether what was there before is wanted.
    pub wants_previous: bool,
}

/// So many keys or changes are looked at for an answer, at most.
pub const LOOKED_AT_MAX: usize = 10_000;
/// Once an answer has so many bytes, it has no further items.
pub const ANSWER_BYTES: usize = 1 << 20;

const RANGE: u8 = 1;
const EVENTS: u8 = 2;
const LEASE: u8 = 3;
const LEASES: u8 = 4;
const SIZE: u8 = 5;

impl<'a> EtcdQuery<'a> {
    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            EtcdQuery::Range(range) => {
                bytes.push(RANGE);
                push_keys(&mut bytes, &range.keys);
                push_i64(&mut bytes, range.revision);
                push_u64(&mut bytes, range.limit);
                bytes.push(u8::from(range.keys_only));
            }
            EtcdQuery::Events(events) => {
                bytes.push(EVENTS);
                push_keys(&mut bytes, &events.keys);
                push_i64(&mut bytes, events.from);
                bytes.push(u8::from(events.wants_previous));
            }
            EtcdQuery::Lease { id, wants_keys } => {
                bytes.push(LEASE);
                push_i64(&mut bytes, *id);
                bytes.push(u8::from(*wants_keys));
            }
            EtcdQuery::Leases(from) => {
                bytes.push(LEASES);
                push_i64(&mut bytes, *from);
            }
            EtcdQuery::Size => bytes.push(SIZE),
        }
        bytes
    }

    /// Reads one, from bytes that nobody vouches for.
    pub fn decode(bytes: &'a [u8]) -> Option<EtcdQuery<'a>> {
        let mut reader = ByteReader::new(bytes);
        let bytes = &mut reader;
        let query = match bytes.u8()? {
            RANGE => EtcdQuery::Range(RangeQuery {
                keys: read_keys(bytes)?,
                revision: read_i64(bytes)?,
                limit: bytes.u64()?,
                keys_only: read_bool(bytes)?,
            }),
            EVENTS => EtcdQuery::Events(EventsQuery {
                keys: read_keys(bytes)?,
                from: read_i64(bytes)?,
                wants_previous: read_bool(bytes)?,
            }),
            LEASE => EtcdQuery::Lease { id: read_i64(bytes)?, wants_keys: read_bool(bytes)? },
            LEASES => EtcdQuery::Leases(read_i64(bytes)?),
            SIZE => EtcdQuery::Size,
            _ => return None,
        };
        reader.end(query)
    }
}

/// An answer to [`EtcdQuery::Range`]: the revision that was read (8), how many keys were found (8),
/// the key to go on from, if there are more, and items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeAnswer<'a> {
    /// The revision that was read.
    pub revision: i64,
    /// How many keys were found, up to where the answer ends.
    pub count: u64,
    /// From where on there may be more.
    pub next: Option<&'a [u8]>,
    /// Keys and values.
    pub items: Vec<Item<'a>>,
}

impl<'a> RangeAnswer<'a> {
    /// Reads one, from bytes that nobody vouches for.
    pub fn read(bytes: &mut ByteReader<'a>) -> Option<RangeAnswer<'a>> {
        let (revision, count) = (read_i64(bytes)?, bytes.u64()?);
        let (has_more, next) = (read_bool(bytes)?, bytes.short()?);
        let mut items = Vec::new();
        while !bytes.is_empty() {
            items.push(Item::read(bytes)?);
        }
        Some(RangeAnswer { revision, count, next: has_more.then_some(next), items })
    }
}

/// A change of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Whether it was deleted.
    pub is_delete: bool,
    /// What the key became. Of one that was deleted, key and revision only.
    pub item: Item<'a>,
    /// What it was before, if that was wanted, and is kept.
    pub previous: Option<Item<'a>>,
}

/// An answer to [`EtcdQuery::Events`]: up to which revision it is whole (8), and for each change
/// flags (1: 1 a deletion, 2 with what was before) and one item or two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventsAnswer<'a> {
    /// All changes up to this revision are there.
    pub until: i64,
    /// Changes.
    pub events: Vec<Event<'a>>,
}

impl<'a> EventsAnswer<'a> {
    /// Reads one, from bytes that nobody vouches for.
    pub fn read(bytes: &mut ByteReader<'a>) -> Option<EventsAnswer<'a>> {
        let until = read_i64(bytes)?;
        let mut events = Vec::new();
        while !bytes.is_empty() {
            let flags = bytes.u8().filter(|flags| *flags < 4)?;
            let item = Item::read(bytes)?;
            let previous = if flags & 2 != 0 { Some(Item::read(bytes)?) } else { None };
            events.push(Event { is_delete: flags & 1 != 0, item, previous });
        }
        Some(EventsAnswer { until, events })
    }
}

/// A lease, as it is asked for: its times to live (8, 8), and its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseAnswer<'a> {
    /// What it was granted, in seconds.
    pub ttl_s: i64,
    /// What is left, in milliseconds by the replicated clock.
    pub left_ms: u64,
    /// Its keys.
    pub keys: Vec<&'a [u8]>,
}

impl<'a> LeaseAnswer<'a> {
    /// Reads one, from bytes that nobody vouches for. There is none if there is no such lease.
    pub fn read(bytes: &mut ByteReader<'a>) -> Option<Option<LeaseAnswer<'a>>> {
        if bytes.is_empty() {
            return Some(None);
        }
        let (ttl_s, left_ms) = (read_i64(bytes)?, bytes.u64()?);
        let mut keys = Vec::new();
        while !bytes.is_empty() {
            keys.push(bytes.short()?);
        }
        Some(Some(LeaseAnswer { ttl_s, left_ms, keys }))
    }
}

/// How large the store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeAnswer {
    /// What it takes, in bytes as it counts them.
    pub bytes: u64,
    /// What it may take.
    pub bytes_max: u64,
    /// Keys with versions that are kept.
    pub keys: u64,
    /// Up to which revision it was compacted.
    pub compacted: i64,
    /// The digest of its state.
    pub digest: u128,
}

impl SizeAnswer {
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        [self.bytes, self.bytes_max, self.keys].iter().for_each(|number| push_u64(to, *number));
        push_i64(to, self.compacted);
        to.extend_from_slice(&self.digest.to_le_bytes());
    }

    /// Reads one, from bytes that nobody vouches for.
    pub fn read(bytes: &mut ByteReader<'_>) -> Option<SizeAnswer> {
        let (bytes_now, bytes_max, keys) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
        let (compacted, digest) = (read_i64(bytes)?, bytes.u128()?);
        Some(SizeAnswer { bytes: bytes_now, bytes_max, keys, compacted, digest })
    }
}
