//! What mail does to an endpoint's sessions.

use std::net::{IpAddr, SocketAddr};

use petasos_control::{ConnectParams, SessionRef, SessionRole};

use super::mail::{Command, Granted, Mail};
use super::outside::{Opening, Remote};
use super::{ConnectAndWaitError, SessionError};
use crate::call::CallError;
use crate::context::Context;
use crate::endpoint::Endpoint;
use crate::sessions::{ClientState, PeerId, SessionId, SessionOffer};

impl<S> Context<S> {
    /// Why `session` could not be set up, or has failed since; `None` if it has not, or if that
    /// was not for the node to know. The reason is kept until the session is closed.
    pub fn session_error(&self, session: SessionId) -> Option<SessionError> {
        self.core.outside.errors.get(&session).cloned()
    }
}

impl<S> Endpoint<S> {
    /// Handles all mail. Returns whether there was any.
    #[cold]
    pub(crate) fn take_mail(&mut self) -> bool {
        let mut mails = core::mem::take(&mut self.cx.core.outside.spare);
        if let Some(mailbox) = self.cx.core.outside.mailbox() {
            mailbox.take(&mut mails);
        }
        let any = !mails.is_empty();
        for mail in mails.drain(..) {
            self.on_mail(mail);
        }
        self.cx.core.outside.spare = mails;
        any
    }

    fn on_mail(&mut self, mail: Mail) {
        match mail {
            Mail::Connected { offer, outcome } => match outcome {
                Ok(granted) => self.on_granted(&offer, &granted),
                Err(error) => self.fail_with(offer.session, CallError::PeerFailed, error),
            },
            Mail::Asked { link, id, params, client_ip } => {
                self.on_asked(link, id, &params, client_ip);
            }
            Mail::Disconnected { link, session } => self.on_disconnected(link, session),
            Mail::Void { session } => {
                self.cx.core.outside.remotes.remove(&session);
                self.drop_server_session(session.session, session.tag);
            }
            Mail::PeerLost { link, error } => self.on_peer_lost(link, &error),
            Mail::Drain => self.drain(),
            Mail::NodeEnded => self.on_node_ended(),
            Mail::Answer(answer) => self.on_answer(*answer),
            Mail::Call(call) => self.context().start_async(*call),
            Mail::Cancel { call } => self.context().cancel_async(call),
            Mail::Open { server, promise } => self.on_open(server, promise),
            Mail::Close { session } => self.close_session(session),
        }
    }

    /// The server has granted a session; if it is not wanted any more, it is given back.
    fn on_granted(&mut self, offer: &SessionOffer, granted: &Granted) {
        let Granted { link, server_ip, params } = granted;
        let (session, far) = (offer.session, params.server_ref());
        if self.cx.core.outside.attachment.is_none() {
            // The endpoint has left the node meanwhile.
            return self.fail_with(session, CallError::PeerFailed, SessionError::NodeEnded);
        }
        match self.establish_session(offer, params, *server_ip) {
            Ok(true) => {
                let entry = self.cx.core.client_mut(session);
                entry.expect("the session was just established").peer = Some(*link);
                let remote = Remote { link: *link, far };
                self.cx.core.outside.remotes.insert(offer.params.client_ref(), remote);
                if let Some(opening) = self.cx.core.outside.openings.remove(&session) {
                    opening.keep(Ok(session));
                }
                return;
            }
            Ok(false) => {}
            Err(_) => self.fail_with(session, CallError::PeerFailed, SessionError::NoRoute),
        }
        self.cx.core.outside.command(Command::Disconnect { link: *link, session: far });
    }

    fn on_open(&mut self, server: SocketAddr, opening: Opening) {
        match self.connect(server) {
            Ok(session) => {
                self.cx.core.outside.openings.insert(session, opening);
            }
            Err(error) => opening.keep(Err(ConnectAndWaitError::NotBegun(error))),
        }
    }

    fn on_asked(&mut self, link: PeerId, id: u64, params: &ConnectParams, client_ip: IpAddr) {
        let Some(from) = self.cx.core.outside.mailbox().cloned() else { return };
        let result = self.accept_session(params, client_ip, Some(link));
        if let Ok(granted) = &result {
            let remote = Remote { link, far: params.client_ref() };
            self.cx.core.outside.remotes.insert(granted.server_ref(), remote);
        }
        let granted = result.ok().map(|granted| granted.server_ref());
        let result = Box::new(result);
        let posted = self.cx.core.outside.command(Command::Reply { link, id, result, from });
        if let (false, Some(own)) = (posted, granted) {
            self.cx.core.outside.remotes.remove(&own);
            self.drop_server_session(own.session, own.tag);
        }
    }

    /// Only the process that holds the other end may give a session up.
    fn on_disconnected(&mut self, link: PeerId, session: SessionRef) {
        let remotes = &mut self.cx.core.outside.remotes;
        if remotes.get(&session).is_none_or(|remote| remote.link != link) {
            return;
        }
        remotes.remove(&session);
        match session.role {
            SessionRole::Server => {
                self.drop_server_session(session.session, session.tag);
            }
            SessionRole::Client => {
                if let Some(id) = self.client_of(session) {
                    self.fail_with(id, CallError::SessionClosed, SessionError::ClosedByPeer);
                }
            }
        }
    }

    fn on_peer_lost(&mut self, link: PeerId, error: &SessionError) {
        self.cx.core.outside.remotes.retain(|_, remote| remote.link != link);
        let lost = self.cx.core.clients.iter().filter(|(_, entry)| entry.peer == Some(link));
        let lost = lost.filter(|(_, entry)| !matches!(entry.state, ClientState::Failed));
        let lost = lost.map(|(index, e)| SessionId { index, generation: e.generation });
        for session in lost.collect::<Vec<_>>() {
            self.cx.core.outside.errors.insert(session, error.clone());
        }
        self.fail_peer(link);
    }

    /// Every link has ended before, each with a letter of its own, unless the control thread
    /// failed; so go through what is left.
    fn on_node_ended(&mut self) {
        let mut links: Vec<_> = self.cx.core.outside.remotes.values().map(|r| r.link).collect();
        links.sort_unstable();
        links.dedup();
        for link in links {
            self.on_peer_lost(link, &SessionError::NodeEnded);
        }
        self.cx.core.outside.attachment = None;
    }

    fn fail_with(&mut self, session: SessionId, call: CallError, error: SessionError) {
        if let Some(opening) = self.cx.core.outside.openings.remove(&session) {
            opening.keep(Err(ConnectAndWaitError::Failed(error)));
            self.close_session(session);
        } else if self.cx.core.client_mut(session).is_some() {
            self.cx.core.outside.errors.insert(session, error);
            self.fail_session(session, call);
        }
    }
}
