//! A client that waits for its answers, for programs that do one thing after the other.
//!
//! It sends to the loop that owns a key, and a request for many keys to each of their owners at the
//! same time. One that is to be fast has an endpoint of its own, and makes requests and reads
//! responses as this one does.

use core::time::Duration;
use std::net::SocketAddr;

use petasos_endpoint::{
    CallError, CallSettings, Completion, ConnectAndWaitError, Context, Endpoint, EnqueueError,
    MsgBuf, SessionId,
};

use crate::counters::KvStats;
use crate::layout::Layout;
use crate::many::{MANY_MAX, Many, push};
use crate::request::{Operation, Request};
use crate::response::Response;
use crate::service::{LAYOUT, OPERATE, OPERATE_MANY, STATS};
use crate::status::Status;

/// Bytes of a request for many keys, at most, unless a single one has more.
const MANY_REQUEST_BYTES: usize = 256 << 10;

/// Answers that have come.
#[derive(Debug, Default)]
pub struct Answers {
    come: Vec<(u64, Result<Vec<u8>, CallError>)>,
}

/// A client of one server.
pub struct Client {
    endpoint: Endpoint<Answers>,
    server: SocketAddr,
    layout: Layout,
    /// A session to each loop, once it was needed.
    sessions: Vec<Option<SessionId>>,
    /// The session that it began with, if everything goes there.
    only: Option<SessionId>,
    timeout: Duration,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No session: nothing was done. Try again, or another server.
    #[error("cannot connect: {0}")]
    Connect(#[from] ConnectAndWaitError),
    /// The call failed. Whether the operation was done is not known, unless the error says so.
    #[error("the call failed: {0}")]
    Call(#[from] CallError),
    /// The call was not made: nothing was done.
    #[error("the call was not made: {0}")]
    NotMade(#[from] EnqueueError),
    /// The server has answered something else: its fault.
    #[error("the server's answer is malformed")]
    Malformed,
    /// The server has refused the operation. Nothing has changed.
    #[error("{0}")]
    Refused(Status),
}

/// An item as a client has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The value.
    pub value: Vec<u8>,
    /// What its writer has set.
    pub flags: u16,
    /// The number of the write that made it (K6).
    pub stamp: u64,
}

fn keep(answers: &mut Answers, cx: &mut Context<Answers>, completion: Completion<'_>) {
    let answer = completion.result.map(|payload| payload.to_vec());
    answers.come.push((completion.tag, answer));
    cx.free(completion.request);
}

impl Client {
    /// Connects to a server, by any of its loops. The endpoint belongs to a node, which has to
    /// stay.
    ///
    /// # Errors
    /// If it cannot be reached in time, or says nothing of its layout.
    pub fn connect(
        endpoint: Endpoint<Answers>,
        server: SocketAddr,
        timeout: Duration,
    ) -> Result<Client, ClientError> {
        let mut client = Client::connect_to_one(endpoint, server, timeout)?;
        let is_called = |address: &SocketAddr| address.port() == server.port();
        if let Some(called) = client.layout.loops.iter().position(is_called) {
            client.sessions[called] = client.only;
        }
        client.only = None;
        Ok(client)
    }

    /// Connects to one address alone, for a network in which the server's others cannot be reached,
    /// or where it has another one than the server knows. Everything goes there, and is passed on
    /// within the server, which takes longer; many operations are done one after the other.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_to_one(
        mut endpoint: Endpoint<Answers>,
        server: SocketAddr,
        timeout: Duration,
    ) -> Result<Client, ClientError> {
        let session = endpoint.connect_and_wait(server, timeout)?;
        let layout = Layout { version: 0, loops: Vec::new(), owners: vec![0] };
        let (sessions, only) = (Vec::new(), Some(session));
        let mut client = Client { endpoint, server, layout, sessions, only, timeout };
        let answer = client.call(session, LAYOUT, &[])?;
        client.layout = Layout::parse(&answer).map_err(|_| ClientError::Malformed)?;
        client.sessions = vec![None; client.layout.loops.len()];
        Ok(client)
    }

    /// The server's partitions.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Does one operation. `read` gets the response, whatever its status.
    ///
    /// # Errors
    /// See [`ClientError`]: never [`ClientError::Refused`].
    pub fn operate<T>(
        &mut self,
        request: &Request<'_>,
        read: impl FnOnce(Response<'_>) -> T,
    ) -> Result<T, ClientError> {
        let session = self.session(self.layout.owner_of(request.key))?;
        let answer = self.call(session, OPERATE, &request.to_vec())?;
        let response = Response::parse(&answer).map_err(|_| ClientError::Malformed)?;
        Ok(read(response))
    }

    /// The item of a key, if it has one.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Found>, ClientError> {
        self.operate(&Request::new(Operation::Get, key), found)?
    }

    /// Writes a value, and returns its stamp.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Result<u64, ClientError> {
        self.change(&Request::set(key, value)).map(|response| response.stamp)
    }

