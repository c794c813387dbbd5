//! The sessions to be processed in a turn: those with something to send, due timers, or a pace that
//! allows sending.

use petasos_base::Time;

use super::prefetch::TIMERS_AHEAD;
use super::{CallContext, Core};
use crate::call::CallError;
use crate::sessions::{ClientEntry, ClientState, SessionId};
use crate::timers::TimerEntry;

impl<S> Core<S> {
    /// Lets every session on the dirty lists send.
    #[inline]
    pub(crate) fn pump(&mut self) {
        while let Some(index) = self.dirty_clients.pop() {
            self.pump_client(index);
        }
        while let Some(index) = self.dirty_servers.pop() {
            self.pump_server(index);
        }
    }

    /// Processes the sessions whose timers are due, or whose pace lets them send again.
    pub(crate) fn run_timers(&mut self) {
        if self.paced.is_due(self.now) {
            self.unpark();
        }
        if self.others_at <= self.now {
            self.run_others();
        }
        if !self.timers.is_due(self.now) {
            return;
        }
        // Once per tick is often enough.
        if self.share.is_due(self.now) {
            self.end_share_epoch();
        }
        if self.trust_at <= self.now {
            self.trust_paths();
        }
        let mut due = core::mem::take(&mut self.due);
        self.timers.fire(self.now, &mut due);
        for (at, entry) in due.iter().enumerate() {
            if let Some(ahead) = due.get(at + TIMERS_AHEAD) {
                self.clients
                    .prefetch(ahead.index as usize, ClientEntry::<CallContext<S>>::REST_BYTES);
            }
            self.on_timer(SessionId { index: entry.index, generation: entry.generation });
        }
        due.clear();
        self.due = due;
    }

    /// Lets sessions send in this turn whose pace allows it.
    #[cold]
    fn unpark(&mut self) {
        let mut due = core::mem::take(&mut self.due);
        self.paced.advance(self.now, |entry| due.push(entry));
        for timer in due.drain(..) {
            let TimerEntry { index, generation } = timer;
            if let Some(entry) = self.client_mut(SessionId { index, generation }) {
                entry.parked = false;
                self.touch_client(index);
            } else {
                self.unpark_bound(timer);
            }
        }
        self.due = due;
    }

    /// Parks the session until `at`, when its pace lets it send.
    #[cold]
    pub(crate) fn park(&mut self, index: u32, at: Time) {
        let Some(entry) = self.clients.get_mut(index) else { return };
        if !entry.parked {
            entry.parked = true;
            let waiting = TimerEntry { index, generation: entry.generation };
            self.paced.insert(self.now, at, waiting);
            self.stats.sessions_parked += 1;
        }
    }

    /// When timers or paced sessions need a turn next; [`Time::NEVER`] if nothing waits.
    pub(crate) fn next_timer_at(&self) -> Time {
        self.timers.next_at().min(self.paced.next_due()).min(self.others_at)
    }

    fn on_timer(&mut self, id: SessionId) {
        let now = self.now;
        let Some(entry) = self.client_mut(id) else {
            return self.on_bound_timer(TimerEntry { index: id.index, generation: id.generation });
        };
        if entry.timer_at > now {
            return;
        }
        entry.set_timer(Time::NEVER);
        let ClientState::Ready { session, route } = &mut entry.state else { return };
        let route = *route;
        if session.is_at_rest() {
            // With thousands of sessions, most timers find nothing to do.
            return;
        }
        session.handle_timeout(now);
        let expired: Vec<_> = core::iter::from_fn(|| session.poll_expired(now)).collect();
        let next = session.next_timeout();
        if session.long_packets_vanish() {
            self.doubt_path(route);
        }
        for expired in expired {
            if let Some(cancel) = expired.cancel {
                self.push_to_peer(id, cancel);
            }
            self.finish_later(id, expired.context, CallError::Timeout);
        }
        self.touch_client(id.index);
        self.arm(id, next);
    }

    /// Makes the session's timer fire no later than `at`.
    #[inline]
    pub(crate) fn arm(&mut self, id: SessionId, at: Time) {
        let Some(entry) = self.clients.get_mut(id.index) else { return };
        if at < entry.timer_at {
            let timer = TimerEntry { index: id.index, generation: id.generation };
            entry.set_timer(self.timers.arm(at, timer));
        }
    }
}
