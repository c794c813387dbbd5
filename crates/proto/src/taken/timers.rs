//! What happens when nothing comes (RT16 to RT18).

use core::time::Duration;

use petasos_base::Time;
use petasos_wire::RejectCode;

use super::entry::State;
use super::{Due, PAIR_BIT, TakenId, TakenRequests, at};

impl<C> TakenRequests<C> {
    /// Handles what is due, the memberships' numbers included.
    pub fn handle_timers(&mut self, now: Time) {
        for membership in &mut self.memberships {
            membership.given.handle_timeout(now);
        }
        if !self.wheel.is_due(now) {
            return;
        }
        let mut expired = core::mem::take(&mut self.expired);
        self.wheel.advance(now, |place| expired.push(place));
        for place in expired.drain(..) {
            let entry = &mut self.entries[place as usize];
            if entry.timed_at <= now {
                entry.timed_at = Time::NEVER;
            }
            match entry.due(&self.config) <= now {
                true => self.due.push_back(place),
                false => self.time(place, now),
            }
        }
        self.expired = expired;
    }

    /// When [`TakenRequests::handle_timers`] or feedback has something to do, at the latest.
    pub fn next_due(&self) -> Time {
        let numbers = self.memberships.iter().map(|it| it.given.next_timeout());
        numbers.fold(self.wheel.next_due(), Time::min)
    }

    /// Something that has become due: the caller sends it, or drops what it has.
    #[inline]
    pub fn poll_due(&mut self, now: Time) -> Option<Due<C>> {
        while let Some(place) = self.due.pop_front() {
            // It may have been answered, or be another, since it became due.
            if self.entries[place as usize].due(&self.config) > now {
                self.time(place, now);
            } else if let Some(due) = self.handle_due(place, now) {
                return Some(due);
            }
        }
        None
    }

    fn handle_due(&mut self, place: u32, now: Time) -> Option<Due<C>> {
        let entry = &mut self.entries[place as usize];
        let id = TakenId { index: place | PAIR_BIT, generation: entry.generation };
        match entry.state {
            State::Claimed { lapses_at, .. } if lapses_at <= now => Some(self.lapse(id, now)),
            State::Claimed { since, lapses_at, told } => {
                entry.state = State::Claimed { since, lapses_at, told: told + 1 };
                Some(self.ready(id, now, false))
            }
            State::Running { .. } => {
                entry.state = State::Running { notice_at: Time::NEVER };
                Some(self.ready(id, now, true))
            }
            State::Receiving { .. } => Some(self.give_up(id, now)),
            State::Answered | State::Rejected { .. } => {
                self.stats.forgotten += 1;
                self.release(place).map(|context| Due::Gone { id, context })
            }
            State::Free | State::Ending => None,
        }
    }

    fn ready(&mut self, id: TakenId, now: Time, is_running: bool) -> Due<C> {
        let place = at(id);
        self.stats.readies += 1;
        self.time(place, now);
        let entry = &self.entries[place as usize];
        Due::Ready { id, session: entry.session(id.index), asker: entry.asker, is_running }
    }

    /// A claim was not confirmed. The client's next ones have less time.
    fn lapse(&mut self, id: TakenId, now: Time) -> Due<C> {
        self.stats.lapsed += 1;
        let place = at(id);
        if let Some(usual) = self.usual_claim(place) {
            let client = self.entries[place as usize].asker.client;
            self.accounts.get_mut(client).shorten(usual);
        }
        let code = RejectCode::Again;
        self.keep_rejected(place, now, code);
        Due::Lapsed { id, code }
    }

    /// `claim` of the membership in which a request was taken, unless that has ended.
    fn usual_claim(&self, place: u32) -> Option<Duration> {
        let membership = self.entries[place as usize].arrived.as_ref()?.membership;
        self.membership(membership).map(|membership| membership.claim)
    }

    /// A request does not come, or its time is over.
    fn give_up(&mut self, id: TakenId, now: Time) -> Due<C> {
        let place = at(id);
        let (_, code) = self.entries[place as usize].given_up_at(&self.config);
        match code {
            RejectCode::Expired => self.stats.expired += 1,
            _ => self.stats.stalled += 1,
        }
        self.keep_rejected(place, now, code);
        Due::Lapsed { id, code }
    }

    /// Puts an entry into the wheel, unless it is there early enough.
    #[inline]
    pub(super) fn time(&mut self, place: u32, now: Time) {
        let entry = &mut self.entries[place as usize];
        let due = entry.due(&self.config);
        if due < entry.timed_at {
            entry.timed_at = self.wheel.insert(now, due, place);
        }
    }
}
