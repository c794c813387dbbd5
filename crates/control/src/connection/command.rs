//! Commands of the process to a connection.

use petasos_base::Time;

use super::{Connection, Event, Phase, Role};
use crate::answers::Answers;
use crate::codes::{ByeReason, RefuseCode};
use crate::error::{ConnectError, ConnectFailure, DisconnectError, ReplyError, field_of};
use crate::message::Message;
use crate::requests::Begin;
use crate::{AcceptParams, ConnectParams, SessionRef, SessionRole};

/// Commands.
impl Connection {
    /// Asks the peer for a session. The outcome is one [`Event::ConnectAnswered`].
    ///
    /// `id` names the attempt for the lifetime of this process, so a new attempt needs a new id. An
    /// attempt whose outcome is unknown (timed out, connection lost) may be repeated under its id,
    /// here or on another connection to the same process. It brings at most one session.
    ///
    /// The local part of `params` is left out unless the peer runs in the same place (C17).
    ///
    /// # Errors
    /// See [`ConnectError`]; nothing was sent and there will be no event.
    pub fn connect(
        &mut self,
        id: u64,
        params: ConnectParams,
        now: Time,
    ) -> Result<(), ConnectError> {
        if self.peer_draining && self.phase == Phase::Open {
            return Err(ConnectError::PeerDraining);
        }
        self.connect_again(id, params, now)
    }

    /// Like [`Connection::connect`], for an attempt that may have been answered on an earlier
    /// connection. A peer that drains repeats such an answer, and refuses attempts that are new to
    /// it.
    ///
    /// # Errors
    /// As for [`Connection::connect`], except for [`ConnectError::PeerDraining`].
    pub fn connect_again(
        &mut self,
        id: u64,
        params: ConnectParams,
        now: Time,
    ) -> Result<(), ConnectError> {
        if self.phase != Phase::Open {
            return Err(ConnectError::NotOpen);
        }
        let params = ConnectParams { local: params.local.filter(|_| self.is_beside()), ..params };
        params.validate().map_err(|error| ConnectError::InvalidField(field_of(error)))?;
        if !self.reads(params.address.carrier) {
            return Err(ConnectError::UnknownCarrier(params.address.carrier));
        }
        match self.requests.plan(id, &params, self.is_full()) {
            Begin::IdInUse => return Err(ConnectError::IdInUse),
            Begin::Full => return Err(ConnectError::TooManyOutstanding),
            Begin::Send if self.is_backlogged() => return Err(ConnectError::Backlogged),
            Begin::Send => self.send(&Message::Connect { connect_id: id, params }),
            Begin::Resume => {}
        }
        self.requests.begin(id, params, now + self.config.connect_timeout);
        Ok(())
    }

    /// Answers the [`Event::ConnectRequested`] with the same `id`.
    ///
    /// # Errors
    /// See [`ReplyError`]; a session created for the attempt has to be released.
    pub fn reply(
        &mut self,
        id: u64,
        result: Result<AcceptParams, RefuseCode>,
    ) -> Result<(), ReplyError> {
        if self.phase != Phase::Open {
            return Err(ReplyError::NotOpen);
        }
        let asked = self.pending.get(&id).ok_or(ReplyError::UnknownConnect)?;
        if let Ok(grant) = &result {
            grant.validate().map_err(|error| ReplyError::InvalidField(field_of(error)))?;
            grant.fits(asked).map_err(ReplyError::InvalidField)?;
        }
        self.answers.remember(id, asked.client_ref(), result);
        self.pending.remove(&id);
        self.answer(id, result);
        Ok(())
    }

    /// Tells the peer that a session is closed; `session` names the peer's end. The peer confirms
    /// with one [`Event::DisconnectAnswered`], unless the connection ends first. Repeating an
    /// unconfirmed disconnect has no effect.
    ///
    /// # Errors
    /// See [`DisconnectError`]; nothing was sent.
    pub fn disconnect(&mut self, session: SessionRef) -> Result<(), DisconnectError> {
        if self.phase != Phase::Open {
            return Err(DisconnectError::NotOpen);
        }
        session.validate().map_err(|error| DisconnectError::InvalidField(field_of(error)))?;
        if self.requests.disconnects(&session) {
            return Ok(());
        }
        if self.is_full() {
            return Err(DisconnectError::TooManyOutstanding);
        }
        if self.is_backlogged() {
            return Err(DisconnectError::Backlogged);
        }
        if session.role == SessionRole::Client {
            self.answers.forget(&session);
        }
        self.send_disconnect(session);
        Ok(())
    }

    /// Tells the peer that this process is shutting down, as soon as hellos are exchanged. From now
    /// on connects are refused without an event.
    pub fn drain(&mut self) {
        if !self.draining && self.phase == Phase::Open {
            self.send(&Message::Drain);
        }
        self.draining = true;
    }

    /// Ends the connection on purpose. Flush the output before closing the socket.
    pub fn close(&mut self, reason: ByeReason) {
        let has_said_hello = self.phase == Phase::Open || self.role == Role::Dialler;
        if self.phase != Phase::Ended && has_said_hello {
            self.send(&Message::Bye { reason });
        }
        self.end(ConnectFailure::Closed, Event::Closed { reason, by_peer: false });
    }

    /// The answers given on this connection, for [`Connection::inherit_answers`] of the next one.
    pub fn take_answers(&mut self) -> Answers {
        let none = self.answers.incarnation().map_or_else(Answers::default, Answers::to);
        core::mem::replace(&mut self.answers, none)
    }

    /// Takes over the answers given on an `earlier` connection to the same process, so that
    /// connects that are repeated because that connection broke get the same answers. Call this on
    /// [`Event::ResumeRequested`], before taking the next event; connects that arrived with the
    /// resume are answered then.
    ///
    /// Returns false, and drops the answers, if `earlier` belongs to another incarnation.
    pub fn inherit_answers(&mut self, earlier: Answers) -> bool {
        let same = earlier.incarnation().is_some()
            && earlier.incarnation() == self.answers.incarnation()
            && self.phase == Phase::Open;
        if !same {
            return false;
        }
        let mut repeated = Vec::new();
        self.events.retain(|event| {
            let Event::ConnectRequested { id, .. } = event else { return true };
            let answer = earlier.get(*id);
            repeated.extend(answer.map(|result| (*id, result)));
            answer.is_none()
        });
        for (id, result) in repeated {
            self.counters.connects_repeated += 1;
            self.pending.remove(&id);
            self.answer(id, result);
        }
        let newer = core::mem::replace(&mut self.answers, earlier);
        self.answers.absorb(newer);
        true
    }

    pub(super) fn send_disconnect(&mut self, session: SessionRef) {
        if self.requests.begin_disconnect(session) {
            self.send(&Message::Disconnect(session));
        }
    }

    pub(super) fn is_backlogged(&self) -> bool {
        self.output.unsent().len() >= self.config.output_bytes_max
    }
}
