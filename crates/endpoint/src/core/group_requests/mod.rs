//! Requests that routers give this endpoint as a worker (`docs/spec/route.md`, RT16 to RT22).
//!
//! [`TakenRequests`] knows what becomes of each, and that each given number is settled once. Those
//! whose clients know a session have one here ([`TakenSession`]), at the place of the request. As
//! for pairs at a client, indices have bit 19 set, and a miss in the table of sessions leads here;
//! routers are known by such indices, too.
//!
//! Who may touch what: `receive` handles packets and runs handlers; the rest is here.
//!
//! Invariants:
//! - a session is bound to a request before its client is told of the session;
//! - a client's place stays its own while there are requests of it;
//! - [`GROUP_TURN`] is on the dirty list exactly if `is_listed` is set.

mod answers;
mod bound;
mod clients;
mod due;
mod epochs;
mod keys;
mod membership;
mod sessions;

use std::net::SocketAddr;
use std::sync::Arc;

use petasos_base::{Clock, Time};
use petasos_control::{Epoch, Table};
use petasos_netio::{Origin, Route};
use petasos_proto::given::{GivenNumbers, GivenStats, GivenTimes};
use petasos_proto::pairs::PAIR_BIT;
use petasos_proto::taken::{
    Arrived, Asker, MembershipId, TakenConfig, TakenId, TakenRequests, TakenStats,
};
use petasos_proto::{IdleBound, ServerStats, SessionParams};
use petasos_seal::Cipher;
use petasos_tls::{Holder, Identity};
use petasos_wire::{FIRST_BYTES, RoutedPacket};

use super::group_calls::GROUP_TURN;
use super::{Chore, Core};
use crate::group::{GroupError, MEMBERSHIPS_MAX, MembershipOffer, RouterProcess};
use crate::handler::ServerSessionId;
use crate::method_table::MethodNames;
use crate::quota::PeerLimits;
use crate::sealed_links::{SealId, SealedLinks};
use clients::{Clients, GroupClient, Told};
use keys::KeysOfRouters;
pub(crate) use keys::Unopened;
pub(crate) use membership::{Joined, Membership};
pub(crate) use sessions::TakenSession;

/// The most bytes of first packets that wait for the end of a turn, when their clients get routes.
/// Others are dropped: their clients repeat them.
const STRANGERS_BYTES_MAX: usize = 1 << 20;

/// As whom the endpoint answers a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerAs {
    /// The number of this worker at the router that has given the request.
    pub(crate) worker: u16,
    /// What seals packets between its client and this worker; `None` in a group in plaintext.
    pub(crate) seal: Option<SealId>,
}

/// What is kept with a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TakenOf {
    pub(crate) answer_as: AnswerAs,
    /// The payload size of its group.
    pub(crate) payload_bytes: u32,
    /// The method, by the endpoint's own number.
    pub(crate) method: u16,
}

/// A first packet of a client that has no route yet.
pub(crate) struct Stranger {
    pub(crate) membership: MembershipId,
    pub(crate) arrived: Arrived,
    pub(crate) bytes: Vec<u8>,
}

/// The requests that an endpoint has as a worker. See the module's documentation.
pub(crate) struct GroupRequests {
    pub(crate) taken: TakenRequests<TakenOf>,
    memberships: Vec<Option<Membership>>,
    keys: KeysOfRouters,
    pub(crate) sealed: SealedLinks,
    pub(crate) clients: Clients,
    /// By the request's place. They are used again.
    sessions: Vec<Option<Box<TakenSession>>>,
    /// Of sessions, but for names, tags and payloads.
    params: Option<SessionParams>,
    /// The request whose handler is on the stack.
    pub(crate) running: Option<TakenId>,
    strangers: Vec<Stranger>,
    strangers_bytes: usize,
    clients_max: usize,
    is_listed: bool,
    /// What chooses how many requests to take, if that is not fixed, and its clock: idle time is
    /// shorter than turns.
    idle_bound: Option<Box<(IdleBound, Clock)>>,
}

impl GroupRequests {
    fn new() -> GroupRequests {
        let config = TakenConfig::default();
        GroupRequests {
            taken: TakenRequests::new(config),
            memberships: Vec::new(),
            keys: KeysOfRouters::default(),
            sealed: SealedLinks::default(),
            clients: Clients::default(),
            sessions: Vec::new(),
            params: None,
            running: None,
            strangers: Vec::new(),
            strangers_bytes: 0,
            clients_max: config.clients_max as usize,
            is_listed: false,
            idle_bound: None,
        }
    }

