//! A thread of a host: one receive queue, the sessions that it serves, and its own load.
//!
//! The order of its turn is that of an endpoint's loop: received packets, timers, calls, packets
//! that clients may send, acknowledgements. Invariants: `inbox` never exceeds the receive queue; a
//! session is in `ready_clients` or `ready_servers` exactly if its `ready` flag is set, and the
//! flag is never set between turns.

use std::collections::VecDeque;

use petasos_base::{Rng, Time};
use petasos_proto::{CreditShare, Sharer, Sharers};

use super::frame::{Frame, Scratch};
use super::measure::Group;
use super::plan::{HostConfig, LoadPlan};
use super::session::{Client, Server};
use super::violation::Rule;
use crate::timers::Timers;

/// What threads share while they run, one at a time.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) scratch: Scratch,
    /// Packets sent in this turn, with the thread that each goes to.
    pub(super) sent: Vec<(u32, Frame)>,
    pub(super) groups: Vec<Group>,
}

#[derive(Debug)]
pub(super) struct Thread {
    pub(super) clients: Vec<Client>,
    pub(super) servers: Vec<Server>,
    /// The thread may not run earlier, because it is busy with its last turn.
    pub(super) ready_at: Time,
    /// Most frames that ever waited.
    pub(super) inbox_frames_max: u32,
    /// Its pauses, if it has any.
    pub(super) pauses: Option<Pauses>,
    load: Option<Load>,
    inbox: VecDeque<(Frame, bool)>,
    /// When each client must run even if nothing arrives.
    timers: Timers,
    ready_clients: Vec<u32>,
    ready_servers: Vec<u32>,
    share: CreditShare<Half>,
}

/// Identifies a half of a session within the thread.
#[derive(Clone, Copy, Debug)]
enum Half {
    Client(u32),
    Server(u32),
}

struct Halves<'a> {
    clients: &'a mut [Client],
    servers: &'a mut [Server],
}

impl Sharers for Halves<'_> {
    type Key = Half;

    fn sharer(&mut self, half: Half) -> Option<&mut dyn Sharer> {
        match half {
            Half::Client(index) => Some(self.clients[index as usize].session_mut()),
            Half::Server(index) => Some(self.servers[index as usize].session_mut()),
        }
    }
}

/// The pauses of a thread, in which it is off its core.
#[derive(Debug)]
pub(super) struct Pauses {
    next_at: Time,
    rng: Rng,
}

impl Pauses {
    pub(super) fn new(host: &HostConfig, seed: u64) -> Pauses {
        let mut rng = Rng::new(seed);
        // Threads that have just started must not all pause at once.
        Pauses { next_at: Time::from_nanos(rng.below(host.pause_every_nanos)), rng }
    }

    /// The end of the pause, if the thread is paused at `now`.
    fn end(&mut self, now: Time, host: &HostConfig) -> Option<Time> {
        if now < self.next_at {
            return None;
        }
        let apart_nanos = host.pause_every_nanos / 2 + self.rng.below(host.pause_every_nanos + 1);
        let end = now.plus_nanos(host.pause_nanos);
        self.next_at = end.plus_nanos(apart_nanos);
        Some(end)
    }
}

#[derive(Debug)]
struct Load {
    plan: LoadPlan,
    /// Calls still to be begun.
    wanted: u32,
    /// Whether another call follows each call that ends.
    open: bool,
    rng: Rng,
}

impl Thread {
    pub(super) fn new(clients: Vec<Client>, servers: Vec<Server>) -> Thread {
        Thread {
            timers: Timers::new(clients.len() as u32),
            clients,
            servers,
            ready_at: Time::ZERO,
            inbox_frames_max: 0,
            pauses: None,
            load: None,
            inbox: VecDeque::new(),
            ready_clients: Vec::new(),
            ready_servers: Vec::new(),
            share: CreditShare::default(),
        }
    }

    pub(super) fn set_load(&mut self, plan: LoadPlan, seed: u64) {
        assert!(!self.clients.is_empty(), "a load needs a session");
        let rng = Rng::new(seed);
        self.load = Some(Load { plan, wanted: plan.outstanding, open: true, rng });
    }

    /// Begins no more calls.
    pub(super) fn stop(&mut self) {
        if let Some(load) = &mut self.load {
            (load.open, load.wanted) = (false, 0);
        }
    }

    /// Puts a packet into the receive queue. Returns false if the queue is full and the packet is
    /// lost.
    #[inline]
    pub(super) fn receive(&mut self, frame: Frame, marked: bool, frames_max: u32) -> bool {
        let fits = self.inbox.len() < frames_max as usize;
        if fits {
            self.inbox.push_back((frame, marked));
            self.inbox_frames_max = self.inbox_frames_max.max(self.inbox.len() as u32);
        }
        fits
    }

