//! Packets of sessions: of requests that come after their claims, and what ends them.

use petasos_base::Time;
use petasos_wire::RejectCode;

use super::entry::State;
use super::{PAIR_BIT, Part, Progress, SessionName, TakenId, TakenRequests, at};

impl<C> TakenRequests<C> {
    /// The request that a packet of a session is about; `None` if it is not the client's, or is
    /// gone: the packet is dropped.
    #[inline]
    pub fn find(&self, session: SessionName, request: u64) -> Option<TakenId> {
        let entry = self.entries.get((session.index & !PAIR_BIT) as usize)?;
        let is_its = session.index & PAIR_BIT != 0
            && entry.tag == session.tag
            && entry.asker.request == request
            && entry.is_named();
        is_its.then_some(TakenId { index: session.index, generation: entry.generation })
    }

    /// A packet of the client has come that is none of the request: what is kept is kept for longer
    /// (RT18).
    pub fn hear(&mut self, now: Time, id: TakenId) {
        if let Some(entry) = self.entry(id) {
            entry.heard_at = now;
        }
    }

    /// A packet of the request has come, and this is what the session has made of it.
    #[inline]
    pub fn receive(&mut self, now: Time, id: TakenId, part: Part) -> Progress {
        let Some(entry) = self.entry(id) else { return Progress::None };
        entry.heard_at = now;
        match entry.state {
            State::Claimed { .. } => {
                entry.state = State::Receiving { since: now, new_at: now };
                self.stats.confirmed += 1;
                self.confirmed(id);
            }
            State::Receiving { since, .. } if part != Part::Old => {
                entry.state = State::Receiving { since, new_at: now };
            }
            State::Rejected { code, is_awaited } => {
                entry.state = State::Rejected { code, is_awaited: false };
                if is_awaited {
                    self.stats.confirmed_late += 1;
                    self.confirmed(id);
                }
                return Progress::Rejected(code);
            }
            _ => return Progress::None,
        }
        self.received(now, id, part)
    }

    /// Runs a request that is complete, unless its time is over (RT6).
    fn received(&mut self, now: Time, id: TakenId, part: Part) -> Progress {
        let place = at(id);
        let entry = &mut self.entries[place as usize];
        if part != Part::Last {
            self.time(place, now);
            return Progress::None;
        }
        if entry.asker.expires_at <= now {
            self.stats.expired += 1;
            self.keep_rejected(place, now, RejectCode::Expired);
            return Progress::Rejected(RejectCode::Expired);
        }
        entry.state = State::Running { notice_at: Time::NEVER };
        Progress::Run
    }

    /// The client has cancelled the request (W21). The caller's data, if there was a session; a
    /// handler that runs is to end, and to be followed by [`TakenRequests::answer`] as usual.
    pub fn cancel(&mut self, id: TakenId) -> Option<C> {
        let entry = self.entry(id)?;
        match entry.state {
            State::Running { .. } => {
                entry.state = State::Ending;
                self.stats.cancelled += 1;
                self.entries[at(id) as usize].context.take()
            }
            State::Claimed { .. } | State::Receiving { .. } => {
                self.stats.cancelled += 1;
                self.settle(at(id));
                self.release(at(id))
            }
            State::Answered | State::Rejected { .. } => self.release(at(id)),
            State::Free | State::Ending => None,
        }
    }

    /// The client has the answer (W25). The caller's data, if it was there to be had.
    pub fn done(&mut self, id: TakenId) -> Option<C> {
        let entry = self.entry(id)?;
        let is_answered = matches!(entry.state, State::Answered | State::Rejected { .. });
        is_answered.then(|| self.release(at(id))).flatten()
    }

    fn confirmed(&mut self, id: TakenId) {
        let client = self.entries[at(id) as usize].asker.client;
        self.accounts.get_mut(client).lengthen();
    }
}