    /// The membership under this index, if it has this tag.
    #[inline]
    pub(crate) fn membership_at(&self, index: u32, tag: u32) -> Option<&Membership> {
        let place = index.checked_sub(PAIR_BIT)? as usize;
        self.memberships.get(place)?.as_ref().filter(|membership| membership.tag == tag)
    }

    fn membership_mut(&mut self, id: MembershipId) -> Option<&mut Membership> {
        self.memberships.iter_mut().flatten().find(|membership| membership.id == id)
    }

    pub(crate) fn joined(&self, id: MembershipId) -> Option<&Joined> {
        let membership = self.memberships.iter().flatten().find(|membership| membership.id == id);
        membership?.joined.as_deref()
    }

    fn joined_mut(&mut self, id: MembershipId) -> Option<&mut Joined> {
        self.membership_mut(id)?.joined.as_deref_mut()
    }

    /// The place of the client that now has this number at a router, and sends from this address.
    #[inline]
    pub(crate) fn client(&self, joined: &Joined, number: u32, address: SocketAddr) -> Option<u32> {
        let place = joined.current.get(number)?;
        (self.clients.at(place).address == address).then_some(place)
    }

    /// The place of the client that now has this number at a router, from whatever address.
    fn client_at(&self, id: MembershipId, number: u32) -> Option<u32> {
        self.joined(id)?.current.get(number)
    }

    /// The session at a request's place. `None` for indices of other sessions.
    #[inline]
    pub(crate) fn session(&self, index: u32) -> Option<&TakenSession> {
        self.sessions.get(index.checked_sub(PAIR_BIT)? as usize)?.as_deref()
    }

    #[inline]
    pub(crate) fn session_mut(&mut self, index: u32) -> Option<&mut TakenSession> {
        self.sessions.get_mut(index.checked_sub(PAIR_BIT)? as usize)?.as_deref_mut()
    }

    /// Requests whose handlers have not answered.
    pub(crate) fn unfinished(&self) -> usize {
        self.taken.running()
    }

    /// The counters of given numbers, of requests, and of their sessions.
    pub(crate) fn stats(&self) -> (GivenStats, TakenStats, ServerStats) {
        let mut sessions = ServerStats::default();
        self.sessions.iter().flatten().for_each(|it| sessions.add(it.session.stats()));
        (self.taken.given_stats(), *self.taken.stats(), sessions)
    }

    pub(crate) fn footprint_bytes(&self) -> usize {
        let bytes = |it: &TakenSession| size_of::<TakenSession>() + it.session.footprint_bytes();
        self.sessions.iter().flatten().map(|it| bytes(it)).sum()
    }

    /// Keeps a first packet until its client has a route.
    /// Of a sealed one, the body has been opened: it stands where it was sealed.
    pub(crate) fn defer(
        &mut self,
        membership: MembershipId,
        arrived: Arrived,
        bytes: &[u8],
        body: &[u8],
    ) {
        self.strangers_bytes += bytes.len();
        if self.strangers_bytes > STRANGERS_BYTES_MAX {
            return self.taken.refuse(arrived);
        }
        let mut bytes = bytes.to_vec();
        bytes[FIRST_BYTES..][..body.len()].copy_from_slice(body);
        self.strangers.push(Stranger { membership, arrived, bytes });
    }

    pub(crate) fn take_strangers(&mut self) -> Vec<Stranger> {
        self.strangers_bytes = 0;
        core::mem::take(&mut self.strangers)
    }

    /// What a first packet says of its pair.
    #[inline]
    pub(crate) fn asker(first: &RoutedPacket<'_>, client: u32, now: Time) -> Asker {
        let header = first.header();
        let left = first.lifetime_us().map(|us| core::time::Duration::from_micros(us.into()));
        Asker {
            client,
            pair: first.pair(),
            pair_tag: first.pair_tag(),
            request: header.request(),
            echo: header.transmission(),
            message_bytes: header.message_bytes(),
            expires_at: left.map_or(Time::NEVER, |left| now + left),
        }
    }
}

impl<S> Core<S> {
    /// What there is of requests from groups.
    pub(crate) fn group_requests_mut(&mut self) -> &mut GroupRequests {
        self.group_requests.get_or_insert_with(|| Box::new(GroupRequests::new()))
    }

