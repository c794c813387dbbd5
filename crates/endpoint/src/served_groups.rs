//! Groups whose requests an endpoint serves: its memberships at their routers, by way of its node
//! (RT34 to RT36, RT38).
//!
//! An endpoint joins all routers of a group. A membership whose connection breaks goes on until the
//! router has granted another, for [`OUTLIVE`] at most.

use std::net::SocketAddr;
use std::sync::Arc;

use core::time::Duration;

use petasos_control::{Epoch, JoinGrant, JoinParams};
use petasos_tls::Identity;
use petasos_wire::CREDITS_MAX;

use crate::core::Context;
use crate::endpoint::Endpoint;
use crate::enrolment::{Ended, EnrolmentId, Grant, Granted, News, Reminder, Wish};
use crate::error::SessionError;
use crate::group::{GroupError, MembershipId};
use crate::group_members::{
    AtRouter, EPOCH_OVER, GroupOpenError, Joined, OUTLIVE, ServeConfig, ServedGroup, ServedGroupId,
};
use crate::mail::GroupCommand;
use crate::router_list::{RouterFailure, RouterList};

impl<S> Context<S> {
    /// What the endpoint has at the routers of a group that it serves; none of one that it has
    /// left.
    pub fn served_routers(&self, group: ServedGroupId) -> Vec<AtRouter> {
        let groups = &self.core.outside.groups.served;
        groups.iter().find(|it| it.id == group).map_or_else(Vec::new, ServedGroup::at_routers)
    }
}

impl ServedGroup {
    fn at_routers(&self) -> Vec<AtRouter> {
        let at = |address: SocketAddr| {
            let of = self.joined.iter().filter(move |it| it.router == address);
            of.filter(|it| it.incarnation.is_some()).max_by_key(|it| it.is_connected)
        };
        let state = |entry: &crate::router_list::RouterEntry| AtRouter {
            router: entry.address,
            is_member: at(entry.address).is_some(),
            is_active: false,
            peers: at(entry.address).map_or(0, |it| it.clients),
            failure: entry.error.clone(),
        };
        self.routers.iter().map(state).collect()
    }

    fn joined_by(&mut self, enrolment: EnrolmentId) -> Option<&mut Joined> {
        self.joined.iter_mut().find(|it| it.enrolment == enrolment)
    }
}

impl<S> Endpoint<S> {
    /// Begins to join the routers of a group: their requests come to the endpoint's handlers. The
    /// endpoint keeps asking routers that cannot be reached or refuse, less and less often.
    ///
    /// # Errors
    /// See [`GroupOpenError`].
    pub fn serve_group(&mut self, config: &ServeConfig) -> Result<ServedGroupId, GroupOpenError> {
        self.check_groups(self.cx.core.outside.groups.served.len())?;
        if u32::from(config.bound) > CREDITS_MAX {
            return Err(GroupOpenError::OutOfRange("bound"));
        }
        if config.dial_port == Some(0) {
            return Err(GroupOpenError::OutOfRange("dial_port"));
        }
        let routers = RouterList::new(&config.routers).ok_or(GroupOpenError::Routers)?;
        let addresses: Vec<_> = routers.iter().map(|entry| entry.address).collect();
        let groups = &mut self.cx.core.outside.groups;
        let id = ServedGroupId(groups.next_id());
        let (inboxes, joined) = (Vec::new(), Vec::new());
        groups.served.push(ServedGroup { id, config: config.clone(), routers, inboxes, joined });
        addresses.into_iter().for_each(|router| self.ask_to_join(id, router, Duration::ZERO));
        Ok(id)
    }

    /// Takes `bound` requests at a time from each router from now on, at most 4095; 0: none more.
    ///
    /// # Errors
    /// [`GroupError::Unknown`].
    pub fn set_served_bound(&mut self, id: ServedGroupId, bound: u16) -> Result<(), GroupError> {
        let group = self.cx.core.outside.groups.served(id).ok_or(GroupError::Unknown)?;
        let bound = bound.min(CREDITS_MAX as u16);
        group.config.bound = bound;
        let joined = group.joined.iter().filter(|it| it.incarnation.is_some());
        for id in joined.map(|it| it.id).collect::<Vec<_>>() {
            self.set_membership_n(id, bound)?;
        }
        Ok(())
    }

