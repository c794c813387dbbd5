//! The state machine at one end of a control connection.

mod command;
mod receive;
mod resume;

use std::collections::{BTreeMap, VecDeque};

use petasos_base::{Time, counters};

use resume::Resumption;

use crate::answers::Answers;
use crate::codes::{ByeReason, RefuseCode};
use crate::config::{Config, OWED_BYTES_MAX};
use crate::error::{ConnectFailure, FailureReason, ProtocolError};
use crate::frame::Deframer;
use crate::heartbeat::{Beat, Heartbeat};
use crate::message::Message;
use crate::output::Output;
use crate::requests::Requests;
use crate::version::Version;
use crate::{AcceptParams, ConnectParams, Hello, SessionRef, Text, Ticket};

/// Which process opened the TCP connection. Everything but the order of the hellos is symmetric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// This one; it says hello at once.
    Dialler,
    /// The other one; it says hello once it has heard one (C5).
    Acceptor,
}

/// What has happened. The last event of a connection is `PeerFailed` or `Closed`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer has introduced itself; always the first event, unless the connection ends before.
    PeerHello {
        /// What it says.
        hello: Hello,
        /// The version in use from now on.
        version: Version,
    },
    /// The peer asks for a session: answer with [`Connection::reply`].
    ConnectRequested {
        /// The peer's id of the attempt.
        id: u64,
        /// What it asks for.
        params: ConnectParams,
    },
    /// The outcome of a [`Connection::connect`]; exactly one for each.
    ConnectAnswered {
        /// The id that was given to `connect`.
        id: u64,
        /// The session's parameters at the server, or why there is no session.
        result: Result<AcceptParams, ConnectFailure>,
    },
    /// The peer has given up a session; this process's end of it is named. Ignore it if the
    /// session is unknown: it may have been given up at both ends at once.
    Disconnected {
        /// This process's end.
        session: SessionRef,
    },
    /// The peer has taken note of a [`Connection::disconnect`].
    DisconnectAnswered {
        /// As it was given to `disconnect`: the peer's end.
        session: SessionRef,
    },
    /// The peer is shutting down: it takes no new sessions, and no requests should be sent to it.
    PeerDraining,
    /// The acceptor's ticket for this connection (C21); only a dialler hears of one.
    Ticket(Ticket),
    /// The dialler wants this connection to take the place of an earlier one: answer with
    /// [`Connection::answer_resume`], and before that call [`Connection::inherit_answers`].
    ResumeRequested(Ticket),
    /// The answer to [`Connection::resume`].
    ResumeAnswered {
        /// Whether the earlier connection's sessions live on.
        accepted: bool,
    },
    /// The peer, or the connection to it, has failed.
    PeerFailed(FailureReason),
    /// One of the processes ended the connection on purpose.
    Closed {
        /// Why.
        reason: ByeReason,
        /// Whether it was the peer.
        by_peer: bool,
    },
}

counters! {
    /// What a connection has done so far.
    pub struct Counters {
        /// Frames received and understood.
        frames_received,
        /// Frames of unknown kinds, skipped as they allow (C2).
        frames_skipped,
        /// Frames handed to the output.
        frames_sent,
        /// Pings among them.
        pings_sent,
        /// Connects received again, and answered alike (C12).
        connects_repeated,
        /// Sessions granted after this process had given up, and given back (C8).
        grants_late,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The peer's hello has not come.
    Handshake,
    /// Hellos have been exchanged.
    Open,
    /// The last event is queued; no input has an effect any more.
    Ended,
}

/// One end of a control connection.
///
/// Methods fall into four families. *Inputs* (`handle_*`): what the socket and the clock give.
/// *Commands* (`connect`, `reply`, `disconnect`, `drain`, `close`, `inherit_answers`). *Outputs*
/// (`poll_*`, `advance_output`): what to do now. *Getters*: the rest.
///
/// After every input or command, take events until [`Connection::poll_event`] returns `None`,
/// write what [`Connection::poll_output`] offers, and set a timer for
/// [`Connection::poll_timeout`]. When a timer has fired, hand over what the socket has before
/// calling [`Connection::handle_timeout`], so that a process that was stopped for a while hears
/// its peer before it judges it. Once [`Connection::is_finished`], close the socket.
#[derive(Debug)]
pub struct Connection {
    config: Config,
    role: Role,
    ours: Hello,
    peer: Option<Hello>,
    phase: Phase,
    draining: bool,
    peer_draining: bool,
    deframer: Deframer,
    /// Whether the peer's first bytes could be those of a TLS record (C16).
    begins_like_tls: bool,
    /// And so of HTTP/2.
    begins_like_http2: bool,
    output: Output,
    events: VecDeque<Event>,
    heartbeat: Heartbeat,
    /// What this process has asked.
    requests: Requests,
    /// Connects of the peer that [`Connection::reply`] has not answered; at most
    /// [`crate::OUTSTANDING_MAX`].
    pending: BTreeMap<u64, ConnectParams>,
    answers: Answers,
    resumption: Resumption,
    counters: Counters,
}

/// Getters.
impl Connection {
    /// A connection whose TCP connection has just been established.
    ///
    /// # Panics
    /// If `config` is not valid: see [`Config::validate`].
    pub fn new(config: Config, role: Role, ours: Hello, now: Time) -> Connection {
        config.validate().expect("the configuration has been validated");
        let mut connection = Connection {
            config,
            role,
            ours,
            peer: None,
            phase: Phase::Handshake,
            draining: false,
            peer_draining: false,
            deframer: Deframer::new(),
            begins_like_tls: false,
            begins_like_http2: false,
            output: Output::default(),
            events: VecDeque::new(),
            heartbeat: Heartbeat::new(config, now),
            requests: Requests::default(),
            pending: BTreeMap::new(),
            answers: Answers::default(),
            resumption: Resumption::default(),
            counters: Counters::default(),
        };
        if role == Role::Dialler {
            connection.send_hello();
        }
        connection
    }

    /// What the peer has said of itself.
    pub fn peer(&self) -> Option<&Hello> {
        self.peer.as_ref()
    }

    /// Whether commands are accepted: hellos are exchanged and the connection has not ended.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Whether the connection has ended and everything worth sending is sent: close the socket.
    /// A peer that does not read can keep this false; do not wait for it for long.
    pub fn is_finished(&self) -> bool {
        self.phase == Phase::Ended && self.output.unsent().is_empty()
    }

    /// What the connection has done so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

/// Inputs, beside `handle_bytes`.
impl Connection {
    /// `poll_timeout` has passed, or any other time has come.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.phase == Phase::Ended {
            return;
        }
        while let Some(id) = self.requests.expire(now) {
            let result = Err(ConnectFailure::TimedOut);
            self.events.push_back(Event::ConnectAnswered { id, result });
        }
        match self.heartbeat.on_timeout(now) {
            Beat::Wait => {}
            Beat::Ping(nonce) => {
                self.counters.pings_sent += 1;
                self.send(&Message::Ping { nonce });
            }
            Beat::Failed => self.fail_silently(FailureReason::Timeout),
        }
    }

    /// The peer has closed the stream.
    pub fn handle_eof(&mut self, _now: Time) {
        self.fail_silently(FailureReason::Eof);
    }

    /// The socket reports an error: the connection is gone.
    pub fn handle_reset(&mut self, _now: Time) {
        self.fail_silently(FailureReason::Reset);
    }
}

