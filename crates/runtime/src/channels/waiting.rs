//! Calls and asks that have waited for a channel.

use petasos_base::Time;

use super::{Channels, Slot, Who};

impl Channels {
    /// The next one that need not wait any longer, and its slot or error.
    pub(crate) fn next_given(&mut self, channel: u32, now: Time) -> Option<(Who, Slot)> {
        let Channels { list, rng, .. } = self;
        let entry = list[channel as usize].as_mut().expect("it was just there");
        let (ticket, given) = entry.core.poll_waiting(now, rng)?;
        let who = entry.waiting.remove(&ticket).expect("who has a ticket waits");
        let given = match given {
            Ok(index) => Slot::Taken(entry.named(channel, index.number() as u32)),
            Err(error) => Slot::Fail(entry.status(error)),
        };
        Some((who, given))
    }

    /// Handles a channel's timer.
    pub(crate) fn is_due(&mut self, channel: u32, at: Time) {
        let Some(entry) = self.entry(channel).filter(|entry| entry.timer_at == at) else { return };
        entry.timer_at = Time::NEVER;
        entry.return_leases(at);
        self.mark_dirty(channel);
    }
}
