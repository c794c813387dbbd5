//! What handlers and continuations may touch: everything of the endpoint but the packet I/O.
//!
//! Invariants:
//! - a session is on its dirty list exactly if its `dirty` flag is set;
//! - a client session is in the wheel `paced` exactly if its `parked` flag is set, and then once;
//!   entries of sessions that are gone are void;
//! - `request_bytes` is the sum of [`counted_bytes`] of the requests of all calls that have not
//!   ended.

use petasos_base::{Rng, Time, Wheel, random_seed};
use petasos_buf::{MsgBuf, Pool};
use petasos_proto::{ClientSession, ClientStats, CongestionConfig, CreditShare, ServerStats};

use crate::assemblies::Assemblies;
use crate::call::{CallContext, CallError, ResponseBoxes};
use crate::chores::Chore;
use crate::config::EndpointConfig;
use crate::faults::Faults;
use crate::handler::{Handler, RequestKey};
use crate::hooks::Hooks;
use crate::outside::Outside;
use crate::prefetch::{Hints, TIMERS_AHEAD};
use crate::quota::Holders;
use crate::sessions::{ClientEntry, ClientState, ServerEntry, SessionId, Table};
use crate::share::Half;
use crate::stats::LoopStats;
use crate::tags::Tags;
use crate::timers::{TimerEntry, TimerWheel};
use crate::tx_queue::{STAGED_PAYLOAD_BYTES_MAX, TxQueue};

/// Sessions that can be due or dirty in one turn before a list has to grow.
const LISTED_SESSIONS: usize = 64;

/// Width of the pacing wheel's slots and how far it reaches ahead, in nanoseconds (eRPC has 0.5 µs
/// and 2.2 ms). A session that waits longer is looked at, and parked again, at the reach.
const PACING_SLOT_NS: u64 = 512;
const PACING_REACH_NS: u64 = 2_000_000;

/// The longest request that is sent by copying it next to others, in bytes. Shorter ones do not
/// count against the limit of bytes in progress: slots and backlog bound their number.
pub(crate) const SHORT_REQUEST_BYTES_MAX: usize = STAGED_PAYLOAD_BYTES_MAX;

/// What a request of `bytes` counts against the limit of bytes in progress.
#[inline(always)]
pub(crate) fn counted_bytes(bytes: usize) -> usize {
    if bytes > SHORT_REQUEST_BYTES_MAX { bytes } else { 0 }
}

/// A call that is over without a response, whose continuation is still to be run.
pub(crate) struct Finished<S> {
    pub(crate) session: SessionId,
    pub(crate) context: CallContext<S>,
    pub(crate) error: CallError,
}

pub(crate) struct Core<S> {
    pub(crate) now: Time,
    pub(crate) config: EndpointConfig,
    pub(crate) pool: Pool,
    pub(crate) clients: Table<ClientEntry<S>>,
    pub(crate) servers: Table<ServerEntry>,
    /// By method; gaps are [`crate::receive::refuse`].
    pub(crate) handlers: Vec<Handler<S>>,
    pub(crate) tx: TxQueue,
    pub(crate) dirty_clients: Vec<u32>,
    pub(crate) dirty_servers: Vec<u32>,
    pub(crate) finished: Vec<Finished<S>>,
    pub(crate) response_boxes: ResponseBoxes,
    pub(crate) timers: TimerWheel,
    /// Of every client session opened from now on.
    pub(crate) congestion: CongestionConfig,
    /// Client sessions that wait until their pace lets them send. Packets never wait anywhere.
    pub(crate) paced: Wheel<TimerEntry>,
    pub(crate) due: Vec<TimerEntry>,
    /// Which sessions share the room of the receive queue.
    pub(crate) share: CreditShare<Half>,
    pub(crate) assemblies: Assemblies,
    pub(crate) holders: Holders,
    pub(crate) request_bytes: usize,
    pub(crate) generation: u32,
    pub(crate) chores: Vec<Chore>,
    /// When paths are no longer in doubt.
    pub(crate) trust_at: Time,
    /// Whether requests are refused; there are no handlers then, unless they drain themselves.
    pub(crate) draining: bool,
    pub(crate) hooks: Hooks<S>,
    /// Requests whose sessions are gone, for the hook to be told.
    pub(crate) abandoned: Vec<RequestKey>,
    pub(crate) tags: Tags,
    pub(crate) faults: Option<Faults>,
    pub(crate) stats: LoopStats,
    pub(crate) closed_clients: ClientStats,
    pub(crate) closed_servers: ServerStats,
    pub(crate) outside: Outside,
    pub(crate) hints: Hints,
    /// Where the packet at hand is opened (W27); empty until one is, and while one is handled.
    pub(crate) opened: Vec<u8>,
}

