//! What replicas say to each other.
//!
//! A message begins with a header of 48 bytes, little-endian:
//!
//! ```text
//! 0  version, 1
//! 1  kind
//! 2  flags
//! 4  number of entries
//! 8  group
//! 24 from
//! 32 to
//! 40 term of the sender
//! ```
//!
//! Then come what its kind needs, and entries: kind (1), zero (3), length of the data (4), data.
//! [`decode`] believes nothing, and has looked at all of it when it returns.

use thiserror::Error;

use crate::core::Diverged;
use crate::entry::{Kind, Meaning, meaning};
use crate::position::NUMBER_MAX;
use crate::{MemberId, Position};
use petasos_base::ByteReader;

const VERSION: u8 = 1;

/// The bytes before what a message's kind needs.
pub(crate) const HEADER_BYTES: usize = 48;
/// What entries in a message have before their data.
pub(crate) const ENTRY_HEADER_BYTES: usize = 8;
/// All of an `Append` but its entries.
pub(crate) const APPEND_BYTES: usize = HEADER_BYTES + 32;

/// Who says it, to whom, and in which term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) group: u128,
    pub(crate) from: MemberId,
    pub(crate) to: MemberId,
    pub(crate) term: u64,
}

/// A message without its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Would you vote for me in the term after mine? (QR6)
    PreVote { last: Position },
    /// Yes or no; `asked` is the term of the question.
    PreVoteAnswer { asked: u64, granted: bool },
    /// Vote for me. `handing_over`: because the leader has asked me to stand (QR7).
    Vote { last: Position, handing_over: bool },
    /// Yes or no.
    VoteAnswer { granted: bool },
    /// The entries behind `previous`.
    Append(Append),
    /// What the log of a follower ends with, as far as it is durable.
    Appended(Appended),
    /// Stand for election at once (QR7).
    Stand,
}

/// What a leader says with its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Append {
    pub(crate) previous: Position,
    /// What is committed.
    pub(crate) commit: u64,
    /// Counts the rounds in which the leader asks whether it still leads (QR14).
    pub(crate) round: u64,
    /// Whether answering promises not to vote for a while (QR15).
    pub(crate) lease: bool,
}

/// What a follower says of its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Appended {
    /// The last entry that is durable.
    pub(crate) last: Position,
    /// The last round that it was asked in.
    pub(crate) round: u64,
    /// The last entry, durable or not.
    pub(crate) end: u64,
    /// Entries have come that do not follow on that: those between are missing.
    pub(crate) has_gap: bool,
}

const HANDING_OVER: u16 = 1;
const GAP: u16 = 1;
const GRANTED: u16 = 1;
const LEASE: u16 = 1;

impl Message {
    fn kind(&self) -> u8 {
        match self {
            Message::PreVote { .. } => 1,
            Message::PreVoteAnswer { .. } => 2,
            Message::Vote { .. } => 3,
            Message::VoteAnswer { .. } => 4,
            Message::Append(_) => 5,
            Message::Appended(_) => 6,
            Message::Stand => 7,
        }
    }

    fn flags(&self) -> u16 {
        match *self {
            Message::PreVoteAnswer { granted, .. } | Message::VoteAnswer { granted } => {
                u16::from(granted) * GRANTED
            }
            Message::Vote { handing_over, .. } => u16::from(handing_over) * HANDING_OVER,
            Message::Append(append) => u16::from(append.lease) * LEASE,
            Message::Appended(appended) => u16::from(appended.has_gap) * GAP,
            Message::PreVote { .. } | Message::Stand => 0,
        }
    }

    /// Writes the message, which `entries` entries follow ([`encode_entry`]).
    pub(crate) fn encode(&self, envelope: Envelope, entries: u32, bytes: &mut Vec<u8>) {
        let Envelope { group, from, to, term } = envelope;
        bytes.extend_from_slice(&[VERSION, self.kind()]);
        bytes.extend_from_slice(&self.flags().to_le_bytes());
        bytes.extend_from_slice(&entries.to_le_bytes());
        bytes.extend_from_slice(&group.to_le_bytes());
        let mut numbers = |numbers: &[u64]| {
            numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        };
        numbers(&[from.0, to.0, term]);
        match *self {
            Message::PreVote { last } | Message::Vote { last, .. } => {
                numbers(&[last.term, last.index]);
            }
            Message::PreVoteAnswer { asked, .. } => numbers(&[asked]),
            Message::Append(Append { previous, commit, round, lease: _ }) => {
                numbers(&[previous.term, previous.index, commit, round]);
            }
            Message::Appended(Appended { last, round, end, has_gap: _ }) => {
                numbers(&[last.term, last.index, round, end]);
            }
            Message::VoteAnswer { .. } | Message::Stand => {}
        }
    }
}

