//! The event loop.

use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};

use petasos_base::{Clock, Time};
use petasos_control::{
    AcceptParams, ConnectParams, DataAddress, LocalOffer, RefuseCode, ServerLimits, SessionRef,
    SessionRole, Target,
};
use petasos_netio::{PacketIo, RouteError};
use petasos_proto::{ClientSession, CongestionConfig, Recovery, ServerSession, SessionParams};
use petasos_wire::{CHECKSUM_BYTES, HEADER_BYTES};

use crate::backend::{Backend, PeerAddress, Way};
use crate::call::CallError;
use crate::config::EndpointConfig;
use crate::congestion;
use crate::context::Context;
use crate::core::Core;
use crate::handler::Handler;
use crate::receive::{HandleWith, answer_panic, handle_frames, is_marked, refuse, run_finished};
use crate::sessions::{ClientEntry, ClientState, PeerId, ServerEntry, SessionId, SessionOffer};
use crate::stats::{EndpointStats, MemoryStats};

/// One thread's RPC machine. See the crate's documentation.
pub struct Endpoint<S> {
    pub(crate) cx: Context<S>,
    io: Backend,
    clock: Clock,
    state: S,
}

impl<S> Endpoint<S> {
    /// An endpoint over `io` whose handlers and continuations share `state`.
    ///
    /// # Panics
    /// If `config.congestion` is not valid: [`CongestionConfig::validate`] tells beforehand.
    pub fn new(config: EndpointConfig, io: impl Into<Backend>, clock: Clock, state: S) -> Self {
        let mut io = io.into();
        let congestion = congestion::choose(config.congestion, &mut io);
        let core = Core::new(config, congestion, clock.now());
        Endpoint { cx: Context { core }, io, clock, state }
    }

    /// Congestion control of the sessions that this endpoint opens.
    pub fn congestion(&self) -> &CongestionConfig {
        &self.cx.core.congestion
    }

    /// Makes `handler` answer `method`, in place of an earlier one. Nothing once the endpoint
    /// [drains](Endpoint::drain).
    pub fn register(&mut self, method: u16, handler: Handler<S>) {
        let index = usize::from(method);
        if self.cx.core.draining {
            return;
        }
        if self.cx.core.handlers.len() <= index {
            self.cx.core.handlers.resize(index + 1, refuse);
        }
        self.cx.core.handlers[index] = handler;
        self.cx.core.outside.serves();
    }

    /// The application's state.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// The application's state, to be changed.
    pub fn state_mut(&mut self) -> &mut S {
        &mut self.state
    }

    /// What can be done between turns: calls, answers, buffers. Reads the clock, since the last
    /// turn may be long ago.
    #[inline]
    pub fn context(&mut self) -> &mut Context<S> {
        self.cx.core.now = self.clock.now();
        &mut self.cx
    }

    /// State and context together; see [`Endpoint::context`].
    #[inline]
    pub fn split(&mut self) -> (&mut S, &mut Context<S>) {
        self.cx.core.now = self.clock.now();
        (&mut self.state, &mut self.cx)
    }

    /// One turn of the loop, without waiting. Returns whether anything was received, ended or
    /// sent.
    #[inline]
    pub fn run_once(&mut self) -> bool {
        self.cx.core.now = self.clock.now();
        self.cx.core.stats.turns += 1;
        let mailed = self.cx.core.outside.has_mail() && self.take_mail();
        let received = self.receive();
        self.cx.core.run_timers();
        let finished = !self.cx.core.finished.is_empty();
        if finished {
            self.run_finished();
        }
        self.cx.core.pump();
        let sent = !self.cx.core.tx.is_empty();
        if sent {
            self.cx.core.flush(&mut self.io);
        }
        if !self.cx.core.routes_released.is_empty() {
            self.release_routes();
        }
        mailed | received | finished | sent
    }

