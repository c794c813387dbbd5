//! The state machine at one end of a control connection.

mod command;
mod group;
mod receive;
mod resume;
mod successor;

use std::collections::{BTreeMap, VecDeque};

use petasos_base::{Time, counters};

use group::Groups;
use resume::Resumption;
use successor::Succession;

pub use group::{GroupEvent, JoinFailure};

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
use crate::{AcceptParams, Capabilities, Carrier, ConnectParams, Hello};
use crate::{SessionRef, Text, Ticket};

/// Which process opened the TCP connection. Everything is symmetric except the order of the hellos.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// This process opened it; it sends its hello at once.
    Dialler,
    /// The peer opened it; this process sends its hello after the peer's (C5).
    Acceptor,
}

/// What has happened. The last event of a connection is `PeerFailed` or `Closed`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer has introduced itself; always the first event, unless the connection ends before.
    PeerHello {
        /// The peer's hello.
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
        /// The id that was passed to `connect`.
        id: u64,
        /// The session's parameters at the server, or why there is no session.
        result: Result<AcceptParams, ConnectFailure>,
    },
    /// The peer has closed a session. Ignore this if the session is unknown: both ends may have
    /// closed it at the same time.
    Disconnected {
        /// This process's end.
        session: SessionRef,
    },
    /// The peer has confirmed a [`Connection::disconnect`].
    DisconnectAnswered {
        /// The peer's end, as passed to `disconnect`.
        session: SessionRef,
    },
    /// The peer is shutting down: it accepts no new sessions, and no requests should be sent to it.
    PeerDraining,
    /// Another process serves at the address of the peer, which ends when the sessions at hand are
    /// over (C22). Only a dialler hears this.
    PeerSucceeded,
    /// The acceptor's ticket for this connection (C21). Only a dialler gets one.
    Ticket(Ticket),
    /// The dialler wants this connection to replace an earlier one. Call
    /// [`Connection::inherit_answers`] if needed, then answer with [`Connection::answer_resume`].
    ResumeRequested(Ticket),
    /// The answer to [`Connection::resume`].
    ResumeAnswered {
        /// Whether the earlier connection's sessions continue.
        accepted: bool,
    },
    /// Something about the members of a group. None comes unless [`Connection::knows_groups`].
    Group(GroupEvent),
    /// The peer, or the connection to it, has failed.
    PeerFailed(FailureReason),
    /// One of the processes closed the connection on purpose.
    Closed {
        /// The reason.
        reason: ByeReason,
        /// Whether the peer closed it.
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
        /// Connects that were received again, and got the same answer (C12).
        connects_repeated,
        /// Sessions that were granted after this process had given up, and were given back (C8).
        grants_late,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The peer's hello has not arrived.
    Handshake,
    /// Hellos have been exchanged.
    Open,
    /// The last event is queued; input has no effect any more.
    Ended,
}

/// One end of a control connection.
///
/// Its methods fall into four families. *Inputs* (`handle_*`): from the socket and the clock.
/// *Commands* (`connect`, `reply`, `disconnect`, `drain`, `close`, `inherit_answers`; for groups
/// `attach`, `join`, `place`, `leave`, `tell`, `confirm_epoch`, `answer_*`). *Outputs* (`poll_*`,
/// `advance_output`): what to do now. *Getters*: the rest.
///
/// After every input or command, take events until [`Connection::poll_event`] returns `None`, write
/// the bytes of [`Connection::poll_output`], and set a timer for [`Connection::poll_timeout`]. When
/// a timer has fired, first pass in the bytes that the socket has, and then call
/// [`Connection::handle_timeout`]. So a process that was stopped for a while hears its peer before
/// it decides that the peer has failed. Once [`Connection::is_finished`] returns true, close the
/// socket.
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
    /// Whether they could be those of HTTP/2.
    begins_like_http2: bool,
    output: Output,
    events: VecDeque<Event>,
    heartbeat: Heartbeat,
    /// This process's requests.
    requests: Requests,
    /// Connects of the peer that [`Connection::reply`] has not answered; at most
    /// [`crate::OUTSTANDING_MAX`].
    pending: BTreeMap<u64, ConnectParams>,
    answers: Answers,
    resumption: Resumption,
    succession: Succession,
    groups: Groups,
    counters: Counters,
}

