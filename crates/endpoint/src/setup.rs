//! Setting sessions up and giving them up: what the control protocol decides.

use std::net::{IpAddr, SocketAddr};

use petasos_base::Time;
use petasos_control::{
    AcceptParams, ConnectParams, DataAddress, LocalOffer, RefuseCode, ServerLimits, SessionRef,
    SessionRole, Target,
};
use petasos_netio::{Origin, PacketIo, RouteError};
use petasos_proto::{ClientSession, Recovery, ServerSession, SessionParams};
use petasos_seal::End;
use petasos_wire::{CHECKSUM_BYTES, HEADER_BYTES, SEAL_BYTES};

use crate::backend::{PathLimits, PeerAddress};
use crate::call::CallError;
use crate::congestion;
use crate::endpoint::Endpoint;
use crate::quota::{HolderId, PeerLimits};
use crate::secure::SessionSecurity;
use crate::sessions::{
    ClientAddress, ClientEntry, ClientState, PeerId, ServerEntry, SessionId, SessionOffer,
};
use crate::source::Holder;

/// Set-up and tear-down of sessions: what the control protocol decides.
impl<S> Endpoint<S> {
    /// Prepares a client session and says what to ask the server at `server` for. `None` if the
    /// endpoint has all the sessions that it may have.
    ///
    /// # Errors
    /// If the packet I/O cannot reach `server`.
    pub fn open_session(
        &mut self,
        server: SocketAddr,
        peer: Option<PeerId>,
    ) -> Result<Option<SessionOffer>, RouteError> {
        let sealed = self.cx.core.outside.is_secured();
        self.open_session_as(server, peer, sealed)
    }

    /// [`Endpoint::open_session`] for one whose packets will be sealed (W27): the answer is for
    /// [`Endpoint::establish_secured`]. An endpoint whose node has TLS opens no others.
    ///
    /// # Errors
    /// If the packet I/O cannot reach `server`.
    pub fn open_secured(
        &mut self,
        server: SocketAddr,
        peer: Option<PeerId>,
    ) -> Result<Option<SessionOffer>, RouteError> {
        self.open_session_as(server, peer, true)
    }

    fn open_session_as(
        &mut self,
        server: SocketAddr,
        peer: Option<PeerId>,
        sealed: bool,
    ) -> Result<Option<SessionOffer>, RouteError> {
        let checksum = self.cx.core.config.session.checksum;
        let path = self.io.path_limits_to(server)?;
        let own = self.limits_on(path, trailer_bytes(sealed, checksum));
        let local = self.io.local_name().map(|(name, path)| {
            let limits = self.limits_on(path, trailer_bytes(false, checksum));
            let (credits, payload_bytes_max) = (limits.credits_max, limits.payload_bytes_max);
            LocalOffer { name, credits, payload_bytes_max }
        });
        let (generation, tag) = (self.cx.core.next_generation(), self.cx.core.tags.take());
        let holder = self.cx.core.holders.take(Holder::Server(server), 0, PeerLimits::NONE);
        let holder = holder.expect("there is no limit");
        let index = self.cx.core.clients.insert_with(|_| {
            Some(ClientEntry {
                generation,
                tag,
                state: ClientState::Connecting,
                peer,
                holder,
                secure: None,
                dirty: false,
                parked: false,
                origin: Origin::UNTOLD,
                timer_at: Time::NEVER,
                rearm_before: Time::NEVER,
            })
        });
        let Some(index) = index else {
            self.cx.core.holders.give(holder, 0);
            return Ok(None);
        };
        let config = &self.cx.core.config.session;
        let params = ConnectParams {
            target: Target::Any,
            address: self.data_address(),
            endpoint: self.cx.core.outside.index(),
            session: index,
            tag,
            slots: config.slots as u8,
            credits: own.credits_max,
            payload_bytes_max: own.payload_bytes_max,
            request_bytes_max: config.message_bytes_max,
            response_bytes_max: config.message_bytes_max,
            recovery: match config.recovery {
                Recovery::Selective => petasos_control::Recovery::Selective,
                Recovery::GoBackN => petasos_control::Recovery::GoBackN,
            },
            checksum: config.checksum,
            local,
        };
        Ok(Some(SessionOffer { session: SessionId { index, generation }, params }))
    }

