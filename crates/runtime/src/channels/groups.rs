//! Channels to groups of workers (`docs/spec/route.md`, RT31, RT38).
//!
//! A group is one server of its channel, and an attachment to one of its routers is a session. The
//! endpoint says which attachment is the best; when that changes, the session drains, and the next
//! one is opened. With each attachment goes a session with its router, where services are bound:
//! routers need not give the same numbers.
//!
//! Invariant: no two sessions of a channel have the same attachment, also if one of them drains.

use std::net::SocketAddr;

use petasos_endpoint::{Context, Endpoint, GroupConfig, GroupId, SessionId, SessionState, Time};

use super::opening::{GroupStep, Opening, Step};
use super::{ChannelEntry, Channels};

/// How many binds may be under way at a router.
const ROUTER_SLOTS: u32 = 8;

/// A group that a channel calls.
#[derive(Debug)]
pub(crate) struct GroupOfChannel {
    /// Its name in the endpoint.
    pub(crate) id: GroupId,
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
                let session = endpoint.connect_with_slots(router, ROUTER_SLOTS);
                let session = session.map_err(|error| error.to_string())?;
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
        self.group = Some(Box::new(GroupOfChannel { id }));
        Ok(id)
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
    /// Looks how far an attachment is.
    #[cold]
    pub(super) fn check_group<S>(&mut self, cx: &Context<S>, opening: Opening, step: GroupStep) {
        let next = match step {
            GroupStep::Attach(group) => self.attachment_of(cx, opening.channel, group),
            GroupStep::Dial(..) => Ok(step),
            GroupStep::Router(attachment, router) => match cx.session_state(router) {
                SessionState::Connecting => Ok(step),
                SessionState::Ready => {
                    return self.attached(cx, &opening, attachment, router);
                }
                _ => {
                    let why = cx.session_error(router).map(|error| error.to_string());
                    self.closing.push(router);
                    Err(why.unwrap_or_else(|| "no session with the router".to_owned()))
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
        let entry = self.entry(channel).expect("its session is being opened");
        let used = cx.group_session(group).zip(cx.group_router(group));
        match used {
            // The session that has it drains, and is closed when its last call is over.
            Some((attachment, _)) if entry.has_session(attachment) => Ok(GroupStep::Attach(group)),
            Some((attachment, router)) => Ok(GroupStep::Dial(attachment, router)),
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

    fn attached<S>(
        &mut self,
        cx: &Context<S>,
        opening: &Opening,
        attachment: SessionId,
        router: SessionId,
    ) {
        let entry = self.entry(opening.channel).expect("its session was being opened");
        if entry.has_session(attachment) || cx.session_slots(attachment) == 0 {
            // It has ended meanwhile.
            self.closing.push(router);
            return self.failed(opening, "the attachment has ended".to_owned());
        }
        self.opened(opening, attachment, cx.session_slots(attachment), cx.now());
        let entry = self.entry(opening.channel).expect("it was just there");
        let session = entry.sessions.iter_mut().flatten().find(|it| it.id == attachment);
        match session {
            Some(session) => session.router = Some(router),
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
            let Some((number, attachment)) = entry.attached() else { continue };
            if cx.group_session(group) != Some(attachment) {
                self.detach(channel, number, now);
            }
        }
        if !self.placing.is_empty() {
            self.check_places(cx);
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

impl ChannelEntry {
    fn has_session(&self, id: SessionId) -> bool {
        self.sessions.iter().flatten().any(|session| session.id == id)
    }
}
