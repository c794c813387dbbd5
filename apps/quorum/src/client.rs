//! A client that waits for its answers (QR13).
//!
//! It finds the leader and follows it, sends a command again until it has an answer, which is safe
//! in its session (QR10), and tells *not done* from *unknown* (QR4).

use core::time::Duration;
use std::net::SocketAddr;

use petasos_base::Time;
use petasos_endpoint::{
    CallError, CallSettings, Completion, Context, Endpoint, MsgBuf, SessionId, SessionState,
};

use crate::member::{Admin, Freshness};
use crate::reply::{Reply, Status};
use crate::service::{ADMIN, COMMAND, DIGEST, MemberStatus, READ, STATUS};
use crate::state::{Command, Digest, Kind};

/// Answers that have come.
#[derive(Debug, Default)]
pub struct Answers(Vec<Result<Vec<u8>, CallError>>);

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

/// How long a member has for an answer before another one is asked.
const ATTEMPT: Duration = Duration::from_millis(500);
/// How long the client waits before it asks again, if nobody leads.
const PAUSE: Duration = Duration::from_millis(10);
/// The time to live of a client's session, in milliseconds.
const SESSION_TTL_MS: u64 = 60_000;

struct Known {
    address: SocketAddr,
    session: Option<SessionId>,
}

/// A client of a group.
pub struct Client {
    endpoint: Endpoint<Answers>,
    members: Vec<Known>,
    /// Which of them is asked first: the leader, as far as it knows.
    first: usize,
    timeout: Duration,
    /// Its session in the group, once it has one, and the next command's number.
    session: Option<(u64, u64)>,
}

/// What came of one attempt.
enum Attempt {
    Answered(Status, Done),
    /// Nobody was asked.
    NotSent,
    /// The member was asked and has not answered.
    Lost,
}

fn keep(answers: &mut Answers, cx: &mut Context<Answers>, completion: Completion<'_>) {
    answers.0.push(completion.result.map(|payload| payload.to_vec()));
    cx.free(completion.request);
}

impl Client {
    /// A client of the group that has these members, or some of them. The endpoint belongs to a
    /// node, which has to stay. `timeout` is for each request, however often it is sent.
    ///
    /// # Panics
    /// If there are no members.
    pub fn new(endpoint: Endpoint<Answers>, members: &[SocketAddr], timeout: Duration) -> Client {
        assert!(!members.is_empty(), "a group has members");
        let known = |address: &SocketAddr| Known { address: *address, session: None };
        let members = members.iter().map(known).collect();
        Client { endpoint, members, first: 0, timeout, session: None }
    }

    /// Does a command of the group's machine, once (QR3).
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn command(&mut self, bytes: &[u8]) -> Result<Done, ClientError> {
        let until = self.deadline();
        loop {
            let (session, number) = match self.session {
                Some(session) => session,
                None => (self.open(until)?, 1),
            };
            self.session = Some((session, number + 1));
            let (kind, lowest) = (Kind::InSession, number);
            let command = Command { kind, session, number, lowest, bytes };
            match self.repeat(COMMAND, &encoded(&command), until, Repeat::InSession) {
                // It has ended since the command before, and this one was not done (QR11).
                Err(ClientError::Refused(Status::NoSession)) => self.session = None,
                result => {
                    // Of a session that has an unknown outcome, nothing is expected any more.
                    self.session = self.session.filter(|_| result != Err(ClientError::Unknown));
                    return result;
                }
            }
        }
    }

    /// Opens a session in the group. One whose answer is lost ends by itself.
    fn open(&mut self, until: Time) -> Result<u64, ClientError> {
        let bytes = SESSION_TTL_MS.to_le_bytes();
        let open = Command { kind: Kind::Open, session: 0, number: 0, lowest: 0, bytes: &bytes };
        let done = self.repeat(COMMAND, &encoded(&open), until, Repeat::Always)?;
        let number = done.bytes.try_into().map_err(|_| ClientError::Malformed)?;
        Ok(u64::from_le_bytes(number))
    }