    /// Grants a session to a client whose packets come from, and go to, `client_ip` unless its
    /// offer names another address.
    ///
    /// # Errors
    /// Why it is refused, for the client.
    pub fn accept_session(
        &mut self,
        offer: &ConnectParams,
        client_ip: IpAddr,
        peer: Option<PeerId>,
    ) -> Result<AcceptParams, RefuseCode> {
        self.accept_secured(offer, client_ip, peer, None)
    }

    /// [`Endpoint::accept_session`], with what the control connection's TLS gives the session.
    ///
    /// # Errors
    /// Why it is refused, for the client.
    pub fn accept_secured(
        &mut self,
        offer: &ConnectParams,
        client_ip: IpAddr,
        peer: Option<PeerId>,
        security: Option<SessionSecurity>,
    ) -> Result<AcceptParams, RefuseCode> {
        if self.cx.core.draining {
            return Err(RefuseCode::Draining);
        }
        let identity = security.as_ref().map(|security| &*security.identity);
        let holder = Holder::of(client_ip, identity);
        let core = &mut self.cx.core;
        let slots = granted_slots(offer.slots, core.config.session.slots);
        let limits = PeerLimits {
            sessions_max: core.config.sessions_per_peer_max,
            slots_max: core.config.requests_per_peer_max,
        };
        let Some(holder) = core.holders.take(holder, slots, limits) else {
            core.stats.sessions_over_quota += 1;
            return Err(RefuseCode::QuotaUsedUp);
        };
        let granted = self.accept_counted(offer, client_ip, peer, security, holder);
        if granted.is_err() {
            self.cx.core.holders.give(holder, slots);
        }
        granted
    }

    /// Grants a session that counts for its peer already.
    fn accept_counted(
        &mut self,
        offer: &ConnectParams,
        client_ip: IpAddr,
        peer: Option<PeerId>,
        security: Option<SessionSecurity>,
        holder: HolderId,
    ) -> Result<AcceptParams, RefuseCode> {
        let client = SocketAddr::new(offer.address.ip.unwrap_or(client_ip), offer.address.port);
        let local = offer.local.map(|offer| offer.name);
        let (route, beside) = self
            .io
            .route_back(PeerAddress { network: client, local })
            .map_err(|_| RefuseCode::IncompatibleParameters)?;
        if !beside && !self.may_send_to(client.ip(), client_ip) {
            self.io.release_route(route);
            self.cx.core.stats.foreign_addresses += 1;
            return Err(RefuseCode::NotAuthorised);
        }
        let (path, origin) = (self.io.path_limits_on(route), self.io.origin(route));
        let name = self.io.local_name().filter(|_| beside).map(|(name, _)| name);
        let (sealed, life) = (security.is_some() && name.is_none(), self.cx.core.config.key_life);
        let limits = self.limits_on(path, trailer_bytes(sealed, offer.checksum));
        let (generation, tag) = (self.cx.core.next_generation(), self.cx.core.tags.take());
        let (address, endpoint) = (self.data_address(), self.cx.core.outside.index());
        let preallocated = self.cx.core.switches.preallocated_responses;
        let mut granted = Err(RefuseCode::SessionsFull);
        let inserted = self.cx.core.servers.insert_with(|index| {
            let role = SessionRole::Server;
            let server = SessionRef { role, endpoint, session: index, tag };
            granted = offer.accept(&limits, server, address, name);
            let accepted = granted.as_mut().ok()?;
            let credits_max = u32::from(accepted.credits);
            accepted.credits = accepted.credits.min(first_credits(accepted.slots));
            let window = Window { credits_max, room_packets: room_packets(path, accepted) };
            let params = session_params(accepted, offer, window, End::Server, sealed);
            let mut session = ServerSession::new(params);
            if !preallocated {
                session = session.without_short_responses();
            }
            let secure = security.map(|security| security.keep(End::Server, tag, life, sealed));
            let secure = secure.map(Box::new);
            let from = Box::new(ClientAddress { address: client, holder, shared_memory: beside });
            let (dirty, pulled_in, pulled, pulled_to) = (false, 0, 0, (0, 0));
            Some(ServerEntry {
                generation,
                tag,
                session,
                route,
                origin,
                peer,
                dirty,
                secure,
                from,
                pulled_in,
                pulled,
                pulled_to,
                assembling: 0,
                assembled_at: Time::ZERO,
            })
        });
        if inserted.is_none() {
            self.io.release_route(route);
        }
        granted
    }

