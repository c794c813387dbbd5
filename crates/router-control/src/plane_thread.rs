//! The thread of a router's plane: it turns, sleeps when there is nothing, and does what the
//! control thread wants of its tables.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use core::time::Duration;

use petasos_base::{Clock, Time};
use petasos_endpoint::{Mailbox, RouterWaker};
use petasos_netio::{IoStats, PacketIo};
use petasos_router::{Event, WorkerId};
use petasos_router_plane::{ClientAttached, MemberJoin, MemberJoined, Plane, TableError};
use petasos_seal::group::GroupSecret;

use crate::feedback_thread::FeedbackCommand;
use crate::idle::{Idle, sleep};
use crate::overrides::Overrides;

/// Names a question to the plane.
pub(crate) type Ticket = u64;

/// From the control thread.
pub(crate) enum PlaneCommand {
    Attach {
        ticket: Ticket,
        address: SocketAddr,
    },
    Detach {
        client: u32,
    },
    GiveBack {
        client: u32,
    },
    Join {
        ticket: Ticket,
        joining: MemberJoin,
    },
    /// Whether it is given nothing yet.
    HoldBack(WorkerId, bool),
    SetPrimary(Option<WorkerId>),
    Disconnect(WorkerId),
    End(WorkerId),
    /// First packets of this epoch are taken, too.
    BeginEpoch(u16, Option<GroupSecret>),
    /// Those of the one before the newest are not, any more.
    EndEpoch,
    /// A worker's number may be another's: what an operator has set for it is void.
    Forget(u16),
    /// What an operator wants.
    Operate(PlaneWork),
    Stop,
}

/// To the control thread.
pub(crate) enum PlaneReply {
    Attached { ticket: Ticket, result: Result<ClientAttached, TableError> },
    Joined { ticket: Ticket, result: Result<MemberJoined, TableError> },
    Worker(Event),
}

/// Done between two turns: it must be short, since packets wait meanwhile.
pub(crate) type PlaneWork = Box<dyn FnOnce(&mut Operated<'_>) + Send>;

/// What operators see and change of a plane.
pub(crate) struct Operated<'a> {
    pub(crate) plane: &'a mut Plane,
    pub(crate) overrides: &'a mut Overrides,
    pub(crate) now: Time,
    pub(crate) io: IoStats,
}

/// Where replies are left.
pub(crate) type Replies = Mutex<VecDeque<PlaneReply>>;

pub(crate) struct PlaneThread<I> {
    pub(crate) plane: Plane,
    pub(crate) io: I,
    pub(crate) commands: Arc<Mailbox<PlaneCommand>>,
    pub(crate) replies: Arc<Replies>,
    pub(crate) waker: RouterWaker,
    /// How long to spin before a sleep, at most.
    pub(crate) spin: Duration,
    /// The thread that hears feedback, if the plane is split.
    pub(crate) feedback: Option<Arc<Mailbox<FeedbackCommand>>>,
    pub(crate) overrides: Overrides,
}

impl<I: PacketIo> PlaneThread<I> {
    pub(crate) fn run(mut self) {
        let clock = Clock::system();
        let (mut commands, mut idle) = (VecDeque::new(), Idle::new(self.spin));
        loop {
            let now = clock.now();
            if self.commands.has_mail() {
                self.commands.take(&mut commands);
            }
            for command in commands.drain(..) {
                if matches!(command, PlaneCommand::Stop) {
                    return;
                }
                self.obey(now, command);
            }
            let is_busy = self.plane.turn(&mut self.io, now);
            self.tell_events();
            idle.rest(&clock, now, is_busy, || self.sleep(&clock, now));
        }
    }

    fn obey(&mut self, now: Time, command: PlaneCommand) {
        match command {
            PlaneCommand::Attach { ticket, address } => {
                let result = self.plane.attach(&mut self.io, address);
                self.reply(PlaneReply::Attached { ticket, result });
            }
            PlaneCommand::Join { ticket, joining } => {
                let result = self.plane.join(&mut self.io, now, &joining);
                if let Ok(joined) = &result {
                    // Nobody knows it yet (RT36).
                    self.plane.hold_back(joined.id, true);
                    self.overrides.apply(&mut self.plane, joined.id, joining.worker);
                    self.tell_feedback(FeedbackCommand::Join(*joined, joining.address));
                }
                self.reply(PlaneReply::Joined { ticket, result });
            }
            PlaneCommand::Detach { client } => drop(self.plane.detach(&mut self.io, client)),
            PlaneCommand::GiveBack { client } => drop(self.plane.give_back(client)),
            PlaneCommand::HoldBack(id, is_held) => drop(self.plane.hold_back(id, is_held)),
            PlaneCommand::SetPrimary(id) => self.plane.set_primary(id),
            PlaneCommand::Disconnect(id) => drop(self.plane.disconnect(now, id)),
            PlaneCommand::End(id) => self.end(id),
            PlaneCommand::BeginEpoch(epoch, secret) => self.plane.begin_epoch(epoch, secret),
            PlaneCommand::EndEpoch => self.plane.end_epoch(),
            PlaneCommand::Forget(worker) => self.overrides.forget(worker),
            PlaneCommand::Operate(work) => {
                let (plane, overrides) = (&mut self.plane, &mut self.overrides);
                work(&mut Operated { plane, overrides, now, io: self.io.stats() });
            }
            PlaneCommand::Stop => unreachable!("it ends the loop"),
        }
    }

    fn tell_events(&mut self) {
        while let Some(event) = self.plane.poll_event() {
            // The rest is for statistics. A worker can cause it at will.
            if let Event::Gone { worker, .. } | Event::Left { worker } = event {
                self.end(worker);
                self.reply(PlaneReply::Worker(event));
            }
        }
    }

    fn reply(&self, reply: PlaneReply) {
        let mut replies = self.replies.lock().expect("nothing panics under the lock");
        replies.push_back(reply);
        if replies.len() == 1 {
            drop(replies);
            self.waker.wake();
        }
    }

    /// Sleeps until something arrives or is due. Returns whether it did.
    fn sleep(&mut self, clock: &Clock, now: Time) -> bool {
        if !self.plane.doze() {
            return false;
        }
        let wake_at = self.plane.next_turn_at(now);
        let has_slept = sleep(&mut self.io, &self.commands, clock, wake_at);
        self.plane.rise();
        has_slept
    }

    /// A membership has ended.
    fn end(&mut self, id: WorkerId) {
        self.plane.end(&mut self.io, id);
        self.tell_feedback(FeedbackCommand::End(id));
    }

    fn tell_feedback(&self, command: FeedbackCommand) {
        if let Some(feedback) = &self.feedback {
            // If that thread is gone, the router is no use any more, and its process ends.
            let _ = feedback.post(command);
        }
    }
}

/// However the thread ends, even by a panic, nobody waits for it.
impl<I> Drop for PlaneThread<I> {
    fn drop(&mut self) {
        self.commands.close();
        self.waker.wake();
    }
}
