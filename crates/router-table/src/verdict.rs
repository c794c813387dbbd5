//! Questions about workers, verdicts, and news of the table.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use petasos_base::sync::{AtomicU64, Ordering};
use petasos_endpoint::{Mailbox, RouterWaker};
use petasos_tls::Holder;

use crate::table::Change;

/// To the thread.
pub(crate) enum Command {
    Judge(Question),
    /// A member is gone.
    Leave(u64),
    /// A version was committed.
    Commit,
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

/// What the router hears.
#[derive(Debug)]
pub enum News {
    /// A question's ticket, and what was found of that worker.
    Judged(u64, Verdict),
    /// There is another version of the table. It comes before verdicts of workers that need it. If
    /// it is not the first, workers have to know it before it is committed ([`Judge::commit`]), and
    /// clients bind anew after that. There is no other one before that.
    Changed(Change),
}

/// What was found of a worker.
#[derive(Debug)]
pub enum Verdict {
    /// It may join, and counts as there as long as this lives.
    Accepted(Membership),
    /// It may not.
    Refused {
        /// The reason, for programs.
        reason: RefuseReason,
        /// The reason, for the worker's operator.
        detail: String,
    },
}

/// A worker that counts as one of the group's: the table keeps to what it understands. Dropped when
/// the worker is gone.
pub struct Membership {
    pub(crate) member: u64,
    pub(crate) commands: Arc<Mailbox<Command>>,
}

impl core::fmt::Debug for Membership {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Membership").field(&self.member).finish()
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        // If the thread is gone, so is the table.
        let _ = self.commands.post(Command::Leave(self.member));
    }
}

/// Why a worker is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefuseReason {
    /// It does not fit the table, or its answers break rules.
    Incompatible,
    /// It could not be dialled, or has not answered in time.
    NotAnswered,
    /// Too many workers are being asked, or the table changes; a later attempt may succeed.
    Overloaded,
}

/// Where news are left for the router, and what it has committed.
pub(crate) struct Verdicts {
    queue: Mutex<VecDeque<News>>,
    committed: AtomicU64,
    waker: RouterWaker,
}

impl Verdicts {
    pub(crate) fn new(waker: RouterWaker) -> Verdicts {
        Verdicts { queue: Mutex::default(), committed: AtomicU64::new(0), waker }
    }

    pub(crate) fn post(&self, news: News) {
        let mut queue = self.lock();
        queue.push_back(news);
        if queue.len() == 1 {
            drop(queue);
            self.waker.wake();
        }
    }

    /// The version from which clients bind. What it is was committed before clients heard of it.
    pub(crate) fn committed(&self) -> u64 {
        self.committed.load(Ordering::Acquire)
    }

    /// Lets the router look, with or without news.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<News>> {
        self.queue.lock().expect("nothing panics under the lock")
    }
}

/// Asks the thread of a [`BindServer`](crate::BindServer) about workers. Any thread may have one,
/// and the node's router is woken when there are news.
#[derive(Clone)]
pub struct Judge {
    pub(crate) commands: Arc<Mailbox<Command>>,
    pub(crate) verdicts: Arc<Verdicts>,
}

impl Judge {
    /// Asks whether the worker whose process listens at `address` fits the table. `ticket` names
    /// the question, and is higher than that of any other before; `holder` is who wants to join.
    /// There will be one verdict, unless the thread has ended.
    pub fn ask(&self, ticket: u64, holder: Holder, address: SocketAddr) {
        // If the thread is gone, so is the router.
        let _ = self.commands.post(Command::Judge(Question { ticket, holder, address }));
    }

    /// Lets clients bind from a version that workers know: binds that are answered from now on are.
    pub fn commit(&self, version: u64) {
        self.verdicts.committed.store(version, Ordering::Release);
        // If the thread is gone, so is the router.
        let _ = self.commands.post(Command::Commit);
    }

    /// Takes what is new since the last time, in order.
    pub fn take_news(&self) -> VecDeque<News> {
        core::mem::take(&mut *self.verdicts.lock())
    }
}
