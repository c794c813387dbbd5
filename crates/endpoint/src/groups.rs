//! Groups of workers: what routers tell this endpoint, as a client and as a worker.
//!
//! Routes are made here, since only the endpoint has both packet I/O and state. The node, or a
//! test, says when: it knows the control connections.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use petasos_control::{AttachGrant, DataAddress, Epoch, JoinGrant};
use petasos_netio::{Origin, PacketIo, Route};
use petasos_proto::given::GivenTimes;
use petasos_proto::pairs::AttachmentId;
use petasos_proto::taken::MembershipId;
use petasos_proto::{IdleBound, Recovery, SessionParams};
use petasos_tls::Identity;
use petasos_wire::{CREDITS_MAX, HEADER_BYTES, Packet, RoutedPacket, SEAL_BYTES};

use crate::congestion;
use crate::core::{Attachment, AttachmentKeys, Chore, Joined};
use crate::endpoint::Endpoint;
use crate::group::{GroupError, MembershipOffer, RouterProcess, cipher_of};
use crate::receive::take_first;
use crate::sessions::SessionId;
use crate::setup::{first_credits, fitting};

impl<S> Endpoint<S> {
    /// Calls may be made by this attachment (RT33) from now on. The endpoint has attached with the
    /// address `reply`, and `router_ip` is the router's, unless the grant names another. The
    /// session is ready; it ends with [`Endpoint::close_session`], and its calls with it, or with
    /// [`Endpoint::detach_group`].
    ///
    /// # Errors
    /// See [`GroupError`].
    pub fn attach_group(
        &mut self,
        grant: &AttachGrant,
        reply: SocketAddr,
        router_ip: IpAddr,
    ) -> Result<SessionId, GroupError> {
        let keys = self.attachment_keys(grant)?;
        let (route, origin) = self.route_to(&grant.address, router_ip)?;
        let params = self.pair_params(route, grant.payload_bytes, keys.is_some());
        let congestion = congestion::fit(&self.cx.core.congestion, &params);
        let id = AttachmentId(self.cx.core.next_generation());
        let router = (route, origin);
        let attachment = Attachment::new(id, grant, reply, router, params, congestion, keys);
        Ok(self.cx.core.add_attachment(attachment))
    }

    /// The keys of an attachment to a sealed group.
    fn attachment_keys(
        &self,
        grant: &AttachGrant,
    ) -> Result<Option<Box<AttachmentKeys>>, GroupError> {
        let (cipher, secret) = match (grant.cipher, &grant.epoch.secret) {
            (Some(cipher), Some(secret)) => (cipher_of(cipher), secret),
            (None, None) => return Ok(None),
            _ => return Err(GroupError::Epoch),
        };
        let mut keys = Box::new(AttachmentKeys::new(cipher, self.cx.core.config.key_life));
        keys.begin(grant.epoch.number, *secret.bytes())?;
        Ok(Some(keys))
    }

    /// First packets by this attachment name another epoch from now on (RT30), which has a secret
    /// in a sealed group. What is answered to those of the one before is heard until
    /// [`Endpoint::end_group_epoch`].
    ///
    /// # Errors
    /// [`GroupError::Unknown`], or [`GroupError::Epoch`]; then nothing has changed.
    pub fn set_group_epoch(&mut self, session: SessionId, epoch: &Epoch) -> Result<(), GroupError> {
        self.cx.core.set_attachment_epoch(session, epoch)
    }

    /// The epoch before the newest of this attachment is not taken any more.
    pub fn end_group_epoch(&mut self, session: SessionId) {
        self.cx.core.end_attachment_epoch(session);
    }

