//! A request to a group, on its way until it has an answer that counts (QR4, QR13).

use core::time::Duration;
use std::net::SocketAddr;

use petasos_base::Time;

use crate::reply::{Reply, Status};

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No member took the request in time. It was not done.
    #[error("no member that leads the group has answered in time; nothing was done")]
    Unavailable,
    /// It may have been done, may yet be, or never. Sent again in another session, it may be done
    /// twice.
    #[error("whether it was done is not known")]
    Unknown,
    /// The group has refused it. It was not done.
    #[error("{0}")]
    Refused(Status),
    /// An operator's request was refused. It was not done.
    #[error("{0}")]
    NotAllowed(String),
    /// Somebody answers who is no member: the address is wrong.
    #[error("the answer is none of a member's")]
    Malformed,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The entry's place, or that of the state that was read.
    pub index: u64,
    /// The result.
    pub bytes: Vec<u8>,
}

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// The leader, whoever that is: a response is a [`Reply`].
    Leader,
    /// The member at an address. A response is given as it comes.
    Member(SocketAddr),
    /// Any member that answers. A response is given as it comes.
    Any,
}

/// Whether a request may be sent again after an attempt that may have been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// It changes nothing.
    Read,
    /// Its session sees to it that it is done once.
    InSession,
    /// Twice is as good as once.
    Always,
    /// It may not.
    Once,
}

/// What hears of the end of a request.
pub type Told = Box<dyn FnOnce(Result<Done, ClientError>) + Send>;

/// A request.
pub struct Ask {
    /// Who is asked.
    pub to: To,
    /// The method.
    pub method: u16,
    /// Its bytes.
    pub request: Vec<u8>,
    /// How long it may take, however often it is sent.
    pub timeout: Duration,
    /// Whether it may be sent again.
    pub repeat: Repeat,
    /// Hears how it has ended, once.
    pub told: Told,
}

/// What came of one attempt.
pub(super) enum Attempt {
    /// The leader, or another member, has replied.
    Answered(Status, Done),
    /// A member has answered that is asked for itself.
    Raw(Vec<u8>),
    /// Nobody has taken the request.
    NotSent,
    /// The member was asked and has not answered.
    Lost,
}

impl Attempt {
    /// A leader's reply.
    pub fn of_reply(answer: &[u8]) -> Attempt {
        match Reply::decode(answer) {
            Some(Reply { status, number, bytes }) => {
                Attempt::Answered(status, Done { index: number, bytes: bytes.to_vec() })
            }
            None => Attempt::Lost,
        }
    }
}

/// How a request goes on after an attempt.
pub(super) enum Next {
    /// It has ended.
    End(Result<Done, ClientError>),
    /// It is sent to the member at the address that the bytes say, or, if they say none, to another
    /// one soon.
    Follow(Vec<u8>),
    /// It is sent to the same member soon.
    Again,
    /// It is sent to another member soon.
    Another,
}

/// A request between two attempts.
pub(super) struct Pending {
    pub ask: Ask,
    /// When it is given up.
    pub until: Time,
    /// Whether an earlier attempt may have been done.
    pub may_be_done: bool,
    /// When it is tried next.
    pub at: Time,
}

impl Pending {
    /// It is tried at once.
    pub fn new(ask: Ask, now: Time) -> Pending {
        Pending { until: now + ask.timeout, ask, may_be_done: false, at: now }
    }

    /// What follows from an attempt.
    pub fn next(&mut self, attempt: Attempt) -> Next {
        let repeat = self.ask.repeat;
        match attempt {
            Attempt::Raw(bytes) => Next::End(Ok(Done { index: 0, bytes })),
            Attempt::Answered(Status::Done, done) => Next::End(Ok(done)),
            Attempt::Answered(Status::NotLeader, done) => Next::Follow(done.bytes),
            Attempt::Answered(Status::Busy, _) => Next::Again,
            Attempt::Answered(Status::Refused, done) => {
                let why = String::from_utf8_lossy(&done.bytes).into_owned();
                Next::End(Err(ClientError::NotAllowed(why)))
            }
            Attempt::Answered(Status::Unknown, _) | Attempt::Lost => {
                self.may_be_done |= repeat != Repeat::Read;
                match repeat {
                    Repeat::Once => Next::End(Err(ClientError::Unknown)),
                    _ => Next::Another,
                }
            }
            // An earlier attempt may have been taken, and then has its result soon.
            Attempt::Answered(Status::Full | Status::NoRoom, _) if self.may_be_done => Next::Again,
            Attempt::Answered(..) if self.may_be_done => Next::End(Err(ClientError::Unknown)),
            Attempt::Answered(status, _) => Next::End(Err(ClientError::Refused(status))),
            Attempt::NotSent => Next::Another,
        }
    }

    /// Its time is up.
    pub fn give_up(self) {
        let error = if self.may_be_done { ClientError::Unknown } else { ClientError::Unavailable };
        (self.ask.told)(Err(error));
    }
}
