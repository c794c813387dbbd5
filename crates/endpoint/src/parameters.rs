//! The parameters of sessions, for layers that build more than calls from requests.

use petasos_proto::SessionParams;

use crate::core::Context;
use crate::handler::ServerSessionId;
use crate::sessions::{ClientState, SessionId};

impl<S> Context<S> {
    /// The parameters of a client session; `None` unless it is ready.
    pub fn session_params(&self, session: SessionId) -> Option<SessionParams> {
        let entry = self.core.clients.get(session.index);
        match entry.filter(|entry| entry.generation == session.generation).map(|e| &e.state) {
            Some(ClientState::Ready { session, .. }) => Some(*session.params()),
            Some(_) => None,
            None => match self.core.group_attachment(session) {
                Some(attachment) => Some(attachment.params),
                None => self.core.external_params(session),
            },
        }
    }

    /// The parameters of a server session; `None` once it is gone.
    pub fn served_params(&self, session: ServerSessionId) -> Option<SessionParams> {
        let entry = self.core.servers.get(session.index());
        let entry = entry.filter(|entry| entry.id == session);
        let params = entry.map(|entry| *entry.session.params());
        params
            .or_else(|| self.core.external_served(session))
            .or_else(|| self.core.group_served(session))
    }
}
