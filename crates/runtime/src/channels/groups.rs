//! Channels to groups of workers (`docs/spec/route.md`, RT31, RT38).
//!
//! A group is one server of its channel, and an attachment to one of its routers is a session. The
//! endpoint says which attachment is the best; when that changes, the session drains, and the next
//! one is opened. With each attachment goes a session with its router, where services are bound:
//! routers need not give the same numbers. If that session fails, the attachment becomes another
//! session, with another one beside it, while calls of the first go on.
//!
//! Invariants: a session of an attachment is removed only when it has no calls, so that the end of
//! each call finds its own. Services are bound at the process that has granted the attachment.

use std::net::SocketAddr;

use petasos_endpoint::{Context, Endpoint, GroupConfig, GroupId, SessionId, SessionState, Time};

use super::connect::{Dialled, Dialling};
use super::opening::{GroupStep, Opening, Step};
use super::{ChannelEntry, Channels};

/// How many binds may be under way at a router.
const ROUTER_SLOTS: u32 = 8;

/// A group that a channel calls.
#[derive(Debug)]
pub(crate) struct GroupOfChannel {
    /// Its name in the endpoint.
    pub(crate) id: GroupId,
    /// The attachment that was tried last.
    tried: Option<SessionId>,
}

impl ChannelEntry {
    /// Takes the next step that needs the endpoint.
    ///
    /// # Errors
    /// Why there is no session.
    pub(super) fn open_group<S>(
        &mut self,
        endpoint: &mut Endpoint<S>,
        step: Step,
        dial: Dialling<'_, S>,
    ) -> Result<Step, String> {
        match step {
            Step::Ask => {
                let id = match &self.group {
                    Some(group) => group.id,
                    None => self.add_group(endpoint)?,
                };
                Ok(Step::Group(GroupStep::Attach(id)))
            }
            Step::Group(GroupStep::Dial(attachment, router)) => {
                let router = Dialled { address: router, name: None };
                let session = dial(endpoint, router, ROUTER_SLOTS)?;
                Ok(Step::Group(GroupStep::Router(attachment, session)))
            }
            step => Ok(step),
        }
    }

    fn add_group<S>(&mut self, endpoint: &mut Endpoint<S>) -> Result<GroupId, String> {
        let known = self.info.servers.routers().map(<[SocketAddr]>::to_vec);
        let routers = known.unwrap_or_else(|| self.found_routers.clone());
        // What asks a router has its numbers of methods, which another one may not share.
        let config = GroupConfig { routers, moves_calls: false, ..GroupConfig::default() };
        let id = endpoint.open_group(&config).map_err(|error| error.to_string())?;
        self.group = Some(Box::new(GroupOfChannel { id, tried: None }));
        Ok(id)
    }

    /// A lookup has found routers. Returns whether they are others than before. That there are none
    /// is no news: those that are known may go on.
    pub(super) fn has_found(&mut self, routers: &[SocketAddr]) -> bool {
        if routers.is_empty() {
            return false;
        }
        self.stand_in = self.stand_in.or(routers.first().copied());
        let are_others = self.found_routers != routers;
        self.found_routers = routers.to_vec();
        are_others
    }

    /// The number of the session that gets calls, if it is an attachment.
    fn attached(&self) -> Option<(usize, SessionId)> {
        let there = self.sessions.iter().enumerate();
        let mut there = there.filter_map(|(at, session)| Some((at, session.as_ref()?)));
        let open = there.find(|(_, session)| self.core.is_open(session.index));
        open.map(|(at, session)| (at, session.id))
    }
}

impl Channels {
    /// Tells the endpoint of routers whose names have other addresses now.
    pub(super) fn rename_routers<S>(&mut self, endpoint: &mut Endpoint<S>) {
        for channel in core::mem::take(&mut self.renamed) {
            let Some(entry) = self.entry(channel) else { continue };
            if let Some(group) = &entry.group {
                endpoint.set_group_routers(group.id, &entry.found_routers);
            }
        }
    }

    /// Looks how far an attachment is.
    #[cold]
    pub(super) fn check_group<S>(&mut self, cx: &Context<S>, opening: Opening, step: GroupStep) {
        let next = match step {
            GroupStep::Attach(group) => self.attachment_of(cx, opening.channel, group),
            GroupStep::Dial(..) => Ok(step),
            GroupStep::Router(attachment, router) => match cx.session_state(router) {
                SessionState::Connecting => match self.group_now(cx, opening.channel, attachment) {
                    Ok(_) => Ok(step),
                    // This one's router may be cut off, and would be waited for.
                    Err(group) => {
                        self.closing.push(router);
                        Ok(GroupStep::Attach(group))
                    }
                },
                SessionState::Ready => {
                    return self.attached(cx, opening, attachment, router);
                }
                _ => {
                    let why = cx.session_error(router).map(|error| error.to_string());
                    self.closing.push(router);
                    match self.group_now(cx, opening.channel, attachment) {
                        // Another one is better by now.
                        Err(group) => Ok(GroupStep::Attach(group)),
                        Ok(_) => {
                            Err(why.unwrap_or_else(|| "no session with the router".to_owned()))
                        }
                    }
                }
            },
        };
        match next {
            Ok(step) => self.opening.push(Opening { step: Step::Group(step), ..opening }),
            Err(why) => self.failed(&opening, why),
        }
    }

