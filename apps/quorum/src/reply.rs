//! What a member answers to clients.
//!
//! A response is status (1), zero (7), a number (8), and bytes, which depend on the status.

use petasos_base::ByteReader;

use crate::bytes::push_u64;
use crate::state::Outcome;

/// How a request ended (QR4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u8)]
pub enum Status {
    /// Done. The number is the entry's place; the bytes are the result, or the answer.
    #[error("done")]
    Done = 0,
    /// The session has ended, or never was. Not done by this request.
    #[error("the session has ended")]
    NoSession = 1,
    /// The session's numbers contradict what its client has said before. Not done by this request.
    #[error("the session's numbers contradict each other")]
    Contradiction = 2,
    /// There is no room for another session, or for results. Not done.
    #[error("the group has no room for more sessions, or for their results")]
    NoRoom = 3,
    /// Another member leads, or none. Not done. The bytes are the leader's address, if it is known.
    #[error("another member leads the group, or none does")]
    NotLeader = 4,
    /// Too much waits, or the leader hands over. Not done: try again soon.
    #[error("the group is busy")]
    Busy = 5,
    /// The request cannot be read. Not done: its sender's fault.
    #[error("the request is malformed")]
    Malformed = 6,
    /// The disk, or the state, is full. Not done.
    #[error("the group is full")]
    Full = 7,
    /// It may have been done, may yet be, or never.
    #[error("whether it was done is not known")]
    Unknown = 8,
    /// An operator's request was refused. Not done. The bytes say why.
    #[error("refused")]
    Refused = 9,
}

impl Status {
    fn of(number: u8) -> Option<Status> {
        use Status::{
            Busy, Contradiction, Done, Full, Malformed, NoRoom, NoSession, NotLeader, Refused,
            Unknown,
        };
        let all = [
            Done,
            NoSession,
            Contradiction,
            NoRoom,
            NotLeader,
            Busy,
            Malformed,
            Full,
            Unknown,
            Refused,
        ];
        all.into_iter().find(|status| *status as u8 == number)
    }

    /// Whether the request was certainly not done, by this sending of it.
    pub fn is_not_done(self) -> bool {
        !matches!(self, Status::Done | Status::Unknown)
    }
}

/// A response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// How it ended.
    pub status: Status,
    /// See [`Status`].
    pub number: u64,
    /// See [`Status`].
    pub bytes: &'a [u8],
}

impl<'a> Reply<'a> {
    /// A reply without a number and bytes.
    pub fn of(status: Status) -> Reply<'a> {
        Reply { status, number: 0, bytes: &[] }
    }

    /// How a command ended.
    pub fn of_outcome(outcome: Outcome<'a>, index: u64) -> Reply<'a> {
        match outcome {
            Outcome::Done(bytes) => Reply { status: Status::Done, number: index, bytes },
            Outcome::NoSession => Reply::of(Status::NoSession),
            Outcome::Contradiction => Reply::of(Status::Contradiction),
            Outcome::Full => Reply::of(Status::NoRoom),
        }
    }

    /// Writes it.
    pub fn append(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&[self.status as u8, 0, 0, 0, 0, 0, 0, 0]);
        push_u64(to, self.number);
        to.extend_from_slice(self.bytes);
    }

    /// Reads one, from bytes that nobody vouches for.
    pub fn decode(bytes: &'a [u8]) -> Option<Reply<'a>> {
        let mut bytes = ByteReader::new(bytes);
        let status = Status::of(bytes.u8()?)?;
        (bytes.take(7)? == [0; 7]).then_some(())?;
        let number = bytes.u64()?;
        Some(Reply { status, number, bytes: bytes.rest() })
    }
}