    /// Ends the session in the group, so that it is forgotten at once.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn close(&mut self) -> Result<(), ClientError> {
        let Some((session, _)) = self.session.take() else { return Ok(()) };
        let close = Command { kind: Kind::Close, session, number: 0, lowest: 0, bytes: &[] };
        let until = self.deadline();
        self.repeat(COMMAND, &encoded(&close), until, Repeat::Always).map(drop)
    }

    /// Answers a query from the group's state.
    ///
    /// # Errors
    /// See [`ClientError`]; never [`ClientError::Unknown`].
    pub fn read(&mut self, freshness: Freshness, query: &[u8]) -> Result<Done, ClientError> {
        let mode = match freshness {
            Freshness::Latest => 0,
            Freshness::Stale => 1,
        };
        let until = self.deadline();
        self.repeat(READ, &[&[mode], query].concat(), until, Repeat::Read)
    }

    /// An operator's request, which is sent until a leader has done or refused it. The number is
    /// the member's that it is about.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn admin(&mut self, admin: &Admin) -> Result<u64, ClientError> {
        let until = self.deadline();
        // A new member that asks twice is added once; other changes are refused the second time.
        let done = self.repeat(ADMIN, &admin.encode(), until, Repeat::Once)?;
        Ok(done.index)
    }

    /// Has all members remember the digest of their state at one entry, whose place is returned
    /// (QR23).
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn mark(&mut self) -> Result<u64, ClientError> {
        let mark = Command { kind: Kind::Mark, session: 0, number: 0, lowest: 0, bytes: &[] };
        let until = self.deadline();
        self.repeat(COMMAND, &encoded(&mark), until, Repeat::Always).map(|done| done.index)
    }

    /// What the member at an address says of itself.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn status_of(&mut self, member: SocketAddr) -> Result<MemberStatus, ClientError> {
        let bytes = self.ask_one(member, STATUS, &[])?;
        serde_json::from_slice(&bytes).map_err(|_| ClientError::Malformed)
    }

    /// The digest that the member at an address remembers.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn digest_of(&mut self, member: SocketAddr) -> Result<Digest, ClientError> {
        let bytes = self.ask_one(member, DIGEST, &[])?;
        let reply = Reply::decode(&bytes).ok_or(ClientError::Malformed)?;
        let value = reply.bytes.try_into().map_err(|_| ClientError::Malformed)?;
        Ok(Digest { index: reply.number, value: u128::from_le_bytes(value) })
    }

    /// Has the member at an address take a snapshot.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn snapshot(&mut self, member: SocketAddr) -> Result<(), ClientError> {
        let bytes = self.ask_one(member, ADMIN, &Admin::Snapshot.encode())?;
        let reply = Reply::decode(&bytes).ok_or(ClientError::Malformed)?;
        match reply.status {
            Status::Done => Ok(()),
            status => Err(ClientError::Refused(status)),
        }
    }

    fn ask_one(
        &mut self,
        member: SocketAddr,
        method: u16,
        request: &[u8],
    ) -> Result<Vec<u8>, ClientError> {
        let at = self.place_of(member);
        let until = self.deadline();
        let session = self.connected(at, until).ok_or(ClientError::Unavailable)?;
        let answer = self.call(session, method, request, self.timeout);
        answer.ok_or(ClientError::Unavailable)?.map_err(|_| ClientError::Unavailable)
    }

    fn deadline(&mut self) -> Time {
        self.endpoint.context().now() + self.timeout
    }

    fn place_of(&mut self, address: SocketAddr) -> usize {
        let known = self.members.iter().position(|known| known.address == address);
        known.unwrap_or_else(|| {
            self.members.push(Known { address, session: None });
            self.members.len() - 1
        })
    }

    /// Sends a request until it has an answer that counts, or its time is up.
    fn repeat(
        &mut self,
        method: u16,
        request: &[u8],
        until: Time,
        repeat: Repeat,
    ) -> Result<Done, ClientError> {
        let mut may_be_done = false;
        while self.endpoint.context().now() < until {
            match self.attempt(method, request, until, repeat) {
                Attempt::Answered(Status::Done, done) => return Ok(done),
                Attempt::Answered(Status::NotLeader, done) => self.follow(&done.bytes),
                Attempt::Answered(Status::Busy, _) => self.pause(until),
                Attempt::Answered(Status::Refused, done) => {
                    let why = String::from_utf8_lossy(&done.bytes).into_owned();
                    return Err(ClientError::NotAllowed(why));
                }
                Attempt::Answered(Status::Unknown, _) | Attempt::Lost => {
                    may_be_done |= repeat != Repeat::Read;
                    if repeat == Repeat::Once {
                        return Err(ClientError::Unknown);
                    }
                    self.ask_another(until);
                }
                // An earlier attempt may have been taken, and then has its result soon.
                Attempt::Answered(Status::Full | Status::NoRoom, _) if may_be_done => {
                    self.pause(until);
                }
                Attempt::Answered(_, _) if may_be_done => return Err(ClientError::Unknown),
                Attempt::Answered(status, _) => return Err(ClientError::Refused(status)),
                Attempt::NotSent => self.ask_another(until),
            }
        }
        Err(if may_be_done { ClientError::Unknown } else { ClientError::Unavailable })
    }

    fn attempt(&mut self, method: u16, request: &[u8], until: Time, repeat: Repeat) -> Attempt {
        let now = self.endpoint.context().now();
        let Some(session) = self.connected(self.first, until.min(now + ATTEMPT)) else {
            return Attempt::NotSent;
        };
        let left = until - self.endpoint.context().now();
        // A member that is silent is left, unless the request cannot be sent again.
        let patience = if repeat == Repeat::Once { left } else { left.min(ATTEMPT) };
        let answer = match self.call(session, method, request, patience) {
            None => return Attempt::NotSent,
            Some(Err(error)) if error.retry_is_safe() => return Attempt::NotSent,
            Some(Err(_)) => return Attempt::Lost,
            Some(Ok(answer)) => answer,
        };
        match Reply::decode(&answer) {
            Some(Reply { status, number, bytes }) => {
                Attempt::Answered(status, Done { index: number, bytes: bytes.to_vec() })
            }
            None => Attempt::Lost,
        }
    }

    /// The session to a member, once it is ready.
    fn connected(&mut self, at: usize, until: Time) -> Option<SessionId> {
        if let Some(session) = self.members[at].session {
            if self.endpoint.context().session_state(session) == SessionState::Ready {
                return Some(session);
            }
            self.endpoint.close_session(session);
            self.members[at].session = None;
        }
        let left = until - self.endpoint.context().now();
        let session = self.endpoint.connect_and_wait(self.members[at].address, left).ok()?;
        self.members[at].session = Some(session);
        Some(session)
    }

    /// Calls, and waits for the answer. [`None`] if the call was not made.
    fn call(
        &mut self,
        session: SessionId,
        method: u16,
        request: &[u8],
        timeout: Duration,
    ) -> Option<Result<Vec<u8>, CallError>> {
        self.endpoint.state_mut().0.clear();
        let settings = CallSettings { timeout: Some(timeout), ..CallSettings::default() };
        let request = MsgBuf::from_slice(request);
        let cx = self.endpoint.context();
        cx.enqueue_with(session, method, request, keep, 0, &settings).ok()?;
        self.endpoint.run(|answers, _| !answers.0.is_empty());
        self.endpoint.state_mut().0.pop()
    }

    /// Asks the leader from now on, if the member knows it.
    fn follow(&mut self, address: &[u8]) {
        let address = core::str::from_utf8(address).ok().and_then(|text| text.parse().ok());
        match address {
            Some(address) => {
                let before = self.first;
                self.first = self.place_of(address);
                // A member that names itself, or is named in turns, does not know yet.
                if before == self.first {
                    self.wait(PAUSE);
                }
            }
            None => {
                self.first = (self.first + 1) % self.members.len();
                self.wait(PAUSE);
            }
        }
    }

    fn ask_another(&mut self, until: Time) {
        self.first = (self.first + 1) % self.members.len();
        self.pause(until);
    }

    fn pause(&mut self, until: Time) {
        let left = until - self.endpoint.context().now();
        self.wait(PAUSE.min(left));
    }

    fn wait(&mut self, duration: Duration) {
        self.endpoint.run_for(duration, |_, _| false);
    }
}

/// Whether a request may be sent again after an attempt that may have been done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeat {
    /// It changes nothing.
    Read,
    /// Its session sees to it that it is done once.
    InSession,
    /// Twice is as good as once.
    Always,
    /// It may not.
    Once,
}

fn encoded(command: &Command<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    command.encode(&mut bytes);
    bytes
}
