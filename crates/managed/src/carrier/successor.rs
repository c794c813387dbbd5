//! D14: the service is replaced while calls run.
//!
//! When the service announces a successor, the carrier attaches a second time, to the successor. As
//! soon as the successor knows everything that this process serves and calls, the carrier reports
//! this to the service. When the service answers that the other applications are ready, too, calls
//! begin at the successor. Calls that run end where they have begun.
//!
//! Invariants: there are at most two attachments. A call that was put into a lane stays there. A
//! call that was not, and a stream whose call has not begun, begin in the attachment in which calls
//! begin.

use petasos_base::Time;
use petasos_call::Status;
use petasos_endpoint::{CallError, Context};

use super::joined::Joined;
use super::waiting::Waiting;
use super::{Begun, Carrier, RETRY, watch, watched};
use crate::asks::Asked;
use crate::connecting::Connecting;
use crate::services::Binding;

/// The second of two attachments.
pub(super) struct Other {
    pub(super) joined: Box<Joined>,
    /// It is to the successor, where calls do not begin yet; else to the predecessor.
    is_next: bool,
}

impl Carrier {
    /// Does something in the other attachment, if there is one.
    pub(super) fn in_other<R>(&mut self, what: impl FnOnce(&mut Carrier) -> R) -> Option<R> {
        let mut other = self.other.take()?;
        core::mem::swap(&mut self.on, &mut *other.joined);
        let done = what(self);
        core::mem::swap(&mut self.on, &mut *other.joined);
        self.other = Some(other);
        Some(done)
    }

    /// Does something in each attachment.
    #[inline]
    pub(super) fn each_joined(&mut self, mut what: impl FnMut(&mut Carrier)) {
        what(self);
        if self.other.is_some() {
            self.in_other(what);
        }
    }

    /// Does something in the attachment of a stream that this process has begun.
    pub(super) fn where_outward(&mut self, id: u64, what: impl FnOnce(&mut Carrier)) {
        match self.on.outward.contains_key(&id) {
            true => what(self),
            false => drop(self.in_other(what)),
        }
    }

    /// When the carrier tries to attach to the successor.
    pub(super) fn attaches_at(&self) -> Time {
        let is_succeeded = self.on.link.is_some() && self.on.is_succeeded;
        let wants = is_succeeded && self.other.is_none() && self.connecting.is_none();
        if wants { self.retry_at } else { Time::NEVER }
    }

    /// Handles what the other service has said, and goes on to it. Says whether it said anything.
    #[inline]
    pub(super) fn receive_other<S>(&mut self, state: &mut S, cx: &mut Context<S>) -> bool {
        match &self.other {
            None if !self.on.is_succeeded => false,
            None => self.attach_next(cx),
            Some(_) => self.receive_second(state, cx),
        }
    }

    #[cold]
    fn attach_next<S>(&mut self, cx: &mut Context<S>) -> bool {
        let Some(connecting) = &self.connecting else {
            if self.retry_at <= cx.now() {
                let begun = Connecting::begin(&self.config, true, self.notifier.clone());
                self.connecting = Some(begun);
            }
            return false;
        };
        let Some(outcome) = connecting.poll() else { return false };
        self.connecting = None;
        let notifier = self.notifier.clone();
        match outcome.and_then(|attachment| watched(cx, attachment, notifier)) {
            Ok(link) => {
                let mut joined = Box::new(Joined::new(!self.on.is_second));
                joined.begins_calls = false;
                self.other = Some(Other { joined, is_next: true });
                self.in_other(|this| this.join(link));
            }
            Err(_) => self.retry_at = cx.now() + RETRY,
        }
        true
    }

    #[cold]
    fn receive_second<S>(&mut self, state: &mut S, cx: &mut Context<S>) -> bool {
        let heard = self.in_other(|this| match this.on.is_over {
            true => Ok(false),
            false => this.receive_here(state, cx),
        });
        let has_said = heard.unwrap_or(Ok(false)).unwrap_or_else(|error| {
            let why = format!("the managed service: {error}");
            self.in_other(|this| this.end_here(state, cx, &why));
            true
        });
        let Some(Other { joined, is_next }) = &self.other else { return has_said };
        // What was received there is passed on yet.
        let is_done = joined.is_over && joined.outward.is_empty() && joined.inward.is_empty();
        match (is_done, *is_next) {
            (true, is_next) => {
                self.drop_other(cx);
                if is_next {
                    self.retry_at = cx.now() + RETRY;
                }
            }
            (false, true) => self.follow(cx),
            (false, false) => {}
        }
        has_said
    }

