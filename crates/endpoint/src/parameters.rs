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

    /// Likewise for a session that requests come in, named as in
    /// [`RequestKey::session`](crate::RequestKey::session); `None` once it is gone.
    pub fn served_params(&self, (index, generation): (u32, u32)) -> Option<SessionParams> {
        let entry = self.core.servers.get(index);
        let id = ServerSessionId::new(index, generation);
        entry.filter(|entry| entry.id == id).map(|entry| *entry.session.params())
    }
}
