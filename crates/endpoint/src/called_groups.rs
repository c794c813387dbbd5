//! Groups that an endpoint calls: its attachments to their routers, by way of its node (RT33, RT35,
//! RT36, RT38).
//!
//! The node says what routers grant and tell; here it becomes attachments of `groups`. An endpoint
//! attaches to all routers of a group, and its calls go by one of them. An attachment whose
//! connection breaks goes on until there is another with that router, for [`OUTLIVE`] at most.

use std::net::SocketAddr;
use std::sync::Arc;

use petasos_base::Time;
use petasos_control::{ASKED_MAX, AttachGrant, AttachParams, DataAddress};

use crate::core::Context;
use crate::endpoint::Endpoint;
use crate::enrolment::{Ended, EnrolmentId, Grant, Granted, Inbox, MemberRequest, News, Reminder};
use crate::error::SessionError;
use crate::group_members::{
    AtRouter, Attached, CalledGroup, GROUPS_MAX, GroupConfig, GroupId, GroupOpenError, OUTLIVE,
    OUTLIVE_ENDED, Places, ROUTERS_AFTER, WORN_AFTER,
};
use crate::mail::{Command, Enrolment, GroupCommand};
use crate::router_list::{
    AGAIN_MIN, ROUTERS_MAX, RouterEntry, RouterFailure, RouterList, jittered,
};
use crate::sessions::SessionId;

use core::time::Duration;

impl<S> Context<S> {
    /// The attachment by which calls to a group go now; `None` while no router has granted one and
    /// told who the workers are. Ask for it before each call: it changes when routers do.
    pub fn group_session(&self, group: GroupId) -> Option<SessionId> {
        let groups = &self.core.outside.groups.called;
        groups.iter().find(|it| it.id == group)?.used
    }

    /// The control address of the router to which [`Context::group_session`] is an attachment, as
    /// long as the connection with it stands.
    pub fn group_router(&self, group: GroupId) -> Option<SocketAddr> {
        self.used_attachment(group).map(|it| it.router)
    }

    /// Whether a session, which is ready, is with the router process to which
    /// [`Context::group_session`] is an attachment: an address may be another router's by now.
    pub fn is_with_group_router(&self, group: GroupId, session: SessionId) -> bool {
        let entry = self.core.clients.get(session.index);
        let entry = entry.filter(|entry| entry.generation == session.generation);
        let link = entry.and_then(|entry| entry.peer);
        link.is_some() && link == self.used_attachment(group).map(|it| it.link)
    }

    fn used_attachment(&self, group: GroupId) -> Option<&Attached> {
        let groups = &self.core.outside.groups.called;
        let group = groups.iter().find(|it| it.id == group)?;
        group.attached.iter().find(|it| Some(it.session) == group.used && it.is_connected)
    }

    /// What the endpoint has at the routers of a group that it calls; none of a group that is
    /// closed.
    pub fn group_routers(&self, group: GroupId) -> Vec<AtRouter> {
        let groups = &self.core.outside.groups.called;
        let workers =
            |session| self.core.group_attachment(session).map_or(0, |it| it.workers_count());
        let group = groups.iter().find(|it| it.id == group);
        group.map_or_else(Vec::new, |group| group.at_routers(workers))
    }
}

impl CalledGroup {
    fn at_routers(&self, workers: impl Fn(SessionId) -> usize) -> Vec<AtRouter> {
        let at = |address: SocketAddr| {
            let of = self.attached.iter().filter(move |it| it.router == address);
            of.max_by_key(|it| it.is_connected)
        };
        let state = |entry: &RouterEntry| AtRouter {
            router: entry.address,
            is_member: at(entry.address).is_some(),
            is_connected: at(entry.address).is_some_and(|it| it.is_connected && it.has_roster),
            is_active: at(entry.address).is_some_and(|it| it.active.is_some()),
            term: at(entry.address).and_then(|it| it.active).map_or(0, |(term, _)| term),
            peers: at(entry.address).map_or(0, |it| workers(it.session)),
            failure: entry.error.clone(),
        };
        self.routers.iter().map(state).collect()
    }
}

