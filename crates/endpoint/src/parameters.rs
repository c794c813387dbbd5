//! What sessions were set up with, for those who make more of requests than calls.

use petasos_proto::SessionParams;

use crate::core::Context;
use crate::handler::ServerSessionId;
use crate::sessions::{ClientState, SessionId};

impl<S> Context<S> {
    /// What a client session was set up with; `None` unless it is ready.
    pub fn session_params(&self, session: SessionId) -> Option<SessionParams> {
        let entry = self.core.clients.get(session.index);
        match entry.filter(|entry| entry.generation == session.generation).map(|e| &e.state) {
            Some(ClientState::Ready { session, .. }) => Some(*session.params()),
            _ => None,
        }
    }

    /// Likewise for a session that requests come in; `None` once it is gone.
    pub fn served_params(&self, session: ServerSessionId) -> Option<SessionParams> {
        let entry = self.core.servers.get(session.index());
        entry.filter(|entry| entry.id == session).map(|entry| *entry.session.params())
    }
}
