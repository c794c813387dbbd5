//! Sending first packets, repeating them, and giving up (RT13).

use core::time::Duration;

use petasos_base::Time;

use super::{Asked, First, Over, PAIR_BIT, PairId, Pairs, SENDINGS_MAX, Sending, State, Why};

impl<C> Pairs<C> {
    /// Handles what is due.
    pub fn handle_timers(&mut self, now: Time) {
        if !self.wheel.is_due(now) {
            return;
        }
        let mut due = core::mem::take(&mut self.due);
        self.wheel.advance(now, |at| due.push(at));
        for at in due.drain(..) {
            let entry = &mut self.entries[at as usize];
            if entry.timed_at <= now {
                entry.timed_at = Time::NEVER;
            }
            self.handle_due(at, now);
        }
        self.due = due;
    }

    /// When [`Pairs::handle_timers`] has something to do, at the latest.
    pub fn next_due(&self) -> Time {
        self.wheel.next_due()
    }

    /// A pair that has ended without an answer.
    pub fn poll_over(&mut self) -> Option<Over<C>> {
        self.over.pop_front()
    }

    /// A first packet to be sent now.
    pub fn poll_first(&mut self, now: Time) -> Option<First> {
        while let Some(at) = self.ready.pop_front() {
            let entry = &mut self.entries[at as usize];
            entry.is_ready = false;
            if let State::Asked(asked) = entry.state
                && let Some(first) = self.send(at, asked, now)
            {
                return Some(first);
            }
        }
        None
    }

    /// Lets a pair send in this turn.
    pub(super) fn send_now(&mut self, at: u32) {
        let entry = &mut self.entries[at as usize];
        if !entry.is_ready {
            entry.is_ready = true;
            self.ready.push_back(at);
        }
    }

    fn send(&mut self, at: u32, mut asked: Asked, now: Time) -> Option<First> {
        let config = self.config;
        let place = self.attachments.iter().position(|it| it.id == asked.attachment)?;
        let attachment = &mut self.attachments[place];
        let entry = &mut self.entries[at as usize];
        let is_repetition = !entry.sendings.is_empty();
        let is_free = !is_repetition || asked.is_moved;
        let ask = attachment.ask(&config);
        if !is_free && !attachment.may_repeat(asked.counted, now) {
            self.stats.repetitions_held += 1;
            asked.repeat_at = now + doubled(ask, asked.counted);
            entry.state = State::Asked(asked);
            self.time(at, now);
            return None;
        }
        if !is_repetition {
            attachment.note_first();
        }
        let number = attachment.number(&entry.sendings);
        let (id, epoch) = (attachment.id, attachment.epoch);
        let sending = Sending { attachment: id, epoch, number, at: now, is_rejected: false };
        entry.sendings.push(sending);
        asked.counted += u32::from(!asked.is_moved);
        asked.is_moved = false;
        let may_repeat = asked.counted < SENDINGS_MAX;
        asked.repeat_at = if may_repeat { now + doubled(ask, asked.counted) } else { Time::NEVER };
        asked.end_at = now + config.silence;
        entry.state = State::Asked(asked);
        let pair = PairId { index: at | PAIR_BIT, request: entry.request };
        let (tag, is_claim, sendings) = (entry.tag, asked.is_claim, entry.sendings.count());
        self.stats.first_packets += 1;
        self.stats.repetitions += u64::from(is_repetition);
        self.time(at, now);
        Some(First { pair, tag, attachment: id, epoch, number, is_claim, sendings })
    }

    /// Puts a pair that asks into the wheel, unless it is there early enough.
    fn time(&mut self, at: u32, now: Time) {
        let entry = &mut self.entries[at as usize];
        if let State::Asked(asked) = entry.state
            && asked.due() < entry.timed_at
        {
            entry.timed_at = self.wheel.insert(now, asked.due(), at);
        }
    }

    fn handle_due(&mut self, at: u32, now: Time) {
        let State::Asked(asked) = self.entries[at as usize].state else { return };
        match () {
            () if asked.timeout_at <= now => self.give_over(at, Why::Timeout),
            () if asked.end_at <= now => self.give_over(at, Why::Silence),
            () if asked.repeat_at <= now => self.send_now(at),
            () => self.time(at, now),
        }
    }

    /// Ends a pair that asks, without an answer.
    pub(super) fn give_over(&mut self, at: u32, why: Why) {
        let entry = &self.entries[at as usize];
        let State::Asked(asked) = entry.state else { return };
        let pair = PairId { index: at | PAIR_BIT, request: entry.request };
        let has_not_run = asked.is_claim || entry.sendings.are_rejected();
        let attachment = asked.attachment;
        let context = self.end_at(at);
        self.stats.unanswered += 1;
        self.over.push_back(Over { pair, attachment, context, why, has_not_run });
    }
}

/// The wait after so many sendings, which is doubled by each but the first.
fn doubled(ask: Duration, sendings: u32) -> Duration {
    ask * (1 << sendings.saturating_sub(1).min(SENDINGS_MAX))
}
