//! The part of a turn that concerns channels: acting on what has happened to them.

use petasos_base::Time;
use petasos_call::channel::Action;
use petasos_endpoint::Context;

use super::work::Work;
use crate::channels::{Bind, Channels, NextStep, Opening, Slot, Step, Who, resolve};
use crate::dispatcher::Dispatcher;
use crate::due::Due;
use crate::keys::ChannelSession;
use crate::lease::Lease;

/// How often a channel without owners is checked for whether its last calls have ended.
const ORPHAN_NANOS: u64 = 100_000_000;

impl Work<'_> {
    /// Runs the cores of all channels with events, until there are no more actions to perform.
    pub(crate) fn settle(&mut self, cx: &mut Context<Dispatcher>) {
        while self.channels.has_work() {
            for session in core::mem::take(&mut self.channels.losing) {
                self.lose(session, cx.now());
            }
            for ask in core::mem::take(&mut self.channels.new_asks) {
                self.send_ask(cx, ask);
            }
            while let Some(channel) = self.channels.dirty.pop() {
                self.settle_one(cx, channel);
            }
        }
    }

    fn settle_one(&mut self, cx: &mut Context<Dispatcher>, channel: u32) {
        let Some(entry) = self.channels.entry(channel) else { return };
        entry.is_dirty = false;
        while let Some((who, given)) = self.channels.next_given(channel, cx.now()) {
            match given {
                Slot::Taken(session) => self.go(cx, session, who),
                Slot::Fail(status) => self.fail(who, status),
                Slot::Wait(_) => unreachable!("a caller that already waited is not told to wait"),
            }
        }
        loop {
            let Some(entry) = self.channels.entry(channel) else { return };
            let Some(action) = entry.core.poll_action(cx.now()) else { break };
            self.channels.act(cx, channel, action);
        }
        self.look_again(cx.now(), channel);
    }

    /// Schedules the next check of the channel.
    fn look_again(&mut self, now: Time, channel: u32) {
        let entry = self.channels.entry(channel).expect("the entry was just looked up");
        let is_over = entry.orphaned && entry.waiting.is_empty();
        if is_over && !self.channels.is_in_use(channel) && !self.calls.has_any_of(channel) {
            return self.channels.remove(channel);
        }
        let entry = self.channels.entry(channel).expect("the entry was just looked up");
        let mut at = entry.core.next_timeout();
        if entry.orphaned {
            entry.return_leases(now);
            at = at.min(now.plus_nanos(ORPHAN_NANOS));
        }
        if at < entry.timer_at {
            entry.timer_at = at;
            self.deadlines.insert(now, at, Due::Channel { channel, at });
        }
    }

    /// Finds a session for a call that asks for one.
    fn send_ask(&mut self, cx: &mut Context<Dispatcher>, number: u32) {
        let who = Who::Ask(number);
        let Some(ask) = self.channels.asked_for(number) else { return };
        let (channel, options) = (ask.channel, ask.options);
        match self.channels.pick(channel, options, who, cx.now()) {
            Slot::Taken(session) => self.go(cx, session, who),
            Slot::Wait(_) => {}
            Slot::Fail(status) => self.fail(who, status),
        }
    }

    /// Handles the loss of a channel's session: the calls that waited in it ask again.
    #[cold]
    pub(crate) fn lose(&mut self, session: ChannelSession, now: Time) {
        let ChannelSession { channel, number, id } = session;
        let Some(entry) = self.channels.entry(channel) else { return };
        let Some(of) = entry.session(number, id) else { return };
        if id.is_group() {
            // Calls by the attachment go on as long as it does.
            let unbound = core::mem::take(&mut of.unbound);
            for bind in of.binds.iter_mut().filter(|bind| matches!(bind, Bind::Asked)) {
                *bind = Bind::Unasked;
            }
            let router = of.router.take();
            self.channels.closing.extend(router);
            // Another attachment is tried at once, however short this one's time was.
            self.channels.detach(channel, number as usize, now);
            for (_, who) in unbound {
                self.channels.release(session, None, now);
                self.start_anew(who);
            }
            return;
        }
        entry.leased_slots.forget(number);
        let session = entry.sessions[number as usize].take().expect("the entry was just looked up");
        entry.core.handle_lost(session.index, now);
        self.channels.closing.push(id);
        self.channels.closing.extend(session.router);
        self.channels.lost.push(id);
        self.channels.mark_dirty(channel);
        let unbound: Vec<Who> = session.unbound.into_iter().map(|(_, who)| who).collect();
        unbound.into_iter().for_each(|who| self.start_anew(who));
    }
}

impl Channels {
    /// Performs an action that the core of a channel asked for.
    fn act(&mut self, cx: &mut Context<Dispatcher>, channel: u32, action: Action) {
        let entry = self.entry(channel).expect("only an existing channel's core asks");
        match action {
            Action::Connect { peer, address, slots } => {
                self.opening.push(Opening { channel, peer, address, slots, step: Step::Ask });
            }
            Action::Close(index) => {
                let closed = entry.remove_session(index);
                self.closing.extend(closed.into_iter().flatten().flatten());
            }
            Action::Probe(index) => self.probe(cx, channel, index.number() as u32),
            Action::Resolve => {
                let info = entry.info.clone();
                if !self.look_for_place(channel, cx.now()) {
                    resolve(&self.shared, channel, info);
                }
            }
        }
    }

    /// An ask was given a slot: it is granted, or waits for its bind.
    pub(super) fn answer(
        &mut self,
        cx: &mut Context<Dispatcher>,
        session: ChannelSession,
        ask: u32,
    ) {
        let method = self.asks.get(&ask).and_then(|ask| ask.method);
        let entry = self.entry(session.channel).expect("a call with a slot has a channel");
        entry.leases += 1;
        let lease = Lease(session);
        let Some((service, method)) = method else {
            return self.grant(ask, lease, None, cx.now());
        };
        match entry.next_step(session.number, service, method) {
            NextStep::Send(bound) => self.grant(ask, lease, Some(bound.of_streams()), cx.now()),
            NextStep::Bind => {
                entry.leases -= 1;
                if let Err(status) = self.wait_for_bind(cx, session, service, Who::Ask(ask)) {
                    self.release(session, None, cx.now());
                    self.refuse_ask(ask, status);
                }
            }
            NextStep::Fail(status) => {
                self.give_back(lease, cx.now());
                self.refuse_ask(ask, status);
            }
        }
    }
}