impl<S> Core<S> {
    pub(crate) fn new(config: EndpointConfig, congestion: CongestionConfig, now: Time) -> Core<S> {
        let mut rng = Rng::new(config.seed.unwrap_or_else(random_seed));
        Core {
            now,
            pool: Pool::new(config.pool),
            clients: Table::new(config.sessions_max),
            servers: Table::new(config.sessions_max),
            handlers: Vec::new(),
            tx: TxQueue::default(),
            dirty_clients: Vec::with_capacity(LISTED_SESSIONS),
            dirty_servers: Vec::with_capacity(LISTED_SESSIONS),
            finished: Vec::new(),
            response_boxes: ResponseBoxes::default(),
            timers: TimerWheel::new(now),
            congestion,
            paced: Wheel::new(PACING_SLOT_NS, PACING_REACH_NS),
            due: Vec::with_capacity(LISTED_SESSIONS),
            share: CreditShare::default(),
            assemblies: Assemblies::default(),
            holders: Holders::default(),
            request_bytes: 0,
            generation: 0,
            chores: Vec::new(),
            trust_at: Time::NEVER,
            draining: false,
            hooks: Hooks::default(),
            abandoned: Vec::new(),
            faults: config.faults.map(|faults| Faults::new(faults, rng.next_u64())),
            tags: Tags::new(config.seed.map(|_| rng.next_u64())),
            stats: LoopStats::default(),
            closed_clients: ClientStats::default(),
            closed_servers: ServerStats::default(),
            outside: Outside::default(),
            hints: Hints::default(),
            opened: Vec::new(),
            config,
        }
    }

    /// The loop's counters.
    pub(crate) fn loop_stats(&self) -> LoopStats {
        LoopStats { transmit_unsealed: self.tx.unsealed, ..self.stats }
    }

    pub(crate) fn next_generation(&mut self) -> u32 {
        self.generation += 1;
        self.generation
    }

    /// The session that `id` names, if it exists.
    #[inline]
    pub(crate) fn client_mut(&mut self, id: SessionId) -> Option<&mut ClientEntry<S>> {
        self.clients.get_mut(id.index).filter(|entry| entry.generation == id.generation)
    }

    /// Puts the session on the list of those that may have something to send.
    #[inline]
    pub(crate) fn touch_client(&mut self, index: u32) {
        if let Some(entry) = self.clients.get_mut(index)
            && !entry.dirty
        {
            entry.dirty = true;
            self.dirty_clients.push(index);
        }
    }

    #[inline]
    pub(crate) fn touch_server(&mut self, index: u32) {
        if let Some(entry) = self.servers.get_mut(index)
            && !entry.dirty
        {
            entry.dirty = true;
            self.dirty_servers.push(index);
        }
    }

    /// Takes a buffer from the pool, counting failure.
    pub(crate) fn take_buffer(&mut self, len: usize) -> Option<MsgBuf> {
        let taken = self.pool.take(len).ok();
        self.stats.out_of_memory += u64::from(taken.is_none());
        taken
    }

    /// Notes that a call is over without a response; its continuation runs later in this turn.
    pub(crate) fn finish_later(
        &mut self,
        session: SessionId,
        mut context: CallContext<S>,
        error: CallError,
    ) {
        self.request_bytes -= counted_bytes(context.request.len());
        if let Some(response) = context.response.take() {
            let response = self.response_boxes.take(response);
            self.forget_response(session.index, &response);
            self.pool.give(response);
        }
        self.finished.push(Finished { session, context, error });
    }

    /// Ends every call of a session and leaves it failed.
    pub(crate) fn fail_client(&mut self, id: SessionId, error: CallError) {
        let Some(entry) = self.client_mut(id) else { return };
        let state = core::mem::replace(&mut entry.state, ClientState::Failed);
        self.tx.forget_session(id.index, false);
        if let ClientState::Ready { mut session, route } = state {
            for (context, was_sent) in session.fail_all() {
                let error = if was_sent { error } else { CallError::NotSent };
                self.finish_later(id, context, error);
            }
            self.closed_clients.add(&session.stats());
            self.chores.push(Chore::Release(route));
        }
    }

