//! Fetching sessions before their packets, calls and timers come to them.
//!
//! With thousands of sessions every packet and every call finds a session that lies in memory
//! only: a dozen cache lines on either side, each waited for in turn, which is several times what
//! the call itself costs. The packets of a batch say early which sessions come, so do the timers
//! that are due, and a client that picks its sessions ahead can ([`Context::will_call`]). What is
//! fetched is never wrong, only useless at worst: nothing here changes what happens.
//!
//! A session is fetched in two steps, since where its slots lie stands in the session.

use petasos_netio::{Frame, Frames};
use petasos_wire::RawPacket;

use super::{CallContext, Context, Core};
use crate::sessions::{ClientEntry, ClientState, ServerEntry, SessionId};

/// With no more sessions than this, looking ahead costs more than it brings: they stay in the
/// caches.
const FEW_SESSIONS: u32 = 512;
/// How many packets ahead sessions, and then their slots, are fetched. Each packet ahead gives the
/// memory about 40 ns.
const SESSIONS_AHEAD: usize = 12;
const SLOTS_AHEAD: usize = 6;
/// How many timers ahead their sessions are fetched.
pub(crate) const TIMERS_AHEAD: usize = 8;
/// How many hints lie between fetching a session and its slots.
const HINTS: usize = 4;

/// Two places ahead of the next frame of a batch.
pub(crate) struct Prefetcher<'a> {
    sessions: Frames<'a>,
    slots: Frames<'a>,
}

impl<'a> Prefetcher<'a> {
    /// Looks ahead of `frames`.
    pub(crate) fn new<S>(core: &Core<S>, frames: &Frames<'a>) -> Prefetcher<'a> {
        let mut prefetcher = Prefetcher { sessions: frames.clone(), slots: frames.clone() };
        for _ in SLOTS_AHEAD..SESSIONS_AHEAD {
            prefetcher.fetch_session(core);
        }
        for _ in 0..SLOTS_AHEAD {
            prefetcher.step(core);
        }
        prefetcher
    }

    /// To be called once before each frame is handled.
    #[inline]
    pub(crate) fn step<S>(&mut self, core: &Core<S>) {
        self.fetch_session(core);
        self.fetch_slot(core);
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

/// The sessions that the client named last.
#[derive(Default)]
pub(crate) struct Hints {
    latest: [u32; HINTS],
    next: usize,
}

impl<S> Core<S> {
    /// Whether there are so many sessions that few of them are in the caches.
    #[inline]
    pub(crate) fn looks_ahead(&self) -> bool {
        self.servers.len() > FEW_SESSIONS || self.clients.len() > FEW_SESSIONS
    }
}

impl<S> Context<S> {
    /// Hints that a call on `session` comes soon: about four to sixteen calls from now is best.
    /// Worth it with thousands of sessions, where it saves the call from waiting for memory; it
    /// changes nothing else.
    #[inline]
    pub fn will_call(&mut self, session: SessionId) {
        let core = &mut self.core;
        core.clients.prefetch(session.index as usize, ClientEntry::<CallContext<S>>::HOT_BYTES);
        let at = core.hints.next % HINTS;
        core.hints.next = at + 1;
        let earlier = core::mem::replace(&mut core.hints.latest[at], session.index);
        if let Some(entry) = core.clients.at(earlier as usize)
            && let ClientState::Ready { session, .. } = &entry.state
        {
            session.prefetch_next();
        }
    }
}