    /// Leaves a group at once. What was taken goes on; what routers have given and has not come is
    /// lost, and repeated by its clients. To lose nothing, first
    /// [announce that no more is taken](Endpoint::set_served_bound), and wait until nothing is
    /// [unfinished](Endpoint::unfinished).
    pub fn leave_served(&mut self, id: ServedGroupId) {
        let groups = &mut self.cx.core.outside.groups.served;
        let Some(at) = groups.iter().position(|it| it.id == id) else { return };
        let group = groups.remove(at);
        for joined in &group.joined {
            // It is there as long as the group has it.
            let _ = self.leave_group(joined.id);
        }
        self.withdraw_all(&group.inboxes);
    }

    fn ask_to_join(&mut self, group: ServedGroupId, router: SocketAddr, after: Duration) {
        let Some(at) = self.cx.core.outside.groups.served(group) else { return };
        let config = at.config.clone();
        let Some(offer) = self.offer_in_turn(group) else {
            let text = "the endpoint's limit of memberships is reached";
            return self.join_anew(group, router, RouterFailure::here(SessionError::NoRoute, text));
        };
        let params = JoinParams {
            endpoint: self.cx.core.outside.index(),
            session: offer.session,
            tag: offer.tag,
            payload_bytes_max: self.group_payload_max(router),
            bound: config.bound,
            weight: config.weight,
            is_primary: config.is_primary,
            dial_port: config.dial_port,
            address: self.group_address(),
        };
        let Some((enrolment, inbox)) = self.enrol(router, Wish::Join(params), after) else {
            let _ = self.leave_group(offer.id);
            return;
        };
        let Some(at) = self.cx.core.outside.groups.served(group) else { return };
        at.inboxes.push((enrolment, inbox));
        at.joined.push(Joined {
            enrolment,
            router,
            id: offer.id,
            incarnation: None,
            is_connected: true,
            clients: 0,
            epochs: (0, None),
        });
        if let Some(entry) = at.routers.get_mut(router) {
            entry.asked = Some(enrolment);
        }
    }

    /// An offer of a membership, for which one whose connection is gone makes room.
    fn offer_in_turn(&mut self, group: ServedGroupId) -> Option<crate::group::MembershipOffer> {
        if let Ok(offer) = self.offer_membership() {
            return Some(offer);
        }
        let at = self.cx.core.outside.groups.served(group)?;
        let oldest = at.joined.iter().find(|it| !it.is_connected)?.enrolment;
        self.give_membership_up(group, oldest);
        self.offer_membership().ok()
    }

    /// Handles news of a group that is served.
    pub(crate) fn on_served_news(&mut self, group: ServedGroupId, enrolment: EnrolmentId) {
        let Some(at) = self.cx.core.outside.groups.served(group) else { return };
        let inbox = at.inboxes.iter().find(|(id, _)| *id == enrolment);
        let Some(News { granted, clients, epoch, routers, ended, .. }) =
            inbox.map(|(_, inbox)| inbox.take())
        else {
            return;
        };
        if let Some(granted) = granted {
            self.on_joined(group, enrolment, granted);
        }
        for (client, told) in clients {
            self.on_client_changed(group, enrolment, client, told);
        }
        if let Some(epoch) = epoch {
            self.on_served_epoch(group, enrolment, &epoch);
        }
        let at = self.cx.core.outside.groups.served(group);
        let router = at.and_then(|at| Some(at.joined_by(enrolment)?.router));
        if let (Some(router), Some(told)) = (router, routers) {
            self.on_served_routers(group, router, &told);
        }
        if let Some(ended) = ended {
            self.on_membership_ended(group, enrolment, ended);
        }
    }