    /// Forgets a server session. Handlers that have not answered will find their handle void.
    pub(crate) fn drop_server(&mut self, index: u32) {
        let Some(entry) = self.servers.remove(index) else { return };
        self.forget_assemblies(entry.from.holder, entry.assembling);
        let slots = entry.session.params().slots;
        self.holders.give(entry.from.holder, slots);
        self.tx.forget_session(index, true);
        if self.hooks.on_abandoned.is_some() {
            let (session, generation) = (index, entry.generation);
            let name = |request| RequestKey { session, generation, request };
            let slots = 0..entry.session.params().slots;
            let latest = slots.map(|slot| entry.session.request_in(slot));
            let running = latest.filter(|request| entry.session.is_running(*request));
            self.abandoned.extend(running.map(name));
        }
        self.closed_servers.add(entry.session.stats());
        self.chores.push(Chore::Release(entry.route));
        for buf in entry.session.into_kept().filter_map(|mut kept| kept.take()) {
            self.pool.give(buf);
        }
    }

    /// Gives every session on the dirty lists its chance to send.
    #[inline]
    pub(crate) fn pump(&mut self) {
        while let Some(index) = self.dirty_clients.pop() {
            self.pump_client(index);
        }
        while let Some(index) = self.dirty_servers.pop() {
            self.pump_server(index);
        }
    }

    /// Goes through the sessions whose timers are due, or whose pace lets them send again.
    pub(crate) fn run_timers(&mut self) {
        if self.paced.is_due(self.now) {
            self.unpark();
        }
        if !self.timers.is_due(self.now) {
            return;
        }
        // Once a tick is often enough.
        if self.share.is_due(self.now) {
            self.end_share_epoch();
        }
        if self.trust_at <= self.now {
            self.trust_paths();
        }
        let mut due = core::mem::take(&mut self.due);
        self.timers.fire(self.now, &mut due);
        for (at, entry) in due.iter().enumerate() {
            if let Some(ahead) = due.get(at + TIMERS_AHEAD) {
                self.clients.prefetch(ahead.index as usize, ClientEntry::<S>::REST_BYTES);
            }
            self.on_timer(SessionId { index: entry.index, generation: entry.generation });
        }
        due.clear();
        self.due = due;
    }

    /// Gives sessions whose pace allows it their chance to send in this turn.
    #[cold]
    fn unpark(&mut self) {
        let mut due = core::mem::take(&mut self.due);
        self.paced.advance(self.now, |entry| due.push(entry));
        for TimerEntry { index, generation } in due.drain(..) {
            if let Some(entry) = self.client_mut(SessionId { index, generation }) {
                entry.parked = false;
                self.touch_client(index);
            }
        }
        self.due = due;
    }

    /// Lets the session wait until `at`, when its pace lets it send.
    #[cold]
    pub(crate) fn park(&mut self, index: u32, at: Time) {
        let Some(entry) = self.clients.get_mut(index) else { return };
        if !entry.parked {
            entry.parked = true;
            let waiting = TimerEntry { index, generation: entry.generation };
            self.paced.insert(self.now, at, waiting);
            self.stats.sessions_parked += 1;
        }
    }

    /// When timers or paced sessions need a turn next; [`Time::NEVER`] if nothing waits.
    pub(crate) fn next_timer_at(&self) -> Time {
        self.timers.next_at().min(self.paced.next_due())
    }

    fn on_timer(&mut self, id: SessionId) {
        let now = self.now;
        let Some(entry) = self.client_mut(id) else { return };
        if entry.timer_at > now {
            return;
        }
        entry.set_timer(Time::NEVER);
        let ClientState::Ready { session, route } = &mut entry.state else { return };
        let route = *route;
        if session.is_at_rest() {
            // With thousands of sessions, most timers find nothing to do.
            return;
        }
        session.handle_timeout(now);
        let expired: Vec<_> = core::iter::from_fn(|| session.poll_expired(now)).collect();
        let next = session.next_timeout();
        if session.long_packets_vanish() {
            self.doubt_path(route);
        }
        for expired in expired {
            if let Some(cancel) = expired.cancel {
                self.push_to_peer(id, cancel);
            }
            self.finish_later(id, expired.context, CallError::Timeout);
        }
        self.touch_client(id.index);
        self.arm(id, next);
    }

    /// Makes the session's timer fire no later than `at`.
    #[inline]
    pub(crate) fn arm(&mut self, id: SessionId, at: Time) {
        let Some(entry) = self.clients.get_mut(id.index) else { return };
        if at < entry.timer_at {
            let timer = TimerEntry { index: id.index, generation: id.generation };
            entry.set_timer(self.timers.arm(at, timer));
        }
    }
}

/// The established session in `entry`.
#[inline]
pub(crate) fn ready<S>(entry: &mut ClientEntry<S>) -> Option<&mut ClientSession<CallContext<S>>> {
    match &mut entry.state {
        ClientState::Ready { session, .. } => Some(session),
        _ => None,
    }
}
