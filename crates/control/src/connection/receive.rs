//! Input: bytes become frames, frames become messages, and messages become events and answers.

use petasos_base::Time;

use super::{Connection, Event, Phase, Role};
use crate::answers::Answers;
use crate::codes::{ErrorCode, RefuseCode};
use crate::error::{ConnectFailure, FailureReason, ProtocolError};
use crate::frame::{Deframer, FRAME_HEADER_BYTES, Frame};
use crate::message::{KIND_HELLO, Message};
use crate::version::VersionRange;
use crate::{
    AcceptParams, ConnectParams, GroupMessage, Hello, MAGIC, Malformed, SessionRef, SessionRole,
    Target, Text,
};

/// Whether these are the first bytes of a TLS record: its type and the major version (RFC 8446,
/// section 5.1). No length of a hello looks like that.
fn begins_like_tls(mut bytes: impl Iterator<Item = u8>) -> bool {
    matches!((bytes.next(), bytes.next()), (Some(0x14..=0x17), Some(3)))
}

/// Whether these are the first bytes of an HTTP/2 server: a SETTINGS or GOAWAY frame shorter than
/// 64 KiB.
fn begins_like_http2(mut bytes: impl Iterator<Item = u8>) -> bool {
    bytes.next() == Some(0) && matches!(bytes.nth(2), Some(4 | 7))
}

impl Connection {
    /// Bytes from the socket, cut anywhere. Input after the end of the connection is ignored.
    pub fn handle_bytes(&mut self, bytes: &[u8], now: Time) {
        let mut rest = bytes;
        let mut deframer = core::mem::take(&mut self.deframer);
        if self.phase == Phase::Handshake {
            let beginning = deframer.unfinished().iter().chain(bytes).copied();
            self.begins_like_tls = begins_like_tls(beginning.clone());
            self.begins_like_http2 = begins_like_http2(beginning);
        }
        while self.phase != Phase::Ended {
            match deframer.next_frame(&mut rest) {
                Ok(Some(frame)) => self.handle_frame(frame, now),
                Ok(None) => {
                    self.check_beginning(&deframer);
                    break;
                }
                Err(malformed) if self.phase == Phase::Open => {
                    self.fail_protocol(malformed.into());
                }
                Err(_) => self.fail_protocol(ProtocolError::HelloExpected),
            }
        }
        self.deframer = deframer;
    }

    /// Recognises other protocols by their first bytes, instead of waiting for as many bytes as
    /// these seem to announce: a TLS record can look like the header of a hello (C16).
    fn check_beginning(&mut self, deframer: &Deframer) {
        let body = deframer.unfinished().get(FRAME_HEADER_BYTES..).unwrap_or_default();
        let seen = body.len().min(MAGIC.len());
        if self.phase == Phase::Handshake && body[..seen] != MAGIC[..seen] {
            self.fail_protocol(ProtocolError::HelloExpected);
        }
    }

    fn handle_frame(&mut self, frame: Frame<'_>, now: Time) {
        let outcome = match self.phase {
            Phase::Handshake => self.handle_hello(frame, now),
            _ => self.handle_message(frame, now),
        };
        if let Err(error) = outcome {
            self.fail_protocol(error);
        } else if self.output_is_overrun() {
            self.fail_protocol(ProtocolError::NotReading);
        }
    }

    fn handle_hello(&mut self, frame: Frame<'_>, now: Time) -> Result<(), ProtocolError> {
        if frame.kind != KIND_HELLO {
            return Err(ProtocolError::HelloExpected);
        }
        let theirs = match Hello::versions_of(frame.body) {
            Err(Malformed::Magic) => return Err(ProtocolError::HelloExpected),
            other => other?,
        };
        let Some(version) = self.ours.versions.agree(theirs) else {
            self.fail_incompatible(theirs);
            return Ok(());
        };
        let hello = Hello::read(frame.body)?;
        self.phase = Phase::Open;
        self.counters.frames_received += 1;
        self.heartbeat.on_frame(now);
        self.answers = Answers::to(hello.incarnation);
        if self.role == Role::Acceptor {
            self.send_hello();
        }
        if self.draining {
            self.send(&Message::Drain);
        }
        self.peer = Some(hello.clone());
        self.say_successor();
        self.events.push_back(Event::PeerHello { hello, version });
        Ok(())
    }

    /// The acceptor's hello is sent all the same: the dialler learns the range of versions from it,
    /// for its own error (C3).
    fn fail_incompatible(&mut self, theirs: VersionRange) {
        if self.role == Role::Acceptor {
            self.send_hello();
        }
        let reason = FailureReason::Incompatible { ours: self.ours.versions, theirs };
        let detail =
            Text::new(&format!("this process speaks {}, you {theirs}", self.ours.versions));
        self.send(&Message::Error { code: ErrorCode::VersionMismatch, detail });
        self.fail(reason);
    }

