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
            _ => None,
        }
    }

    /// The parameters of a server session; `None` once it is gone.
    pub fn served_params(&self, session: ServerSessionId) -> Option<SessionParams> {
        let entry = self.core.servers.get(session.index());
        entry.filter(|entry| entry.id == session).map(|entry| *entry.session.params())
    }
}