/// Getters.
impl Connection {
    /// A connection whose TCP connection has just been established.
    ///
    /// # Panics
    /// If `config` is not valid. [`Config::validate`] checks it.
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
            succession: Succession::default(),
            groups: Groups::default(),
            counters: Counters::default(),
        };
        if role == Role::Dialler {
            connection.send_hello();
        }
        connection
    }

    /// The peer's hello.
    pub fn peer(&self) -> Option<&Hello> {
        self.peer.as_ref()
    }

    /// Whether commands are accepted: hellos are exchanged and the connection has not ended.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Whether the connection has ended and everything worth sending is sent; then close the
    /// socket. If the peer does not read, this stays false, so do not wait for it for long.
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
    /// Call this when the time of `poll_timeout` has passed. Any other time is harmless.
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
    /// The next bytes to write. Report how many were written with [`Connection::advance_output`].
    pub fn poll_output(&self) -> Option<&[u8]> {
        let unsent = self.output.unsent();
        (!unsent.is_empty()).then_some(unsent)
    }

    /// Says that the socket has accepted the first `written` bytes of `poll_output`.
    ///
    /// # Panics
    /// If that is more than was offered.
    pub fn advance_output(&mut self, written: usize) {
        self.output.advance(written);
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Connection::handle_timeout`] must be called; `None` once the connection has ended.
    pub fn poll_timeout(&self) -> Option<Time> {
        let next = self.heartbeat.next_timeout().min(self.requests.next_timeout());
        (self.phase != Phase::Ended).then_some(next)
    }
}

impl Connection {
    /// The version in use, once hellos are exchanged.
    fn version(&self) -> Option<Version> {
        let theirs = self.peer.as_ref()?.versions;
        self.ours.versions.agree(theirs)
    }

    /// Whether the peer understands data addresses of this kind (C7).
    fn reads(&self, carrier: Carrier) -> bool {
        let needed = match carrier {
            Carrier::Datagrams => return true,
            Carrier::Tcp => Capabilities::TCP,
            Carrier::Fabric => Capabilities::FABRIC,
        };
        self.peer.as_ref().is_some_and(|peer| peer.capabilities.contains(needed))
    }

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

    /// Whether the peer leaves more answers unread than it may have requests (C15).
    fn output_is_overrun(&self) -> bool {
        self.output.unsent().len() > self.config.output_bytes_max + OWED_BYTES_MAX
    }

    /// Ends the connection, and tells the peer how it violated the protocol.
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

    /// Ends the connection without sending anything, since nobody would read it.
    fn fail_silently(&mut self, reason: FailureReason) {
        self.output.clear();
        self.fail(reason);
    }

    fn fail(&mut self, reason: FailureReason) {
        self.end(ConnectFailure::PeerFailed, Event::PeerFailed(reason));
    }

    /// Ends every connect that is waited for, then queues the last event. Only the first call
    /// counts.
    fn end(&mut self, failure: ConnectFailure, last: Event) {
        if self.phase == Phase::Ended {
            return;
        }
        self.phase = Phase::Ended;
        self.pending.clear();
        for id in self.requests.take_waiting() {
            self.events.push_back(Event::ConnectAnswered { id, result: Err(failure) });
        }
        self.end_groups(failure);
        self.events.push_back(last);
    }

    fn answer(&mut self, connect_id: u64, result: Result<AcceptParams, RefuseCode>) {
        self.send(&Message::ConnectReply { connect_id, result });
    }
}
