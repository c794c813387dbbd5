//! Opening, losing and closing sessions.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use petasos_base::Time;
use petasos_call::channel::{PeerIndex, SessionIndex};
use petasos_endpoint::{Context, Endpoint, SessionId, SessionState};
use petasos_rpc::settings::ChannelInfo;

use super::opening::{Opening, Step};
use super::{ChannelEntry, Channels, Session};
use crate::keys::ChannelSession;

/// Opens a session with this number of slots to a server, in place of a node, or says why it
/// cannot. If the session is still connecting, the provider of the `Dial` has to establish it or to
/// fail it.
pub type Dial<S> = Box<dyn FnMut(&mut Endpoint<S>, Dialled<'_>, u32) -> Result<SessionId, String>>;

/// A [`Dial`], or what does the same by a node.
pub(super) type Dialling<'a, S> =
    &'a mut dyn FnMut(&mut Endpoint<S>, Dialled<'_>, u32) -> Result<SessionId, String>;

/// The server that a session is for.
#[derive(Clone, Copy, Debug)]
pub struct Dialled<'a> {
    /// Its address, or the one that stands for it.
    pub address: SocketAddr,
    /// What the managed service calls it, if it has no address here.
    pub name: Option<&'a str>,
}

impl Channels {
    /// Opens and closes sessions. This needs the endpoint itself, between turns.
    #[cold]
    pub(crate) fn use_endpoint<S>(
        &mut self,
        endpoint: &mut Endpoint<S>,
        dial: Option<&mut Dial<S>>,
    ) {
        // Attachments are the group's own, and end with it.
        for session in self.closing.drain(..).filter(|session| !session.is_group()) {
            endpoint.close_session(session);
        }
        for group in self.closing_groups.drain(..) {
            endpoint.close_group(group);
        }
        self.rename_routers(endpoint);
        self.ask_for_places(endpoint);
        let mut by_node = |endpoint: &mut Endpoint<S>, server: Dialled<'_>, slots| {
            let session = endpoint.connect_with_slots(server.address, slots);
            session.map_err(|error| error.to_string())
        };
        let dial: Dialling<'_, S> = match dial {
            Some(dial) => dial,
            None => &mut by_node,
        };
        for mut opening in core::mem::take(&mut self.opening) {
            // A loop without packets has no address.
            let own = Some(endpoint.local_address()).filter(|own| own.port() != 0);
            let is_itself = own == Some(opening.address);
            let (address, channel) = (opening.address, opening.channel);
            let entry = self.list.get_mut(channel as usize).and_then(Option::as_mut);
            let is_group = entry.as_ref().is_some_and(|entry| entry.is_group());
            let next = match (opening.step, entry) {
                (step, Some(entry)) if is_group => entry.open_group(endpoint, step, dial),
                // Without a node, this loop is the only server.
                (Step::Ask, _) if is_itself => Ok(Step::Session(open_to_itself(endpoint))),
                (Step::Ask, entry) => {
                    let name = entry.and_then(|entry| entry.info.servers.carried_name(address));
                    let dialled = dial(endpoint, Dialled { address, name }, opening.slots);
                    dialled.map(Step::Session)
                }
                (step, _) => Ok(step),
            };
            match next {
                Ok(step) => {
                    opening.step = step;
                    self.opening.push(opening);
                }
                Err(why) => self.failed(&opening, why),
            }
        }
    }

    /// Notes that a session could not be opened.
    pub(super) fn failed(&mut self, opening: &Opening, why: String) {
        let Channels { list, rng, .. } = self;
        let entry = list.get_mut(opening.channel as usize).and_then(Option::as_mut);
        let Some(entry) = entry else { return };
        entry.last_error = why;
        entry.core.handle_failed(opening.peer, rng);
        self.mark_dirty(opening.channel);
    }

    /// Notes that a session is ready.
    pub(super) fn opened(&mut self, opening: &Opening, id: SessionId, slots: u32, now: Time) {
        let Some(entry) = self.entry(opening.channel) else { return self.closing.push(id) };
        entry.last_error.clear();
        let closed = entry.add_session(opening.peer, id, slots, now);
        self.closing.extend(closed.into_iter().flatten().flatten());
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
        let closed = entry.add_session(peer, id, slots, now);
        assert!(closed.is_none(), "it was asked for, and is the first");
        self.mark_dirty(channel);
    }

    /// Checks on sessions that are being opened.
    #[cold]
    pub(crate) fn check_opening<S>(&mut self, cx: &Context<S>) {
        for opening in core::mem::take(&mut self.opening) {
            let session = match opening.step {
                Step::Session(session) => session,
                Step::Ask => {
                    self.opening.push(opening);
                    continue;
                }
                Step::Group(step) => {
                    self.check_group(cx, opening, step);
                    continue;
                }
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
                    self.failed(&opening, why);
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
            let Channels { list, rng, renamed, .. } = &mut *self;
            let entry = list[number as usize].as_mut();
            let Some(entry) = entry.filter(|it| Arc::ptr_eq(&it.info, info) && it.place.is_none())
            else {
                continue;
            };
            // An error goes only to the one that asked; each asks by itself.
            match &found {
                Ok(addresses) => {
                    entry.return_leases(now);
                    entry.lookup_error.clear();
                    if entry.is_group() && entry.has_found(addresses) {
                        renamed.push(number);
                    }
                }
                Err(error) => entry.lookup_error = error.to_string(),
            }
            // One address stands for a group, for ever.
            let stand_in = entry.stand_in.as_slice();
            let servers = found.as_ref().map(|addresses| match entry.is_group() {
                true => stand_in,
                false => addresses,
            });
            match (servers, number == channel) {
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
    /// Adds a session that is ready. Returns the sessions that are to be closed: itself, if it is
    /// not wanted, or the one that had its place.
    pub(super) fn add_session(
        &mut self,
        peer: PeerIndex,
        id: SessionId,
        slots: u32,
        now: Time,
    ) -> Option<[Option<SessionId>; 2]> {
        self.return_leases(now);
        let Some(index) = self.core.handle_connected(peer, slots, now) else {
            return Some([Some(id), None]);
        };
        let number = index.number();
        if self.sessions.len() <= number {
            self.sessions.resize_with(number + 1, || None);
        }
        // The core may have closed the session that had this place: its action is yet to come.
        let closed = self.sessions[number].take();
        let session = Session {
            id,
            index,
            free: 0,
            is_leased: false,
            router: None,
            binds: Vec::new(),
            unbound: Vec::new(),
        };
        self.sessions[number] = Some(session);
        closed.map(|closed| [Some(closed.id), closed.router])
    }

    /// Removes a session that the core has closed, and returns what is to be closed. `None` if
    /// another one has its place already: [`ChannelEntry::add_session`] has returned it.
    pub(crate) fn remove_session(&mut self, index: SessionIndex) -> Option<[Option<SessionId>; 2]> {
        let place = self.sessions.get_mut(index.number())?;
        let session = place.take_if(|session| session.index == index)?;
        Some([Some(session.id), session.router])
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

#[cfg(test)]
mod tests {
    use petasos_base::{Clock, Rng};
    use petasos_call::balance::Balance;
    use petasos_call::channel::{Action, CallOptions, ChannelConfig, Pick};
    use petasos_endpoint::EndpointConfig;
    use petasos_rpc::settings::Servers;

    use super::*;
    use crate::config::LoopConfig;

    const SLOTS: u32 = 2;

    fn at_ms(ms: u64) -> Time {
        Time::ZERO.plus_nanos(ms * 1_000_000)
    }

    fn connect_action(entry: &mut ChannelEntry, now: Time) -> PeerIndex {
        let action = entry.core.poll_action(now).expect("it connects");
        let Action::Connect { peer, .. } = action else { panic!("not a connect: {action:?}") };
        peer
    }

    /// A server drains while another session with it is being opened, and both become known in one
    /// turn of the loop.
    #[test]
    fn a_session_that_opens_in_the_place_of_a_closed_one_stays() {
        let io = LoopConfig::default().open().expect("loopback has ports");
        let mut endpoint = Endpoint::new(EndpointConfig::default(), io, Clock::system(), ());
        let [first, second] = [(); 2].map(|()| open_to_itself(&mut endpoint));
        let servers = Servers::Addresses(vec![endpoint.local_address()]);
        let info = ChannelInfo::new(servers, Balance::PickFirst, None);
        let mut entry = ChannelEntry::new(info, ChannelConfig::default());
        entry.core.handle_addresses(&[endpoint.local_address()], at_ms(0));
        entry.core.connect();
        let peer = connect_action(&mut entry, at_ms(0));
        assert_eq!(entry.add_session(peer, first, SLOTS, at_ms(0)), None);

        // A call that waits for a slot makes the channel grow.
        let mut rng = Rng::new(1);
        let mut pick =
            |entry: &mut ChannelEntry| entry.core.pick(CallOptions::default(), at_ms(1), &mut rng);
        let taken = (0..SLOTS).map(|_| pick(&mut entry)).collect::<Vec<_>>();
        let Pick::Wait(ticket) = pick(&mut entry) else { panic!("there is no slot") };
        let peer = connect_action(&mut entry, at_ms(10));
        entry.core.handle_abandoned(ticket);
        for pick in taken {
            let Pick::Session(index) = pick else { panic!("there are slots") };
            entry.core.handle_ended(index, None, at_ms(10));
        }

        let drained = entry.index_at(0).expect("it is the first");
        entry.core.handle_draining(drained, at_ms(2000));
        let closed = entry.add_session(peer, second, SLOTS, at_ms(2000));
        assert_eq!(closed, Some([Some(first), None]));
        assert_eq!(entry.core.poll_action(at_ms(2000)), Some(Action::Close(drained)));
        assert_eq!(entry.remove_session(drained), None, "it is closed already");
        let Pick::Session(index) = pick(&mut entry) else { panic!("the second has slots") };
        assert_eq!(index.number(), drained.number(), "it has the place of the first");
        assert!(entry.session(index.number() as u32, second).is_some());
    }
}
