//! Sessions that peers ask for, and answers to this process's own requests for sessions.

use petasos_base::Time;
use petasos_control::{
    AcceptParams, ConnectFailure, ConnectParams, FailureReason, RefuseCode, Target,
};

use super::{Asking, Attempt, Control};
use crate::error::SessionError;
use crate::mail::{Granted, Mail};
use crate::node::tls::Dialler;
use crate::sessions::PeerId;

impl Control {
    /// Why a link has failed. TLS may know that better than the control protocol.
    pub(super) fn failure(&self, number: PeerId, reason: FailureReason) -> SessionError {
        let link = &self.links[&number];
        let Some(failure) = link.tls_failure() else { return SessionError::from_failure(reason) };
        if link.server.is_none() {
            tracing::warn!(peer = %link.peer_ip, %failure, "a peer was refused");
        }
        SessionError::Tls(failure.clone())
    }

    /// Passes a peer's request for a session on to an endpoint.
    pub(super) fn on_asked(&mut self, number: PeerId, id: u64, params: ConnectParams) {
        let link = self.links.get_mut(&number).expect("an event's link exists");
        if link.resume_by != Time::NEVER {
            // It was only admitted to replace a lost connection.
            return self.refuse(number, id, RefuseCode::SessionsFull);
        }
        let client_ip = link.peer_ip;
        let dialler = if link.server.is_none() { Dialler::Client } else { Dialler::Server };
        let Ok(security) = link.security(id, &params, dialler) else {
            return self.refuse(number, id, RefuseCode::Internal);
        };
        let (params, security) = (Box::new(params), security.map(Box::new));
        let target = params.target;
        let posted = {
            let members = self.shared.members();
            let index = match target {
                Target::Any => members.next_serving(self.cursor),
                Target::Index(index) => Some(index),
            };
            let member = index.and_then(|index| members.get(index)).filter(|m| m.serves);
            let mail = Mail::Asked { link: number, id, params, client_ip, security };
            index.filter(|_| member.is_some_and(|member| member.mailbox.post(mail).is_ok()))
        };
        if let (Some(index), Some(link)) = (posted, self.links.get_mut(&number)) {
            link.note_asked(index);
        }
        match (posted, target) {
            (Some(index), Target::Any) => self.cursor = usize::from(index) + 1,
            (Some(_), Target::Index(_)) => {}
            // The process may be about to attach an endpoint, so a retry can help.
            (None, Target::Any) => self.refuse(number, id, RefuseCode::SessionsFull),
            (None, Target::Index(_)) => self.refuse(number, id, RefuseCode::NoSuchEndpoint),
        }
    }

    fn refuse(&mut self, number: PeerId, id: u64, code: RefuseCode) {
        let link = self.links.get_mut(&number).expect("an event's link exists");
        if let Some(connection) = link.connection() {
            // If the connection has ended meanwhile, nobody waits for the refusal.
            let _ = connection.reply(id, Err(code));
        }
    }

    pub(super) fn on_answered(
        &mut self,
        number: PeerId,
        id: u64,
        result: Result<AcceptParams, ConnectFailure>,
    ) {
        let link = self.links.get_mut(&number).expect("an event's link exists");
        let error = match result {
            Ok(params) => return self.on_granted(number, id, params),
            Err(ConnectFailure::Refused(RefuseCode::Draining)) if link.is_succeeded => {
                return self.ask_successor(number, id);
            }
            Err(ConnectFailure::Refused(code)) => SessionError::RefusedBy(code),
            Err(ConnectFailure::TimedOut) => SessionError::Timeout,
            // The connection's last event says why.
            Err(_) => return link.orphans.push(id),
        };
        self.fail_attempt(id, error);
    }

    /// Asks for a session again. Over TLS, its keys come from the connection on which it was asked
    /// for (C19), so a session that was granted on another connection is given back.
    fn ask_anew(&mut self, number: PeerId, attempt: Attempt) {
        let id = self.next_attempt;
        self.next_attempt += 1;
        self.attempts.insert(id, Attempt { is_repeated: false, ..attempt });
        let link = self.links.get_mut(&number).expect("an event's link exists");
        link.waiting.push_back(id);
    }

    fn on_granted(&mut self, number: PeerId, id: u64, params: AcceptParams) {
        let attempt = self.attempts.remove(&id);
        let link = self.links.get_mut(&number).expect("an event's link exists");
        let is_outdated = |attempt: &Attempt| attempt.is_repeated && link.tls.is_some();
        if attempt.as_ref().is_none_or(is_outdated) {
            link.disconnects.push_back(params.server_ref());
        }
        let Some(attempt) = attempt else { return };
        if is_outdated(&attempt) {
            return self.ask_anew(number, attempt);
        }
        let Asking::Session { offer, from } = attempt.asking else {
            unreachable!("only sessions are connected");
        };
        let server = link.server.expect("sessions are asked for where this process dialled");
        let Ok(security) = link.security(id, &offer.params, Dialler::Client) else {
            link.disconnects.push_back(params.server_ref());
            let error = SessionError::PeerFailed(FailureReason::Reset);
            let _ = from.post(Mail::Connected { offer, outcome: Err(error) });
            return;
        };
        let server_ip = link.peer_ip;
        let granted = Granted { link: number, server, server_ip, params, security };
        let mail = Mail::Connected { offer, outcome: Ok(Box::new(granted)) };
        if from.post(mail).is_err() {
            link.disconnects.push_back(params.server_ref());
        }
    }
}
