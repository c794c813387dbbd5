//! Setting sessions up and closing them, as the control protocol decides.

mod client;
mod limits;
mod server;

pub(crate) use limits::{first_credits, fitting};

use crate::call::CallError;
use crate::endpoint::Endpoint;
use crate::sessions::{PeerId, SessionId};

impl<S> Endpoint<S> {
    /// Fails a session that could not be set up, or whose peer is gone: its calls end with `error`.
    pub fn fail_session(&mut self, session: SessionId, error: CallError) {
        self.cx.core.fail_client(session, error);
    }

    /// Closes a session for good; its calls end with [`CallError::SessionClosed`].
    pub fn close_session(&mut self, session: SessionId) {
        self.forget_remote(session);
        self.cx.core.fail_client(session, CallError::SessionClosed);
        if let Some(holder) = self.cx.core.client_mut(session).map(|entry| entry.holder) {
            self.cx.core.clients.remove(session.index);
            self.cx.core.holders.give(holder, 0);
        } else if session.is_group() {
            self.cx.core.close_group(session);
        } else {
            self.cx.core.close_external(session);
        }
    }

    /// Fails every client and server session of control connection `peer`.
    pub fn fail_peer(&mut self, peer: PeerId) {
        let lost = self.cx.core.clients.iter().filter(|(_, e)| e.peer == Some(peer));
        let lost = lost.map(|(index, e)| SessionId { index, generation: e.generation });
        for session in lost.collect::<Vec<_>>() {
            self.cx.core.fail_client(session, CallError::PeerFailed);
        }
        let lost = self.cx.core.servers.iter().filter(|(_, e)| e.peer == Some(peer));
        for index in lost.map(|(index, _)| index).collect::<Vec<_>>() {
            self.cx.core.drop_server(index);
        }
    }
}
