//! The endpoint's tables of sessions.

use std::net::SocketAddr;

use petasos_base::{Time, prefetch, prefetch_head};
use petasos_buf::HugePages;
use petasos_control::ConnectParams;
use petasos_netio::{Origin, Route};
use petasos_proto::{ClientSession, ServerSession};

use crate::group::GROUP;
use crate::handler::ServerSessionId;
use crate::kept::Kept;
use crate::quota::HolderId;
use crate::secure::Secure;

/// Identifies a client session of an endpoint. The id of a closed session is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl SessionId {
    /// The external session with this place and generation.
    pub(crate) fn external(place: u32, generation: u32) -> SessionId {
        SessionId { index: EXTERNAL + place, generation }
    }

    /// The attachment to a group with this place and generation.
    pub(crate) fn group(place: u32, generation: u32) -> SessionId {
        SessionId { index: GROUP + place, generation }
    }

    /// Whether it is an attachment to a group's router: its calls are routed
    /// ([`crate::Context::enqueue_routed`]).
    #[inline]
    pub fn is_group(self) -> bool {
        self.index / GROUP == 1
    }

    /// Whether a carrier has its calls ([`crate::ExternalEvent`]).
    #[inline]
    pub fn is_external(self) -> bool {
        self.index >= EXTERNAL
    }

    /// Its place among the sessions of its kind: external, of a group, or neither. A later session
    /// may have the same.
    #[inline(always)]
    pub fn place(self) -> usize {
        (self.index & (GROUP - 1)) as usize
    }

    /// The session's index in the endpoint's table. A later session may reuse it.
    #[inline(always)]
    pub fn index(self) -> u32 {
        self.index
    }
}

/// External sessions, which are in no table, have indices from this one on. No other session has.
pub(crate) const EXTERNAL: u32 = 1 << 31;

/// A client's offer of a session to a server. The control protocol carries it.
#[derive(Clone, Copy, Debug)]
pub struct SessionOffer {
    /// The session that the server's answer will establish.
    pub session: SessionId,
    /// What to ask the server for.
    pub params: ConnectParams,
}

/// The state of a client session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionState {
    /// It is being set up.
    Connecting,
    /// Calls can be made.
    Ready,
    /// Its peer failed or refused it. Close it and open another.
    Failed,
    /// It does not exist, or no longer.
    Unknown,
}

/// Identifies the control connection of a session. The session fails when the connection does.
pub(crate) type PeerId = u64;

/// A client session. `C` is what is kept with each call.
///
/// The first cache line holds what a timer reads when it finds the session idle. The first
/// [`ClientEntry::HOT_BYTES`] hold what a call of one packet touches.
#[repr(C, align(64))]
pub(crate) struct ClientEntry<C> {
    pub(crate) generation: u32,
    /// The tag that packets to this session carry.
    pub(crate) tag: u32,
    /// Whether the session is on the list of those that may have something to send.
    pub(crate) dirty: bool,
    /// Whether the session waits in the pacing wheel. It is never in there twice.
    pub(crate) parked: bool,
    /// Where its packets come from; known once it is ready.
    pub(crate) origin: Origin,
    /// The retransmission timeout of a packet sent before this time ends before `timer_at`, so the
    /// timer has to be set again for it.
    pub(crate) rearm_before: Time,
    /// When the session's live timer entry fires.
    pub(crate) timer_at: Time,
    pub(crate) state: ClientState<C>,
    pub(crate) peer: Option<PeerId>,
    /// The holder that the session is counted for.
    pub(crate) holder: HolderId,
    /// Who the server is, and the session's keys; `None` in plaintext.
    pub(crate) secure: Option<Box<Secure>>,
}

impl<C> ClientEntry<C> {
    /// The offset of the [`ClientSession`] in bytes: the tag of the state and the route precede it.
    /// It is used only for prefetching, so a wrong value would do no harm.
    const SESSION_AT: usize = core::mem::offset_of!(ClientEntry<C>, state) + 8;
    /// Bytes from the start that nearly every call touches.
    pub(crate) const HOT_BYTES: usize = Self::SESSION_AT + ClientSession::<C>::HOT_BYTES;
    /// Bytes from the start that a timer touches when it finds nothing to do.
    pub(crate) const REST_BYTES: usize = Self::SESSION_AT + ClientSession::<C>::REST_BYTES;

    /// Whether the timer has to be set again for a packet that is sent now.
    #[inline(always)]
    pub(crate) fn needs_timer(&self, now: Time) -> bool {
        now < self.rearm_before
    }

    /// Notes that the timer fires at `at`.
    pub(crate) fn set_timer(&mut self, at: Time) {
        self.timer_at = at;
        self.rearm_before = match at {
            Time::NEVER => Time::NEVER,
            at => {
                let rto_ns = self.state.ready().map_or(0, |(session, _)| session.timer_ns());
                Time::from_nanos(at.as_nanos().saturating_sub(rto_ns))
            }
        };
    }
}

#[allow(
    clippy::large_enum_variant,
    reason = "nearly every session is ready, and a box would cost each packet a cache miss"
)]
#[repr(u32)]
pub(crate) enum ClientState<C> {
    Connecting,
    Ready { route: Route, session: ClientSession<C> },
    Failed,
}

impl<C> ClientState<C> {
    /// The established session and its route.
    pub(crate) fn ready(&mut self) -> Option<(&mut ClientSession<C>, Route)> {
        match self {
            ClientState::Ready { session, route } => Some((session, *route)),
            _ => None,
        }
    }
}

/// The established session in `entry`.
#[inline]
pub(crate) fn ready<C>(entry: &mut ClientEntry<C>) -> Option<&mut ClientSession<C>> {
    match &mut entry.state {
        ClientState::Ready { session, .. } => Some(session),
        _ => None,
    }
}