    /// Deletes a key's item. Returns whether there was one.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, ClientError> {
        match self.change(&Request::new(Operation::Delete, key)) {
            Ok(_) => Ok(true),
            Err(ClientError::Refused(Status::Absent)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Adds to a number of 8 bytes (K9), and returns the sum.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn add_number(&mut self, key: &[u8], number: i64) -> Result<u64, ClientError> {
        let add = Request::new(Operation::AddNumber, key);
        self.change(&Request { operand: number as u64, ..add })?
            .number
            .ok_or(ClientError::Malformed)
    }

    /// Does an operation that changes something. What is not done is an error.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn change(&mut self, request: &Request<'_>) -> Result<Changed, ClientError> {
        self.operate(request, |response| match response.status {
            Status::Done => Ok(Changed { stamp: response.stamp, number: response.number() }),
            status => Err(ClientError::Refused(status)),
        })?
    }

    /// The items of many keys, in their order. There is no atomicity between them (K21).
    ///
    /// # Errors
    /// See [`ClientError`], of any key.
    pub fn get_many(&mut self, keys: &[&[u8]]) -> Result<Vec<Option<Found>>, ClientError> {
        let requests: Vec<_> = keys.iter().map(|key| Request::new(Operation::Get, key)).collect();
        self.operate_many(&requests)?.into_iter().map(Answer::into_found).collect()
    }

    /// Does many operations, and returns their answers in the same order. There is no atomicity
    /// between them (K21).
    ///
    /// # Errors
    /// See [`ClientError`]: never [`ClientError::Refused`]. Some may have been done then.
    pub fn operate_many(&mut self, requests: &[Request<'_>]) -> Result<Vec<Answer>, ClientError> {
        if self.only.is_some() {
            return requests.iter().map(|request| self.operate(request, Answer::of)).collect();
        }
        let mut answers: Vec<Option<Answer>> = vec![None; requests.len()];
        let mut left: Vec<usize> = (0..requests.len()).collect();
        while !left.is_empty() {
            let sent = self.send_many(requests, &left)?;
            let outcomes = self.await_all(sent.len())?;
            for ((_, numbers), answer) in sent.iter().zip(outcomes) {
                read_many(&answer?, numbers, &mut answers)?;
            }
            let before = left.len();
            left.retain(|number| answers[*number].is_none());
            if left.len() == before {
                return Err(ClientError::Malformed);
            }
        }
        Ok(answers.into_iter().map(|answer| answer.expect("none is left")).collect())
    }

    /// Sends the requests with these numbers to their owners. Returns what each message has.
    fn send_many(
        &mut self,
        requests: &[Request<'_>],
        numbers: &[usize],
    ) -> Result<Vec<(SessionId, Vec<usize>)>, ClientError> {
        let mut messages: Vec<(u16, Vec<u8>, Vec<usize>)> = Vec::new();
        for number in numbers {
            let request = &requests[*number];
            let owner = self.layout.owner_of(request.key);
            let fits = |(of, message, numbers): &(u16, Vec<u8>, Vec<usize>)| {
                let bytes = message.len() + request.bytes();
                *of == owner && numbers.len() < MANY_MAX && bytes < MANY_REQUEST_BYTES
            };
            let at = messages.iter().position(fits).unwrap_or_else(|| {
                messages.push((owner, Vec::new(), Vec::new()));
                messages.len() - 1
            });
            let (_, message, listed) = &mut messages[at];
            push(message, request.bytes(), |to| request.write(to));
            listed.push(*number);
        }
        self.endpoint.state_mut().come.clear();
        let mut sent = Vec::new();
        for (tag, (owner, message, numbers)) in (0..).zip(messages) {
            let session = self.session(owner)?;
            self.begin(session, OPERATE_MANY, &message, tag)?;
            sent.push((session, numbers));
        }
        Ok(sent)
    }

    /// What the server has counted.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn stats(&mut self) -> Result<KvStats, ClientError> {
        let session = self.session(0)?;
        let answer = self.call(session, STATS, &[])?;
        serde_json::from_slice(&answer).map_err(|_| ClientError::Malformed)
    }

    /// The session to a loop, opened if there is none.
    fn session(&mut self, of: u16) -> Result<SessionId, ClientError> {
        let at = usize::from(of);
        if let Some(session) = self.only.or(self.sessions[at]) {
            return Ok(session);
        }
        let mut address = self.layout.loops[at];
        if address.ip().is_unspecified() {
            address.set_ip(self.server.ip());
        }
        let session = self.endpoint.connect_and_wait(address, self.timeout)?;
        self.sessions[at] = Some(session);
        Ok(session)
    }

    fn begin(
        &mut self,
        session: SessionId,
        method: u16,
        request: &[u8],
        tag: u64,
    ) -> Result<(), ClientError> {
        let settings = CallSettings { timeout: Some(self.timeout), ..CallSettings::default() };
        let cx = self.endpoint.context();
        let request = MsgBuf::from_slice(request);
        let begun = cx.enqueue_with(session, method, request, keep, tag, &settings);
        begun.map(drop).map_err(|refused| refused.error.into())
    }

    /// Waits for so many answers. They are in the order of their tags, from 0 on.
    fn await_all(
        &mut self,
        count: usize,
    ) -> Result<impl Iterator<Item = Result<Vec<u8>, ClientError>> + use<>, ClientError> {
        self.endpoint.run(|answers, _| answers.come.len() >= count);
        let mut come = core::mem::take(&mut self.endpoint.state_mut().come);
        come.sort_by_key(|(tag, _)| *tag);
        Ok(come.into_iter().map(|(_, answer)| answer.map_err(ClientError::from)))
    }

    fn call(
        &mut self,
        session: SessionId,
        method: u16,
        request: &[u8],
    ) -> Result<Vec<u8>, ClientError> {
        self.endpoint.state_mut().come.clear();
        self.begin(session, method, request, 0)?;
        self.await_all(1)?.next().ok_or(ClientError::Malformed)?
    }
}

/// What a change has brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The stamp of what was written, if anything was.
    pub stamp: u64,
    /// The number that was returned.
    pub number: Option<u64>,
}

/// The answer to one of many operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// How it ended.
    pub status: Status,
    /// What it returned: an item, or of a write only its stamp.
    pub found: Found,
}

impl Answer {
    fn of(response: Response<'_>) -> Answer {
        let Response { status, flags, stamp, value } = response;
        Answer { status, found: Found { value: value.to_vec(), flags, stamp } }
    }

    fn into_found(self) -> Result<Option<Found>, ClientError> {
        match self.status {
            Status::Done => Ok(Some(self.found)),
            Status::Absent => Ok(None),
            status => Err(ClientError::Refused(status)),
        }
    }
}

fn found(response: Response<'_>) -> Result<Option<Found>, ClientError> {
    Answer::of(response).into_found()
}

/// Reads the answers to the requests with these numbers. Those that were not reached are left.
fn read_many(
    message: &[u8],
    numbers: &[usize],
    answers: &mut [Option<Answer>],
) -> Result<(), ClientError> {
    let responses: Vec<_> = Many::new(message).collect();
    if responses.len() != numbers.len() {
        return Err(ClientError::Malformed);
    }
    for (bytes, number) in responses.into_iter().zip(numbers) {
        let response = bytes.map(Response::parse).ok_or(ClientError::Malformed)?;
        let response = response.map_err(|_| ClientError::Malformed)?;
        if response.status != Status::NotReached {
            answers[*number] = Some(Answer::of(response));
        }
    }
    Ok(())
}