impl<S> Endpoint<S> {
    /// Begins to attach to the routers of a group. Calls are made by
    /// [`Context::group_session`](crate::Context::group_session), once there is one; the endpoint
    /// keeps asking routers that cannot be reached or refuse, less and less often.
    ///
    /// # Errors
    /// See [`GroupOpenError`].
    pub fn open_group(&mut self, config: &GroupConfig) -> Result<GroupId, GroupOpenError> {
        self.check_groups(self.cx.core.outside.groups.called.len())?;
        if !(1..=ASKED_MAX).contains(&config.asked_max) {
            return Err(GroupOpenError::OutOfRange("asked_max"));
        }
        let routers = RouterList::new(&config.routers).ok_or(GroupOpenError::Routers)?;
        if routers.iter().next().is_none() {
            return Err(GroupOpenError::Routers);
        }
        let addresses: Vec<_> = routers.iter().map(|entry| entry.address).collect();
        let groups = &mut self.cx.core.outside.groups;
        let id = GroupId(groups.next_id());
        groups.called.push(CalledGroup {
            id,
            asked_max: config.asked_max,
            moves_calls: config.moves_calls,
            hears_of_others: config.hears_of_others,
            routers,
            inboxes: Vec::new(),
            attached: Vec::new(),
            used: None,
            former: Vec::new(),
            told_at: Time::ZERO,
            places: Places::default(),
        });
        addresses.into_iter().for_each(|router| self.ask_to_attach(id, router, Duration::ZERO));
        if self.cx.core.outside.groups.called(id).is_some_and(|group| group.inboxes.is_empty()) {
            // The node has ended.
            self.close_group(id);
            return Err(GroupOpenError::NotAttached);
        }
        Ok(id)
    }

    /// Closes a group: its calls end with [`crate::CallError::SessionClosed`], and its routers are
    /// told.
    pub fn close_group(&mut self, group: GroupId) {
        let groups = &mut self.cx.core.outside.groups.called;
        let Some(at) = groups.iter().position(|it| it.id == group) else { return };
        let group = groups.remove(at);
        group.attached.iter().for_each(|it| self.close_session(it.session));
        group.former.iter().for_each(|session| self.cx.core.close_group(*session));
        self.withdraw_all(&group.inboxes);
    }

    /// Whether one more group may be opened.
    pub(crate) fn check_groups(&self, count: usize) -> Result<(), GroupOpenError> {
        let outside = &self.cx.core.outside;
        if outside.attachment.is_none() {
            return Err(GroupOpenError::NotAttached);
        }
        if !self.io().has_datagrams() {
            return Err(GroupOpenError::NoDatagrams);
        }
        if count >= GROUPS_MAX { Err(GroupOpenError::TooMany) } else { Ok(()) }
    }

    pub(crate) fn withdraw_all(&mut self, inboxes: &[(EnrolmentId, Arc<Inbox>)]) {
        for (enrolment, _) in inboxes {
            self.command_group(GroupCommand::Withdraw { enrolment: *enrolment });
        }
    }

    pub(crate) fn command_group(&self, command: GroupCommand) -> bool {
        self.cx.core.outside.command(Command::Group(command))
    }

    /// Asks a router. Returns the enrolment's name and inbox; `None` if the node has ended.
    pub(crate) fn enrol(
        &mut self,
        router: SocketAddr,
        request: MemberRequest,
        after: Duration,
    ) -> Option<(EnrolmentId, Arc<Inbox>)> {
        let outside = &self.cx.core.outside;
        let from = outside.mailbox()?.clone();
        let id = outside.attachment.as_ref()?.shared.next_enrolment();
        let inbox = Arc::new(Inbox::default());
        let enrolment = Box::new(Enrolment { id, router, request, from, inbox: inbox.clone() });
        let is_sent = self.command_group(GroupCommand::Enrol { enrolment, after });
        is_sent.then_some((id, inbox))
    }

    /// Where this endpoint receives packets of groups.
    pub(crate) fn group_address(&self) -> DataAddress {
        let local = self.local_address();
        DataAddress::udp(local.port(), Some(local.ip()).filter(|ip| !ip.is_unspecified()))
    }

