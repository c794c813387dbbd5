//! The event loop.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use petasos_base::{Clock, Time, Yielder, random_seed};
use petasos_netio::PacketIo;
use petasos_proto::CongestionConfig;

use crate::backend::Backend;
use crate::config::{EndpointConfig, Polling};
use crate::congestion;
use crate::core::{Chore, Context, Core, Handler, PrepareStep};
use crate::receive::{
    HandleWith, answer_panic, handle_frames, is_marked, prepare_frames, refuse, run_finished,
};
use crate::sessions::ClientState;
use crate::stats::{EndpointStats, MemoryStats};
use crate::switches::{Faults, Switches};

/// The event loop of one thread. See the crate's documentation.
pub struct Endpoint<S> {
    pub(crate) cx: Context<S>,
    pub(crate) io: Backend,
    pub(crate) clock: Clock,
    pub(crate) state: S,
    /// With [`Polling::Yield`].
    pub(crate) yielder: Option<Yielder>,
}

impl<S> Endpoint<S> {
    /// An endpoint over `io` whose handlers and continuations share `state`.
    ///
    /// # Panics
    /// If `config.congestion` is not valid. [`CongestionConfig::validate`] checks it beforehand.
    pub fn new(config: EndpointConfig, io: impl Into<Backend>, clock: Clock, state: S) -> Self {
        let mut io = io.into();
        let congestion = congestion::choose(config.congestion, &mut io);
        let yielder = match config.polling {
            Polling::Yield { spin } => Some(Yielder::new(spin)),
            _ => None,
        };
        let core = Core::new(config, congestion, clock.now());
        Endpoint { cx: Context { core }, io, clock, state, yielder }
    }

    /// Turns optimisations off or injects faults, to measure what they cost. Call this before there
    /// are sessions.
    pub fn set_switches(&mut self, switches: Switches) {
        let core = &mut self.cx.core;
        core.switches = switches;
        core.faults = Faults::new(&switches, core.config.seed.unwrap_or_else(random_seed));
    }

    /// Congestion control of the sessions that this endpoint opens.
    pub fn congestion(&self) -> &CongestionConfig {
        &self.cx.core.congestion
    }

    /// Makes `handler` answer `method`, instead of an earlier handler. No effect once the endpoint
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

    /// Takes `steps` for each request of `method`, before any request of its turn is handled: the
    /// first step for all of them, then the second, and so on. So handlers can have what they need
    /// of memory fetched at the same time: a table's bucket first, and then the entry that it
    /// names. A turn never waits for more requests.
    ///
    /// Steps are hints. They see a request's bytes before anything else has, so these may be forged
    /// or repeated, and need not lead to a handler; and requests of several packets, in sealed
    /// sessions, from groups and by way of the managed service come without steps. A panic in a
    /// step is counted, and the turn goes on without steps. Without any, a turn pays one
    /// comparison.
    pub fn prepare(&mut self, method: u16, steps: &[PrepareStep<S>]) {
        self.cx.core.prepared.get_or_insert_default().set(method, steps);
    }

    /// The application's state.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// The application's state, mutable.
    pub fn state_mut(&mut self) -> &mut S {
        &mut self.state
    }

    /// The context, for calls, answers and buffers between turns. Reads the clock, since the last
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

    /// Runs one turn of the loop, without waiting. Returns whether anything was received, ended or
    /// sent.
    #[inline]
    pub fn run_once(&mut self) -> bool {
        self.cx.core.now = self.clock.now();
        self.cx.core.stats.turns += 1;
        let mailed = self.cx.core.outside.has_mail() && self.take_mail();
        let received = self.receive_unless_backed_up();
        self.cx.core.run_timers();
        let finished = !self.cx.core.finished.is_empty();
        if finished {
            self.run_finished();
        }
        let wanted = self.cx.core.hooks.is_any() && self.run_hooks();
        let sent = self.send();
        if !self.cx.core.chores.is_empty() {
            self.do_chores();
        }
        mailed | received | finished | wanted | sent
    }

    /// Sends what is queued, as far as the packet I/O accepts it, without a turn.
    pub fn send_now(&mut self) {
        self.cx.core.now = self.clock.now();
        self.send();
    }

    /// Lets sessions send, and passes their packets to the packet I/O. Returns whether there were
    /// any.
    #[inline(always)]
    fn send(&mut self) -> bool {
        self.cx.core.pump();
        let sent = !self.cx.core.tx.is_empty();
        if sent {
            self.cx.core.flush(&mut self.io);
        }
        sent
    }

    /// Receives, unless so many packets wait to be sent that received ones should wait too.
    /// Otherwise peers that fill the queue faster than it empties would make it grow without end.
    #[inline(always)]
    fn receive_unless_backed_up(&mut self) -> bool {
        if self.cx.core.tx.is_backed_up() {
            self.cx.core.stats.turns_backed_up += 1;
            return false;
        }
        self.receive()
    }

