//! A channel's servers and sessions: which to connect or close, and which session gets each call.
//!
//! [`ChannelCore`] does no I/O and has no clock. Its inputs are addresses, the outcomes of connects
//! and sessions, and the ends of calls. Its outputs are [`Action`]s, and for each call a session or
//! an error. After each input, the driver must call [`ChannelCore::poll_action`] and
//! [`ChannelCore::poll_waiting`] until they return nothing, and again at
//! [`ChannelCore::next_timeout`].
//!
//! Calls that find no session with a free slot wait here in a FIFO queue, never in an endpoint. If
//! the first one has waited for a millisecond, or calls had to wait repeatedly for as long, another
//! session is opened, one at a time.
//!
//! Invariants: a session never has more calls than its capacity. A waiting call ends with a
//! session, its deadline or a failure, unless the driver withdraws it. Each connected server keeps
//! at least one session. At most one connect per server is under way.
//!
//! Access: only `sessions` changes call counts and the list of connected servers. Only `connect`
//! requests connects and closes idle sessions.

mod connect;
mod peer;
mod sessions;
mod waiting;

use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use petasos_base::{Rng, Time};

use crate::Status;
use crate::balance::{Balance, Balancer, Server};
pub use crate::session_index::{Avoid, SESSIONS_MAX, SessionIndex};
use peer::Peer;
pub use waiting::Ticket;
use waiting::{Waiter, Waiting};

/// The address of a server.
pub type Address = SocketAddr;

/// The greatest [`ChannelConfig::lookup_gap`].
const LOOKUP_GAP_MAX: Duration = Duration::from_secs(1);

/// The settings of a channel.
#[derive(Clone, Debug)]
pub struct ChannelConfig {
    /// How calls are balanced over servers.
    pub balance: Balance,
    /// Sessions carry streams; each can carry half as many streams as it has slots (R14).
    pub streams: bool,
    /// The addresses come from a name, which is looked up every 30 s and after failures. If false,
    /// [`Action::Resolve`] never occurs.
    pub resolves: bool,
    /// After failures, lookups are this far apart at first, and twice as far each time, up to a
    /// second.
    pub lookup_gap: Duration,
    /// The most calls that may wait; more fail with `RESOURCE_EXHAUSTED`.
    pub waiting_max: usize,
    /// How many sessions to a server are opened when calls wait, at most [`SESSIONS_MAX`].
    pub sessions_max: usize,
}

impl Default for ChannelConfig {
    fn default() -> ChannelConfig {
        let (balance, streams) = (Balance::default(), false);
        ChannelConfig {
            balance,
            streams,
            resolves: false,
            lookup_gap: LOOKUP_GAP_MAX,
            waiting_max: 65_536,
            sessions_max: SESSIONS_MAX,
        }
    }
}

/// A server of a channel. It is valid only for this channel; if the server is gone, inputs with it
/// are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerIndex {
    number: u32,
    generation: u32,
}

/// Options of a call for choosing its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallOptions {
    /// While no server is reachable, the call waits instead of failing.
    pub wait_for_ready: bool,
    /// When the call fails if it still waits; [`Time::NEVER`] for never.
    pub deadline: Time,
    /// The sessions of its earlier attempts. The call goes to a server where no attempt has been,
    /// if one has room; the server of the latest attempt is the last choice. At a server, it goes
    /// to a session that no attempt has used.
    pub avoid: Avoid,
}

impl Default for CallOptions {
    fn default() -> CallOptions {
        CallOptions { wait_for_ready: false, deadline: Time::NEVER, avoid: Avoid::default() }
    }
}

/// The result of choosing a session for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// The call uses a slot of this session until [`ChannelCore::handle_ended`].
    Session(SessionIndex),
    /// It waits; [`ChannelCore::poll_waiting`] will say where it goes.
    Wait(Ticket),
    /// The call fails.
    Fail(PickError),
}

