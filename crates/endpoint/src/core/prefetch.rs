//! Prefetching sessions before their packets, calls and timers are processed.
//!
//! With thousands of sessions, every packet and every call needs a session that is in no cache: a
//! dozen cache lines on either side, one miss after the other, which costs several times the call
//! itself. The packets of a batch show early which sessions will be needed; so do the due timers,
//! and a client that chooses its sessions ahead can say so ([`Context::will_call`]). A wrong
//! prefetch is only useless: nothing here changes what happens.
//!
//! A session is prefetched in three steps, since a table holds the session's address, and the
//! session holds that of its slots.

use petasos_netio::{Frame, Frames};
use petasos_wire::RawPacket;

use super::{CallContext, Context, Core};
use crate::sessions::{ClientEntry, ClientState, FEW_SESSIONS, ServerEntry, SessionId};

/// How many packets ahead a session's entry in the table, the session, and then its slots are
/// prefetched. Each packet ahead gives the memory about 40 ns.
const PLACES_AHEAD: usize = 16;
const SESSIONS_AHEAD: usize = 12;
const SLOTS_AHEAD: usize = 6;
/// How many timers ahead their sessions are fetched.
pub(crate) const TIMERS_AHEAD: usize = 8;
/// How many hints lie between prefetching a session's entry in the table and the session, and
/// between that and its slots.
const HINTS_BETWEEN: usize = 3;
const HINTS: usize = 8;

/// Three positions ahead of the next frame of a batch.
pub(crate) struct Prefetcher<'a> {
    places: Frames<'a>,
    sessions: Frames<'a>,
    slots: Frames<'a>,
}

impl<'a> Prefetcher<'a> {
    /// Looks ahead of `frames`.
    pub(crate) fn new<S>(core: &Core<S>, frames: &Frames<'a>) -> Prefetcher<'a> {
        let (places, sessions, slots) = (frames.clone(), frames.clone(), frames.clone());
        let mut prefetcher = Prefetcher { places, sessions, slots };
        for _ in SESSIONS_AHEAD..PLACES_AHEAD {
            prefetcher.fetch_place(core);
        }
        for _ in SLOTS_AHEAD..SESSIONS_AHEAD {
            prefetcher.fetch_place(core);
            prefetcher.fetch_session(core);
        }
        for _ in 0..SLOTS_AHEAD {
            prefetcher.step(core);
        }
        prefetcher
    }

    /// Call this once before each frame is handled.
    #[inline]
    pub(crate) fn step<S>(&mut self, core: &Core<S>) {
        self.fetch_place(core);
        self.fetch_session(core);
        self.fetch_slot(core);
    }

    #[inline]
    fn fetch_place<S>(&mut self, core: &Core<S>) {
        let Some(raw) = next(&mut self.places) else { return };
        match raw.from_server() {
            true => core.clients.prefetch_place(raw.session()),
            false => core.servers.prefetch_place(raw.session()),
        }
    }

    #[inline]
    fn fetch_session<S>(&mut self, core: &Core<S>) {
        let Some(raw) = next(&mut self.sessions) else { return };
        if raw.from_server() {
            core.clients.prefetch(raw.session(), ClientEntry::<CallContext<S>>::HOT_BYTES);
        } else {
            core.servers.prefetch(raw.session(), ServerEntry::HOT_BYTES);
        }
    }

    #[inline]
    fn fetch_slot<S>(&mut self, core: &Core<S>) {
        let Some(raw) = next(&mut self.slots) else { return };
        if raw.from_server() {
            return;
        }
        if let Some(entry) = core.servers.at(raw.session()) {
            entry.session.prefetch_slot(raw.request());
        }
    }
}

#[inline]
fn next<'a>(frames: &mut Frames<'a>) -> Option<RawPacket<'a>> {
    frames.next().and_then(|Frame { bytes, .. }| RawPacket::read(bytes))
}

/// The sessions that the client has named most recently.
#[derive(Default)]
pub(crate) struct Hints {
    latest: [u32; HINTS],
    next: usize,
}

impl Hints {
    /// Notes that `index` was named.
    fn push(&mut self, index: u32) {
        self.latest[self.next % HINTS] = index;
        self.next = self.next.wrapping_add(1);
    }

    /// The session that was named this many hints before the latest.
    fn before(&self, hints: usize) -> usize {
        self.latest[self.next.wrapping_sub(1 + hints) % HINTS] as usize
    }
}

const _: () = assert!(HINTS.is_power_of_two() && HINTS > 2 * HINTS_BETWEEN);

impl<S> Core<S> {
    /// Whether there are so many sessions that few of them are in the caches.
    #[inline]
    pub(crate) fn looks_ahead(&self) -> bool {
        self.servers.len() > FEW_SESSIONS || self.clients.len() > FEW_SESSIONS
    }
}

impl<S> Context<S> {
    /// Hints that a call on `session` follows soon: about eight to sixteen calls from now is best.
    /// With thousands of sessions it saves the call from waiting for memory; it changes nothing
    /// else.
    #[inline]
    pub fn will_call(&mut self, session: SessionId) {
        let Core { clients, hints, .. } = &mut self.core;
        hints.push(session.index);
        clients.prefetch_place(session.index as usize);
        let later = hints.before(HINTS_BETWEEN);
        clients.prefetch(later, ClientEntry::<CallContext<S>>::HOT_BYTES);
        if let Some(entry) = clients.at(hints.before(2 * HINTS_BETWEEN))
            && let ClientState::Ready { session, .. } = &entry.state
        {
            session.prefetch_next();
        }
    }
}