    fn drop_other<S>(&mut self, cx: &mut Context<S>) {
        self.other = None;
        cx.watch_nothing();
        if let Some(link) = &self.on.link
            && let Err(error) = watch(cx, link)
        {
            // Nothing would wake the loop for it.
            self.detached(cx, &format!("cannot wait for the managed service: {error}"));
        }
    }

    /// An attachment has ended, and what has not ended in it.
    fn end_here<S>(&mut self, state: &mut S, cx: &mut Context<S>, why: &str) {
        self.on.is_over = true;
        let begun: Vec<_> = self.on.begun.drain().map(|(_, begun)| begun).collect();
        self.on.handed.clear();
        for begun in begun {
            if let Begun::Unary(call, _) = begun {
                Context::finish_external(state, cx, call, Err(CallError::PeerFailed));
            }
        }
        self.fail_outward(state, cx, &Status::unavailable(why.to_owned()));
        for call in self.inward_calls() {
            self.cancel_inward(state, cx, call);
        }
        self.on.running.drain().for_each(|(_, key)| cx.abandon_external(key));
        self.on.answers.clear();
        self.on.free_waiting(cx);
    }

    /// Goes on to the successor, as far as that is possible now.
    fn follow<S>(&mut self, cx: &mut Context<S>) {
        if !self.is_next_ready() {
            return;
        }
        if let Some(link) = &mut self.on.link {
            link.say_attached();
        }
        if self.on.may_move {
            self.switch(cx);
        }
    }

    /// Asks the successor for what it does not know yet. Says whether it knows all.
    fn is_next_ready(&mut self) -> bool {
        let Some(Other { joined: next, .. }) = &mut self.other else { return false };
        for service in 0..self.services.list.len() {
            if matches!(self.on.bindings.of(service), Binding::Bound(_)) {
                next.asks.bind(&self.services, &mut next.bindings, service);
            }
        }
        let mut has_targets = true;
        for session in self.sessions.iter().flatten() {
            let place = session.id.place();
            if self.on.target(place).is_some() && next.target(place).is_none() {
                has_targets = false;
                let asked = Asked::Target(session.id);
                if !next.asks.is_asked(asked) {
                    next.asks.add(asked, &session.name);
                }
            }
        }
        let is_answered = !next.asks.are_waiting() && !next.asks.are_under_way();
        has_targets && is_answered && (self.address.is_none() || next.is_served)
    }

    /// From now on calls begin at the successor.
    fn switch<S>(&mut self, cx: &mut Context<S>) {
        let Some(Other { mut joined, .. }) = self.other.take() else { return };
        core::mem::swap(&mut self.on, &mut *joined);
        self.on.begins_calls = true;
        self.buffers.set(self.on.link.as_ref().map(|link| link.buffers().clone()));
        for session in self.sessions.iter().flatten() {
            if self.on.target(session.id.place()).is_some() {
                cx.establish_external(session.id);
            }
        }
        let (waiting, stay) = core::mem::take(&mut joined.waiting)
            .into_iter()
            .partition(|waiting| !matches!(waiting, Waiting::Answer(..)));
        (self.on.waiting, joined.waiting) = (waiting, stay);
        self.other = Some(Other { joined, is_next: false });
        for id in self.in_other(|this| this.unbegun()).unwrap_or_default() {
            let stream = self.other.as_mut().and_then(|other| other.joined.outward.remove(&id));
            if let Some(stream) = stream {
                self.on.outward.insert(id, stream);
                self.on.is_any_blocked = true;
            }
        }
    }

    /// Tells the predecessor that no more calls begin there, once the last one is in the lane.
    #[inline]
    pub(super) fn say_moved(&mut self) {
        let Some(Other { joined, is_next: false }) = &mut self.other else { return };
        if let Some(link) = joined.link.as_mut().filter(|link| !link.is_backed_up()) {
            link.say_moved();
        }
    }
}
