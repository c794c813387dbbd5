//! Ways to other members: sessions to them, and requests of theirs that can carry an answer.
//!
//! A message goes as the response to a request of its addressee, if there is one, so that what a
//! leader asks and a follower answers is one call. Otherwise it is a call of its own. Messages may
//! be lost: the replicas see to that.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use petasos_base::Time;
use petasos_endpoint::{
    CallSettings, Context, Continuation, MsgBuf, RequestHandle, SessionId, SessionState,
};
use petasos_raft::{MEMBERS_MAX, MemberId, Membership};

use super::frame::Speaker;
use crate::contact::Contact;

/// Requests of a member that wait for an answer at most: earlier ones get an empty one.
const OPEN_MAX: usize = 8;
/// Calls to a member that are under way at most: messages beyond that are lost.
const CALLS_MAX: usize = 28;
/// How long a call to a member may take.
const CALL_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a member is left alone after it could not be reached: this at first, and twice as long
/// each time, up to the longest.
const RETRY: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(1);

/// A way to a member.
struct Link {
    contact: Contact,
    session: Option<SessionId>,
    is_ready: bool,
    is_wanted: bool,
    retry_at: Time,
    retry_after: Duration,
    calls: usize,
}

/// Ways to all other members.
pub(super) struct Links {
    own: Speaker,
    links: BTreeMap<MemberId, Link>,
    /// By who has asked, known or not.
    open: BTreeMap<MemberId, VecDeque<RequestHandle>>,
    frame: Vec<u8>,
    /// Sessions that have ended, or whose members have gone.
    closing: Vec<SessionId>,
    /// Messages that were lost here.
    pub lost: u64,
    /// Frames of somebody who has a member's number and is not it (QR8).
    pub impostors: u64,
}

impl Links {
    pub fn new(own: Speaker) -> Links {
        let (links, open) = (BTreeMap::new(), BTreeMap::new());
        Links { own, links, open, frame: Vec::new(), closing: Vec::new(), lost: 0, impostors: 0 }
    }

    /// There are ways to these members, and to no others.
    pub fn follow(&mut self, membership: &Membership) {
        let gone = self.links.extract_if(.., |id, _| membership.get(*id).is_none());
        for (_, link) in gone {
            self.closing.extend(link.session);
        }
        for member in membership.members().iter().filter(|member| member.id != self.own.id) {
            let Some(contact) = Contact::decode(&member.context) else { continue };
            self.links.entry(member.id).or_insert_with(|| Link {
                contact,
                session: None,
                is_ready: false,
                is_wanted: true,
                retry_at: Time::ZERO,
                retry_after: RETRY,
                calls: 0,
            });
        }
    }

    /// Looks after sessions. Members whose sessions have ended, and when to look again.
    pub fn look<S>(&mut self, cx: &Context<S>, ended: &mut Vec<MemberId>) -> Time {
        let now = cx.now();
        let mut next = Time::NEVER;
        for (id, link) in &mut self.links {
            match link.session.map(|session| (session, cx.session_state(session))) {
                Some((_, SessionState::Ready)) => {
                    (link.is_ready, link.retry_after) = (true, RETRY);
                }
                Some((_, SessionState::Connecting)) => {}
                Some((session, _)) => {
                    self.closing.push(session);
                    link.fail(now);
                    ended.push(*id);
                }
                None => link.is_wanted |= now >= link.retry_at,
            }
            if link.session.is_none() && !link.is_wanted {
                next = next.min(link.retry_at);
            }
        }
        next
    }

    /// Whether sessions are to be opened or closed, which only the endpoint itself can do.
    pub fn has_chores(&self) -> bool {
        !self.closing.is_empty() || self.wanted().is_some()
    }

    /// Sessions that are to be closed.
    pub fn take_closing(&mut self) -> Vec<SessionId> {
        std::mem::take(&mut self.closing)
    }

    /// A member that is to be connected to.
    pub fn wanted(&self) -> Option<(MemberId, SocketAddr)> {
        let wanted = self.links.iter().find(|(_, link)| link.is_wanted);
        wanted.map(|(id, link)| (*id, link.contact.address))
    }

