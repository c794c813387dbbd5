//! What operators see of a router and change while calls run.
//!
//! An [`Operator`] sends work to the two threads of a group: to the node's, which knows the
//! members, and through it to the plane's, which has the packets. Each does it between two turns,
//! and tells the result by a function that it is given: nothing is shared, and no packet costs a
//! lock.
//!
//! Invariant: work that waits when its thread ends is dropped, and its function with it, so that
//! nobody waits for an answer for ever.

use std::sync::Arc;

use petasos_control::Active;
use petasos_endpoint::{Mailbox, RouterWaker};
use petasos_router::{Adjustment, ConfigError};

use crate::desk::Desk;
use crate::group::Group;
use crate::plane_thread::{Operated, PlaneCommand};
use crate::snapshot::{ClientSnapshot, GroupSnapshot, MemberSettings};

/// What is done to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerChange {
    /// It gets nothing more, and ends what it has; or it gets requests again.
    Drain(bool),
    /// Its part of the requests, in percent of a full one's, instead of what it has announced.
    Weight(u8),
}

/// An operator's hand on a router that runs. Functions that it is given run on the router's
/// threads: they must be short, and are dropped without being called if the router has ended.
#[derive(Clone)]
pub struct Operator {
    pub(crate) plane: Arc<Mailbox<PlaneCommand>>,
    pub(crate) desk: Arc<Desk<Group>>,
    pub(crate) waker: RouterWaker,
}

impl Operator {
    /// Tells what there is.
    pub fn snapshot(&self, tell: impl FnOnce(GroupSnapshot) + Send + 'static) {
        self.ask(move |group| {
            let (plane, control) = (group.plane().clone(), group.part_of_snapshot());
            let work = move |at: &mut Operated<'_>| tell(control.with(at));
            // If the plane's thread is gone, nobody is told.
            let _ = plane.post(PlaneCommand::Operate(Box::new(work)));
        });
    }

    /// Tells of the clients whose numbers are above `after`, at most so many, and whether there
    /// are more.
    pub fn clients(
        &self,
        (after, most): (Option<u32>, usize),
        tell: impl FnOnce(Vec<ClientSnapshot>, bool) + Send + 'static,
    ) {
        self.ask(move |group| {
            let (mut clients, has_more) = group.clients_after(after, most);
            let work = move |at: &mut Operated<'_>| {
                for client in &mut clients {
                    if let Some((counts, waiting)) = at.plane.client(client.client) {
                        (client.counts, client.waiting) = (counts, waiting);
                    }
                }
                tell(clients, has_more);
            };
            let _ = group.plane().post(PlaneCommand::Operate(Box::new(work)));
        });
    }

    /// Changes something of a worker, and tells whether there is one with this number. It holds
    /// until the number is another endpoint's.
    pub fn change_worker(
        &self,
        worker: u16,
        change: WorkerChange,
        tell: impl FnOnce(bool) + Send + 'static,
    ) {
        let operator = self.clone();
        self.operate(move |Operated { plane, overrides, .. }| match change {
            WorkerChange::Weight(weight) => tell(overrides.weigh(plane, worker, weight)),
            WorkerChange::Drain(is_draining) => {
                let is_there = overrides.drain(plane, worker, is_draining);
                // The other thread says where streams are placed.
                operator.ask(move |group| {
                    if is_there {
                        group.set_drained(worker, is_draining);
                    }
                    tell(is_there);
                });
            }
        });
    }

    /// Changes how requests are given and how they wait, and tells what is in force then.
    pub fn adjust(
        &self,
        change: impl FnOnce(Adjustment) -> Adjustment + Send + 'static,
        tell: impl FnOnce(Result<Adjustment, ConfigError>) + Send + 'static,
    ) {
        self.operate(move |at| {
            let adjusted = at.plane.adjust(change(at.plane.adjustment()));
            tell(adjusted.map(|()| at.plane.adjustment()));
        });
    }

    /// Changes who may be a member, and what members are told, and tells that it is done.
    pub fn set_members(&self, settings: MemberSettings, tell: impl FnOnce() + Send + 'static) {
        self.ask(move |group| {
            group.set_members(settings);
            tell();
        });
    }

    /// Says to clients from now on whether this router is the active one, and tells that they are
    /// being told (RT38).
    pub fn set_active(&self, active: Active, tell: impl FnOnce() + Send + 'static) {
        self.ask(move |group| {
            group.set_active(active);
            tell();
        });
    }

    fn operate(&self, work: impl FnOnce(&mut Operated<'_>) + Send + 'static) {
        let _ = self.plane.post(PlaneCommand::Operate(Box::new(work)));
    }

    fn ask(&self, work: impl FnOnce(&mut Group) + Send + 'static) {
        self.desk.leave(Box::new(work));
        self.waker.wake();
    }
}

impl core::fmt::Debug for Operator {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Operator").finish_non_exhaustive()
    }
}