    pub(crate) fn ask_to_attach(&mut self, group: GroupId, router: SocketAddr, after: Duration) {
        let Some(at) = self.cx.core.outside.groups.called(group) else { return };
        let asked_max = at.asked_max;
        let params = AttachParams {
            endpoint: self.cx.core.outside.index(),
            payload_bytes_max: self.group_payload_max(router),
            asked_max,
            address: self.group_address(),
        };
        let Some((id, inbox)) = self.enrol(router, MemberRequest::Attach(params), after) else {
            return;
        };
        let Some(at) = self.cx.core.outside.groups.called(group) else { return };
        at.inboxes.push((id, inbox));
        if let Some(entry) = at.routers.get_mut(router) {
            entry.asked = Some(id);
        }
    }

    /// Handles news of a group that is called.
    pub(crate) fn on_called_news(&mut self, group: GroupId, enrolment: EnrolmentId) {
        let Some(at) = self.cx.core.outside.groups.called(group) else { return };
        let inbox = at.inboxes.iter().find(|(id, _)| *id == enrolment);
        let Some(News {
            granted,
            has_roster,
            members,
            epoch,
            active,
            routers,
            is_draining,
            placed,
            ended,
            ..
        }) = inbox.map(|(_, inbox)| inbox.take())
        else {
            return;
        };
        if let Some(granted) = granted {
            self.on_attached(group, enrolment, granted);
        }
        // Who is gone makes room.
        let (there, gone): (Vec<_>, Vec<_>) = members.into_iter().partition(|it| it.1.is_some());
        for (worker, address) in gone.into_iter().chain(there) {
            self.on_roster_changed(group, enrolment, worker, address);
        }
        let groups = &mut self.cx.core.outside.groups;
        if let Some(active) = active {
            groups.note_active(group, enrolment, active);
        }
        let attached = groups.called(group).and_then(|at| at.attached_by(enrolment));
        if let Some(attached) = attached {
            attached.has_roster |= has_roster;
            attached.is_draining |= is_draining;
            let (session, router) = (attached.session, attached.router);
            if let Some(epoch) = epoch {
                self.on_called_epoch(group, (enrolment, session), &epoch);
            }
            if let Some(told) = routers {
                self.on_called_routers(group, (enrolment, router), &told);
            }
        }
        let at = self.cx.core.outside.groups.called(group);
        if let (Some(at), Some(placed)) = (at, placed) {
            at.places.hear(enrolment, placed);
        }
        if let Some(ended) = ended {
            if let Some(at) = self.cx.core.outside.groups.called(group) {
                at.places.forget(enrolment);
            }
            self.on_attachment_ended(group, enrolment, ended);
        }
        self.use_best(group);
    }

    fn on_attached(&mut self, group: GroupId, enrolment: EnrolmentId, granted: Granted) {
        let Grant::Attached(grant) = &granted.grant else { return };
        let ip = self.group_address().ip.unwrap_or(granted.local_ip);
        let reply = SocketAddr::new(ip, self.local_address().port());
        let attached = self.attach_checked(grant, reply, &granted);
        let now = self.cx.core.now;
        let Some(at) = self.cx.core.outside.groups.called(group) else { return };
        let Some(entry) = at.routers.asked_by(enrolment) else { return };
        let router = entry.address;
        match attached {
            Ok(session) => {
                entry.note_granted(now);
                at.attached.push(Attached {
                    enrolment,
                    router,
                    session,
                    link: granted.link,
                    has_roster: false,
                    is_connected: true,
                    is_draining: false,
                    silent_until: Time::ZERO,
                    is_replaced: false,
                    is_outdated: false,
                    active: None,
                });
                self.remind(enrolment, Reminder::Worn, WORN_AFTER);
            }
            Err(failure) => {
                self.command_group(GroupCommand::Withdraw { enrolment });
                self.ask_again(group, enrolment, failure);
            }
        }
    }

    fn attach_checked(
        &mut self,
        grant: &AttachGrant,
        reply: SocketAddr,
        granted: &Granted,
    ) -> Result<SessionId, RouterFailure> {
        let ip = grant.address.ip.unwrap_or(granted.router_ip);
        let data = SocketAddr::new(ip, grant.address.port);
        if self.cx.core.outside.forbids(ip) {
            return Err(RouterFailure::here(SessionError::Plaintext(data), ""));
        }
        let attached = self.attach_group(grant, reply, granted.router_ip);
        attached.map_err(|error| RouterFailure::of(&error))
    }

