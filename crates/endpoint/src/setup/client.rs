//! Sessions of a client: what it asks a server for, and how it handles the answer.

use std::net::{IpAddr, SocketAddr};

use petasos_base::Time;
use petasos_control::{AcceptParams, ConnectParams, LocalOffer, Target};
use petasos_netio::{Origin, PacketIo, RouteError};
use petasos_proto::{ClientSession, Recovery};
use petasos_seal::End;
use petasos_tls::Holder;

use super::limits::{Window, room_packets, session_params, trailer_bytes};
use crate::backend::PeerAddress;
use crate::congestion;
use crate::endpoint::Endpoint;
use crate::quota::PeerLimits;
use crate::secure::SessionSecurity;
use crate::sessions::{ClientEntry, ClientState, PeerId, SessionId, SessionOffer};

impl<S> Endpoint<S> {
    /// Prepares a client session, and returns what to ask the server at `server` for. `None` if the
    /// endpoint has reached its limit of sessions.
    ///
    /// # Errors
    /// The packet I/O cannot reach `server`.
    pub fn open_session(
        &mut self,
        server: SocketAddr,
        peer: Option<PeerId>,
    ) -> Result<Option<SessionOffer>, RouteError> {
        let sealed = self.cx.core.outside.is_secured();
        self.open_session_as(server, peer, sealed)
    }

    /// Like [`Endpoint::open_session`], for a session whose packets will be sealed (W27). Pass the
    /// answer to [`Endpoint::establish_secured`]. An endpoint whose node has TLS opens only such
    /// sessions.
    ///
    /// # Errors
    /// The packet I/O cannot reach `server`.
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
        let Some((session, tag)) = self.insert_client(server, peer) else { return Ok(None) };
        let config = &self.cx.core.config.session;
        let params = ConnectParams {
            target: Target::Any,
            address: self.data_address(),
            endpoint: self.cx.core.outside.index(),
            session: session.index,
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
        Ok(Some(SessionOffer { session, params }))
    }

    /// Adds a session that waits for its server's grant, and returns it with its tag. `None` if
    /// there is no room.
    fn insert_client(
        &mut self,
        server: SocketAddr,
        peer: Option<PeerId>,
    ) -> Option<(SessionId, u32)> {
        let core = &mut self.cx.core;
        let (generation, tag) = (core.next_generation(), core.tags.take());
        let holder = core.holders.take(Holder::Server(server), 0, PeerLimits::NONE);
        let holder = holder.expect("there is no limit");
        let index = core.clients.insert_with(|_| {
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
        if index.is_none() {
            core.holders.give(holder, 0);
        }
        index.map(|index| (SessionId { index, generation }, tag))
    }

    /// Makes a session ready with the grant of the server at `server_ip`. Returns whether the
    /// session was waiting for it.
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

    /// Like [`Endpoint::establish_session`], with what the control connection's TLS provides for
    /// the session.
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
}
