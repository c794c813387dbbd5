//! Workers of groups to connect to, as routers choose them (RT37): for streams, and whoever wants
//! to stay with one worker.

use std::net::SocketAddr;

use crate::core::Context;
use crate::endpoint::Endpoint;
use crate::enrolment::{EnrolmentId, PlaceWish};
use crate::error::SessionError;
use crate::group::Routing;
use crate::group_members::{CalledGroup, GroupId};
use crate::mail::GroupCommand;

impl CalledGroup {
    /// By which attachment a router can be asked for a place now.
    fn placed_by(&self) -> Option<EnrolmentId> {
        let used = self.attached.iter().find(|it| Some(it.session) == self.used);
        let used = used.filter(|it| it.is_connected && self.places.asked.is_none());
        used.map(|it| it.enrolment)
    }
}

impl<S> Endpoint<S> {
    /// Asks the group's router for a worker to connect to. The answer comes from
    /// [`Context::placed`](crate::Context::placed). `avoid`: the address of a worker that has just
    /// failed; another one is found, if there is one. Returns false if no router can be asked now,
    /// or one was asked and has not answered.
    pub fn place(&mut self, group: GroupId, routing: &Routing, avoid: Option<SocketAddr>) -> bool {
        let Some(at) = self.cx.core.outside.groups.called(group) else { return false };
        let Some(enrolment) = at.placed_by() else { return false };
        let last =
            at.places.last.filter(|(by, grant)| *by == enrolment && avoid == Some(grant.address));
        let avoid = last.map(|(_, grant)| grant.worker);
        (at.places.asked, at.places.told) = (Some(enrolment), None);
        let wish = PlaceWish { policy: routing.policy, key_hash: routing.key_hash, avoid };
        self.command_group(GroupCommand::Place { enrolment, wish })
    }
}

impl<S> Context<S> {
    /// Whether [`Endpoint::place`](crate::Endpoint::place) can ask a router now.
    pub fn can_be_placed(&self, group: GroupId) -> bool {
        let groups = &self.core.outside.groups.called;
        groups.iter().find(|it| it.id == group).is_some_and(|it| it.placed_by().is_some())
    }

    /// Takes the answer to [`Endpoint::place`](crate::Endpoint::place): the control address of a
    /// worker, to which sessions can be opened. `None` as long as there is none.
    pub fn placed(&mut self, group: GroupId) -> Option<Result<SocketAddr, SessionError>> {
        self.core.outside.groups.called(group)?.places.told.take()
    }
}