    /// When the thread must run next if no packet arrives.
    #[inline]
    pub(super) fn due(&self) -> Time {
        let load_at = match &self.load {
            Some(load) if load.wanted > 0 => Time::from_nanos(load.plan.start_nanos),
            _ => Time::NEVER,
        };
        let inbox_at = if self.inbox.is_empty() { Time::NEVER } else { self.ready_at };
        self.timers.earliest().0.min(load_at).min(inbox_at).max(self.ready_at)
    }

    /// Does all work that is due at `now`.
    pub(super) fn run(
        &mut self,
        now: Time,
        host: &HostConfig,
        desk: &mut Desk,
    ) -> Result<(), Rule> {
        let received = self.inbox.len().min(host.batch_frames as usize);
        for _ in 0..received {
            let (frame, marked) = self.inbox.pop_front().expect("so many frames wait");
            self.handle(&frame, marked, now, desk)?;
        }
        if self.share.is_due(now) {
            let Thread { clients, servers, .. } = self;
            self.share.end_epoch(&mut Halves { clients, servers }, now);
        }
        self.handle_timers(now);
        self.begin_calls(now, desk);
        self.poll_clients(now, desk)?;
        self.poll_servers(desk);
        let packets = (received + desk.sent.len()) as u64;
        self.ready_at = now.plus_nanos(host.turn_nanos + packets * host.packet_nanos);
        if let Some(end) = self.pauses.as_mut().and_then(|pauses| pauses.end(now, host)) {
            self.ready_at = end;
        }
        Ok(())
    }

    #[inline]
    fn handle(
        &mut self,
        frame: &Frame,
        marked: bool,
        now: Time,
        desk: &mut Desk,
    ) -> Result<(), Rule> {
        let packet = desk.scratch.packet(frame);
        let index = packet.session();
        if !packet.from_server() {
            let server = &mut self.servers[index as usize];
            if !core::mem::replace(&mut server.ready, true) {
                self.ready_servers.push(index);
            }
            let to = server.plan.client;
            let long = server.handle(&packet, marked, |frame| desk.sent.push((to, frame)))?;
            if long {
                self.share_with(Half::Server(index), now);
            }
            return Ok(());
        }
        let client = &mut self.clients[index as usize];
        let heard = client.handle(&packet, marked, now)?;
        desk.sent.extend(heard.reply.map(|frame| (client.plan.server, frame)));
        make_ready(client, index, &mut self.ready_clients);
        if heard.long {
            self.share_with(Half::Client(index), now);
        }
        let load = self.load.as_mut().expect("only a load makes calls");
        let group = &mut desk.groups[load.plan.group as usize];
        if let Some(left_at) = heard.left_at {
            group.on_answer(left_at, now);
        }
        if let Some(begun_at) = heard.completed {
            group.on_completed(begun_at, now);
            load.wanted += u32::from(load.open);
        }
        Ok(())
    }

    /// Gives the session a share of the receive queue.
    fn share_with(&mut self, half: Half, now: Time) {
        let Thread { clients, servers, .. } = self;
        self.share.join(half, &mut Halves { clients, servers }, now);
    }

    fn handle_timers(&mut self, now: Time) {
        while self.timers.earliest().0 <= now {
            let (_, index) = self.timers.earliest();
            self.timers.set(index, Time::NEVER);
            let client = &mut self.clients[index as usize];
            client.handle_timer(now);
            make_ready(client, index, &mut self.ready_clients);
        }
    }

    fn begin_calls(&mut self, now: Time, desk: &mut Desk) {
        let Some(load) = &mut self.load else { return };
        if now.as_nanos() < load.plan.start_nanos {
            return;
        }
        desk.groups[load.plan.group as usize].issued += u64::from(load.wanted);
        for _ in 0..core::mem::take(&mut load.wanted) {
            let index = load.rng.below(self.clients.len() as u64) as u32;
            let client = &mut self.clients[index as usize];
            client.call(now);
            make_ready(client, index, &mut self.ready_clients);
        }
    }

    fn poll_clients(&mut self, now: Time, desk: &mut Desk) -> Result<(), Rule> {
        for index in self.ready_clients.drain(..) {
            let client = &mut self.clients[index as usize];
            client.ready = false;
            let (to, sent) = (client.plan.server, &mut desk.sent);
            client.poll(now, &mut desk.scratch, |frame| sent.push((to, frame)))?;
            // A timer that is too early only costs a check later; one that is too late would be
            // wrong.
            let due = client.due();
            if due < self.timers.due(index) {
                self.timers.set(index, due);
            }
        }
        Ok(())
    }

    fn poll_servers(&mut self, desk: &mut Desk) {
        for index in self.ready_servers.drain(..) {
            let server = &mut self.servers[index as usize];
            server.ready = false;
            let to = server.plan.client;
            server.poll_acks(|frame| desk.sent.push((to, frame)));
        }
    }
}

#[inline]
fn make_ready(client: &mut Client, index: u32, ready_clients: &mut Vec<u32>) {
    if !core::mem::replace(&mut client.ready, true) {
        ready_clients.push(index);
    }
}