    /// Whether packets may go to `data`, which the client at the other end of a control connection
    /// with `client` names. Only the latter has proved that it receives (C20).
    fn may_send_to(&self, data: IpAddr, client: IpAddr) -> bool {
        let (data, client) = (data.to_canonical(), client.to_canonical());
        data == client
            || data.is_loopback() && client.is_loopback()
            || self.cx.core.config.believe_data_addresses
            || self.io.has_own_network()
    }

    /// Makes a session ready with what the server at `server_ip` granted. Returns whether it was
    /// waiting for that.
    ///
    /// # Errors
    /// If the packet I/O cannot reach the server's data address; the session has then failed.
    pub fn establish_session(
        &mut self,
        offer: &SessionOffer,
        granted: &AcceptParams,
        server_ip: IpAddr,
    ) -> Result<bool, RouteError> {
        self.establish_secured(offer, granted, server_ip, None)
    }

    /// [`Endpoint::establish_session`], with what the control connection's TLS gives the session.
    ///
    /// # Errors
    /// If the packet I/O cannot reach the server's data address; the session has then failed.
    pub fn establish_secured(
        &mut self,
        offer: &SessionOffer,
        granted: &AcceptParams,
        server_ip: IpAddr,
        security: Option<SessionSecurity>,
    ) -> Result<bool, RouteError> {
        let sealed = security.is_some() && granted.local.is_none();
        let life = self.cx.core.config.key_life;
        let backlog_max = self.cx.core.config.backlog_max;
        let timers = self.cx.core.config.timers;
        let congestion = match granted.local {
            Some(_) => congestion::on_rings(self.cx.core.config.congestion),
            None => self.cx.core.congestion,
        };
        let Some(entry) = self.cx.core.client_mut(offer.session) else { return Ok(false) };
        if !matches!(entry.state, ClientState::Connecting) {
            return Ok(false);
        }
        let server = SocketAddr::new(granted.address.ip.unwrap_or(server_ip), granted.address.port);
        let server = PeerAddress { network: server, local: granted.local };
        let route = match self.io.route_granted(server) {
            Ok(route) => route,
            Err(error) => {
                entry.state = ClientState::Failed;
                return Err(error);
            }
        };
        let credits_max = offer.params.local.filter(|_| granted.local.is_some());
        let credits_max = credits_max.map_or(offer.params.credits, |local| local.credits);
        let room_packets = room_packets(self.io.path_limits_on(route), granted);
        let window = Window { credits_max: credits_max.into(), room_packets };
        let params = session_params(granted, &offer.params, window, End::Client, sealed);
        let congestion = congestion::fit(&congestion, &params);
        let session = ClientSession::new(params, &timers, &congestion, backlog_max);
        let secure = security.map(|one| one.keep(End::Client, granted.tag, life, sealed));
        entry.secure = secure.map(Box::new);
        entry.origin = self.io.origin(route);
        entry.state = ClientState::Ready { session, route };
        Ok(true)
    }

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
        }
    }

    /// Fails every session that hangs on control connection `peer`, client's and server's.
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

    fn data_address(&self) -> DataAddress {
        let local = self.io().local_address();
        let ip = local.ip();
        // Without an address, that of the control connection is meant.
        DataAddress { port: local.port(), ip: (!ip.is_unspecified()).then_some(ip) }
    }

    /// What this endpoint can take in a session on one path, with so many bytes behind the payload.
    fn limits_on(&self, path: PathLimits, trailer_bytes: usize) -> ServerLimits {
        let config = &self.cx.core.config.session;
        let datagram_bytes_max = path.datagram_bytes_max.min(config.datagram_bytes_max as usize);
        let payload_bytes_max = datagram_bytes_max.saturating_sub(HEADER_BYTES + trailer_bytes);
        ServerLimits {
            slots_max: config.slots as u8,
            credits_max: config.credits.min(fitting(path.room_bytes, datagram_bytes_max)) as u16,
            payload_bytes_max: payload_bytes_max.min(petasos_control::PAYLOAD_BYTES_MAX as usize)
                as u16,
            request_bytes_max: config.message_bytes_max,
            response_bytes_max: config.message_bytes_max,
        }
    }
}

