//! A channel's servers and sessions: what to connect, what to close, and where each call goes.
//!
//! [`ChannelCore`] does no I/O and has no clock: in go addresses, what became of connects and
//! sessions, and the ends of calls; out come [`Action`]s, and for each call a session or a reason.
//! After any input the driver takes [`ChannelCore::poll_action`] and
//! [`ChannelCore::poll_waiting`] until they are empty, and comes back at
//! [`ChannelCore::next_timeout`].
//!
//! Calls for which no session has a slot wait here, first come, first served, never in an
//! endpoint. If the first has waited for a millisecond, or calls had to wait again and again for as
//! long, another session is opened, one at a time.
//!
//! Invariants: a session never has more calls than it carries; a call that waits ends by a session,
//! its deadline or a failure, unless the driver takes it back; of each server that is connected,
//! one session stays; at most one connect per server is under way.
//!
//! Who may touch what: only `sessions` changes counts of calls and the list of connected servers,
//! only `connect` asks for connects and closes idle sessions.

mod connect;
mod peer;
mod sessions;
mod waiting;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use petasos_base::{Rng, Time};

use crate::Status;
use crate::balance::{Balance, Balancer, Server};
pub use crate::session_index::{Avoid, SESSIONS_MAX, SessionIndex};
use peer::Peer;
pub use waiting::Ticket;
use waiting::{Waiter, Waiting};

/// Where a server is.
pub type Address = SocketAddr;

/// What a channel is made for.
#[derive(Clone, Debug)]
pub struct ChannelConfig {
    /// How calls are spread over servers.
    pub balance: Balance,
    /// The sessions carry streams, each half as many as it has slots (R14).
    pub streams: bool,
    /// The addresses come from a name, to be looked up every 30 s and after failures. Otherwise
    /// [`Action::Resolve`] never comes.
    pub resolves: bool,
    /// Calls that may wait; more fail with `RESOURCE_EXHAUSTED`.
    pub waiting_max: usize,
}

impl Default for ChannelConfig {
    fn default() -> ChannelConfig {
        let (balance, streams) = (Balance::default(), false);
        ChannelConfig { balance, streams, resolves: false, waiting_max: 65_536 }
    }
}

/// A server of a channel. Means nothing to another channel; one that is gone is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerIndex {
    number: u32,
    generation: u32,
}

/// What a call asks of a pick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallOptions {
    /// The call waits while no server can be reached, instead of failing.
    pub wait_for_ready: bool,
    /// When a call that waits fails; [`Time::NEVER`] for never.
    pub deadline: Time,
    /// Where its earlier attempts were or are. It goes to a server that none has been at, if one
    /// has room, otherwise rather not to that of the latest; within a server, to a session that
    /// none has been in.
    pub avoid: Avoid,
}

impl Default for CallOptions {
    fn default() -> CallOptions {
        CallOptions { wait_for_ready: false, deadline: Time::NEVER, avoid: Avoid::default() }
    }
}

/// Where a call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// To this session, of which it takes a slot until [`ChannelCore::handle_ended`].
    Session(SessionIndex),
    /// It waits; [`ChannelCore::poll_waiting`] will say where it goes.
    Wait(Ticket),
    /// Nowhere.
    Fail(PickError),
}

/// Why a call goes nowhere. It has not been sent. For the retry policy it counts as an answer with
/// that status: a channel that fails would fail a transparent retry as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PickError {
    /// All servers have failed since they were last connected; a later retry may find one.
    #[error("none of {servers} servers can be reached; {last} failed last")]
    Unreachable {
        /// How many there are.
        servers: usize,
        /// The one that failed last.
        last: Address,
    },
    /// The channel's name has no addresses; a later retry may find one.
    #[error("no address is known of the server")]
    NoAddress,
    /// The call's deadline passed while it waited.
    #[error("the deadline passed before a server had room")]
    DeadlineExceeded,
    /// More calls wait than the channel's configuration allows: the application's fault.
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

/// What the driver is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open a session; then [`ChannelCore::handle_connected`] or [`ChannelCore::handle_failed`].
    Connect {
        /// To whom.
        peer: PeerIndex,
        /// Where that is.
        address: Address,
        /// Slots to ask for.
        slots: u32,
    },
    /// Close a session, which has no calls. It is gone already.
    Close(SessionIndex),
    /// Probe the server with a bind; then [`ChannelCore::handle_probed`]. It takes a slot.
    Probe(SessionIndex),
    /// Look the name up; then [`ChannelCore::handle_resolved`] or
    /// [`ChannelCore::handle_unresolved`].
    Resolve,
}

/// How it stands with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// Not connected, and no attempt is made: nobody called, or another server is used.
    Idle,
    /// The first session is being opened.
    Connecting,
    /// Calls go there.
    Ready,
    /// The last attempt failed, and the next is not due.
    BackingOff,
}

/// The state of one channel.
#[derive(Debug)]
pub struct ChannelCore {
    config: ChannelConfig,
    balancer: Balancer,
    /// By number. Free ones are in `free`.
    peers: Vec<Peer>,
    free: Vec<u32>,
    by_address: HashMap<Address, u32>,
    /// The listed peers, as the latest list has them.
    order: Vec<u32>,
    /// The connected ones among the listed peers.
    servers: Vec<Server>,
    waiting: Waiting,
    actions: VecDeque<Action>,
    /// What calls fail with while no server can be reached.
    failing: Option<PickError>,
    last_failed: Option<Address>,
    /// Somebody has called, so connections are wanted.
    wanted: bool,
    /// An input may have brought something to do.
    dirty: bool,
    /// When `connect` has something to do without an input.
    wake_at: Time,
    /// The peer to which a session beyond its first is being opened.
    growing: Option<u32>,
    /// Whether calls have to wait again and again.
    pressure: connect::Pressure,
    /// When idle sessions are looked for.
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
            lookups: connect::Lookups::new(config.resolves),
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

    /// Where a new call goes.
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

    /// A call that waited and now goes somewhere, or fails. Taken until there is none, after any
    /// input and at [`ChannelCore::next_timeout`].
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

    /// A call that waits is not wanted any more. One that does not wait is ignored.
    pub fn handle_abandoned(&mut self, ticket: Ticket) {
        self.waiting.remove(ticket);
    }

    /// What to do next. Taken until there is nothing, as [`ChannelCore::poll_waiting`].
    pub fn poll_action(&mut self, now: Time) -> Option<Action> {
        if self.dirty || now >= self.wake_at {
            self.dirty = false;
            self.work(now);
        }
        self.actions.pop_front().or_else(|| self.probe())
    }

    /// When to poll again if nothing happens before.
    pub fn next_timeout(&self) -> Time {
        self.wake_at.min(self.waiting.next_deadline())
    }

    /// Whether a server is connected.
    pub fn is_ready(&self) -> bool {
        !self.servers.is_empty()
    }

    /// Calls that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Slots that calls have.
    pub fn running(&self) -> usize {
        self.servers.iter().map(|server| server.running as usize).sum()
    }

    /// Sessions to a server.
    pub fn sessions(&self, peer: PeerIndex) -> usize {
        self.peer(peer).map_or(0, |peer| peer.sessions().count())
    }

    /// How it stands with a server; `None` if it is not on the list any more.
    pub fn state(&self, peer: PeerIndex, now: Time) -> Option<PeerState> {
        self.peer(peer).filter(|peer| peer.listed).map(|peer| peer.state(now))
    }

    /// The server at an address of the latest list.
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
