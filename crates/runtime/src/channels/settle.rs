//! What follows from what has happened to channels.

use petasos_base::Time;
use petasos_endpoint::Context;

use super::{Channels, Slot, Who};
use crate::dispatcher::{Dispatcher, Due};
use crate::turn::Work;

/// A channel that nobody has is looked at this often, until its calls are over.
const ORPHAN_NANOS: u64 = 100_000_000;

impl Work<'_> {
    /// Asks the cores of channels that something has happened to, until nothing follows.
    pub(crate) fn settle(&mut self, cx: &mut Context<Dispatcher>) {
        while self.channels.has_work() {
            for (channel, number, id) in core::mem::take(&mut self.channels.losing) {
                self.lose(channel, number, id, cx.now());
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
        entry.is_stirred = false;
        while let Some((who, given)) = self.channels.next_given(channel, cx.now()) {
            match given {
                Slot::Taken(number) => self.go(cx, (channel, number), who),
                Slot::Fail(status) => self.fail(who, status),
                Slot::Wait(_) => unreachable!("who has waited is not told to wait"),
            }
        }
        loop {
            let Some(entry) = self.channels.entry(channel) else { return };
            let Some(action) = entry.core.poll_action(cx.now()) else { break };
            self.channels.act(cx, channel, action);
        }
        self.look_again(cx.now(), channel);
    }

    /// Sees to it that the channel is looked at in time.
    fn look_again(&mut self, now: Time, channel: u32) {
        let entry = self.channels.entry(channel).expect("it was just there");
        let is_over = entry.orphaned && entry.waiting.is_empty();
        if is_over && !self.channels.is_in_use(channel) && !self.calls.has_any_of(channel) {
            return self.channels.remove(channel);
        }
        let entry = self.channels.entry(channel).expect("it was just there");
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

    /// Finds a session for somebody who asks for one.
    fn send_ask(&mut self, cx: &mut Context<Dispatcher>, number: u32) {
        let who = Who::Ask(number);
        let Some(ask) = self.channels.asked_for(number) else { return };
        let (channel, options) = (ask.channel, ask.options);
        match self.channels.pick(channel, options, who, cx.now()) {
            Slot::Taken(session) => self.go(cx, (channel, session), who),
            Slot::Wait(_) => {}
            Slot::Fail(status) => self.fail(who, status),
        }
    }
}

impl Channels {
    /// Somebody who has waited, and what there is for them now.
    fn next_given(&mut self, channel: u32, now: Time) -> Option<(Who, Slot)> {
        let Channels { list, rng, .. } = self;
        let entry = list[channel as usize].as_mut().expect("it was just there");
        let (ticket, given) = entry.core.poll_waiting(now, rng)?;
        let who = entry.waiting.remove(&ticket).expect("who has a ticket waits");
        let given = match given {
            Ok(index) => Slot::Taken(index.number() as u32),
            Err(error) => Slot::Fail(entry.status(error)),
        };
        Some((who, given))
    }

    /// The time at which a channel wanted to be looked at has come.
    pub(crate) fn is_due(&mut self, channel: u32, at: Time) {
        let Some(entry) = self.entry(channel).filter(|entry| entry.timer_at == at) else { return };
        entry.timer_at = Time::NEVER;
        entry.return_leases(at);
        self.mark_dirty(channel);
    }
}