/// Writes an entry behind a message.
pub(crate) fn encode_entry(kind: Kind, data: &[u8], bytes: &mut Vec<u8>) {
    let length = u32::try_from(data.len()).expect("entries are bounded");
    bytes.extend_from_slice(&[kind as u8, 0, 0, 0]);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(data);
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// It is no message of this version.
    #[error("not a message between replicas of this version")]
    Malformed,
    /// It is for another group, or for another member (QR8).
    #[error("the message is for another group or member")]
    Misaddressed,
    /// The member that has got the message cannot go on.
    #[error(transparent)]
    Diverged(#[from] Diverged),
}

/// A message as it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received<'a> {
    pub(crate) envelope: Envelope,
    pub(crate) message: Message,
    /// Of an `Append`, else empty.
    pub(crate) entries: Entries<'a>,
}

/// Entries in a message that has been checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entries<'a> {
    count: u32,
    bytes: &'a [u8],
}

impl<'a> Entries<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn count(&self) -> usize {
        self.count as usize
    }

    /// Kinds and data.
    pub(crate) fn iter(self) -> impl Iterator<Item = (Kind, &'a [u8])> {
        let mut bytes = ByteReader::new(self.bytes);
        (0..self.count).map(move |_| entry(&mut bytes).expect("entries have been checked"))
    }
}

/// Reads a message from bytes that nobody vouches for.
pub(crate) fn decode(bytes: &[u8]) -> Option<Received<'_>> {
    let mut bytes = ByteReader::new(bytes);
    (bytes.u8()? == VERSION).then_some(())?;
    let kind = bytes.u8()?;
    let flags = bytes.u16()?;
    let count = bytes.u32()?;
    let group = bytes.u128()?;
    let (from, to) = (MemberId(bytes.u64()?), MemberId(bytes.u64()?));
    let envelope = Envelope { group, from, to, term: number(&mut bytes)? };
    let message = body(kind, flags, &mut bytes)?;
    let entries = match message {
        Message::Append(append) => entries(&append, envelope.term, count, bytes)?,
        _ if count == 0 => {
            bytes.end(())?;
            Entries { count, bytes: &[] }
        }
        _ => return None,
    };
    Some(Received { envelope, message, entries })
}

fn body(kind: u8, flags: u16, bytes: &mut ByteReader<'_>) -> Option<Message> {
    let flag = match flags {
        0 => false,
        1 if matches!(kind, 2..=6) => true,
        _ => return None,
    };
    Some(match kind {
        1 => Message::PreVote { last: position(bytes)? },
        2 => Message::PreVoteAnswer { asked: number(bytes)?, granted: flag },
        3 => Message::Vote { last: position(bytes)?, handing_over: flag },
        4 => Message::VoteAnswer { granted: flag },
        5 => {
            let (previous, commit) = (position(bytes)?, number(bytes)?);
            Message::Append(Append { previous, commit, round: number(bytes)?, lease: flag })
        }
        6 => {
            let (last, round) = (position(bytes)?, number(bytes)?);
            Message::Appended(Appended { last, round, end: number(bytes)?, has_gap: flag })
        }
        7 => Message::Stand,
        _ => return None,
    })
}

/// Checks entries, which go to the end of the message. Terms go up, and none is above the
/// sender's.
fn entries<'a>(
    append: &Append,
    sender: u64,
    count: u32,
    mut bytes: ByteReader<'a>,
) -> Option<Entries<'a>> {
    let mut all = bytes;
    let mut term = append.previous.term;
    for _ in 0..count {
        let (kind, data) = entry(&mut bytes)?;
        if let Meaning::Term(begun) = meaning(kind, data)? {
            (begun > term && begun <= sender).then_some(())?;
            term = begun;
        }
    }
    bytes.end(())?;
    Some(Entries { count, bytes: all.rest() })
}

fn entry<'a>(bytes: &mut ByteReader<'a>) -> Option<(Kind, &'a [u8])> {
    let kind = Kind::of(bytes.u8()?)?;
    (bytes.take(3)? == [0; 3]).then_some(())?;
    let length = usize::try_from(bytes.u32()?).ok()?;
    Some((kind, bytes.take(length)?))
}

fn position(bytes: &mut ByteReader<'_>) -> Option<Position> {
    Some(Position { term: number(bytes)?, index: number(bytes)? })
}

fn number(bytes: &mut ByteReader<'_>) -> Option<u64> {
    bytes.u64().filter(|number| *number < NUMBER_MAX)
}