    /// The router has told that a worker is there, and where (RT36). Only members that were told
    /// are heard.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub fn set_group_member(
        &mut self,
        session: SessionId,
        worker: u16,
        address: SocketAddr,
    ) -> Result<(), GroupError> {
        let (route, origin) = self.route_to_address(address)?;
        let added = self.cx.core.add_member(session, worker, address, (route, origin));
        if added.is_err() {
            self.io.release_route(route);
        }
        added
    }

    /// The router has told that a worker is gone: pairs that are bound to it fail (RT14).
    pub fn remove_group_member(&mut self, session: SessionId, worker: u16) {
        self.cx.core.remove_member(session, worker);
    }

    /// Calls that ask by `from` ask by `to`, at once: another router is active (RT38).
    ///
    /// # Errors
    /// [`GroupError::Unknown`], or [`GroupError::OtherGroup`].
    pub fn move_group_calls(&mut self, from: SessionId, to: SessionId) -> Result<(), GroupError> {
        self.cx.core.move_group_calls(from, to)
    }

    /// The attachment has ended: calls that ask by it fail; those that have a worker go on (RT35).
    ///
    /// # Errors
    /// [`GroupError::Unknown`].
    pub fn detach_group(&mut self, session: SessionId) -> Result<(), GroupError> {
        found(self.cx.core.detach_group(session))
    }

    /// Prepares to join a group as a worker: the offer has what the router is told (RT34).
    ///
    /// # Errors
    /// [`GroupError::Full`].
    pub fn offer_membership(&mut self) -> Result<MembershipOffer, GroupError> {
        self.cx.core.offer_membership()
    }

    /// The router has granted the membership: it gives at most `n` requests at a time.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub fn join_group(
        &mut self,
        id: MembershipId,
        grant: &JoinGrant,
        n: u16,
        router: RouterProcess,
    ) -> Result<(), GroupError> {
        let source = self.route_to(&grant.source, router.ip)?;
        let feedback = match self.route_to(&grant.feedback, router.ip) {
            Ok((feedback, _)) => feedback,
            Err(error) => {
                self.io.release_route(source.0);
                return Err(error);
            }
        };
        let params = self.pair_params(feedback, grant.payload_bytes, grant.cipher.is_some());
        let times = GivenTimes { hole: micros(grant.hole_us), beat: micros(grant.beat_us) };
        let joined = Joined::new(grant, source, feedback, params);
        self.cx.core.now = self.clock.now();
        let times = (times, micros(grant.claim_us));
        let seal = grant.cipher.map(|cipher| (router, cipher_of(cipher), &grant.epoch));
        let established = self.cx.core.establish_membership(id, joined, times, n, seal);
        if established.is_err() {
            self.io.release_route(source.0);
            self.io.release_route(feedback);
        }
        established
    }

    /// The router has told of a client, and over TLS of its names: its first packets are taken.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub fn set_group_client(
        &mut self,
        id: MembershipId,
        client: u32,
        identity: Option<Arc<Identity>>,
    ) -> Result<(), GroupError> {
        self.cx.core.tell_client(id, client, identity)
    }

    /// The router has told that a client is gone. What it has asked for goes on.
    pub fn remove_group_client(&mut self, id: MembershipId, client: u32) {
        self.cx.core.forget_client(id, client);
    }

    /// First packets of this epoch are taken from now on (RT30), which has a secret in a sealed
    /// group. Those of the one before are, until [`Endpoint::end_membership_epoch`].
    ///
    /// # Errors
    /// [`GroupError::Unknown`], or [`GroupError::Epoch`]; then nothing has changed.
    pub fn begin_membership_epoch(
        &mut self,
        id: MembershipId,
        epoch: &Epoch,
    ) -> Result<(), GroupError> {
        self.cx.core.begin_membership_epoch(id, epoch)
    }

    /// First packets of the epoch before the newest are not taken any more.
    ///
    /// # Errors
    /// [`GroupError::Unknown`].
    pub fn end_membership_epoch(&mut self, id: MembershipId) -> Result<(), GroupError> {
        found(self.cx.core.end_membership_epoch(id))
    }

    /// The router may give `n` requests at a time from now on; 0: none more.
    ///
    /// # Errors
    /// [`GroupError::Unknown`].
    pub fn set_membership_n(&mut self, id: MembershipId, n: u16) -> Result<(), GroupError> {
        found(self.cx.core.set_membership_n(id, n))
    }

    /// From now on the endpoint tells all its routers a number that it chooses from its idle time,
    /// at most `most`: as few as keep `threads` threads busy that run its handlers (1: the loop).
    pub fn follow_idle_time(&mut self, threads: u16, most: u16) {
        let idle = IdleBound::new(threads, most.min(CREDITS_MAX as u16), self.clock.now());
        self.cx.core.set_idle_bound(Some((idle, self.clock.clone())));
    }

    /// A membership has ended, or was not granted. What was taken goes on.
    ///
    /// # Errors
    /// [`GroupError::Unknown`].
    pub fn leave_group(&mut self, id: MembershipId) -> Result<(), GroupError> {
        found(self.cx.core.leave_group(id))
    }

    fn route_to(
        &mut self,
        address: &DataAddress,
        ip: IpAddr,
    ) -> Result<(Route, Origin), GroupError> {
        self.route_to_address(SocketAddr::new(address.ip.unwrap_or(ip), address.port))
    }

    fn route_to_address(&mut self, address: SocketAddr) -> Result<(Route, Origin), GroupError> {
        let route = self.io.route(address)?;
        Ok((route, self.io.origin(route)))
    }

    /// The parameters of the sessions of pairs whose packets have so long a payload (RT12).
    fn pair_params(&self, route: Route, payload_bytes: u16, is_sealed: bool) -> SessionParams {
        let (config, path) = (&self.cx.core.config.session, self.io.path_limits_on(route));
        let seal_bytes = if is_sealed { SEAL_BYTES } else { 0 };
        let packet_bytes = HEADER_BYTES + usize::from(payload_bytes) + seal_bytes;
        let room_packets = fitting(path.room_bytes, packet_bytes);
        let credits_max = config.credits.min(room_packets);
        SessionParams {
            peer_session: 0,
            peer_tag: 0,
            local_tag: 0,
            slots: 1,
            credits: u32::from(first_credits(1)).min(credits_max),
            credits_max,
            room_packets,
            payload_bytes: u32::from(payload_bytes),
            request_bytes_max: config.message_bytes_max,
            response_bytes_max: config.message_bytes_max,
            recovery: Recovery::Selective,
            checksum: is_sealed,
        }
    }

    /// Gives clients of groups their routes, and takes their first packets.
    pub(crate) fn meet_strangers(&mut self) {
        let strangers = match self.cx.core.group_requests.as_deref_mut() {
            Some(requests) => requests.take_strangers(),
            None => return,
        };
        // What is taken here is due in later turns.
        self.cx.core.list_group_requests();
        for stranger in strangers {
            let requests = self.cx.core.group_requests_mut();
            let joined = requests.joined(stranger.membership);
            let group = joined.map(|joined| joined.group);
            let first = Packet::parse(&stranger.bytes).ok();
            let first = first.zip(group).map(|(it, group)| RoutedPacket::from_router(it, group));
            let Some(Ok(first)) = first else {
                requests.taken.refuse(stranger.arrived);
                continue;
            };
            let Some(place) = self.place_of_stranger(stranger.membership, &first) else {
                self.cx.core.stats.clients_refused += 1;
                self.cx.core.group_requests_mut().taken.refuse(stranger.arrived);
                continue;
            };
            let (state, cx) = (&mut self.state, &mut self.cx);
            let take = || take_first(state, cx, stranger.arrived, first, place);
            if catch_unwind(AssertUnwindSafe(take)).is_err() {
                self.cx.core.stats.panics += 1;
                self.cx.core.reject_running();
            }
        }
    }

    /// The place of the client of a first packet, which may have come with an earlier one.
    fn place_of_stranger(&mut self, id: MembershipId, first: &RoutedPacket<'_>) -> Option<u32> {
        let (number, address) = (first.client(), first.reply());
        let requests = self.cx.core.group_requests.as_deref()?;
        let known = requests.client(requests.joined(id)?, number, address);
        if known.is_some() {
            return known;
        }
        let (route, origin) = self.route_to_address(address).ok()?;
        let place = self.cx.core.add_client(id, number, address, (route, origin));
        if place.is_none() {
            self.cx.core.chores.push(Chore::Release(route));
        }
        place
    }
}

fn found(is_found: bool) -> Result<(), GroupError> {
    is_found.then_some(()).ok_or(GroupError::Unknown)
}

fn micros(us: u32) -> Duration {
    Duration::from_micros(us.into())
}
