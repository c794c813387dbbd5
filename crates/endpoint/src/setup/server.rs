//! Sessions that a server grants.

use std::net::{IpAddr, SocketAddr};

use petasos_base::Time;
use petasos_control::{AcceptParams, ConnectParams, RefuseCode, SessionRef, SessionRole};
use petasos_netio::{PacketIo, Route};
use petasos_proto::ServerSession;
use petasos_seal::End;
use petasos_tls::Holder;

use super::limits::{
    Window, first_credits, granted_slots, room_packets, session_params, trailer_bytes,
};
use crate::backend::PeerAddress;
use crate::endpoint::Endpoint;
use crate::handler::ServerSessionId;
use crate::quota::{HolderId, PeerLimits};
use crate::secure::SessionSecurity;
use crate::sessions::{ClientAddress, PeerId, Pulls, ServerEntry};

impl<S> Endpoint<S> {
    /// Grants a session to a client whose packets come from `client_ip` and go there, unless its
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

    /// Like [`Endpoint::accept_session`], with what the control connection's TLS provides for the
    /// session.
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

    /// Grants a session that already counts for its peer.
    fn accept_counted(
        &mut self,
        offer: &ConnectParams,
        client_ip: IpAddr,
        peer: Option<PeerId>,
        security: Option<SessionSecurity>,
        holder: HolderId,
    ) -> Result<AcceptParams, RefuseCode> {
        let client = SocketAddr::new(offer.address.ip.unwrap_or(client_ip), offer.address.port);
        let (route, beside) = self.route_to_client(offer, client, client_ip)?;
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
            let (dirty, pulls) = (false, Pulls::default());
            Some(ServerEntry {
                id: ServerSessionId::new(index, generation),
                tag,
                session,
                route,
                origin,
                peer,
                dirty,
                secure,
                from,
                pulls,
                assembling: 0,
                assembled_at: Time::ZERO,
            })
        });
        if inserted.is_none() {
            self.io.release_route(route);
        }
        granted
    }

    /// A route to a client, and whether it avoids the network.
    fn route_to_client(
        &mut self,
        offer: &ConnectParams,
        client: SocketAddr,
        client_ip: IpAddr,
    ) -> Result<(Route, bool), RefuseCode> {
        if offer.address.carrier != self.io.carrier() {
            return Err(RefuseCode::IncompatibleParameters);
        }
        let local = offer.local.map(|offer| offer.name);
        let found = self.io.route_back(PeerAddress { network: client, local });
        let (route, beside) = found.map_err(|_| RefuseCode::IncompatibleParameters)?;
        if !beside && !self.may_send_to(client.ip(), client_ip) {
            self.io.release_route(route);
            self.cx.core.stats.foreign_addresses += 1;
            return Err(RefuseCode::NotAuthorised);
        }
        Ok((route, beside))
    }

    /// Whether packets may go to `data`, which a client with a control connection from `client` has
    /// named. Only for `client` has it proved that it can receive there (C20).
    fn may_send_to(&self, data: IpAddr, client: IpAddr) -> bool {
        let (data, client) = (data.to_canonical(), client.to_canonical());
        data == client
            || data.is_loopback() && client.is_loopback()
            || self.cx.core.config.believe_data_addresses
            || self.io.has_own_network()
    }
}