    fn on_joined(&mut self, group: ServedGroupId, enrolment: EnrolmentId, granted: Granted) {
        let Grant::Joined(grant) = &granted.grant else { return };
        let Some(at) = self.cx.core.outside.groups.served(group) else { return };
        let bound = at.config.bound;
        let Some(joined) = at.joined_by(enrolment) else { return };
        let (id, router) = (joined.id, joined.router);
        if let Err(failure) = self.join_checked(id, grant, bound, &granted) {
            self.command_group(GroupCommand::Withdraw { enrolment });
            return self.join_again(group, enrolment, failure);
        }
        let Some(at) = self.cx.core.outside.groups.served(group) else { return };
        if let Some(entry) = at.routers.get_mut(router) {
            entry.note_granted();
        }
        let Some(joined) = at.joined_by(enrolment) else { return };
        joined.incarnation = Some(granted.incarnation);
        joined.epochs = (grant.epoch.number, None);
        self.take_epochs(group, enrolment);
        // A router process has one membership of an endpoint (RT34). That at an earlier process
        // goes on for a while: clients may be bound to it.
        let Some(at) = self.cx.core.outside.groups.served(group) else { return };
        let is_same = |it: &&Joined| it.router == router && it.enrolment != enrolment;
        let former = at.joined.iter().filter(is_same);
        let former = former.filter(|it| it.incarnation == Some(granted.incarnation));
        let former: Vec<_> = former.map(|it| it.enrolment).collect();
        former.into_iter().for_each(|it| self.give_membership_up(group, it));
    }

    fn join_checked(
        &mut self,
        id: MembershipId,
        grant: &JoinGrant,
        bound: u16,
        granted: &Granted,
    ) -> Result<(), RouterFailure> {
        for address in [grant.source, grant.feedback] {
            let ip = address.ip.unwrap_or(granted.router_ip);
            if self.cx.core.outside.forbids(ip) {
                let data = SocketAddr::new(ip, address.port);
                return Err(RouterFailure::here(SessionError::Plaintext(data), ""));
            }
        }
        let joined = self.join_group(id, grant, bound, granted.router_ip);
        joined.map_err(|error| RouterFailure::here(SessionError::NoRoute, &error.to_string()))
    }

    /// Takes requests of a membership's epochs, and says so.
    fn take_epochs(&mut self, group: ServedGroupId, enrolment: EnrolmentId) {
        let Some(at) = self.cx.core.outside.groups.served(group) else { return };
        let Some(joined) = at.joined_by(enrolment) else { return };
        let (id, (epoch, before)) = (joined.id, joined.epochs);
        if self.set_membership_epochs(id, epoch, before).is_ok() {
            self.command_group(GroupCommand::EpochTaken { enrolment, epoch });
        }
    }

    fn on_served_epoch(&mut self, group: ServedGroupId, enrolment: EnrolmentId, epoch: &Epoch) {
        let Some(at) = self.cx.core.outside.groups.served(group) else { return };
        let Some(joined) = at.joined_by(enrolment) else { return };
        let (former, _) = joined.epochs;
        if former == epoch.number {
            return;
        }
        joined.epochs = (epoch.number, Some(former));
        self.take_epochs(group, enrolment);
        self.remind(enrolment, Reminder::EpochOver(former), EPOCH_OVER);
    }

    fn on_client_changed(
        &mut self,
        group: ServedGroupId,
        enrolment: EnrolmentId,
        client: u32,
        told: Option<Option<Arc<Identity>>>,
    ) {
        let Some(at) = self.cx.core.outside.groups.served(group) else { return };
        let Some(id) = at.joined_by(enrolment).map(|it| it.id) else { return };
        match told {
            Some(identity) => {
                if let Err(error) = self.set_group_client(id, client, identity) {
                    // Its requests are refused as not takeable now (RT29).
                    tracing::warn!(client, %error, "a client of a group is not served");
                }
            }
            None => self.remove_group_client(id, client),
        }
        let clients = self.cx.core.group_requests.as_deref();
        let clients = clients.and_then(|it| it.joined(id)).map_or(0, |it| it.told.len());
        let at = self.cx.core.outside.groups.served(group);
        if let Some(joined) = at.and_then(|at| at.joined_by(enrolment)) {
            joined.clients = clients;
        }
    }

