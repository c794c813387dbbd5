//! How an endpoint handles its mail.

use std::net::{IpAddr, SocketAddr};

use petasos_control::{AcceptParams, ConnectParams, RefuseCode, SessionRef, SessionRole};
use petasos_netio::Route;

use crate::call::CallError;
use crate::core::Context;
use crate::endpoint::Endpoint;
use crate::enrolment::{EnrolmentId, Reminder};
use crate::error::SessionError;
use crate::mail::{Command, Granted, Mail};
use crate::outside::Remote;
use crate::secure::SessionSecurity;
use crate::sessions::{ClientState, PeerId, SessionId, SessionOffer};

impl<S> Context<S> {
    /// Why `session` could not be set up, or has failed since. `None` if it has not, or if the node
    /// does not know. The reason is kept until the session is closed.
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
                Ok(granted) => self.on_granted(&offer, *granted),
                Err(error) => self.fail_with(offer.session, CallError::PeerFailed, error),
            },
            Mail::Asked { link, id, params, client_ip, security } => {
                let result = self.grant(link, &params, client_ip, security.map(|boxed| *boxed));
                self.answer_asked(link, id, &params, result);
            }
            Mail::Disconnected { link, session } => self.on_disconnected(link, session),
            Mail::Void { session } => {
                self.cx.core.outside.remotes.remove(&session);
                self.drop_server_session(session.session, session.tag);
            }
            Mail::PeerLost { link, error } => self.on_peer_lost(link, &error),
            Mail::Succeeded { link } => self.on_succeeded_link(link),
            Mail::RouteLost { route } => self.on_route_lost(route),
            Mail::Drain => self.drain(),
            Mail::NodeEnded => self.on_node_ended(),
            Mail::Answer(answer) => self.on_answer(*answer),
            Mail::GroupNews { enrolment } => self.on_group_news(enrolment),
            Mail::GroupSilent { session } => self.on_group_silent(session),
            Mail::GroupReminder { enrolment, reminder } => {
                self.on_group_reminder(enrolment, reminder);
            }
        }
    }

    /// Handles a granted session. If it is no longer wanted, it is given back.
    fn on_granted(&mut self, offer: &SessionOffer, granted: Granted) {
        let Granted { link, server, server_ip, params, security } = granted;
        let (session, far) = (offer.session, params.server_ref());
        if self.cx.core.outside.attachment.is_none() {
            // The endpoint has been detached meanwhile.
            return self.fail_with(session, CallError::PeerFailed, SessionError::NodeEnded);
        }
        let data_ip = params.address.ip.unwrap_or(server_ip);
        if params.local.is_none() && self.cx.core.outside.forbids(data_ip) {
            let data = SocketAddr::new(data_ip, params.address.port);
            self.fail_with(session, CallError::PeerFailed, SessionError::Plaintext(data));
            self.cx.core.outside.command(Command::Disconnect { link, session: far });
            return;
        }
        match self.establish_secured(offer, &params, server_ip, security) {
            Ok(true) => {
                let entry = self.cx.core.client_mut(session);
                entry.expect("the session was just established").peer = Some(link);
                let remote = Remote { link, far };
                self.cx.core.outside.remotes.insert(offer.params.client_ref(), remote);
                return;
            }
            Ok(false) => {}
            Err(_) if params.local.is_some() && self.ask_network(offer, link, server) => {}
            Err(_) => self.fail_with(session, CallError::PeerFailed, SessionError::NoRoute),
        }
        self.cx.core.outside.command(Command::Disconnect { link, session: far });
    }

    /// Asks again, now over the network, for a session whose granted rings cannot be reached (C17).
    /// It has had no call yet, so none can be lost or run twice. Returns false if it cannot be
    /// asked for.
    fn ask_network(&mut self, offer: &SessionOffer, link: PeerId, server: SocketAddr) -> bool {
        let Some(from) = self.cx.core.outside.mailbox().cloned() else { return false };
        let Some(again) = self.offer_network(offer) else { return false };
        let (endpoint, offer) = (again.params.endpoint, Box::new(again));
        let outside = &self.cx.core.outside;
        outside.command(Command::AvoidRings { link, endpoint });
        outside.command(Command::Connect { server, offer, from })
    }

    /// `offer` without rings and with another tag, so that nothing about the first grant is
    /// mistaken for the second. `None` if there is no network to fall back to.
    fn offer_network(&mut self, offer: &SessionOffer) -> Option<SessionOffer> {
        let tag = self.cx.core.tags.take();
        let has_network = self.io().has_network_beside_rings() && offer.params.local.is_some();
        let entry = self.cx.core.client_mut(offer.session).filter(|_| has_network)?;
        (entry.state, entry.tag) = (ClientState::Connecting, tag);
        self.cx.core.stats.rings_unreachable += 1;
        Some(SessionOffer { params: ConnectParams { tag, local: None, ..offer.params }, ..*offer })
    }

    /// Handles rings that broke and were not set up again, although the control connection reports
    /// no end of the peer. Their sessions end, since nothing can move them, and their server ends
    /// are closed with them.
    fn on_route_lost(&mut self, route: Route) {
        let on_route = |state: &ClientState<_>| match state {
            ClientState::Ready { route: taken, .. } => *taken == route,
            _ => false,
        };
        let lost = self.cx.core.clients.iter().filter(|(_, entry)| on_route(&entry.state));
        let lost = lost.map(|(index, entry)| (index, entry.generation, entry.tag));
        for (index, generation, tag) in lost.collect::<Vec<_>>() {
            let (role, endpoint) = (SessionRole::Client, self.cx.core.outside.index());
            let own = SessionRef { role, endpoint, session: index, tag };
            let outside = &mut self.cx.core.outside;
            if let Some(link) = outside.remotes.get(&own).map(|remote| remote.link) {
                outside.command(Command::AvoidRings { link, endpoint });
            }
            outside.give_up(&own);
            self.cx.core.stats.rings_lost += 1;
            let session = SessionId { index, generation };
            self.fail_with(session, CallError::PeerFailed, SessionError::RingsLost);
        }
    }

    /// Grants a session to a client, unless its packets would leave this host in plaintext and that
    /// is not allowed.
    fn grant(
        &mut self,
        link: PeerId,
        params: &ConnectParams,
        client_ip: IpAddr,
        security: Option<SessionSecurity>,
    ) -> Result<AcceptParams, RefuseCode> {
        let granted = self.accept_secured(params, client_ip, Some(link), security)?;
        let data_ip = params.address.ip.unwrap_or(client_ip);
        if granted.local.is_none() && self.cx.core.outside.forbids(data_ip) {
            self.drop_server_session(granted.session, granted.tag);
            return Err(RefuseCode::NotAuthorised);
        }
        Ok(granted)
    }

    fn answer_asked(
        &mut self,
        link: PeerId,
        id: u64,
        params: &ConnectParams,
        result: Result<AcceptParams, RefuseCode>,
    ) {
        let Some(from) = self.cx.core.outside.mailbox().cloned() else { return };
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

    /// Handles a disconnect. Only the process that has the other end may close a session.
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
        self.cx.core.outside.succeeded.retain(|succeeded| *succeeded != link);
        self.cx.core.outside.remotes.retain(|_, remote| remote.link != link);
        let lost = self.cx.core.clients.iter().filter(|(_, entry)| entry.peer == Some(link));
        let lost = lost.filter(|(_, entry)| !matches!(entry.state, ClientState::Failed));
        let lost = lost.map(|(index, e)| SessionId { index, generation: e.generation });
        for session in lost.collect::<Vec<_>>() {
            self.cx.core.outside.errors.insert(session, error.clone());
        }
        self.fail_peer(link);
    }

    /// Handles the node's end. Every link has already reported its own end, unless the control
    /// thread failed; so go through the rest.
    fn on_node_ended(&mut self) {
        let mut links: Vec<_> = self.cx.core.outside.remotes.values().map(|r| r.link).collect();
        links.sort_unstable();
        links.dedup();
        for link in links {
            self.on_peer_lost(link, &SessionError::NodeEnded);
        }
        self.leave_routers();
        self.cx.core.outside.attachment = None;
    }

    /// Handles news of an enrolment. It may have been given up meanwhile.
    fn on_group_news(&mut self, enrolment: EnrolmentId) {
        let groups = &self.cx.core.outside.groups;
        if let Some(group) = groups.calling(enrolment) {
            self.on_called_news(group, enrolment);
        } else if let Some(group) = groups.serving(enrolment) {
            self.on_served_news(group, enrolment);
        }
    }

    fn on_group_reminder(&mut self, enrolment: EnrolmentId, reminder: Reminder) {
        let groups = &self.cx.core.outside.groups;
        if let Some(group) = groups.calling(enrolment) {
            self.on_called_reminder(group, enrolment, reminder);
        } else if let Some(group) = groups.serving(enrolment) {
            self.on_served_reminder(group, enrolment, reminder);
        }
    }

    /// Closes all groups that are called, and leaves those that are served.
    pub(crate) fn leave_routers(&mut self) {
        let groups = &self.cx.core.outside.groups;
        let called: Vec<_> = groups.called.iter().map(|group| group.id).collect();
        let served: Vec<_> = groups.served.iter().map(|group| group.id).collect();
        called.into_iter().for_each(|group| self.close_group(group));
        served.into_iter().for_each(|group| self.leave_served(group));
    }

    fn fail_with(&mut self, session: SessionId, call: CallError, error: SessionError) {
        if self.cx.core.client_mut(session).is_some() {
            self.cx.core.outside.errors.insert(session, error);
            self.fail_session(session, call);
        }
    }
}