    /// Index and tag under which a router will be known.
    pub(crate) fn offer_membership(&mut self) -> Result<MembershipOffer, GroupError> {
        let (id, tag) = (MembershipId(self.next_generation()), self.tags.take());
        let memberships = &mut self.group_requests_mut().memberships;
        let free = memberships.iter().position(Option::is_none);
        let place = free.unwrap_or(memberships.len());
        if place >= MEMBERSHIPS_MAX {
            return Err(GroupError::Full);
        }
        if place == memberships.len() {
            memberships.push(None);
        }
        memberships[place] = Some(Membership { id, tag, joined: None });
        Ok(MembershipOffer { id, session: place as u32 | PAIR_BIT, tag })
    }

    /// A router has granted a membership: it may give `n` requests at a time. The routes are the
    /// caller's if that is refused. `seal` has what is needed for the keys of a sealed group.
    pub(crate) fn establish_membership(
        &mut self,
        id: MembershipId,
        mut joined: Joined,
        times: (GivenTimes, core::time::Duration),
        n: u16,
        seal: Option<(RouterProcess, Cipher, &Epoch)>,
    ) -> Result<(), GroupError> {
        let (now, life) = (self.now, self.config.key_life);
        let requests = self.group_requests_mut();
        let is_offered = |it: &&mut Membership| it.joined.is_none();
        if requests.membership_mut(id).filter(is_offered).is_none() {
            return Err(GroupError::Unknown);
        }
        if let Some((router, cipher, epoch)) = seal {
            requests.take_keys(&mut joined, router, (cipher, life), epoch)?;
        }
        let params = joined.params;
        requests.membership_mut(id).expect("it was just found").joined = Some(Box::new(joined));
        requests.params = Some(params);
        let (times, claim) = times;
        requests.taken.join(id, GivenNumbers::new(now, times, n), claim);
        self.list_group_requests();
        Ok(())
    }

    /// A membership has ended, or is not granted. What was taken goes on.
    pub(crate) fn leave_group(&mut self, id: MembershipId) -> bool {
        let Some(requests) = self.group_requests.as_deref_mut() else { return false };
        let place = requests.memberships.iter().position(|it| {
            let id_of = it.as_ref().map(|membership| membership.id);
            id_of == Some(id)
        });
        let Some(membership) = place.and_then(|place| requests.memberships[place].take()) else {
            return false;
        };
        requests.taken.leave(id);
        let of_router = requests.clients.places(|client| client.membership == id);
        of_router.into_iter().for_each(|place| self.retire_client(place));
        if let Some(joined) = membership.joined {
            self.group_requests_mut().leave_keys(&joined);
            self.chores.push(Chore::Release(joined.source_route));
            self.chores.push(Chore::Release(joined.feedback));
        }
        true
    }

    /// All memberships end.
    pub(crate) fn leave_all_groups(&mut self) {
        let requests = self.group_requests.as_deref();
        let memberships = requests.into_iter().flat_map(|it| it.memberships.iter().flatten());
        for id in memberships.map(|membership| membership.id).collect::<Vec<_>>() {
            self.leave_group(id);
        }
    }

    /// How many requests the endpoint takes at a time. 0: it drains.
    pub(crate) fn set_membership_n(&mut self, id: MembershipId, n: u16) -> bool {
        let requests = self.group_requests.as_deref_mut();
        let given = requests.and_then(|requests| requests.taken.given(id));
        let is_there = given.map(|given| given.set_n(n)).is_some();
        self.list_group_requests();
        is_there
    }

    /// The router has told a table (RT31), or none yet: then its numbers mean nothing.
    pub(crate) fn learn_membership_methods(
        &mut self,
        id: MembershipId,
        table: &[Table],
        names: &MethodNames,
    ) {
        if let Some(joined) = self.group_requests_mut().joined_mut(id) {
            joined.methods.get_or_insert_default().learn(table, names);
        }
    }

    /// The router has told of a client (RT29).
    pub(crate) fn tell_client(
        &mut self,
        id: MembershipId,
        number: u32,
        identity: Option<Arc<Identity>>,
    ) -> Result<(), GroupError> {
        let joined = self.group_requests_mut().joined(id).ok_or(GroupError::Unknown)?;
        if joined.told.get(&number).is_some_and(|told| told.identity == identity) {
            // It is told again, and nothing has changed.
            return Ok(());
        }
        self.forget_client(id, number);
        let joined = self.group_requests_mut().joined_mut(id).expect("it was just found");
        if joined.told.len() >= joined.clients_max {
            return Err(GroupError::Full);
        }
        joined.told.insert(number, Told { identity });
        Ok(())
    }