/// Outputs.
impl Connection {
    /// The bytes to be written next. Report what was written with [`Connection::advance_output`].
    pub fn poll_output(&self) -> Option<&[u8]> {
        let unsent = self.output.unsent();
        (!unsent.is_empty()).then_some(unsent)
    }

    /// The socket has taken the first `written` bytes of what `poll_output` offered.
    ///
    /// # Panics
    /// If that is more than was offered.
    pub fn advance_output(&mut self, written: usize) {
        self.output.advance(written);
    }

    /// What has happened next.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Connection::handle_timeout`] is to be called; `None` once the connection has ended.
    pub fn poll_timeout(&self) -> Option<Time> {
        let next = self.heartbeat.next_timeout().min(self.requests.next_timeout());
        (self.phase != Phase::Ended).then_some(next)
    }
}

impl Connection {
    /// Whether the peer runs in the same place (C17).
    fn is_beside(&self) -> bool {
        self.peer.as_ref().is_some_and(|peer| peer.is_beside(&self.ours))
    }

    fn send(&mut self, message: &Message) {
        self.counters.frames_sent += 1;
        self.output.push(message);
    }

    fn send_hello(&mut self) {
        self.send(&Message::Hello(self.ours.clone()));
    }

    /// A well-behaved peer leaves no more answers unread than it may have requests (C15).
    fn output_is_overrun(&self) -> bool {
        self.output.unsent().len() > self.config.output_bytes_max + OWED_BYTES_MAX
    }

    /// Ends the connection with a word to the peer about what it did.
    fn fail_protocol(&mut self, error: ProtocolError) {
        let stranger = self.phase == Phase::Handshake;
        let error = match error {
            ProtocolError::HelloExpected if self.begins_like_tls => ProtocolError::SpeaksTls,
            ProtocolError::HelloExpected if self.begins_like_http2 => ProtocolError::SpeaksHttp2,
            error => error,
        };
        if stranger || error == ProtocolError::NotReading {
            return self.fail_silently(FailureReason::Protocol(error));
        }
        let detail = Text::new(&error.to_string());
        self.send(&Message::Error { code: error.code(), detail });
        self.fail(FailureReason::Protocol(error));
    }

    /// Ends the connection; nothing more is sent, since nobody would read it.
    fn fail_silently(&mut self, reason: FailureReason) {
        self.output.clear();
        self.fail(reason);
    }

    fn fail(&mut self, reason: FailureReason) {
        self.end(ConnectFailure::PeerFailed, Event::PeerFailed(reason));
    }

    /// Answers every connect that is waited for, then says why. Only the first call counts.
    fn end(&mut self, failure: ConnectFailure, last: Event) {
        if self.phase == Phase::Ended {
            return;
        }
        self.phase = Phase::Ended;
        self.pending.clear();
        for id in self.requests.take_waiting() {
            self.events.push_back(Event::ConnectAnswered { id, result: Err(failure) });
        }
        self.events.push_back(last);
    }

    fn answer(&mut self, connect_id: u64, result: Result<AcceptParams, RefuseCode>) {
        self.send(&Message::ConnectReply { connect_id, result });
    }
}
