//! Clients (QR13).
//!
//! They find the leader and follow it, send a request again as far as that is safe, and tell *not
//! done* from *unknown* (QR4). A [`Client`] waits for each answer, and sends commands in a session,
//! where they are done once (QR10). A [`Pipeline`] has many requests at once.

mod ask;
mod asker;
mod inbox;
mod pipeline;

use core::time::Duration;
use std::net::SocketAddr;
use std::sync::mpsc;

use petasos_base::Time;
use petasos_endpoint::Endpoint;

pub use self::ask::{Ask, ClientError, Done, Repeat, To, Told};
pub use self::asker::Asker;
use self::asker::{end_turn, run};
pub use self::pipeline::{Pipeline, PipelineLoop};

use crate::member::{Admin, Freshness};
use crate::reply::{Reply, Status};
use crate::service::{ADMIN, COMMAND, DIGEST, FOLLOW, MemberStatus, READ, STATUS};
use crate::state::{Command, Digest, Kind};

/// The time to live of a client's session, in milliseconds.
const SESSION_TTL_MS: u64 = 60_000;

/// A client of a group.
pub struct Client {
    endpoint: Endpoint<Asker>,
    timeout: Duration,
    /// Its session in the group, once it has one, and the next command's number.
    session: Option<(u64, u64)>,
}

impl Client {
    /// A client of the group that the endpoint asks. The endpoint belongs to a node, which has to
    /// stay. `timeout` is for each request, however often it is sent.
    pub fn new(mut endpoint: Endpoint<Asker>, timeout: Duration) -> Client {
        endpoint.on_turn(end_turn);
        Client { endpoint, timeout, session: None }
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

    /// What the first member that answers says of itself, and of the group.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn status(&mut self) -> Result<MemberStatus, ClientError> {
        let until = self.deadline();
        let done = self.ask(To::Any, STATUS, &[], until, Repeat::Read)?;
        serde_json::from_slice(&done.bytes).map_err(|_| ClientError::Malformed)
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

    /// Answers a query from what the member at an address has applied, once that is more than the
    /// entry at `index`, or after a second. The entry is that of the state that was read.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn follow(
        &mut self,
        member: SocketAddr,
        index: u64,
        query: &[u8],
    ) -> Result<Done, ClientError> {
        let bytes = self.ask_one(member, FOLLOW, &[&index.to_le_bytes(), query].concat())?;
        let reply = Reply::decode(&bytes).ok_or(ClientError::Malformed)?;
        match reply.status {
            Status::Done => Ok(Done { index: reply.number, bytes: reply.bytes.to_vec() }),
            status => Err(ClientError::Refused(status)),
        }
    }

    fn ask_one(
        &mut self,
        member: SocketAddr,
        method: u16,
        request: &[u8],
    ) -> Result<Vec<u8>, ClientError> {
        let until = self.deadline();
        let done = self.ask(To::Member(member), method, request, until, Repeat::Read)?;
        Ok(done.bytes)
    }

    fn deadline(&mut self) -> Time {
        self.endpoint.context().now() + self.timeout
    }

    /// Sends a request until it has an answer that counts, or its time is up.
    fn repeat(
        &mut self,
        method: u16,
        request: &[u8],
        until: Time,
        repeat: Repeat,
    ) -> Result<Done, ClientError> {
        self.ask(To::Leader, method, request, until, repeat)
    }

    fn ask(
        &mut self,
        to: To,
        method: u16,
        request: &[u8],
        until: Time,
        repeat: Repeat,
    ) -> Result<Done, ClientError> {
        let (tell, told) = mpsc::channel();
        // It waits below.
        let told_here = Box::new(move |result| drop(tell.send(result)));
        let request = request.to_vec();
        let now = self.endpoint.context().now();
        let ask = Ask { to, method, request, timeout: until - now, repeat, told: told_here };
        self.endpoint.state_mut().ask(ask, now);
        let mut result = None;
        run(&mut self.endpoint, |_, _| {
            result = told.try_recv().ok();
            result.is_some()
        });
        result.expect("the loop ends with it")
    }
}

fn encoded(command: &Command<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    command.encode(&mut bytes);
    bytes
}