    /// A client has gone: its number may become another's. Its requests go on.
    pub(crate) fn forget_client(&mut self, id: MembershipId, number: u32) {
        let Some(requests) = self.group_requests.as_deref_mut() else { return };
        if let Some(joined) = requests.joined_mut(id) {
            joined.told.remove(&number);
        }
        if let Some(place) = requests.client_at(id, number) {
            self.retire_client(place);
        }
    }

    /// Adds a client whose first packet has come. `None` if there is no room.
    pub(crate) fn add_client(
        &mut self,
        id: MembershipId,
        number: u32,
        address: SocketAddr,
        (route, origin): (Route, Origin),
    ) -> Option<u32> {
        let requests = self.group_requests.as_deref_mut()?;
        let told = requests.joined(id)?.told.get(&number).cloned();
        if let Some(before) = requests.client_at(id, number) {
            self.retire_client(before);
        }
        self.make_room_for_client()?;
        let holder = Holder::of(address.ip(), told.as_ref().and_then(|it| it.identity.as_deref()));
        let holder = self.holders.take(holder, 0, PeerLimits::NONE).expect("there is no limit");
        let generation = self.next_generation();
        let clients = &mut self.group_requests_mut().clients;
        let place = clients.add(|place| GroupClient {
            id: ServerSessionId::group(place, generation),
            membership: id,
            number,
            address,
            route,
            origin,
            holder,
            told,
            is_current: true,
        });
        let joined = self.group_requests_mut().joined_mut(id);
        joined.expect("it was just found").current.set(number, Some(place));
        Some(place)
    }

    /// Those of whom no router has told make room for others.
    fn make_room_for_client(&mut self) -> Option<()> {
        let requests = self.group_requests.as_deref_mut()?;
        if requests.clients.len() < requests.clients_max {
            return Some(());
        }
        let untold = requests.clients.places(|client| client.told.is_none());
        untold.into_iter().for_each(|place| self.retire_client(place));
        let requests = self.group_requests.as_deref_mut()?;
        (requests.clients.len() < requests.clients_max).then_some(())
    }

    /// First packets under the client's number are another's from now on.
    fn retire_client(&mut self, place: u32) {
        let requests = self.group_requests_mut();
        let client = requests.clients.at_mut(place);
        client.is_current = false;
        let (id, number) = (client.membership, client.number);
        if let Some(joined) = requests.joined_mut(id)
            && joined.current.get(number) == Some(place)
        {
            joined.current.set(number, None);
        }
        self.drop_idle_client(place);
    }

    /// Forgets a client that is not current, once its last request has gone.
    pub(super) fn drop_idle_client(&mut self, place: u32) {
        let requests = self.group_requests_mut();
        if requests.taken.sessions_of(place) > 0 {
            return;
        }
        if let Some(client) = requests.clients.take(place) {
            requests.taken.forget(place);
            self.chores.push(Chore::Release(client.route));
            self.holders.give(client.holder, 0);
        }
    }

    pub(crate) fn group_client(&self, session: ServerSessionId) -> Option<&GroupClient> {
        self.group_requests.as_deref()?.clients.get(session)
    }

    /// The parameters of the sessions of a client's requests.
    pub(crate) fn group_served(&self, session: ServerSessionId) -> Option<SessionParams> {
        let client = self.group_client(session)?;
        let joined = self.group_requests.as_deref()?.joined(client.membership)?;
        Some(joined.params)
    }

    /// Lets requests of groups do something at the end of this turn.
    #[inline]
    pub(crate) fn list_group_requests(&mut self) {
        if let Some(requests) = &mut self.group_requests
            && !requests.is_listed
        {
            requests.is_listed = true;
            self.dirty_servers.push(GROUP_TURN);
        }
    }

    /// When requests of groups, or feedback, have something to do without a packet.
    pub(crate) fn group_requests_due(&self) -> Time {
        self.group_requests.as_deref().map_or(Time::NEVER, |it| it.taken.next_due())
    }

    /// Handles what is due of requests of groups.
    pub(crate) fn run_group_requests(&mut self) {
        let now = self.now;
        let Some(requests) = self.group_requests.as_deref_mut() else { return };
        requests.taken.handle_timers(now);
        self.list_group_requests();
    }
}