    fn on_served_routers(&mut self, group: ServedGroupId, teller: SocketAddr, told: &[SocketAddr]) {
        let Some(at) = self.cx.core.outside.groups.served(group) else { return };
        let (new, left) = at.routers.hear(teller, told);
        for entry in left {
            let Some(at) = self.cx.core.outside.groups.served(group) else { return };
            let of = at.joined.iter().filter(|it| it.router == entry.address);
            let of: Vec<_> = of.map(|it| it.enrolment).collect();
            of.into_iter().for_each(|enrolment| self.give_membership_up(group, enrolment));
        }
        new.into_iter().for_each(|router| self.ask_to_join(group, router, Duration::ZERO));
    }

    fn on_membership_ended(&mut self, group: ServedGroupId, enrolment: EnrolmentId, ended: Ended) {
        let Some(at) = self.cx.core.outside.groups.served(group) else { return };
        let Some(joined) = at.joined_by(enrolment) else { return };
        let router = joined.router;
        match ended {
            Ended::NotGranted(error, detail) => {
                self.join_again(group, enrolment, RouterFailure { error, detail });
            }
            Ended::Broken(error) => {
                joined.is_connected = false;
                self.remind(enrolment, Reminder::Outlived, OUTLIVE);
                let failure = RouterFailure { error, detail: String::new() };
                self.join_anew(group, router, failure);
            }
            Ended::Left => {
                let text = "the router has ended the membership";
                let failure = RouterFailure::here(SessionError::ClosedByPeer, text);
                self.join_again(group, enrolment, failure);
            }
        }
    }

    /// Gives this enrolment up, and asks its router again.
    fn join_again(&mut self, group: ServedGroupId, enrolment: EnrolmentId, failure: RouterFailure) {
        let Some(at) = self.cx.core.outside.groups.served(group) else { return };
        let Some(router) = at.joined_by(enrolment).map(|it| it.router) else { return };
        self.give_membership_up(group, enrolment);
        self.join_anew(group, router, failure);
    }

    fn join_anew(&mut self, group: ServedGroupId, router: SocketAddr, failure: RouterFailure) {
        let Some(at) = self.cx.core.outside.groups.served(group) else { return };
        let Some(entry) = at.routers.get_mut(router) else { return };
        let after = entry.note_failure(failure);
        self.ask_to_join(group, router, after);
    }

    /// Ends a membership, or the attempt. What was taken goes on.
    fn give_membership_up(&mut self, group: ServedGroupId, enrolment: EnrolmentId) {
        self.command_group(GroupCommand::Withdraw { enrolment });
        let Some(at) = self.cx.core.outside.groups.served(group) else { return };
        at.inboxes.retain(|(id, _)| *id != enrolment);
        if let Some(place) = at.joined.iter().position(|it| it.enrolment == enrolment) {
            let id = at.joined.remove(place).id;
            // It is there as long as the group has it.
            let _ = self.leave_group(id);
        }
    }

    /// Handles a reminder of a membership.
    pub(crate) fn on_served_reminder(
        &mut self,
        group: ServedGroupId,
        enrolment: EnrolmentId,
        reminder: Reminder,
    ) {
        let Some(at) = self.cx.core.outside.groups.served(group) else { return };
        let Some(joined) = at.joined_by(enrolment) else { return };
        match reminder {
            Reminder::Outlived if !joined.is_connected => self.give_membership_up(group, enrolment),
            Reminder::EpochOver(former) if joined.epochs.1 == Some(former) => {
                joined.epochs.1 = None;
                let (id, (epoch, _)) = (joined.id, joined.epochs);
                // It is there as long as the group has it.
                let _ = self.set_membership_epochs(id, epoch, None);
            }
            _ => {}
        }
    }

    /// Takes no more requests from groups: their routers are told, and give them to others.
    pub(crate) fn drain_served(&mut self) {
        let groups = self.cx.core.outside.groups.served.iter().map(|group| group.id);
        for group in groups.collect::<Vec<_>>() {
            // It was just there.
            let _ = self.set_served_bound(group, 0);
        }
    }
}
