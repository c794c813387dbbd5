//! Groups whose requests an endpoint serves: its memberships at their routers, by way of its node
//! (RT34 to RT36, RT38).
//!
//! An endpoint joins all routers of a group. A membership whose connection breaks goes on until the
//! router has granted another, for [`OUTLIVE`] at most.

use std::net::SocketAddr;
use std::sync::Arc;

use core::time::Duration;

use petasos_base::Time;
use petasos_control::{Epoch, JoinGrant, JoinParams, RefuseCode, Table};
use petasos_tls::Identity;
use petasos_wire::CREDITS_MAX;

use crate::core::Context;
use crate::endpoint::Endpoint;
use crate::enrolment::{Ended, EnrolmentId, Grant, Granted, MemberRequest, News, Reminder};
use crate::error::SessionError;
use crate::group::{MembershipId, RouterProcess};
use crate::group_members::{
    AtRouter, EPOCH_OVER, GroupOpenError, Joined, OUTLIVE, ROUTERS_AFTER, ServeConfig, ServedGroup,
    ServedGroupId,
};
use crate::mail::GroupCommand;
use crate::router_list::{AGAIN_MIN, RouterEntry, RouterFailure, RouterList, jittered};

impl<S> Context<S> {
    /// What the endpoint has at the routers of a group that it serves; none of one that it has
    /// left.
    pub fn served_routers(&self, group: ServedGroupId) -> Vec<AtRouter> {
        let groups = &self.core.outside.groups.served;
        let requests = self.core.group_requests.as_deref();
        let clients = |id| requests.and_then(|it| it.joined(id)).map_or(0, |it| it.told.len());
        let group = groups.iter().find(|it| it.id == group);
        group.map_or_else(Vec::new, |group| group.at_routers(clients))
    }
}

impl ServedGroup {
    fn at_routers(&self, clients: impl Fn(MembershipId) -> usize) -> Vec<AtRouter> {
        let at = |address: SocketAddr| {
            let of = self.joined.iter().filter(move |it| it.router == address);
            of.filter(|it| it.incarnation.is_some()).max_by_key(|it| it.is_connected)
        };
        let state = |entry: &RouterEntry| AtRouter {
            router: entry.address,
            is_member: at(entry.address).is_some(),
            is_connected: at(entry.address).is_some_and(|it| it.is_connected),
            is_active: false,
            term: 0,
            peers: at(entry.address).map_or(0, |it| clients(it.id)),
            failure: entry.error.clone(),
        };
        self.routers.iter().map(state).collect()
    }
}

impl<S> Endpoint<S> {
    /// Begins to join the routers of a group: their requests come to the endpoint's handlers. The
    /// endpoint keeps asking routers that cannot be reached or refuse, less and less often. Without
    /// routers it waits for [some](Endpoint::set_served_routers).
    ///
    /// # Errors
    /// See [`GroupOpenError`].
    pub fn serve_group(&mut self, config: &ServeConfig) -> Result<ServedGroupId, GroupOpenError> {
        self.check_groups(self.cx.core.outside.groups.served.len())?;
        if u32::from(config.bound) > CREDITS_MAX {
            return Err(GroupOpenError::OutOfRange("bound"));
        }
        if config.idle_threads.is_some() && config.bound == 0 || config.idle_threads == Some(0) {
            return Err(GroupOpenError::OutOfRange("idle_threads"));
        }
        if config.dial_port == Some(0) {
            return Err(GroupOpenError::OutOfRange("dial_port"));
        }
        let routers = RouterList::new(&config.routers).ok_or(GroupOpenError::Routers)?;
        let addresses: Vec<_> = routers.iter().map(|entry| entry.address).collect();
        let groups = &mut self.cx.core.outside.groups;
        let id = ServedGroupId(groups.next_id());
        if addresses.len() > groups.served_routers_max(id) {
            return Err(GroupOpenError::TooMany);
        }
        groups.served.push(ServedGroup {
            id,
            config: config.clone(),
            routers,
            inboxes: Vec::new(),
            joined: Vec::new(),
            told_at: Time::ZERO,
        });
        if let Some(threads) = config.idle_threads {
            self.follow_idle_time(threads, config.bound);
        }
        addresses.iter().for_each(|router| self.ask_to_join(id, *router, Duration::ZERO));
        let group = self.cx.core.outside.groups.served(id);
        if !addresses.is_empty() && group.is_some_and(|group| group.inboxes.is_empty()) {
            // The node has ended.
            self.leave_served(id);
            return Err(GroupOpenError::NotAttached);
        }
        Ok(id)
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
        group.joined.iter().for_each(|it| self.ask_aliases(it.enrolment));
    }

