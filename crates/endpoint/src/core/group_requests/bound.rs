//! How many requests an endpoint takes at a time, if that follows its idle time.

use petasos_base::{Clock, Time};
use petasos_proto::IdleBound;
use petasos_proto::taken::TakenId;

use super::GroupRequests;
use crate::core::Core;

impl GroupRequests {
    /// A request's handler begins to run.
    #[inline]
    pub(crate) fn begin(&mut self, id: TakenId, now: Time) {
        self.running = Some(id);
        if let Some(idle) = self.idle_bound.as_deref_mut() {
            idle.0.begin(now);
        }
    }

    /// The turn is over: routers may be told to give another number of requests at a time.
    #[cold]
    pub(super) fn choose_bound(&mut self) {
        let Some((idle, clock)) = self.idle_bound.as_deref_mut() else { return };
        if idle.turn_over(self.taken.take_handlers_ended(), clock.now()).is_some() {
            self.tell_bound();
        }
    }

    fn tell_bound(&mut self) {
        let Some(bound) = self.idle_bound.as_deref().map(|(idle, _)| idle.bound()) else { return };
        for membership in self.memberships.iter().flatten() {
            if let Some(given) = self.taken.given(membership.id) {
                given.set_n(bound);
            }
        }
    }
}

impl<S> Core<S> {
    /// From now on the number of requests that the endpoint takes at a time follows its idle time,
    /// or not.
    pub(crate) fn set_idle_bound(&mut self, idle: Option<(IdleBound, Clock)>) {
        let requests = self.group_requests_mut();
        requests.taken.take_handlers_ended();
        requests.idle_bound = idle.map(Box::new);
        requests.tell_bound();
        self.list_group_requests();
    }

    /// The number that idle time has led to, if it is followed.
    pub(crate) fn idle_bound(&self) -> Option<u16> {
        let idle = self.group_requests.as_deref()?.idle_bound.as_deref()?;
        Some(idle.0.bound())
    }
}