/// What follows the payload of each packet.
fn trailer_bytes(sealed: bool, checksum: bool) -> usize {
    match (sealed, checksum) {
        (true, _) => SEAL_BYTES,
        (false, true) => CHECKSUM_BYTES,
        (false, false) => 0,
    }
}

/// The fewest credits that a session gets while it is alone, however small the receive buffer: less
/// would not even fill a train.
const CREDITS_MIN: u32 = 8;

/// Packets of `datagram_bytes` that may be in flight to this endpoint: half of what fits the
/// `room_bytes` of the receive buffer, since the system's overhead counts as well.
fn fitting(room_bytes: usize, datagram_bytes: usize) -> u32 {
    let fitting = room_bytes / 2 / datagram_bytes.max(1);
    fitting.clamp(CREDITS_MIN as usize, petasos_wire::CREDITS_MAX as usize) as u32
}

/// What there is for all sessions with packets like those of a granted one. Rings are different:
/// each pair of processes has its own, and what does not fit waits.
fn room_packets(path: PathLimits, granted: &AcceptParams) -> u32 {
    match granted.local {
        Some(_) => petasos_wire::CREDITS_MAX,
        None => fitting(path.room_bytes, HEADER_BYTES + usize::from(granted.payload_bytes)),
    }
}

/// The slots that a session gets, if it is granted (C9).
fn granted_slots(wanted: u8, slots_max: u32) -> u32 {
    u32::from(wanted).min(slots_max).checked_ilog2().map_or(0, |log| 1 << log)
}

/// The credits of the set-up (W26): a packet for each slot, and what a train needs.
fn first_credits(slots: u8) -> u16 {
    u16::from(slots).max(CREDITS_MIN as u16)
}

/// How many packets a session may have in flight.
struct Window {
    /// What both ends agree on.
    credits_max: u32,
    /// What this end's receive queue holds, for all sessions.
    room_packets: u32,
}

/// What both state machines need to know of a granted session.
fn session_params(
    granted: &AcceptParams,
    offer: &ConnectParams,
    window: Window,
    end: End,
    sealed: bool,
) -> SessionParams {
    let (server_end, client_end) = ((granted.session, granted.tag), (offer.session, offer.tag));
    let (peer, local) = match end {
        End::Client => (server_end, client_end),
        End::Server => (client_end, server_end),
    };
    SessionParams {
        peer_session: peer.0,
        peer_tag: peer.1,
        local_tag: local.1,
        slots: u32::from(granted.slots),
        credits: u32::from(granted.credits),
        credits_max: window.credits_max,
        room_packets: window.room_packets,
        payload_bytes: u32::from(granted.payload_bytes),
        request_bytes_max: granted.request_bytes_max,
        response_bytes_max: granted.response_bytes_max,
        recovery: match offer.recovery {
            petasos_control::Recovery::Selective => Recovery::Selective,
            petasos_control::Recovery::GoBackN => Recovery::GoBackN,
        },
        checksum: offer.checksum || sealed,
    }
}
