//! What handlers and continuations may use: everything of the endpoint except the packet I/O.
//!
//! Invariants:
//! - a session is on its dirty list exactly if its `dirty` flag is set;
//! - a client session is in the wheel `paced` exactly if its `parked` flag is set, and then once;
//!   entries of sessions that are gone are void;
//! - `request_bytes` is the sum of [`counted_bytes`] of the requests of all calls that have not
//!   ended.
//!
//! Handlers get the context, the context contains the core, and the core contains the handlers; so
//! these types are defined together here. The modules in this folder implement what the core does.

mod assemblies;
mod chores;
mod context;
mod due;
mod elsewhere;
mod enqueue;
mod external;
mod group_calls;
mod group_requests;
mod groups;
mod half;
mod hooks;
mod prefetch;
mod prepared;
mod sealed;
mod share;
mod suspects;
mod transmit;

use petasos_base::{Rng, Time, Wheel, random_seed};
use petasos_buf::{MsgBuf, Pool};
use petasos_proto::{ClientStats, CongestionConfig, CreditShare, ServerStats};
use petasos_wire::{Header, RejectCode};

use crate::call::{CallError, Completion, ResponseBox, ResponseBoxes};
use crate::config::EndpointConfig;
use crate::handler::{Request, RequestKey};
use crate::outside::Outside;
use crate::quota::Holders;
use crate::secure::sealer;
use crate::sessions::{ClientEntry, ClientState, ServerEntry, SessionId, Table};
use crate::stats::LoopStats;
use crate::switches::{Faults, Switches};
use crate::tags::Tags;
use crate::timers::{TimerEntry, TimerWheel};
use crate::tx_queue::{STAGED_PAYLOAD_BYTES_MAX, TxQueue};
use assemblies::Assemblies;
pub(crate) use chores::Chore;
use external::External;
use group_calls::GroupCalls;
pub(crate) use group_calls::{Asked, Attachment, AttachmentKeys, Sender};
pub(crate) use group_requests::{AnswerAs, GroupRequests, Joined, TakenOf, Unopened};
pub(crate) use half::Half;
use hooks::Hooks;
use prefetch::Hints;
pub(crate) use prefetch::Prefetcher;
pub use prepared::PrepareStep;
pub(crate) use prepared::Prepared;

/// How many sessions can be due or dirty in one turn before a list has to grow.
const LISTED_SESSIONS: usize = 64;

/// Width of the pacing wheel's slots and how far it reaches ahead, in nanoseconds (eRPC has 0.5 µs
/// and 2.2 ms). A session that waits longer is checked at the end of that reach, and parked again.
const PACING_SLOT_NS: u64 = 512;
const PACING_REACH_NS: u64 = 2_000_000;

/// The longest request that is copied next to others for sending, in bytes. Requests up to this
/// length do not count against the limit of bytes in progress: slots and backlog bound their
/// number.
pub(crate) const SHORT_REQUEST_BYTES_MAX: usize = STAGED_PAYLOAD_BYTES_MAX;

/// How many bytes a request of `bytes` counts against the limit of bytes in progress.
#[inline(always)]
pub(crate) fn counted_bytes(bytes: usize) -> usize {
    if bytes > SHORT_REQUEST_BYTES_MAX { bytes } else { 0 }
}