    #[inline]
    fn receive(&mut self) -> bool {
        let batch = self.io.receive();
        if batch.chunks.is_empty() {
            return false;
        }
        self.cx.core.stats.turns_busy += 1;
        // Marks are rare, and nothing of the common way asks for them packet by packet.
        let marked = batch.chunks.iter().any(|chunk| is_marked(chunk.ecn));
        let mut frames = batch.frames();
        let per_packet = !self.cx.core.config.optimisations.batched_clock;
        let with = HandleWith { clock: per_packet.then_some(&self.clock), marked };
        let (state, cx) = (&mut self.state, &mut self.cx);
        loop {
            // A panic leaves the application's state as the handler left it; the endpoint's own
            // is whole, since the handler is called outside of any change to it.
            let run = AssertUnwindSafe(|| handle_frames(state, cx, &mut frames, &with));
            match catch_unwind(run) {
                Ok(()) => return true,
                Err(_) => {
                    cx.core.stats.panics += 1;
                    answer_panic(&mut cx.core, frames.latest());
                }
            }
        }
    }

    fn run_finished(&mut self) {
        let (state, cx) = (&mut self.state, &mut self.cx);
        while catch_unwind(AssertUnwindSafe(|| run_finished(state, cx))).is_err() {
            cx.core.stats.panics += 1;
        }
    }

    fn release_routes(&mut self) {
        for route in self.cx.core.routes_released.drain(..) {
            self.io.release_route(route);
        }
    }

    /// When the loop has to turn next even if nothing arrives: now if packets wait for the packet
    /// I/O, at the next timer otherwise; [`Time::NEVER`] if there is none.
    pub fn next_turn_at(&self) -> Time {
        let waits = self.cx.core.outside.has_mail()
            || !self.cx.core.tx.is_empty()
            || !self.cx.core.finished.is_empty()
            || !self.cx.core.dirty_clients.is_empty()
            || !self.cx.core.dirty_servers.is_empty();
        if waits { self.cx.core.now } else { self.cx.core.next_timer_at() }
    }

    /// The packet I/O underneath.
    pub fn io(&self) -> &Backend {
        &self.io
    }

    /// See [`PacketIo::prepare_to_sleep`].
    pub(crate) fn prepare_to_sleep(&mut self) -> bool {
        self.io.prepare_to_sleep()
    }

    /// The clock that the loop reads.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Where peers' packets arrive.
    pub fn local_address(&self) -> SocketAddr {
        self.io.local_address()
    }

    /// Every counter.
    pub fn stats(&self) -> EndpointStats {
        let mut stats = EndpointStats {
            event_loop: self.cx.core.stats,
            client: self.cx.core.closed_clients,
            server: self.cx.core.closed_servers,
            io: self.io.stats(),
        };
        for (_, entry) in self.cx.core.clients.iter() {
            if let ClientState::Ready { session, .. } = &entry.state {
                stats.client.add(&session.stats());
            }
        }
        for (_, entry) in self.cx.core.servers.iter() {
            stats.server.add(entry.session.stats());
        }
        stats
    }

    /// Where the endpoint's memory is.
    pub fn memory(&self) -> MemoryStats {
        let clients = self.cx.core.clients.iter().map(|(_, entry)| match &entry.state {
            ClientState::Ready { session, .. } => session.footprint_bytes(),
            _ => 0,
        });
        let servers = self.cx.core.servers.iter().map(|(_, e)| e.session.footprint_bytes());
        let tables =
            self.cx.core.clients.footprint_bytes() + self.cx.core.servers.footprint_bytes();
        let session_bytes = tables + clients.sum::<usize>() + servers.sum::<usize>();
        MemoryStats { pool: self.cx.core.pool.stats(), session_bytes }
    }

    /// Stops taking requests: new ones are rejected as draining, those that run are finished.
    pub fn drain(&mut self) {
        self.cx.core.draining = true;
        self.cx.core.handlers.clear();
    }