    #[inline]
    fn receive(&mut self) -> bool {
        let batch = self.io.receive();
        if batch.chunks.is_empty() {
            return false;
        }
        self.cx.core.stats.turns_busy += 1;
        // Marks are rare, so the common path does not check each packet for them.
        let marked = batch.chunks.iter().any(|chunk| is_marked(chunk.ecn));
        let mut frames = batch.frames();
        if self.cx.core.prepared.is_some() {
            prepare_frames(&self.state, &mut self.cx.core, frames.clone());
        }
        let per_packet = !self.cx.core.switches.batched_clock;
        let with = HandleWith { clock: per_packet.then_some(&self.clock), marked };
        let (state, cx) = (&mut self.state, &mut self.cx);
        loop {
            // A panic leaves the application's state as the handler left it. The endpoint's own
            // state is consistent, since no handler is called in the middle of a change to it.
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

    /// Does the protocol's work with the packet I/O besides packets.
    #[cold]
    fn do_chores(&mut self) {
        let mut chores = core::mem::take(&mut self.cx.core.chores);
        for chore in chores.drain(..) {
            match chore {
                Chore::Release(route) => self.io.release_route(route),
                Chore::DoubtPath(route) => self.io.doubt_path(route),
                Chore::TrustPaths => self.io.trust_paths(),
                Chore::MeetStrangers => self.meet_strangers(),
            }
        }
        // What these have made to do is done in the next turn.
        let more = core::mem::replace(&mut self.cx.core.chores, chores);
        self.cx.core.chores.extend(more);
    }

    /// When the loop must next turn if nothing arrives: now if packets wait for the packet I/O,
    /// otherwise at the next timer; [`Time::NEVER`] if there is none.
    pub fn next_turn_at(&self) -> Time {
        let waits = self.cx.core.outside.has_mail()
            || !self.cx.core.tx.is_empty()
            || !self.cx.core.finished.is_empty()
            || !self.cx.core.abandoned.is_empty()
            || !self.cx.core.dirty_clients.is_empty()
            || !self.cx.core.dirty_servers.is_empty();
        let hooks_at = self.cx.core.hooks.turn_at;
        if waits { self.cx.core.now } else { self.cx.core.next_timer_at().min(hooks_at) }
    }

    /// The packet I/O.
    pub fn io(&self) -> &Backend {
        &self.io
    }

    pub(crate) fn io_mut(&mut self) -> &mut Backend {
        &mut self.io
    }

    /// Whether the loop may sleep; see [`PacketIo::prepare_to_sleep`].
    pub(crate) fn prepare_to_sleep(&mut self) -> bool {
        let hook = self.cx.core.hooks.before_sleep;
        hook.is_none_or(|hook| hook(&mut self.state)) && self.io.prepare_to_sleep()
    }

    /// The clock that the loop reads.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The address at which peers' packets arrive.
    pub fn local_address(&self) -> SocketAddr {
        self.io.local_address()
    }

    /// Every counter.
    pub fn stats(&self) -> EndpointStats {
        let mut stats = EndpointStats {
            event_loop: self.cx.core.loop_stats(),
            client: self.cx.core.closed_clients,
            server: self.cx.core.closed_servers,
            io: self.io.stats(),
            ..EndpointStats::default()
        };
        if let Some(calls) = self.cx.core.group_calls.as_deref() {
            let (pairs, sessions) = calls.stats();
            stats.pairs = pairs;
            stats.client.add(&sessions);
        }
        if let Some(requests) = self.cx.core.group_requests.as_deref() {
            let (given, taken, sessions) = requests.stats();
            (stats.given, stats.taken) = (given, taken);
            stats.server.add(&sessions);
        }
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

    /// How much memory the endpoint uses.
    pub fn memory(&self) -> MemoryStats {
        let clients = self.cx.core.clients.iter().map(|(_, entry)| match &entry.state {
            ClientState::Ready { session, .. } => session.footprint_bytes(),
            _ => 0,
        });
        let servers = self.cx.core.servers.iter().map(|(_, e)| e.session.footprint_bytes());
        let tables =
            self.cx.core.clients.footprint_bytes() + self.cx.core.servers.footprint_bytes();
        let calls = self.cx.core.group_calls.as_deref().map_or(0, |it| it.footprint_bytes());
        let requests = self.cx.core.group_requests.as_deref().map_or(0, |it| it.footprint_bytes());
        let sessions = clients.sum::<usize>() + servers.sum::<usize>();
        let session_bytes = tables + sessions + calls + requests;
        MemoryStats { pool: self.cx.core.pool.stats(), session_bytes }
    }
}
