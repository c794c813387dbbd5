//! Connections that replace one that broke (C21).
//!
//! The caller has the state that outlives a connection, and decides; this module only checks which
//! messages are allowed when.

use super::{Connection, Event, Phase, Role};
use crate::error::ProtocolError;
use crate::message::Message;
use crate::requests::Unanswered;
use crate::ticket::RESUMES_MAX;
use crate::{Ticket, Version};

/// The version that introduced tickets.
const SINCE: Version = Version { major: 1, minor: 2 };

/// The state of resumption on one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Resumption {
    has_ticket: bool,
    resumes: usize,
    /// Whether a resume is unanswered.
    pending: bool,
    /// Whether something has been asked for, or this connection has already replaced another one:
    /// then it cannot replace any more.
    settled: bool,
}

impl Resumption {
    pub(super) fn heard_request(&mut self) {
        self.settled = true;
    }
}

/// Commands of resumption.
impl Connection {
    /// Sends the dialler a ticket for this connection. Returns false, and sends nothing, if this
    /// end is the dialler or the peer's version has no tickets.
    pub fn give_ticket(&mut self, ticket: Ticket) -> bool {
        let may = self.role == Role::Acceptor && self.phase == Phase::Open && self.knows_tickets();
        if may && !self.resumption.has_ticket {
            self.resumption.has_ticket = true;
            self.send(&Message::Ticket(ticket));
            return true;
        }
        false
    }

    /// Asks that this connection replace the one to which `ticket` belongs, before anything else is
    /// asked. The outcome is one [`Event::ResumeAnswered`], unless the connection ends. Returns
    /// false, and sends nothing, if that cannot be asked (again).
    pub fn resume(&mut self, ticket: Ticket) -> bool {
        let resumption = &mut self.resumption;
        let may = self.role == Role::Dialler && self.phase == Phase::Open && !resumption.pending;
        if !may || resumption.resumes == RESUMES_MAX {
            return false;
        }
        resumption.resumes += 1;
        resumption.pending = true;
        self.send(&Message::Resume(ticket));
        true
    }

    /// Answers the last [`Event::ResumeRequested`].
    pub fn answer_resume(&mut self, accepted: bool) {
        if self.phase == Phase::Open && core::mem::take(&mut self.resumption.pending) {
            self.resumption.settled |= accepted;
            self.send(&Message::Resumed { accepted });
        }
    }

    /// Takes this process's unanswered requests; they are no longer waited for. This also works
    /// after the end, when [`Event::ConnectAnswered`] has already reported that there is no answer.
    pub fn take_unanswered(&mut self) -> Unanswered {
        core::mem::take(&mut self.requests).into_unanswered()
    }

    fn knows_tickets(&self) -> bool {
        self.version().is_some_and(|version| version >= SINCE)
    }
}

/// What arrives.
impl Connection {
    pub(super) fn on_ticket(&mut self, ticket: Ticket) -> Result<(), ProtocolError> {
        if self.role == Role::Acceptor || self.resumption.has_ticket {
            return Err(ProtocolError::ResumptionMisplaced);
        }
        self.resumption.has_ticket = true;
        self.events.push_back(Event::Ticket(ticket));
        Ok(())
    }

    pub(super) fn on_resume(&mut self, ticket: Ticket) -> Result<(), ProtocolError> {
        let resumption = &mut self.resumption;
        if self.role == Role::Dialler || resumption.pending || resumption.settled {
            return Err(ProtocolError::ResumptionMisplaced);
        }
        if resumption.resumes == RESUMES_MAX {
            return Err(ProtocolError::TooManyOutstanding);
        }
        resumption.resumes += 1;
        resumption.pending = true;
        self.events.push_back(Event::ResumeRequested(ticket));
        Ok(())
    }

    pub(super) fn on_resumed(&mut self, accepted: bool) -> Result<(), ProtocolError> {
        if self.role == Role::Acceptor || !core::mem::take(&mut self.resumption.pending) {
            return Err(ProtocolError::UnexpectedReply);
        }
        self.events.push_back(Event::ResumeAnswered { accepted });
        Ok(())
    }
}