    /// The attachment that calls are to go by, if there is one; an error if all routers have failed
    /// since they were last asked.
    fn attachment_of<S>(
        &mut self,
        cx: &Context<S>,
        channel: u32,
        group: GroupId,
    ) -> Result<GroupStep, String> {
        let used = cx.group_session(group).zip(cx.group_router(group));
        match used {
            Some((attachment, router)) => {
                let entry = self.entry(channel).expect("its session is being opened");
                let group = entry.group.as_mut().expect("it was opened");
                group.tried = Some(attachment);
                Ok(GroupStep::Dial(attachment, router))
            }
            None => {
                let routers = cx.group_routers(group);
                let mut failed = routers.iter().map(|at| (at.router, at.failure.as_ref()));
                let is_any_left = failed.clone().any(|(_, failure)| failure.is_none());
                match failed.next_back() {
                    Some((router, Some(failure))) if !is_any_left => {
                        Err(format!("router {router}: {failure}"))
                    }
                    _ => Ok(GroupStep::Attach(group)),
                }
            }
        }
    }

    /// The channel's group, if calls are to go by this attachment still.
    fn group_now<S>(
        &mut self,
        cx: &Context<S>,
        channel: u32,
        attachment: SessionId,
    ) -> Result<GroupId, GroupId> {
        let entry = self.entry(channel).expect("its session is being opened");
        let group = entry.group.as_ref().expect("it was opened").id;
        if cx.group_session(group) == Some(attachment) { Ok(group) } else { Err(group) }
    }

    /// The session with the router is ready, and with it that of the attachment.
    fn attached<S>(
        &mut self,
        cx: &Context<S>,
        opening: Opening,
        attachment: SessionId,
        router: SessionId,
    ) {
        let now = self.group_now(cx, opening.channel, attachment);
        let is_its = now.is_ok_and(|group| cx.is_with_group_router(group, router));
        if let (false, Ok(group) | Err(group)) = (is_its, now) {
            self.closing.push(router);
            let step = Step::Group(GroupStep::Attach(group));
            return self.opening.push(Opening { step, ..opening });
        }
        self.opened(&opening, attachment, cx.session_slots(attachment), cx.now());
        let entry = self.entry(opening.channel).expect("it was just there");
        let mut sessions = entry.sessions.iter_mut().flatten();
        match sessions.find(|it| it.id == attachment && it.router.is_none()) {
            Some(session) => session.router = Some(router),
            // It is not wanted any more.
            None => self.closing.push(router),
        }
    }

    /// Looks whether calls of groups have to go by other attachments.
    #[cold]
    pub(crate) fn watch_groups<S>(&mut self, cx: &mut Context<S>) {
        let now = cx.now();
        for at in 0..self.with_groups.len() {
            let channel = self.with_groups[at];
            let Some(entry) = self.entry(channel) else { continue };
            let Some(group) = entry.group.as_ref().map(|group| group.id) else { continue };
            match entry.attached() {
                Some((number, attachment)) if cx.group_session(group) != Some(attachment) => {
                    self.detach(channel, number, now);
                }
                Some(_) => {}
                None => self.try_now(cx, channel, group),
            }
        }
        if !self.placing.is_empty() {
            self.check_places(cx);
        }
    }

    /// Tries an attachment that is new, although the last ones have failed.
    fn try_now<S>(&mut self, cx: &Context<S>, channel: u32, group: GroupId) {
        let is_opening = self.opening.iter().any(|opening| opening.channel == channel);
        let used = cx.group_session(group).filter(|_| cx.group_router(group).is_some());
        let Some(entry) = self.entry(channel).filter(|_| !is_opening && used.is_some()) else {
            return;
        };
        let group = entry.group.as_mut().expect("it was just there");
        if core::mem::replace(&mut group.tried, used) != used {
            entry.core.handle_reachable();
            self.mark_dirty(channel);
        }
    }

    /// Gives a session no more calls: those that come wait for the next one, which is tried soon.
    pub(crate) fn detach(&mut self, channel: u32, number: usize, now: Time) {
        let Some(entry) = self.entry(channel) else { return };
        let session = entry.sessions.get(number).and_then(Option::as_ref);
        let Some(index) = session.map(|session| session.index) else { return };
        entry.return_leases(now);
        entry.core.handle_succeeded(index);
        self.mark_dirty(channel);
    }
}
