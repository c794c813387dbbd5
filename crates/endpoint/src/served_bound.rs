//! How many requests an endpoint takes at a time from the routers of a group that it serves.

use petasos_wire::CREDITS_MAX;

use crate::endpoint::Endpoint;
use crate::group::GroupError;
use crate::group_members::ServedGroupId;

impl<S> Endpoint<S> {
    /// Takes `bound` requests at a time from each router from now on, at most 4095; 0: none more.
    /// The number does not follow idle time any more.
    ///
    /// # Errors
    /// [`GroupError::Unknown`].
    pub fn set_served_bound(&mut self, id: ServedGroupId, bound: u16) -> Result<(), GroupError> {
        let group = self.cx.core.outside.groups.served(id).ok_or(GroupError::Unknown)?;
        let bound = bound.min(CREDITS_MAX as u16);
        (group.config.bound, group.config.idle_threads) = (bound, None);
        let joined = group.joined.iter().filter(|it| it.incarnation.is_some());
        let joined: Vec<_> = joined.map(|it| it.id).collect();
        if self.cx.core.idle_bound().is_some() {
            self.cx.core.set_idle_bound(None);
        }
        for id in joined {
            self.set_membership_n(id, bound)?;
        }
        Ok(())
    }

    /// How many requests a group's routers are told to give at a time.
    pub(crate) fn bound_of(&mut self, group: ServedGroupId) -> Option<u16> {
        let config = &self.cx.core.outside.groups.served(group)?.config;
        let (fixed, follows_idle_time) = (config.bound, config.idle_threads.is_some());
        let chosen = self.cx.core.idle_bound().filter(|_| follows_idle_time);
        Some(chosen.unwrap_or(fixed))
    }
}