/// A server's session with a client.
#[repr(C, align(64))]
pub(crate) struct ServerEntry {
    pub(crate) id: ServerSessionId,
    pub(crate) route: Route,
    /// Where its packets come from.
    pub(crate) origin: Origin,
    pub(crate) session: ServerSession<Kept>,
    pub(crate) dirty: bool,
    /// The tag that packets to this session carry.
    pub(crate) tag: u32,
    pub(crate) peer: Option<PeerId>,
    /// Who the client is, and the session's keys; `None` in plaintext.
    pub(crate) secure: Option<Box<Secure>>,
    /// The client's address. Rarely read, so it is boxed.
    pub(crate) from: Box<ClientAddress>,
    pub(crate) pulls: Pulls,
    /// Bytes of memory taken for requests that have not arrived completely.
    pub(crate) assembling: u64,
    /// When a packet of such a request last arrived.
    pub(crate) assembled_at: Time,
}

/// What a client has pulled (W19).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pulls {
    /// The last turn in which packets were pulled.
    turn: u64,
    /// How many packets were pulled in that turn.
    packets: u32,
    /// The request whose response was last pulled, and the end of the packets pulled so far.
    reached: (u64, u32),
}

impl Pulls {
    /// Takes as many of `packets` as a session with `credits_max` may send in this turn.
    pub(crate) fn take(&mut self, turn: u64, credits_max: u32, packets: u32) -> u32 {
        if self.turn != turn {
            (self.turn, self.packets) = (turn, 0);
        }
        let taken = packets.min(credits_max - self.packets);
        self.packets += taken;
        taken
    }

    /// Notes that packets `start..end` of the response to `request` were pulled. Whether some of
    /// them were pulled before.
    pub(crate) fn note(&mut self, request: u64, (start, end): (u32, u32)) -> bool {
        let (of, reached) = self.reached;
        let before = if of == request { reached } else { 0 };
        self.reached = (request, before.max(end));
        start < before
    }
}

/// A client's address, and the holder that its session is counted for.
pub(crate) struct ClientAddress {
    pub(crate) address: SocketAddr,
    /// The holder that the session is counted for.
    pub(crate) holder: HolderId,
    /// Whether its packets come through shared memory.
    pub(crate) shared_memory: bool,
}

impl ServerEntry {
    /// Bytes from the start that nearly every request touches.
    pub(crate) const HOT_BYTES: usize =
        core::mem::offset_of!(ServerEntry, session) + ServerSession::<Kept>::HOT_BYTES;
}

/// Up to this many sessions stay in the CPU's caches: to prefetch them, or to put them on huge
/// pages, would cost more than it gains.
pub(crate) const FEW_SESSIONS: u32 = 512;

/// Boxed entries by index. The index that was freed first is reused first, so that a late packet
/// for a closed session rarely finds a new session (whose tag would differ anyway).
pub(crate) struct Table<T> {
    entries: Vec<Option<Box<T>>>,
    free: std::collections::VecDeque<u32>,
    len: u32,
    len_max: u32,
    huge_pages: HugePages,
}

impl<T> Table<T> {
    pub(crate) fn new(len_max: u32) -> Table<T> {
        // Those above are of pairs (RT10).
        let len_max = len_max.min(petasos_proto::pairs::PAIR_BIT);
        let (entries, free) = (Vec::new(), std::collections::VecDeque::new());
        Table { entries, free, len: 0, len_max, huge_pages: HugePages::default() }
    }

    /// Adds the entry that `make` returns for a free index, and returns the index. Returns `None`
    /// if `make` does, or if the table is full.
    pub(crate) fn insert_with(&mut self, make: impl FnOnce(u32) -> Option<T>) -> Option<u32> {
        if self.len >= self.len_max {
            return None;
        }
        let index = self.free.front().copied().unwrap_or(self.entries.len() as u32);
        let entry = Box::new(make(index)?);
        if self.len > FEW_SESSIONS {
            self.huge_pages.note(&*entry);
        }
        let entry = Some(entry);
        if self.free.pop_front().is_some() {
            self.entries[index as usize] = entry;
        } else {
            self.entries.push(entry);
        }
        self.len += 1;
        Some(index)
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<Box<T>> {
        let entry = self.entries.get_mut(index as usize)?.take()?;
        self.free.push_back(index);
        self.len -= 1;
        Some(entry)
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.entries.get(index as usize)?.as_deref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.at_mut(index as usize)
    }

    #[inline(always)]
    pub(crate) fn at_mut(&mut self, at: usize) -> Option<&mut T> {
        self.entries.get_mut(at)?.as_deref_mut()
    }

    #[inline(always)]
    pub(crate) fn at(&self, at: usize) -> Option<&T> {
        self.entries.get(at)?.as_deref()
    }

    /// Prefetches the pointer to the entry, which [`Table::prefetch`] follows.
    #[inline(always)]
    pub(crate) fn prefetch_place(&self, at: usize) {
        if let Some(place) = self.entries.get(at) {
            prefetch(place);
        }
    }

    /// Prefetches the first `hot_bytes` of the entry.
    #[inline(always)]
    pub(crate) fn prefetch(&self, at: usize, hot_bytes: usize) {
        if let Some(entry) = self.at(at) {
            prefetch_head(entry, hot_bytes);
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.entries.iter().enumerate().filter_map(|(at, e)| Some((at as u32, e.as_deref()?)))
    }

    /// The size of the table and its entries in bytes, without what the entries point to.
    pub(crate) fn footprint_bytes(&self) -> usize {
        let table = self.entries.capacity() * size_of::<Option<Box<T>>>();
        table + self.len as usize * size_of::<T>()
    }
}