/// Runs for each request of a method, in the event loop ("dispatch"). It should take no longer than
/// a few hundred nanoseconds. It may answer at once, or keep the handle and answer later.
pub type Handler<S> = fn(&mut S, &mut Context<S>, Request<'_>);

/// Runs when a call is over. It gets the application's state and may start further calls.
pub type Continuation<S> = fn(&mut S, &mut Context<S>, Completion<'_>);

/// Runs when a request whose handle has not been used is not wanted any more: the client has
/// cancelled it or sent a newer one in its slot, or its session is gone. An answer would be
/// dropped.
pub type AbandonedHook<S> = fn(&mut S, &mut Context<S>, RequestKey);

/// Runs once a turn. Returns when it needs a turn next if nothing arrives.
pub type TurnHook<S> = fn(&mut S, &mut Context<S>) -> Time;

/// Runs before the loop sleeps. Returns false if it must not, because there is work.
pub type SleepHook<S> = fn(&mut S) -> bool;

/// Told of a session whose server has a successor; see
/// [`Endpoint::on_succeeded`](crate::Endpoint::on_succeeded).
pub type SucceededHook<S> = fn(&mut S, &mut Context<S>, SessionId);

/// The endpoint as handlers, continuations and the application see it.
pub struct Context<S> {
    pub(crate) core: Core<S>,
}

/// What the endpoint stores for a call.
pub(crate) struct CallContext<S> {
    pub(crate) request: MsgBuf,
    /// The response's buffer, once it is known that the response has several packets. Boxed because
    /// most do not, and the context is moved for every call. The boxes are reused
    /// ([`ResponseBoxes`]).
    pub(crate) response: Option<ResponseBox>,
    pub(crate) continuation: Continuation<S>,
    pub(crate) tag: u64,
}

/// A call that ended without a response, and whose continuation has not run yet.
pub(crate) struct Finished<S> {
    pub(crate) session: SessionId,
    pub(crate) context: CallContext<S>,
    pub(crate) error: CallError,
}

pub(crate) struct Core<S> {
    pub(crate) now: Time,
    pub(crate) config: EndpointConfig,
    pub(crate) pool: Pool,
    pub(crate) clients: Table<ClientEntry<CallContext<S>>>,
    pub(crate) servers: Table<ServerEntry>,
    /// Indexed by the method; unused entries are `receive::refuse`.
    pub(crate) handlers: Vec<Handler<S>>,
    /// If any method has steps.
    pub(crate) prepared: Option<Box<Prepared<S>>>,
    pub(crate) tx: TxQueue,
    pub(crate) dirty_clients: Vec<u32>,
    pub(crate) dirty_servers: Vec<u32>,
    pub(crate) finished: Vec<Finished<S>>,
    pub(crate) response_boxes: ResponseBoxes,
    pub(crate) timers: TimerWheel,
    /// Congestion control of every client session opened from now on.
    pub(crate) congestion: CongestionConfig,
    /// Client sessions that wait until their pace lets them send. Packets never wait in a queue.
    pub(crate) paced: Wheel<TimerEntry>,
    pub(crate) due: Vec<TimerEntry>,
    /// The sessions that share the room of the receive queue.
    pub(crate) share: CreditShare<Half>,
    pub(crate) assemblies: Assemblies,
    pub(crate) holders: Holders,
    pub(crate) request_bytes: usize,
    pub(crate) generation: u32,
    pub(crate) chores: Vec<Chore>,
    /// When doubts about paths end.
    pub(crate) trust_at: Time,
    /// What was dropped and not said yet.
    suspects: suspects::Suspects,
    /// Whether requests are rejected because the endpoint drains. There are then no handlers,
    /// unless they drain themselves.
    pub(crate) draining: bool,
    pub(crate) hooks: Hooks<S>,
    /// Requests whose sessions are gone, and of which the hook has to be told.
    pub(crate) abandoned: Vec<RequestKey>,
    pub(crate) tags: Tags,
    pub(crate) switches: Switches,
    pub(crate) faults: Option<Faults>,
    pub(crate) stats: LoopStats,
    pub(crate) closed_clients: ClientStats,
    pub(crate) closed_servers: ServerStats,
    pub(crate) outside: Outside,
    pub(crate) external: External<S>,
    /// Calls to groups; there are none before the endpoint attaches to one.
    pub(crate) group_calls: Option<Box<GroupCalls<S>>>,
    /// Requests from groups; there are none before the endpoint joins one.
    pub(crate) group_requests: Option<Box<GroupRequests>>,
    /// Neither external sessions nor groups have anything to do before this time.
    others_at: Time,
    pub(crate) hints: Hints,
    /// The buffer in which a packet is opened (W27). Empty until the first one, and while one is
    /// being handled.
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
            prepared: None,
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
            suspects: suspects::Suspects::new(),
            draining: false,
            hooks: Hooks::default(),
            abandoned: Vec::new(),
            switches: Switches::default(),
            faults: None,
            tags: Tags::new(config.seed.map(|_| rng.next_u64())),
            stats: LoopStats::default(),
            closed_clients: ClientStats::default(),
            closed_servers: ServerStats::default(),
            outside: Outside::default(),
            external: External::default(),
            group_calls: None,
            group_requests: None,
            others_at: Time::NEVER,
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

    /// The session named `id`, if it exists.
    #[inline]
    pub(crate) fn client_mut(&mut self, id: SessionId) -> Option<&mut ClientEntry<CallContext<S>>> {
        self.clients.get_mut(id.index).filter(|entry| entry.generation == id.generation)
    }

    /// Puts the session on the dirty list: it may have something to send.
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

    /// Takes a buffer from the pool, and counts a failure.
    pub(crate) fn take_buffer(&mut self, len: usize) -> Option<MsgBuf> {
        let taken = self.pool.take(len).ok();
        self.stats.out_of_memory += u64::from(taken.is_none());
        taken
    }

    /// Notes that a call has ended without a response. Its continuation runs later in this turn.
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

    /// Ends every call of a session, and marks the session as failed.
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

    /// Drops a server session. Handlers that have not answered will find their handle void.
    pub(crate) fn drop_server(&mut self, index: u32) {
        let Some(entry) = self.servers.remove(index) else { return };
        self.forget_assemblies(entry.from.holder, entry.assembling);
        let slots = entry.session.params().slots;
        self.holders.give(entry.from.holder, slots);
        self.tx.forget_session(index, true);
        if self.hooks.on_abandoned.is_some() {
            let slots = 0..entry.session.params().slots;
            let latest = slots.map(|slot| entry.session.request_in(slot));
            let running = latest.filter(|request| entry.session.is_running(*request));
            self.abandoned.extend(running.map(|request| entry.id.key(request)));
        }
        self.closed_servers.add(entry.session.stats());
        self.chores.push(Chore::Release(entry.route));
        for buf in entry.session.into_kept().filter_map(|mut kept| kept.take()) {
            self.pool.give(buf);
        }
    }

    /// Rejects `request` of a server session, unless it is answered or gone.
    #[cold]
    pub(crate) fn reject(&mut self, index: u32, request: u64, code: RejectCode) {
        let Some(entry) = self.servers.get_mut(index) else { return };
        if let Some(transmit) = entry.session.reject(request, code) {
            self.tx.push_bare(entry.route, transmit.header, &[], sealer(&mut entry.secure));
        }
    }

    /// Queues a header without payload to a client session's peer.
    pub(crate) fn push_to_peer(&mut self, session: SessionId, header: Header) {
        if let Some(entry) = self.clients.get_mut(session.index)
            && let ClientState::Ready { route, .. } = &entry.state
        {
            self.tx.push_bare(*route, header, &[], sealer(&mut entry.secure));
        }
    }
}