    fn handle_message(&mut self, frame: Frame<'_>, now: Time) -> Result<(), ProtocolError> {
        // Who has no groups, or speaks an earlier version, does not know their messages (C2).
        let decoded = match frame.kind {
            kind if GroupMessage::has_kind(kind) && !self.knows_groups() => {
                Err(Malformed::UnknownKind(kind))
            }
            kind => Message::decode(kind, frame.body),
        };
        let message = match decoded {
            Err(Malformed::UnknownKind(_)) if frame.skippable => {
                self.counters.frames_skipped += 1;
                self.heartbeat.on_frame(now);
                return Ok(());
            }
            decoded => decoded?,
        };
        self.counters.frames_received += 1;
        self.heartbeat.on_frame(now);
        match message {
            Message::Hello(_) => return Err(ProtocolError::HelloRepeated),
            Message::Connect { connect_id, params } => self.on_connect(connect_id, params)?,
            Message::ConnectReply { connect_id, result } => {
                self.on_connect_reply(connect_id, result)?;
            }
            Message::Disconnect(session) => self.on_disconnect(session),
            Message::DisconnectReply(session) => self.on_disconnect_reply(session)?,
            Message::Ping { nonce } => self.send(&Message::Pong { nonce }),
            Message::Pong { nonce } if self.heartbeat.on_pong(nonce) => {}
            Message::Pong { .. } => return Err(ProtocolError::UnexpectedReply),
            Message::Drain => self.on_drain(),
            Message::Bye { reason } => {
                self.output.clear();
                self.end(ConnectFailure::Closed, Event::Closed { reason, by_peer: true });
            }
            Message::Ticket(ticket) => self.on_ticket(ticket)?,
            Message::Resume(ticket) => self.on_resume(ticket)?,
            Message::Resumed { accepted } => self.on_resumed(accepted)?,
            Message::Successor => self.on_successor()?,
            Message::Group(message) => self.on_group(message)?,
            Message::Error { code, detail } => {
                self.fail_silently(FailureReason::Reported { code, detail });
            }
        }
        Ok(())
    }

    fn on_connect(&mut self, id: u64, params: ConnectParams) -> Result<(), ProtocolError> {
        self.resumption.heard_request();
        // Local names of a process in another place cannot be reached from here.
        let params = ConnectParams { local: params.local.filter(|_| self.is_beside()), ..params };
        if let Some(result) = self.answers.get(id) {
            self.counters.connects_repeated += 1;
            self.answer(id, result);
        } else if self.pending.contains_key(&id) {
            self.counters.connects_repeated += 1;
        } else if self.is_full_of_peers() {
            return Err(ProtocolError::TooManyOutstanding);
        } else if self.draining {
            self.answer(id, Err(RefuseCode::Draining));
        } else if !self.offers(params.target) {
            self.answer(id, Err(RefuseCode::NoSuchEndpoint));
        } else {
            self.pending.insert(id, params);
            self.events.push_back(Event::ConnectRequested { id, params });
        }
        Ok(())
    }

    fn offers(&self, target: Target) -> bool {
        match target {
            Target::Any => self.ours.endpoints > 0,
            Target::Index(index) => index < self.ours.endpoints,
        }
    }

    fn on_connect_reply(
        &mut self,
        id: u64,
        result: Result<AcceptParams, RefuseCode>,
    ) -> Result<(), ProtocolError> {
        let asked = self.requests.params(id).ok_or(ProtocolError::UnexpectedReply)?;
        if let Ok(grant) = &result {
            grant.fits(asked).map_err(ProtocolError::ExceedsProposal)?;
        }
        if self.requests.finish(id) {
            let result = result.map_err(ConnectFailure::Refused);
            self.events.push_back(Event::ConnectAnswered { id, result });
        } else if let Ok(grant) = result {
            self.counters.grants_late += 1;
            self.send_disconnect(grant.server_ref());
        }
        Ok(())
    }

    /// Handles a disconnect. Among the answers, references with role `Server` name this process's
    /// ends, so only those may be looked up here.
    fn on_disconnect(&mut self, session: SessionRef) {
        if session.role == SessionRole::Server {
            self.answers.forget(&session);
        }
        self.events.push_back(Event::Disconnected { session });
        self.send(&Message::DisconnectReply(session));
    }

    fn on_disconnect_reply(&mut self, session: SessionRef) -> Result<(), ProtocolError> {
        if !self.requests.finish_disconnect(&session) {
            return Err(ProtocolError::UnexpectedReply);
        }
        self.events.push_back(Event::DisconnectAnswered { session });
        Ok(())
    }

    fn on_drain(&mut self) {
        if !self.peer_draining {
            self.peer_draining = true;
            self.events.push_back(Event::PeerDraining);
        }
    }
}
