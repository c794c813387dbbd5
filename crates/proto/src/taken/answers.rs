//! What becomes of a request that a worker is done with: it is settled, and kept or not (RT18).

use petasos_base::Time;
use petasos_wire::RejectCode;

use super::entry::State;
use super::{Answered, PAIR_BIT, TakenId, TakenRequests, at};

impl<C> TakenRequests<C> {
    /// The handler has answered. `is_one_packet` is whether the response is.
    #[inline]
    pub fn answer(&mut self, now: Time, id: TakenId, is_one_packet: bool) -> Answered<C> {
        let answered = self.settle_running(id);
        if let Some(is_named) = answered
            && (is_named || !is_one_packet)
        {
            return self.keep(at(id), now, State::Answered);
        }
        self.leave_nothing(id, answered)
    }

    /// The request is not run, or its handler has rejected it. Before it runs, this is for want of
    /// memory or time, say.
    pub fn reject(&mut self, now: Time, id: TakenId, code: RejectCode) -> Answered<C> {
        let answered = self.settle_running(id);
        if answered == Some(true) {
            return self.keep(at(id), now, State::Rejected { code, is_awaited: false });
        }
        self.leave_nothing(id, answered)
    }

    /// Settles a request that is being received or runs; whether its client knows a session, if
    /// there is one.
    #[inline]
    fn settle_running(&mut self, id: TakenId) -> Option<bool> {
        let entry = self.entry(id)?;
        let (state, is_named) = (entry.state, entry.is_named());
        let has_run = matches!(state, State::Running { .. } | State::Ending);
        let is_named = match state {
            State::Running { .. } | State::Receiving { .. } => Some(is_named),
            State::Ending => None,
            _ => return None,
        };
        // Nobody asks for it unless a worker follows its idle time.
        self.handlers_ended = self.handlers_ended.wrapping_add(u32::from(has_run));
        self.settle(at(id));
        is_named
    }

    fn leave_nothing(&mut self, id: TakenId, answered: Option<bool>) -> Answered<C> {
        if answered.is_none() {
            if self.entry(id).is_some_and(|entry| entry.state == State::Ending) {
                self.release(at(id));
            }
            return Answered::Unwanted;
        }
        self.stats.left += 1;
        let context = self.release(at(id));
        context.map_or(Answered::Unwanted, Answered::Left)
    }

    fn keep(&mut self, place: u32, now: Time, state: State) -> Answered<C> {
        self.stats.kept += 1;
        let entry = &mut self.entries[place as usize];
        // The client knows the session from this answer at the latest.
        (entry.state, entry.heard_at) = (state, now);
        let session = entry.session(place | PAIR_BIT);
        self.time(place, now);
        Answered::Kept(session)
    }

    pub(super) fn keep_rejected(&mut self, place: u32, now: Time, code: RejectCode) {
        self.settle(place);
        let entry = &mut self.entries[place as usize];
        let is_awaited = matches!(entry.state, State::Claimed { .. });
        self.keep(place, now, State::Rejected { code, is_awaited });
    }
}
