//! A process that was taken over from, until it has nothing left to do.

use std::time::Duration;

use petasos_attach::Attached;
use petasos_attach::session::Handover;
use petasos_base::Time;
use petasos_service::Hub;

use crate::control::World;
use crate::member::{Heaps, Member};
use crate::transport::TransportSet;

/// Applications have so long to attach to the successor before others begin calls there; at most
/// half of the time in which all has to end.
const ATTACH_MAX: Duration = Duration::from_secs(5);

/// How far it is.
pub struct Leaving {
    attached_by: Time,
    ended_by: Time,
    is_settled: bool,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nothing yet.
    Waits,
    /// The successor may let in others.
    Settled,
    /// There is nothing left to do.
    Nothing,
    /// What is left has no more time.
    TimeIsUp,
}

impl Leaving {
    /// Begins. What is left when `drain` has passed is ended.
    pub fn new(now: Time, drain: Duration) -> Leaving {
        let attach = ATTACH_MAX.min(drain / 2);
        Leaving { attached_by: now + attach, ended_by: now + drain, is_settled: false }
    }

    /// When something is due.
    pub fn next_due(&self) -> Time {
        if self.is_settled { self.ended_by } else { self.attached_by.min(self.ended_by) }
    }

    /// Goes on as far as the applications are, and other hosts.
    pub fn turn(
        &mut self,
        world: &mut World<'_>,
        mut transport: Option<&mut TransportSet>,
        now: Time,
    ) -> Left {
        let was_settled = self.is_settled;
        let are_attached = all(world, |member, hub| {
            let application = hub.application(member.number);
            let step = application.map_or(Handover::Moved, |found| found.memory().0.handover());
            step >= Handover::Attached
        });
        self.is_settled |= are_attached || now >= self.attached_by;
        if now >= self.ended_by {
            return Left::TimeIsUp;
        }
        if !self.is_settled {
            return Left::Waits;
        }
        for_each(world, |attached| {
            attached.let_move();
        });
        let are_gone = transport.as_mut().is_none_or(|transport| transport.has_nothing_left(now));
        if are_gone && all(world, Member::has_nothing_left) {
            return Left::Nothing;
        }
        if was_settled {
            return Left::Waits;
        }
        // Other hosts find the applications at the successor from now on.
        let grace = self.ended_by - now;
        transport.into_iter().for_each(|transport| transport.hand_over(grace, now));
        Left::Settled
    }
}

/// Whether something holds for all applications.
fn all(world: &mut World<'_>, what: impl Fn(&Member, &mut Hub<Heaps>) -> bool) -> bool {
    world.runtimes_mut().all(|runtime| {
        let hub = &mut runtime.hub;
        runtime.members.iter().all(|member| what(member, hub))
    })
}

/// Does something with the socket of each application.
pub(super) fn for_each(world: &mut World<'_>, mut what: impl FnMut(&mut Attached)) {
    for runtime in world.runtimes_mut() {
        for member in &runtime.members {
            if let Some(application) = runtime.hub.application(member.number) {
                what(&mut application.memory().0);
            }
        }
    }
}