    /// Asks a router after a time. The offer is made then: there are few.
    pub(crate) fn ask_to_join(
        &mut self,
        group: ServedGroupId,
        router: SocketAddr,
        after: Duration,
    ) {
        if after.is_zero() {
            return self.join_now(group, router);
        }
        let outside = &self.cx.core.outside;
        let Some(attachment) = &outside.attachment else { return };
        let id = attachment.shared.next_enrolment();
        let Some(at) = self.cx.core.outside.groups.served(group) else { return };
        at.inboxes.push((id, Arc::default()));
        if let Some(entry) = at.routers.get_mut(router) {
            entry.asked = Some(id);
        }
        self.remind(id, Reminder::AskAgain, after);
    }

    fn join_now(&mut self, group: ServedGroupId, router: SocketAddr) {
        let Some(bound) = self.bound_of(group) else { return };
        let Some(at) = self.cx.core.outside.groups.served(group) else { return };
        let config = at.config.clone();
        let Some(offer) = self.offer_in_turn(group) else {
            let text = "the endpoint's limit of memberships is reached";
            let error = SessionError::RefusedBy(RefuseCode::SessionsFull);
            return self.join_anew(group, router, RouterFailure::here(error, text));
        };
        let params = JoinParams {
            endpoint: self.cx.core.outside.index(),
            session: offer.session,
            tag: offer.tag,
            payload_bytes_max: self.group_payload_max(router),
            bound,
            weight: config.weight,
            is_primary: config.is_primary,
            dial_port: config.dial_port,
            address: self.group_address(),
        };
        let Some((enrolment, inbox)) =
            self.enrol(router, MemberRequest::Join(params), Duration::ZERO)
        else {
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
            epoch: 0,
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
        let Some(News { granted, table, clients, epoch, routers, ended, .. }) =
            inbox.map(|(_, inbox)| inbox.take())
        else {
            return;
        };
        if let Some(granted) = granted {
            self.on_joined(group, enrolment, granted);
        }
        if let Some(table) = table {
            self.on_table(group, enrolment, &table);
        }
        // Who is gone makes room.
        let (there, gone): (Vec<_>, Vec<_>) = clients.into_iter().partition(|it| it.1.is_some());
        for (client, told) in gone.into_iter().chain(there) {
            self.on_client_changed(group, enrolment, client, told);
        }
        if let Some(epoch) = epoch {
            self.on_served_epoch(group, enrolment, &epoch);
        }
        let at = self.cx.core.outside.groups.served(group);
        let router = at.and_then(|at| Some(at.joined_by(enrolment)?.router));
        if let (Some(router), Some(told)) = (router, routers) {
            self.on_served_routers(group, (enrolment, router), &told);
        }
        if let Some(ended) = ended {
            self.on_membership_ended(group, enrolment, ended);
        }
    }

    fn on_joined(&mut self, group: ServedGroupId, enrolment: EnrolmentId, granted: Granted) {
        let Grant::Joined(grant) = &granted.grant else { return };
        let Some(bound) = self.bound_of(group) else { return };
        let Some(at) = self.cx.core.outside.groups.served(group) else { return };
        let Some(joined) = at.joined_by(enrolment) else { return };
        let (id, router) = (joined.id, joined.router);
        let now = self.cx.core.now;
        if let Err(failure) = self.join_checked(id, grant, bound, &granted) {
            self.command_group(GroupCommand::Withdraw { enrolment });
            return self.join_again(group, enrolment, failure);
        }
        let Some(at) = self.cx.core.outside.groups.served(group) else { return };
        if let Some(entry) = at.routers.get_mut(router) {
            entry.note_granted(now);
        }
        let names = at.config.methods.clone();
        let Some(joined) = at.joined_by(enrolment) else { return };
        joined.incarnation = Some(granted.incarnation);
        joined.epoch = grant.epoch.number;
        if let Some(names) = names {
            // Until the router has told its table, it names nothing.
            self.cx.core.learn_membership_methods(id, &[], &names);
        }
        self.command_group(GroupCommand::EpochTaken { enrolment, epoch: grant.epoch.number });
        // A router process has one membership of an endpoint (RT34). That at an earlier process
        // goes on for a while: clients may be bound to it.
        self.end_former(enrolment, granted.incarnation);
    }

    /// A router process has granted a membership: the one before has ended. If it was by way of
    /// another address, such as the group's own, that is asked again when this one ends.
    fn end_former(&mut self, enrolment: EnrolmentId, incarnation: u64) {
        let served = &self.cx.core.outside.groups.served;
        let all = served.iter().flat_map(|group| group.joined.iter().map(|it| (group.id, it)));
        let former =
            all.filter(|(_, it)| it.incarnation == Some(incarnation) && it.enrolment != enrolment);
        let former: Vec<_> = former.map(|(group, it)| (group, it.enrolment, it.router)).collect();
        for (group, former, router) in former {
            self.give_membership_up(group, former);
            let at = self.cx.core.outside.groups.served(group);
            // One whose connection is gone only waits to be over: nobody asks again for it.
            let is_other = |it: &Joined| it.router == router && it.is_connected;
            let has_other = at.as_ref().is_some_and(|at| at.joined.iter().any(is_other));
            if let Some(entry) = at.and_then(|at| at.routers.get_mut(router))
                && !has_other
            {
                entry.alias_of = Some(enrolment);
            }
        }
    }

    /// Asks the addresses again that led to the router of this membership, which has ended.
    fn ask_aliases(&mut self, enrolment: EnrolmentId) {
        let served = &mut self.cx.core.outside.groups.served;
        let mut again = Vec::new();
        for group in served.iter_mut() {
            let aliases = group.routers.iter().filter(|it| it.alias_of == Some(enrolment));
            again.extend(aliases.map(|it| (group.id, it.address)));
        }
        for (group, router) in again {
            let at = self.cx.core.outside.groups.served(group);
            if let Some(entry) = at.and_then(|at| at.routers.get_mut(router)) {
                entry.alias_of = None;
            }
            self.ask_to_join(group, router, jittered(AGAIN_MIN));
        }
    }

    /// A router has told the numbers of the group's methods.
    fn on_table(&mut self, group: ServedGroupId, enrolment: EnrolmentId, table: &[Table]) {
        let Some(at) = self.cx.core.outside.groups.served(group) else { return };
        let names = at.config.methods.clone();
        if let (Some(joined), Some(names)) = (at.joined_by(enrolment), names) {
            let id = joined.id;
            self.cx.core.learn_membership_methods(id, table, &names);
        }
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
        let router = RouterProcess { ip: granted.router_ip, incarnation: granted.incarnation };
        let joined = self.join_group(id, grant, bound, router);
        joined.map_err(|error| RouterFailure::of(&error))
    }

    /// Takes requests of another epoch, too, and says so.
    fn on_served_epoch(&mut self, group: ServedGroupId, enrolment: EnrolmentId, epoch: &Epoch) {
        let Some(at) = self.cx.core.outside.groups.served(group) else { return };
        let Some(joined) = at.joined_by(enrolment) else { return };
        if joined.epoch == epoch.number {
            return;
        }
        let id = joined.id;
        if let Err(error) = self.begin_membership_epoch(id, epoch) {
            // It is not confirmed: the router gives its requests to others.
            tracing::debug!(epoch = epoch.number, %error, "a router's epoch");
            return;
        }
        let Some(at) = self.cx.core.outside.groups.served(group) else { return };
        if let Some(joined) = at.joined_by(enrolment) {
            joined.epoch = epoch.number;
        }
        let epoch = epoch.number;
        self.command_group(GroupCommand::EpochTaken { enrolment, epoch });
        self.remind(enrolment, Reminder::EpochOver(epoch), EPOCH_OVER);
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
                    tracing::debug!(client, %error, "a client of a group is not served");
                }
            }
            None => self.remove_group_client(id, client),
        }
    }

    /// As those of groups that are called.
    fn on_served_routers(
        &mut self,
        group: ServedGroupId,
        (enrolment, teller): (EnrolmentId, SocketAddr),
        told: &[SocketAddr],
    ) {
        let now = self.cx.core.now;
        let routers_max = self.cx.core.outside.groups.served_routers_max(group);
        let Some(at) = self.cx.core.outside.groups.served(group) else { return };
        if at.told_at != Time::ZERO && now - at.told_at < ROUTERS_AFTER {
            if let Some((_, inbox)) = at.inboxes.iter().find(|(id, _)| *id == enrolment) {
                inbox.put_back(told);
            }
            return self.remind(enrolment, Reminder::Routers, ROUTERS_AFTER);
        }
        at.told_at = now;
        let (new, left) = at.routers.hear(teller, told, routers_max);
        self.leave_served_routers(group, left);
        new.into_iter().for_each(|router| self.ask_to_join(group, router, jittered(AGAIN_MIN)));
    }

    pub(crate) fn leave_served_routers(&mut self, group: ServedGroupId, left: Vec<RouterEntry>) {
        for entry in left {
            let Some(at) = self.cx.core.outside.groups.served(group) else { return };
            let of = at.joined.iter().filter(|it| it.router == entry.address);
            let of: Vec<_> = of.map(|it| it.enrolment).chain(entry.asked).collect();
            for enrolment in of {
                self.give_membership_up(group, enrolment);
                self.ask_aliases(enrolment);
            }
        }
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
                self.ask_aliases(enrolment);
            }
            Ended::Closed(error) => {
                let failure = RouterFailure { error, detail: String::new() };
                self.join_again(group, enrolment, failure);
                self.ask_aliases(enrolment);
            }
        }
    }

    fn join_again(&mut self, group: ServedGroupId, enrolment: EnrolmentId, failure: RouterFailure) {
        let Some(at) = self.cx.core.outside.groups.served(group) else { return };
        let Some(router) = at.joined_by(enrolment).map(|it| it.router) else { return };
        self.give_membership_up(group, enrolment);
        self.join_anew(group, router, failure);
    }

    fn join_anew(&mut self, group: ServedGroupId, router: SocketAddr, failure: RouterFailure) {
        let now = self.cx.core.now;
        let Some(at) = self.cx.core.outside.groups.served(group) else { return };
        let Some(entry) = at.routers.get_mut(router) else { return };
        let after = entry.note_failure(now, failure);
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
        if reminder == Reminder::AskAgain {
            at.inboxes.retain(|(id, _)| *id != enrolment);
            let entry = at.routers.asked_by(enrolment);
            let router = entry.map(|entry| {
                entry.asked = None;
                entry.address
            });
            return router.into_iter().for_each(|router| self.join_now(group, router));
        }
        let Some(joined) = at.joined_by(enrolment) else { return };
        let router = joined.router;
        match reminder {
            Reminder::Outlived if !joined.is_connected => {
                // What has been told at the same address since then counts, also if its router is
                // joined by another address by now.
                let is_there = |it: &Joined| it.is_connected && it.incarnation.is_some();
                let has_other = at.joined.iter().any(|it| it.router == router && is_there(it))
                    || at.routers.get_mut(router).is_some_and(|entry| entry.alias_of.is_some());
                let left = if has_other { vec![] } else { at.routers.forget_teller(router) };
                self.leave_served_routers(group, left);
                self.give_membership_up(group, enrolment);
            }
            Reminder::Routers => self.on_served_news(group, enrolment),
            Reminder::EpochOver(newest) if joined.epoch == newest => {
                let id = joined.id;
                // It is there as long as the group has it.
                let _ = self.end_membership_epoch(id);
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