/// Why a call got no session. It has not been sent. For the retry policy, this counts as an answer
/// with that status: if the channel fails, a transparent retry would fail, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PickError {
    /// All servers have failed since they were last connected. A later retry may succeed.
    #[error("none of {servers} servers can be reached; {last} failed last")]
    Unreachable {
        /// The number of servers.
        servers: usize,
        /// The server that failed last.
        last: Address,
    },
    /// The channel's name has no addresses. A later retry may succeed.
    #[error("no address is known of the server")]
    NoAddress,
    /// The call's deadline passed while it waited.
    #[error("the deadline passed before a server had room")]
    DeadlineExceeded,
    /// More calls wait than the channel's configuration allows. The application's fault.
    #[error("too many calls wait for a server")]
    TooManyWaiting,
}

impl From<PickError> for Status {
    fn from(error: PickError) -> Status {
        match error {
            PickError::Unreachable { .. } | PickError::NoAddress => {
                Status::unavailable(error.to_string())
            }
            PickError::DeadlineExceeded => Status::deadline_exceeded(error.to_string()),
            PickError::TooManyWaiting => Status::resource_exhausted(error.to_string()),
        }
    }
}

/// An action for the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open a session; then [`ChannelCore::handle_connected`] or [`ChannelCore::handle_failed`].
    Connect {
        /// The server.
        peer: PeerIndex,
        /// Its address.
        address: Address,
        /// The number of slots to request.
        slots: u32,
    },
    /// Close a session without calls. The core has forgotten it already.
    Close(SessionIndex),
    /// Probe the server with a bind, then call [`ChannelCore::handle_probed`]. The probe uses a
    /// slot.
    Probe(SessionIndex),
    /// Look the name up, then call [`ChannelCore::handle_resolved`] or
    /// [`ChannelCore::handle_unresolved`].
    Resolve,
}

/// The connection state of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// Not connected, and no attempt is planned: there were no calls, or another server is used.
    Idle,
    /// The first session is being opened.
    Connecting,
    /// Connected; calls can go there.
    Ready,
    /// The last attempt failed, and the next is not due.
    BackingOff,
}

/// The state of one channel.
#[derive(Debug)]
pub struct ChannelCore {
    config: ChannelConfig,
    balancer: Balancer,
    /// Indexed by number. The unused ones are in `free`.
    peers: Vec<Peer>,
    free: Vec<u32>,
    by_address: HashMap<Address, u32>,
    /// The listed peers, in the order of the latest list.
    order: Vec<u32>,
    /// The connected peers that are on the list.
    servers: Vec<Server>,
    waiting: Waiting,
    actions: VecDeque<Action>,
    /// The error for calls while no server is reachable.
    failing: Option<PickError>,
    last_failed: Option<Address>,
    /// There was a call, so connections are wanted.
    wanted: bool,
    /// There was an input, so there may be new work.
    dirty: bool,
    /// When `connect` next has work without an input.
    wake_at: Time,
    /// The peer to which an additional session is being opened.
    growing: Option<u32>,
    /// Whether calls have to wait repeatedly.
    pressure: connect::Pressure,
    /// When to look for idle sessions next.
    shrink_at: Time,
    lookups: connect::Lookups,
    generation: u32,
}

impl ChannelCore {
    /// A channel without addresses.
    pub fn new(config: ChannelConfig) -> ChannelCore {
        ChannelCore {
            balancer: Balancer::new(config.balance),
            waiting: Waiting::default(),
            lookups: connect::Lookups::new(config.resolves, config.lookup_gap),
            config,
            peers: Vec::new(),
            free: Vec::new(),
            by_address: HashMap::new(),
            order: Vec::new(),
            servers: Vec::new(),
            actions: VecDeque::new(),
            failing: None,
            last_failed: None,
            wanted: false,
            dirty: true,
            wake_at: Time::NEVER,
            growing: None,
            pressure: connect::Pressure::default(),
            shrink_at: Time::NEVER,
            generation: 0,
        }
    }

    /// Connects without waiting for a call.
    pub fn connect(&mut self) {
        self.dirty |= !self.wanted;
        self.wanted = true;
    }

    /// Chooses a session for a new call.
    pub fn pick(&mut self, call: CallOptions, now: Time, rng: &mut Rng) -> Pick {
        if self.waiting.is_empty()
            && let Some(session) = self.assign(&call.avoid, now, rng)
        {
            return Pick::Session(session);
        }
        self.connect();
        match self.refuse(call, now) {
            Some(error) => Pick::Fail(error),
            None => {
                self.pressure.on_wait(now);
                if self.waiting.is_empty() {
                    self.wake_at = self.wake_at.min(self.pressure.due());
                }
                Pick::Wait(self.waiting.push(Waiter { call, since: now }))
            }
        }
    }

