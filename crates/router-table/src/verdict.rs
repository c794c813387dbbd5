//! Questions about workers, and verdicts.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use petasos_endpoint::{Mailbox, RouterWaker};
use petasos_tls::Holder;

use crate::table::TableService;

/// To the thread.
pub(crate) enum Command {
    Judge(Question),
    Stop,
}

/// Whether a worker fits the table.
pub(crate) struct Question {
    pub(crate) ticket: u64,
    /// The process that asks for it.
    pub(crate) holder: Holder,
    /// The worker's control address.
    pub(crate) address: SocketAddr,
}

/// What was found of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may join. This is the table.
    Accepted(Arc<[TableService]>),
    /// It may not.
    Refused {
        /// The reason, for programs.
        reason: RefuseReason,
        /// The reason, for the worker's operator.
        detail: String,
    },
}

/// Why a worker is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefuseReason {
    /// It does not fit the table, or its answers break rules.
    Incompatible,
    /// It could not be dialled, or has not answered in time.
    NotAnswered,
    /// Too many workers are being asked; a later attempt may succeed.
    Overloaded,
}

/// Where verdicts are left for the router.
pub(crate) struct Verdicts {
    queue: Mutex<VecDeque<(u64, Verdict)>>,
    waker: RouterWaker,
}

impl Verdicts {
    pub(crate) fn new(waker: RouterWaker) -> Verdicts {
        Verdicts { queue: Mutex::default(), waker }
    }

    pub(crate) fn post(&self, ticket: u64, verdict: Verdict) {
        let mut queue = self.lock();
        queue.push_back((ticket, verdict));
        if queue.len() == 1 {
            drop(queue);
            self.waker.wake();
        }
    }

    /// Lets the router look, with or without a verdict.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(u64, Verdict)>> {
        self.queue.lock().expect("nothing panics under the lock")
    }
}

/// Asks the thread of a [`BindServer`](crate::BindServer) about workers. Any thread may have one,
/// and the node's router is woken when there are verdicts.
#[derive(Clone)]
pub struct Judge {
    pub(crate) commands: Arc<Mailbox<Command>>,
    pub(crate) verdicts: Arc<Verdicts>,
}

impl Judge {
    /// Asks whether the worker whose process listens at `address` fits the table. `ticket` names
    /// the question, which no other one does; `holder` is who wants to join. There will be one
    /// verdict, unless the thread has ended.
    pub fn ask(&self, ticket: u64, holder: Holder, address: SocketAddr) {
        // If the thread is gone, so is the router.
        let _ = self.commands.post(Command::Judge(Question { ticket, holder, address }));
    }

    /// Takes what was found since the last time.
    pub fn take_verdicts(&self) -> VecDeque<(u64, Verdict)> {
        core::mem::take(&mut *self.verdicts.lock())
    }
}