    fn on_roster_changed(
        &mut self,
        group: GroupId,
        enrolment: EnrolmentId,
        worker: u16,
        address: Option<DataAddress>,
    ) {
        let Some(at) = self.cx.core.outside.groups.called(group) else { return };
        let Some(session) = at.attached_by(enrolment).map(|it| it.session) else { return };
        let address = address.and_then(|at| Some(SocketAddr::new(at.ip?, at.port)));
        let address = address.filter(|at| !self.cx.core.outside.forbids(at.ip()));
        match address {
            Some(address) => {
                if let Err(error) = self.set_group_member(session, worker, address) {
                    // What it would answer is dropped, and asked for elsewhere (RT36).
                    tracing::debug!(worker, %address, %error, "a worker of a group is not heard");
                }
            }
            None => self.remove_group_member(session, worker),
        }
    }

    /// A router tells of routers. That is heeded once in a while only: otherwise a router could
    /// make this process dial whom it likes, as often as it likes.
    fn on_called_routers(
        &mut self,
        group: GroupId,
        (enrolment, teller): (EnrolmentId, SocketAddr),
        told: &[SocketAddr],
    ) {
        let now = self.cx.core.now;
        let Some(at) = self.cx.core.outside.groups.hearing(group) else { return };
        if at.told_at != Time::ZERO && now - at.told_at < ROUTERS_AFTER {
            if let Some((_, inbox)) = at.inboxes.iter().find(|(id, _)| *id == enrolment) {
                inbox.put_back(told);
            }
            return self.remind(enrolment, Reminder::Routers, ROUTERS_AFTER);
        }
        at.told_at = now;
        let (new, left) = at.routers.hear(teller, told, ROUTERS_MAX);
        self.leave_called_routers(group, left);
        new.into_iter().for_each(|router| self.ask_to_attach(group, router, jittered(AGAIN_MIN)));
    }

    pub(crate) fn leave_called_routers(&mut self, group: GroupId, left: Vec<RouterEntry>) {
        for entry in left {
            let Some(at) = self.cx.core.outside.groups.called(group) else { return };
            let of = at.attached.iter().filter(|it| it.router == entry.address);
            let of: Vec<_> = of.map(|it| it.enrolment).chain(entry.asked).collect();
            of.into_iter().for_each(|enrolment| self.give_attachment_up(group, enrolment));
        }
    }

    fn on_attachment_ended(&mut self, group: GroupId, enrolment: EnrolmentId, ended: Ended) {
        match ended {
            Ended::NotGranted(error, detail) => {
                self.ask_again(group, enrolment, RouterFailure { error, detail });
            }
            Ended::Broken(error) => self.on_detached(group, enrolment, error, OUTLIVE),
            Ended::Closed(error) => self.on_detached(group, enrolment, error, OUTLIVE_ENDED),
        }
    }

    /// An attachment has ended, or its connection. What asks by it is there for the next one.
    fn on_detached(
        &mut self,
        group: GroupId,
        enrolment: EnrolmentId,
        error: SessionError,
        outlive: Duration,
    ) {
        let Some(at) = self.cx.core.outside.groups.called(group) else { return };
        let Some(attached) = at.attached_by(enrolment) else { return };
        attached.is_connected = false;
        let (router, has_roster) = (attached.router, attached.has_roster);
        let (session, is_outdated) = (attached.session, attached.is_outdated);
        // One at a time, so that a router that grants and breaks in a loop costs no more.
        let earlier = at.attached.iter().filter(|it| it.router == router && !it.is_connected);
        let earlier: Vec<_> = earlier.map(|it| (it.enrolment, it.session)).collect();
        let core = &self.cx.core;
        // One that was never usable leaves the one before, and so does one that knew no worker.
        let is_usable = has_roster
            && (core.has_group_workers(session)
                || !earlier.iter().any(|(_, session)| core.has_group_workers(*session)));
        let earlier: Vec<_> = earlier.into_iter().map(|(enrolment, _)| enrolment).collect();
        for other in earlier.into_iter().filter(|it| (*it == enrolment) != is_usable) {
            self.give_attachment_up(group, other);
        }
        self.remind(enrolment, Reminder::Outlived, outlive);
        if is_outdated {
            // Another was asked for already.
            return;
        }
        self.attach_anew(group, router, RouterFailure { error, detail: String::new() });
    }