    /// Requests whose handlers have not answered, and calls that have not ended.
    pub fn unfinished(&self) -> (usize, usize) {
        let running = self.cx.core.servers.iter().map(|(_, entry)| entry.session.running()).sum();
        let calls = self.cx.core.clients.iter().map(|(_, entry)| match &entry.state {
            ClientState::Ready { session, .. } => session.busy() as usize + session.backlog(),
            _ => 0,
        });
        (running, calls.sum())
    }
}

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
        let checksum = self.cx.core.config.session.checksum;
        let way = self.io.way_to(server)?;
        let own = self.limits_on(way, checksum);
        let local = self.io.local_name().map(|(name, way)| {
            let limits = self.limits_on(way, checksum);
            let (credits, payload_bytes_max) = (limits.credits_max, limits.payload_bytes_max);
            LocalOffer { name, credits, payload_bytes_max }
        });
        let (generation, tag) = (self.cx.core.next_generation(), self.cx.core.random_tag());
        let index = self.cx.core.clients.insert_with(|_| {
            Some(ClientEntry {
                generation,
                tag,
                state: ClientState::Connecting,
                peer,
                dirty: false,
                parked: false,
                timer_at: Time::NEVER,
                rearm_before: Time::NEVER,
            })
        });
        let Some(index) = index else { return Ok(None) };
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
        if self.cx.core.draining {
            return Err(RefuseCode::Draining);
        }
        let client = SocketAddr::new(offer.address.ip.unwrap_or(client_ip), offer.address.port);
        let local = offer.local.map(|offer| offer.name);
        let (route, beside) = self
            .io
            .route_back(PeerAddress { network: client, local })
            .map_err(|_| RefuseCode::IncompatibleParameters)?;
        let way = self.io.way_on(route);
        let limits = self.limits_on(way, offer.checksum);
        let name = self.io.local_name().filter(|_| beside).map(|(name, _)| name);
        let (generation, tag) = (self.cx.core.next_generation(), self.cx.core.random_tag());
        let (address, endpoint) = (self.data_address(), self.cx.core.outside.index());
        let preallocated = self.cx.core.config.optimisations.preallocated_responses;
        let mut granted = Err(RefuseCode::SessionsFull);
        let inserted = self.cx.core.servers.insert_with(|index| {
            let role = SessionRole::Server;
            let server = SessionRef { role, endpoint, session: index, tag };
            granted = offer.accept(&limits, server, address, name);
            let accepted = granted.as_mut().ok()?;
            let credits_max = u32::from(accepted.credits);
            accepted.credits = accepted.credits.min(first_credits(accepted.slots));
            let window = Window { credits_max, room_packets: room_packets(way, accepted) };
            let params = session_params(accepted, offer, window, false);
            let mut session = ServerSession::new(params);
            if !preallocated {
                session = session.without_short_responses();
            }
            Some(ServerEntry { generation, tag, session, route, peer, dirty: false })
        });
        if inserted.is_none() {
            self.io.release_route(route);
        }
        granted
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
        let room_packets = room_packets(self.io.way_on(route), granted);
        let window = Window { credits_max: credits_max.into(), room_packets };
        let params = session_params(granted, &offer.params, window, true);
        let congestion = congestion::fit(&congestion, &params);
        let session = ClientSession::new(params, &timers, &congestion, backlog_max);
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
        if self.cx.core.client_mut(session).is_some() {
            self.cx.core.clients.remove(session.index);
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
        let local = self.io.local_address();
        let ip = local.ip();
        // Without an address, that of the control connection is meant.
        DataAddress { port: local.port(), ip: (!ip.is_unspecified()).then_some(ip) }
    }

    /// What this endpoint can take in a session on one way.
    fn limits_on(&self, way: Way, checksum: bool) -> ServerLimits {
        let config = &self.cx.core.config.session;
        let datagram_bytes_max = way.datagram_bytes_max.min(config.datagram_bytes_max as usize);
        let trailer = if checksum { CHECKSUM_BYTES } else { 0 };
        let payload_bytes_max = datagram_bytes_max.saturating_sub(HEADER_BYTES + trailer);
        ServerLimits {
            slots_max: config.slots as u8,
            credits_max: config.credits.min(fitting(way.room_bytes, datagram_bytes_max)) as u16,
            payload_bytes_max: payload_bytes_max.min(petasos_control::PAYLOAD_BYTES_MAX as usize)
                as u16,
            request_bytes_max: config.message_bytes_max,
            response_bytes_max: config.message_bytes_max,
        }
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
fn room_packets(way: Way, granted: &AcceptParams) -> u32 {
    match granted.local {
        Some(_) => petasos_wire::CREDITS_MAX,
        None => fitting(way.room_bytes, HEADER_BYTES + usize::from(granted.payload_bytes)),
    }
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
    client: bool,
) -> SessionParams {
    let (server_end, client_end) = ((granted.session, granted.tag), (offer.session, offer.tag));
    let (peer, local) = if client { (server_end, client_end) } else { (client_end, server_end) };
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
        checksum: offer.checksum,
    }
}