    /// A session was begun, or could not be.
    pub fn connecting(&mut self, id: MemberId, session: Option<SessionId>, now: Time) {
        let Some(link) = self.links.get_mut(&id) else { return };
        link.is_wanted = false;
        match session {
            Some(_) => link.session = session,
            None => link.fail(now),
        }
    }

    /// Whether somebody is who he says. One that is not a member may be a new one that this member
    /// has not heard of.
    pub fn is_credible(&mut self, speaker: Speaker) -> bool {
        let known = self.links.get(&speaker.id).map(|link| link.contact.incarnation);
        let credible = speaker.id != self.own.id
            && known.is_none_or(|incarnation| incarnation == speaker.incarnation);
        self.impostors += u64::from(!credible);
        credible
    }

    /// A member's request can carry an answer.
    pub fn open<S>(&mut self, cx: &mut Context<S>, from: MemberId, handle: RequestHandle) {
        if !self.open.contains_key(&from) && self.open.len() >= 2 * MEMBERS_MAX {
            return cx.respond_with(handle, &[]);
        }
        let open = self.open.entry(from).or_default();
        if open.len() >= OPEN_MAX
            && let Some(oldest) = open.pop_front()
        {
            cx.respond_with(oldest, &[]);
        }
        open.push_back(handle);
    }

    /// Sends a message. `answered` hears of the response, with the member's number as its tag.
    pub fn send<S>(
        &mut self,
        cx: &mut Context<S>,
        to: MemberId,
        message: &[u8],
        method: u16,
        answered: Continuation<S>,
    ) {
        self.frame.clear();
        self.own.push(&mut self.frame);
        self.frame.extend_from_slice(message);
        let open = self.open.get_mut(&to);
        let handle = open.and_then(|open| {
            // Those that were given up carry nothing.
            while open.pop_front_if(|handle| !cx.is_wanted(handle)).is_some() {}
            open.pop_front()
        });
        if let Some(handle) = handle {
            return cx.respond_with(handle, &self.frame);
        }
        if !self.call(cx, to, method, answered) {
            self.lost += 1;
        }
    }

    /// Sends something that is no message, and whose response counts. Whether it was sent.
    pub fn ask<S>(
        &mut self,
        cx: &mut Context<S>,
        to: MemberId,
        write: impl FnOnce(&mut Vec<u8>),
        method: u16,
        answered: Continuation<S>,
    ) -> bool {
        self.frame.clear();
        self.own.push(&mut self.frame);
        write(&mut self.frame);
        self.call(cx, to, method, answered)
    }

    fn call<S>(
        &mut self,
        cx: &mut Context<S>,
        to: MemberId,
        method: u16,
        answered: Continuation<S>,
    ) -> bool {
        let Some(link) = self.links.get_mut(&to) else { return false };
        let Some(session) = link.session.filter(|_| link.is_ready && link.calls < CALLS_MAX) else {
            return false;
        };
        let Ok(mut request) = cx.alloc(self.frame.len()) else { return false };
        request.as_mut_slice().copy_from_slice(&self.frame);
        let settings = CallSettings { timeout: Some(CALL_TIMEOUT), ..CallSettings::default() };
        match cx.enqueue_with(session, method, request, answered, to.0, &settings) {
            Ok(_) => link.calls += 1,
            Err(refused) => {
                cx.free(refused.request);
                return false;
            }
        }
        true
    }

    /// A call to a member has ended.
    pub fn answered<S>(&mut self, cx: &mut Context<S>, to: MemberId, request: MsgBuf) {
        cx.free(request);
        if let Some(link) = self.links.get_mut(&to) {
            link.calls = link.calls.saturating_sub(1);
        }
    }
}

impl Link {
    fn fail(&mut self, now: Time) {
        (self.session, self.is_ready, self.calls) = (None, false, 0);
        self.retry_at = now + self.retry_after;
        self.retry_after = (2 * self.retry_after).min(RETRY_MAX);
    }
}