    /// Asks a router again that has not granted what this enrolment asked for.
    fn ask_again(&mut self, group: GroupId, enrolment: EnrolmentId, failure: RouterFailure) {
        let Some(at) = self.cx.core.outside.groups.called(group) else { return };
        at.inboxes.retain(|(id, _)| *id != enrolment);
        if let Some(router) = at.routers.asked_by(enrolment).map(|entry| entry.address) {
            self.attach_anew(group, router, failure);
        }
    }

    /// Attaches to a router anew (RT35): what has ended is not resumed.
    fn attach_anew(&mut self, group: GroupId, router: SocketAddr, failure: RouterFailure) {
        let now = self.cx.core.now;
        let Some(at) = self.cx.core.outside.groups.called(group) else { return };
        let Some(entry) = at.routers.get_mut(router) else { return };
        let after = entry.note_failure(now, failure);
        self.ask_to_attach(group, router, after);
    }

    pub(crate) fn remind(&self, enrolment: EnrolmentId, reminder: Reminder, after: Duration) {
        if let Some(from) = self.cx.core.outside.mailbox().cloned() {
            self.command_group(GroupCommand::Remind { enrolment, reminder, after, from });
        }
    }

    /// Handles a reminder of an attachment.
    pub(crate) fn on_called_reminder(
        &mut self,
        group: GroupId,
        enrolment: EnrolmentId,
        reminder: Reminder,
    ) {
        let Some(at) = self.cx.core.outside.groups.called(group) else { return };
        let Some(attached) = at.attached_by(enrolment) else { return };
        let (router, session) = (attached.router, attached.session);
        match reminder {
            Reminder::Outlived if !attached.is_connected || attached.is_replaced => {
                let is_replaced = attached.is_replaced;
                let left = if is_replaced { Vec::new() } else { at.routers.forget_teller(router) };
                self.leave_called_routers(group, left);
                self.give_attachment_up(group, enrolment);
                self.use_best(group);
            }
            Reminder::Routers => self.on_called_news(group, enrolment),
            Reminder::EpochOver(newest) => {
                let attachment = self.cx.core.group_attachment(session);
                if attachment.is_some_and(|it| it.epoch == newest) {
                    self.end_group_epoch(session);
                }
            }
            Reminder::Worn if attached.is_connected => {
                if !self.cx.core.is_group_worn(session) {
                    return self.remind(enrolment, Reminder::Worn, WORN_AFTER);
                }
                // RT3: its numbers are half used.
                self.command_group(GroupCommand::Withdraw { enrolment });
                self.on_detached(group, enrolment, SessionError::ClosedByPeer, OUTLIVE);
                self.use_best(group);
            }
            _ => {}
        }
    }

    /// Ends an attachment, or the attempt. What asks by it asks by another, if there is one.
    fn give_attachment_up(&mut self, group: GroupId, enrolment: EnrolmentId) {
        self.command_group(GroupCommand::Withdraw { enrolment });
        let Some(at) = self.cx.core.outside.groups.called(group) else { return };
        at.places.forget(enrolment);
        at.inboxes.retain(|(id, _)| *id != enrolment);
        let Some(place) = at.attached.iter().position(|it| it.enrolment == enrolment) else {
            return;
        };
        let session = at.attached.remove(place).session;
        self.use_best(group);
        let Some(at) = self.cx.core.outside.groups.called(group) else { return };
        at.used.take_if(|used| *used == session);
        at.former.push(session);
        if let Some(used) = at.used.filter(|_| at.moves_calls) {
            // What had no room there before: what still asks by it ends.
            let _ = self.move_group_calls(session, used);
        }
        // It was just there.
        let _ = self.detach_group(session);
        let core = &self.cx.core;
        let over = |session: &SessionId| !core.has_group_calls(*session);
        let former = core.outside.groups.called.iter().find(|it| it.id == group);
        let over: Vec<_> =
            former.map_or_else(Vec::new, |at| at.former.iter().copied().filter(over).collect());
        if let Some(at) = self.cx.core.outside.groups.called(group) {
            at.former.retain(|session| !over.contains(session));
        }
    }
}