    /// A waiting call that now gets a session, or fails. Call this until it returns `None`, after
    /// each input and at [`ChannelCore::next_timeout`].
    pub fn poll_waiting(
        &mut self,
        now: Time,
        rng: &mut Rng,
    ) -> Option<(Ticket, Result<SessionIndex, PickError>)> {
        if let Some(ticket) = self.waiting.pop_expired(now) {
            return Some((ticket, Err(PickError::DeadlineExceeded)));
        }
        if let Some(error) = self.failing
            && let Some(ticket) = self.waiting.pop_impatient()
        {
            return Some((ticket, Err(error)));
        }
        let avoid = self.waiting.first()?.call.avoid;
        let session = self.assign(&avoid, now, rng)?;
        let ticket = self.waiting.pop_first().expect("there is a first one");
        Some((ticket, Ok(session)))
    }

    /// Withdraws a waiting call. Ignored if the call does not wait.
    pub fn handle_abandoned(&mut self, ticket: Ticket) {
        self.waiting.remove(ticket);
    }

    /// The next action. Call this until it returns `None`, like [`ChannelCore::poll_waiting`].
    pub fn poll_action(&mut self, now: Time) -> Option<Action> {
        if self.dirty || now >= self.wake_at {
            self.dirty = false;
            self.work(now);
        }
        self.actions.pop_front().or_else(|| self.probe())
    }

    /// When to poll again if there is no input before.
    pub fn next_timeout(&self) -> Time {
        self.wake_at.min(self.waiting.next_deadline())
    }

    /// Whether a server is connected.
    pub fn is_ready(&self) -> bool {
        !self.servers.is_empty()
    }

    /// The number of waiting calls.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The number of slots in use.
    pub fn running(&self) -> usize {
        self.servers.iter().map(|server| server.running as usize).sum()
    }

    /// The number of sessions to a server.
    pub fn sessions(&self, peer: PeerIndex) -> usize {
        self.peer(peer).map_or(0, |peer| peer.sessions().count())
    }

    /// Handles news that servers may be reachable again: attempts that wait may begin now.
    pub fn handle_reachable(&mut self) {
        self.peers.iter_mut().for_each(|peer| peer.backoff = peer::Backoff::default());
        self.dirty = true;
    }

    /// Whether calls fail, unless they wait for a server to be ready.
    pub fn is_failing(&self) -> bool {
        self.failing.is_some()
    }

    /// Whether a session is there and gets calls.
    pub fn is_open(&self, session: SessionIndex) -> bool {
        let peer = self.peers.get(session.peer as usize);
        peer.is_some_and(|peer| peer.is_session_open(session))
    }

    /// The state of a server; `None` if it is no longer on the list.
    pub fn state(&self, peer: PeerIndex, now: Time) -> Option<PeerState> {
        self.peer(peer).filter(|peer| peer.listed).map(|peer| peer.state(now))
    }

    /// The server with this address on the latest list.
    pub fn find(&self, address: &Address) -> Option<PeerIndex> {
        let &number = self.by_address.get(address)?;
        let peer = &self.peers[number as usize];
        peer.listed.then_some(PeerIndex { number, generation: peer.generation })
    }

    fn refuse(&self, call: CallOptions, now: Time) -> Option<PickError> {
        if call.deadline <= now {
            return Some(PickError::DeadlineExceeded);
        }
        if self.waiting.len() >= self.config.waiting_max {
            return Some(PickError::TooManyWaiting);
        }
        self.failing.filter(|_| !call.wait_for_ready)
    }

    fn peer(&self, index: PeerIndex) -> Option<&Peer> {
        let peer = self.peers.get(index.number as usize)?;
        (peer.generation == index.generation).then_some(peer)
    }

    fn peer_mut(&mut self, index: PeerIndex) -> Option<&mut Peer> {
        let peer = self.peers.get_mut(index.number as usize)?;
        (peer.generation == index.generation).then_some(peer)
    }

    fn next_generation(&mut self) -> u32 {
        self.generation = self.generation.wrapping_add(1);
        self.generation
    }
}
