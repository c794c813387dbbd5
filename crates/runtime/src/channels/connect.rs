//! Opening, losing and closing sessions.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use petasos_base::Time;
use petasos_call::channel::PeerIndex;
use petasos_endpoint::{Context, Endpoint, SessionId, SessionState};
use petasos_rpc::settings::ChannelInfo;

use super::{ChannelEntry, Channels, Session};
use crate::keys::ChannelSession;

/// Opens a session with this number of slots to a server, in place of a node, or says why it
/// cannot. If the session is still connecting, the provider of the `Dial` has to establish it or to
/// fail it.
pub type Dial<S> = Box<dyn FnMut(&mut Endpoint<S>, Dialled<'_>, u32) -> Result<SessionId, String>>;

/// The server that a session is for.
#[derive(Clone, Copy, Debug)]
pub struct Dialled<'a> {
    /// Its address, or the one that stands for it.
    pub address: SocketAddr,
    /// What the managed service calls it, if it has no address here.
    pub name: Option<&'a str>,
}

/// A session that is being opened.
pub(crate) struct Opening {
    pub(crate) channel: u32,
    pub(crate) peer: PeerIndex,
    pub(crate) address: SocketAddr,
    pub(crate) slots: u32,
    /// `None` until the endpoint has been asked.
    pub(crate) session: Option<SessionId>,
}

impl Channels {
    /// Opens and closes sessions. This needs the endpoint itself, between turns.
    #[cold]
    pub(crate) fn use_endpoint<S>(
        &mut self,
        endpoint: &mut Endpoint<S>,
        dial: Option<&mut Dial<S>>,
    ) {
        for session in self.closing.drain(..) {
            endpoint.close_session(session);
        }
        let now = endpoint.context().now();
        let mut by_node = |endpoint: &mut Endpoint<S>, server: Dialled<'_>, slots| {
            let session = endpoint.connect_with_slots(server.address, slots);
            session.map_err(|error| error.to_string())
        };
        let dial: &mut dyn FnMut(&mut Endpoint<S>, Dialled<'_>, u32) -> _ = match dial {
            Some(dial) => dial,
            None => &mut by_node,
        };
        for mut opening in core::mem::take(&mut self.opening) {
            // A loop without packets has no address.
            let own = Some(endpoint.local_address()).filter(|own| own.port() != 0);
            let is_itself = own == Some(opening.address);
            if opening.session.is_none() && is_itself {
                // Without a node, this loop is the only server.
                opening.session = Some(open_to_itself(endpoint));
            } else if opening.session.is_none() {
                let address = opening.address;
                let channel = self.list.get(opening.channel as usize).and_then(Option::as_ref);
                let name = channel.and_then(|entry| entry.info.servers.carried_name(address));
                match dial(endpoint, Dialled { address, name }, opening.slots) {
                    Ok(session) => opening.session = Some(session),
                    Err(why) => {
                        self.failed(&opening, why, now);
                        continue;
                    }
                }
            }
            self.opening.push(opening);
        }
    }

    /// Notes that a session could not be opened.
    fn failed(&mut self, opening: &Opening, why: String, now: Time) {
        let Channels { list, rng, .. } = self;
        let entry = list.get_mut(opening.channel as usize).and_then(Option::as_mut);
        let Some(entry) = entry else { return };
        entry.last_error = why;
        entry.core.handle_failed(opening.peer, now, rng);
        self.mark_dirty(opening.channel);
    }

    /// Notes that a session is ready.
    fn opened(&mut self, opening: &Opening, id: SessionId, slots: u32, now: Time) {
        let Some(entry) = self.entry(opening.channel) else { return self.closing.push(id) };
        entry.last_error.clear();
        if !entry.add_session(opening.peer, id, slots, now) {
            self.closing.push(id);
        }
        self.mark_dirty(opening.channel);
    }

    /// Gives a channel with one server a session that was opened for it.
    pub(crate) fn adopt<S>(
        &mut self,
        cx: &Context<S>,
        channel: u32,
        server: &SocketAddr,
        id: SessionId,
    ) {
        let (now, slots) = (cx.now(), cx.session_slots(id));
        let entry = self.entry(channel).expect("the channel was just made");
        entry.core.connect();
        while entry.core.poll_action(now).is_some() {}
        let peer = entry.core.find(server).expect("it is the channel's server");
        assert!(entry.add_session(peer, id, slots, now), "it was asked for");
        self.mark_dirty(channel);
    }

    /// Checks on sessions that are being opened.
    #[cold]
    pub(crate) fn check_opening<S>(&mut self, cx: &Context<S>) {
        for opening in core::mem::take(&mut self.opening) {
            let Some(session) = opening.session else {
                self.opening.push(opening);
                continue;
            };
            match cx.session_state(session) {
                SessionState::Connecting => self.opening.push(opening),
                SessionState::Ready => {
                    self.opened(&opening, session, cx.session_slots(session), cx.now());
                    if cx.is_succeeded(session) {
                        self.succeeded(session, cx.now());
                    }
                }
                _ => {
                    let why = cx.session_error(session);
                    let why = why.map_or("no session".to_owned(), |error| error.to_string());
                    self.closing.push(session);
                    self.failed(&opening, why, cx.now());
                }
            }
        }
    }

    /// Notes that a session's server accepts no more calls (C13).
    pub(crate) fn drained(&mut self, session: ChannelSession, now: Time) {
        let ChannelSession { channel, number, id } = session;
        let Some(entry) = self.entry(channel) else { return };
        let Some(index) = entry.session(number, id).map(|session| session.index) else { return };
        entry.return_leases(now);
        entry.core.handle_draining(index, now);
        self.mark_dirty(channel);
    }

    /// Notes that another process is at the address of a session's server (C22).
    #[cold]
    pub(crate) fn succeeded(&mut self, id: SessionId, now: Time) {
        for channel in 0..self.list.len() as u32 {
            let Some(entry) = self.entry(channel) else { continue };
            let of_it = entry.sessions.iter().flatten().find(|session| session.id == id);
            let Some(index) = of_it.map(|session| session.index) else { continue };
            entry.return_leases(now);
            entry.core.handle_succeeded(index);
            return self.mark_dirty(channel);
        }
    }

    /// Notes the result of looking a channel's name up. The companion channel gets it too: one of
    /// the two is for streams.
    pub(crate) fn resolved(
        &mut self,
        channel: u32,
        info: &Arc<ChannelInfo>,
        found: io::Result<Vec<SocketAddr>>,
        now: Time,
    ) {
        for number in 0..self.list.len() as u32 {
            let Channels { list, rng, .. } = &mut *self;
            let entry = list[number as usize].as_mut();
            let Some(entry) = entry.filter(|entry| Arc::ptr_eq(&entry.info, info)) else {
                continue;
            };
            // An error goes only to the one that asked; each asks by itself.
            match &found {
                Ok(_) => {
                    entry.return_leases(now);
                    entry.lookup_error.clear();
                }
                Err(error) => entry.lookup_error = error.to_string(),
            }
            match (&found, number == channel) {
                (Ok(addresses), true) => entry.core.handle_resolved(addresses, now),
                (Ok(addresses), false) => entry.core.handle_addresses(addresses, now),
                (Err(_), true) => entry.core.handle_unresolved(now, rng),
                (Err(_), false) => entry.core.handle_unresolved_elsewhere(),
            }
            self.mark_dirty(number);
        }
    }
}

