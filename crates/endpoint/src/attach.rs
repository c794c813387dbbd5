//! Endpoints in a node: joining, leaving, opening sessions.

use std::net::SocketAddr;
use std::sync::Arc;

use core::time::Duration;

use petasos_control::{SessionRef, SessionRole};

use crate::call::CallError;
use crate::endpoint::Endpoint;
use crate::error::{AttachError, ConnectAndWaitError, ConnectError, SessionError};
use crate::mail::{Command, Mail};
use crate::node::{Member, Node, Shared};
use crate::outside::Attachment;
use crate::sessions::{SessionId, SessionState};

impl<S> Endpoint<S> {
    /// Attaches the endpoint to `node`. It can then open sessions, and others can open sessions to
    /// it once it has a handler. Dropping the endpoint detaches it.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn attach(&mut self, node: &Node) -> Result<(), AttachError> {
        self.attach_to(node.shared().clone())
    }

    /// Attaches the endpoint to the node that has this.
    pub(crate) fn attach_to(&mut self, shared: Arc<Shared>) -> Result<(), AttachError> {
        let serves = !self.cx.core.handlers.is_empty();
        let outside = &mut self.cx.core.outside;
        if outside.attachment.is_some() {
            return Err(AttachError::Attached);
        }
        let mailbox = outside.open_mailbox().map_err(AttachError::System)?;
        let index = shared.members().join(Member { mailbox: mailbox.clone(), serves })?;
        outside.attachment = Some(Attachment { shared, index });
        self.io_mut().on_lost(move |route| {
            // If the endpoint is gone, it need not be told.
            let _ = mailbox.post(Mail::RouteLost { route });
        });
        Ok(())
    }

    /// Detaches the endpoint. Sessions that were set up through the node are closed at both ends,
    /// and its groups are left.
    pub fn detach(&mut self) {
        self.leave_routers();
        let own: Vec<_> = self.cx.core.outside.remotes.keys().copied().collect();
        self.cx.core.outside.detach();
        for session in own {
            match session.role {
                SessionRole::Client => {
                    if let Some(id) = self.client_of(session) {
                        self.fail_session(id, CallError::SessionClosed);
                    }
                }
                SessionRole::Server => {
                    self.drop_server_session(session.session, session.tag);
                }
            }
        }
    }

    /// Begins to set up a session with an endpoint of the process at `server` (its node's address);
    /// the process chooses which. The session is [`SessionState::Connecting`] until the loop knows
    /// the outcome; if it fails, [`crate::Context::session_error`] says why.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect(&mut self, server: SocketAddr) -> Result<SessionId, ConnectError> {
        self.connect_with_slots(server, self.cx.core.config.session.slots)
    }

    /// Like [`Endpoint::connect`], for a session of `slots` concurrent requests, a power of two up
    /// to 64, instead of [`crate::SessionConfig::slots`]. The server may grant fewer.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect_with_slots(
        &mut self,
        server: SocketAddr,
        slots: u32,
    ) -> Result<SessionId, ConnectError> {
        let mailbox = self.cx.core.outside.mailbox().cloned();
        let attached = self.cx.core.outside.attachment.is_some();
        let from = mailbox.filter(|_| attached).ok_or(ConnectError::NotAttached)?;
        let offer = self.open_session(server, None).map_err(|error| {
            match self.cx.core.outside.forbids(server.ip()) {
                true => ConnectError::Plaintext(server),
                false => ConnectError::NoRoute(error),
            }
        })?;
        let mut offer = Box::new(offer.ok_or(ConnectError::SessionsFull)?);
        offer.params.slots = slots as u8;
        let session = offer.session;
        if !self.cx.core.outside.command(Command::Connect { server, offer, from }) {
            self.close_session(session);
            return Err(ConnectError::NotAttached);
        }
        Ok(session)
    }

    /// Like [`Endpoint::connect`], but turns the loop until the session is ready. If it does not
    /// become ready, it is closed.
    ///
    /// # Errors
    /// See [`ConnectAndWaitError`].
    pub fn connect_and_wait(
        &mut self,
        server: SocketAddr,
        timeout: Duration,
    ) -> Result<SessionId, ConnectAndWaitError> {
        let session = self.connect(server).map_err(ConnectAndWaitError::NotBegun)?;
        self.run_for(timeout, |_, cx| cx.session_state(session) != SessionState::Connecting);
        match self.context().session_state(session) {
            SessionState::Ready => Ok(session),
            state => {
                // A session without an error is still connecting: the time is up.
                let error = self.context().session_error(session);
                debug_assert!(error.is_some() || state == SessionState::Connecting);
                self.close_session(session);
                let error = error.unwrap_or(SessionError::Timeout);
                Err(ConnectAndWaitError::Failed(error))
            }
        }
    }

    /// Drops the session that this endpoint granted under `index` and `tag`, because the peer has
    /// disconnected it. Handlers that have not answered will find their call gone. Returns whether
    /// there was such a session.
    pub fn drop_server_session(&mut self, index: u32, tag: u32) -> bool {
        let found = self.cx.core.servers.get(index).is_some_and(|entry| entry.tag == tag);
        if found {
            self.cx.core.drop_server(index);
        }
        found
    }

    /// The client session with this reference.
    pub(crate) fn client_of(&self, session: SessionRef) -> Option<SessionId> {
        let entry = self.cx.core.clients.get(session.session);
        let entry = entry.filter(|entry| entry.tag == session.tag)?;
        Some(SessionId { index: session.session, generation: entry.generation })
    }

    /// Tells the server that a client session is being closed.
    pub(crate) fn forget_remote(&mut self, session: SessionId) {
        self.cx.core.outside.errors.remove(&session);
        let Some(tag) = self.cx.core.client_mut(session).map(|entry| entry.tag) else { return };
        let (role, endpoint) = (SessionRole::Client, self.cx.core.outside.index());
        let own = SessionRef { role, endpoint, session: session.index, tag };
        self.cx.core.outside.give_up(&own);
    }
}
