//! Routers that are named anew: a name that leads to a group's routers has other addresses now.

use core::time::Duration;
use std::net::SocketAddr;

use crate::endpoint::Endpoint;
use crate::group_members::{GroupId, ServedGroupId};
use crate::router_list::ROUTERS_MAX;

impl<S> Endpoint<S> {
    /// Names the group's routers anew, 1 to 8: their name has other addresses now. Routers that are
    /// neither named nor told of any more are left. An empty list changes nothing.
    pub fn set_group_routers(&mut self, group: GroupId, routers: &[SocketAddr]) {
        let Some(at) = self.cx.core.outside.groups.called(group) else { return };
        let (new, left) = at.routers.rename(routers, ROUTERS_MAX);
        self.leave_called_routers(group, left);
        new.into_iter().for_each(|router| self.ask_to_attach(group, router, Duration::ZERO));
        self.use_best(group);
    }

    /// Likewise, for a group that is served. If the endpoint serves at as many routers as it may,
    /// those that are too many are not asked.
    pub fn set_served_routers(&mut self, group: ServedGroupId, routers: &[SocketAddr]) {
        let routers_max = self.cx.core.outside.groups.served_routers_max(group);
        let Some(at) = self.cx.core.outside.groups.served(group) else { return };
        let (new, left) = at.routers.rename(routers, routers_max);
        self.leave_served_routers(group, left);
        new.into_iter().for_each(|router| self.ask_to_join(group, router, Duration::ZERO));
    }
}