impl ChannelEntry {
    /// Adds a session that is ready. Returns false if it is not wanted.
    fn add_session(&mut self, peer: PeerIndex, id: SessionId, slots: u32, now: Time) -> bool {
        self.return_leases(now);
        let Some(index) = self.core.handle_connected(peer, slots, now) else { return false };
        let number = index.number();
        if self.sessions.len() <= number {
            self.sessions.resize_with(number + 1, || None);
        }
        let session = Session {
            id,
            index,
            free: 0,
            is_leased: false,
            binds: Vec::new(),
            unbound: Vec::new(),
        };
        self.sessions[number] = Some(session);
        true
    }
}

/// A session of a loop with itself, through its packet I/O.
///
/// # Panics
/// If the packet I/O cannot reach itself.
pub(crate) fn open_to_itself<S>(endpoint: &mut Endpoint<S>) -> SessionId {
    let address = endpoint.local_address();
    let offer = endpoint.open_session(address, None).ok().flatten();
    let offer = offer.expect("the packet I/O reaches itself, and there is room");
    let granted = endpoint.accept_session(&offer.params, address.ip(), None);
    let granted = granted.expect("the loop grants what it asks for");
    let ready = endpoint.establish_session(&offer, &granted, address.ip());
    assert!(ready.is_ok(), "the packet I/O reaches itself");
    offer.session
}
