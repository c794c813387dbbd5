//! Members: how they join, what they tell, what is decided about them, and how they leave.

use petasos_base::Time;
use petasos_wire::WorkerCounts;

use crate::account::Account;
use crate::health::Failures;
use crate::output::Event;
use crate::router::Router;
use crate::schedule::RAMP_FIRST_PERCENT;
use crate::worker::{Join, Worker, WorkerId, is_newer, low_sequence};

/// Why what a worker said was not heeded. Somebody else speaks for it, or it is broken; nothing has
/// changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FeedbackError {
    /// It is no member, or not any more. It may join again.
    #[error("it is no member")]
    Stranger,
    /// It has settled more than it has received, or received more than it was given, or fewer than
    /// before (RT22).
    #[error("it has counts that cannot be")]
    WrongCounts,
}

/// There is no place for another worker. It may try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the group has as many workers as it can have")]
pub struct GroupFull;

impl<T> Router<T> {
    /// Adds a worker.
    ///
    /// # Errors
    /// If all places are taken.
    pub fn handle_join(&mut self, now: Time, join: Join) -> Result<WorkerId, GroupFull> {
        let ramp = if self.config.slow_start.is_some() { RAMP_FIRST_PERCENT } else { 100 };
        let id = self.workers.insert(now, join, ramp).ok_or(GroupFull)?;
        self.begin_shared(id.index(), join.bound);
        self.failures[id.index()] = Failures::new(now);
        if self.ring.is_used() {
            let worker = &self.workers.all[id.index()];
            self.ring.insert(id.index, worker.identity, worker.weight);
        }
        self.schedule(now, id.index());
        Ok(id)
    }

    /// The same as if so many numbers had been given and settled: for tests of counts that wrap.
    ///
    /// # Errors
    /// If all places are taken.
    #[doc(hidden)]
    pub fn handle_join_at(
        &mut self,
        now: Time,
        join: Join,
        count: u64,
    ) -> Result<WorkerId, GroupFull> {
        let id = self.handle_join(now, join)?;
        let worker = &mut self.workers.all[id.index()];
        (worker.account, worker.sequence) = (Account::at(count), low_sequence(count));
        Ok(id)
    }

    /// Takes what a worker tells. Returns how many numbers it has settled since it was last heard:
    /// none if the message is not newer than the newest.
    ///
    /// # Errors
    /// If it is no member, or what it tells cannot be.
    #[inline]
    pub fn handle_feedback(
        &mut self,
        now: Time,
        worker: WorkerId,
        told: &WorkerCounts,
    ) -> Result<u64, FeedbackError> {
        let Some(index) = self.workers.index(worker) else {
            self.counts.from_strangers += 1;
            return Err(FeedbackError::Stranger);
        };
        if self.shared.is_some() {
            return self.hear_shared(now, index, told);
        }
        if !is_newer(told.sequence, self.workers.all[index].sequence) {
            self.counts.stale += 1;
            return Ok(0);
        }
        self.hear(now, index, told)
    }

    /// Takes what a worker tells, while others are told as well.
    #[cold]
    fn hear_shared(
        &mut self,
        now: Time,
        index: usize,
        told: &WorkerCounts,
    ) -> Result<u64, FeedbackError> {
        self.learn_place(now, index);
        let is_newest = is_newer(told.sequence, self.workers.all[index].sequence);
        if !is_newest || !self.tell_shared(index, told) {
            self.counts.stale += 1;
            return Ok(0);
        }
        self.hear(now, index, told)
    }

    /// Heeds what a worker tells, which is newer than the newest.
    #[inline(always)]
    pub(crate) fn hear(
        &mut self,
        now: Time,
        index: usize,
        told: &WorkerCounts,
    ) -> Result<u64, FeedbackError> {
        let Ok(settled) = self.workers.learn(now, index, told) else {
            self.counts.wrong_counts += 1;
            return Err(FeedbackError::WrongCounts);
        };
        self.counts.settled += settled;
        self.counts.feedback += 1;
        let worker = &mut self.workers.all[index];
        if told.bound != worker.bound || worker.is_silent {
            self.change_by_feedback(index, told.bound);
        }
        self.watch(now, index);
        self.check_drained(index);
        Ok(settled)
    }

    fn change_by_feedback(&mut self, index: usize, bound: u16) {
        let worker = &mut self.workers.all[index];
        worker.was_drained &= bound == worker.bound;
        worker.bound = bound;
        if core::mem::take(&mut worker.is_silent) {
            self.events.push_back(Event::Heard { worker: self.workers.id(index) });
        }
        self.workers.update(index);
    }

    /// Counts requests that a worker has failed, as somebody knows who sees that: it could not be
    /// sent to, or says so itself. They stay outstanding until it has settled them.
    pub fn handle_failure(&mut self, now: Time, worker: WorkerId, failed: u64) {
        if let Some(index) = self.workers.index(worker) {
            self.count_failures(now, index, failed);
        }
    }

    #[cold]
    fn count_failures(&mut self, now: Time, index: usize, failed: u64) {
        let Some(limits) = self.config.ejection else { return };
        let settled = self.workers.all[index].account.settled();
        let is_outlier = self.failures[index].count(now, failed, settled, &limits);
        let is_out = self.workers.all[index].ejected_until.is_some();
        let (ejected, members) = (self.workers.ejected, self.workers.members.len());
        // As in gRPC: one more may go as long as those that are out are fewer than the limit.
        let is_allowed = ejected * 100 < members * usize::from(limits.ejected_max_percent);
        let others = self.workers.usable - usize::from(self.workers.all[index].limit > 0);
        let is_needed = others == 0 || self.workers.primary == Some(self.workers.id(index));
        if is_outlier && !is_out && is_allowed && !is_needed {
            let until = self.failures[index].eject(now, &limits);
            self.workers.ejected += 1;
            self.workers.all[index].ejected_until = Some(until);
            self.workers.update(index);
            self.counts.ejections += 1;
            self.events.push_back(Event::Ejected { worker: self.workers.id(index), until });
            self.schedule(now, index);
        }
    }

    /// Gives a worker no more requests, or again if `is_draining` is false. Returns whether it is a
    /// member. [`Event::Drained`] reports that nothing is outstanding.
    pub fn drain(&mut self, worker: WorkerId, is_draining: bool) -> bool {
        self.change(worker, |worker| worker.is_draining = is_draining)
    }

    /// Gives a worker no requests yet, or from now on if `is_held_back` is false: clients have to
    /// know it first (RT36), and it the epoch of their requests (RT30). What only it may take waits
    /// for it. Returns whether it is a member.
    pub fn hold_back(&mut self, worker: WorkerId, is_held_back: bool) -> bool {
        self.change(worker, |worker| worker.is_held_back = is_held_back)
    }

    /// Gives a worker no more requests, and removes it when nothing is outstanding, which
    /// [`Event::Left`] reports. Returns whether it is a member.
    pub fn handle_leave(&mut self, worker: WorkerId) -> bool {
        self.change(worker, |worker| worker.is_leaving = true)
    }

    /// Takes that a worker's control connection is lost. It gets nothing until it is heard, and is
    /// no member any more after a lease in which it is not, which [`Event::Gone`] reports. Returns
    /// whether it is a member.
    pub fn handle_disconnect(&mut self, now: Time, worker: WorkerId) -> bool {
        let Some(index) = self.workers.index(worker) else { return false };
        self.workers.all[index].lost_at = Some(now);
        self.silence(now, index);
        self.schedule(now, index);
        true
    }

    /// Takes that a worker has a control connection again. Returns whether it is a member.
    pub fn handle_reconnect(&mut self, worker: WorkerId) -> bool {
        self.change(worker, |worker| worker.lost_at = None)
    }

    /// Ends a membership at once. Returns how many numbers were outstanding, if it was one: whether
    /// these requests have run is not known.
    pub fn handle_end(&mut self, worker: WorkerId) -> Option<u64> {
        Some(self.remove(self.workers.index(worker)?))
    }

    /// Gives a worker nothing until it is heard.
    pub(crate) fn silence(&mut self, now: Time, index: usize) {
        let worker = &mut self.workers.all[index];
        if core::mem::replace(&mut worker.is_silent, true) {
            return;
        }
        worker.silent_since = now;
        let outstanding = worker.account.outstanding();
        self.workers.update(index);
        self.counts.silences += 1;
        self.events.push_back(Event::Silent { worker: self.workers.id(index), outstanding });
    }

    /// Sets a worker's weight, in percent of a full one's; 1 to 100, others are taken as the
    /// nearest of these. Returns whether it is a member.
    pub fn set_weight(&mut self, worker: WorkerId, weight: u8) -> bool {
        let is_member = self.change(worker, |worker| worker.weight = weight.clamp(1, 100));
        if is_member && self.ring.is_used() {
            let state = &self.workers.all[worker.index()];
            self.ring.remove(worker.index);
            self.ring.insert(worker.index, state.identity, state.weight);
        }
        is_member
    }

    /// Names the member that gets requests for the primary only; without one, they wait. Returns
    /// whether it is a member.
    pub fn set_primary(&mut self, worker: Option<WorkerId>) -> bool {
        let is_member = worker.is_none_or(|worker| self.workers.index(worker).is_some());
        if is_member {
            self.workers.primary = worker;
        }
        is_member
    }

    fn change(&mut self, id: WorkerId, change: impl FnOnce(&mut Worker)) -> bool {
        let Some(index) = self.workers.index(id) else { return false };
        let worker = &mut self.workers.all[index];
        worker.was_drained = false;
        change(worker);
        self.workers.update(index);
        self.check_drained(index);
        true
    }

    /// Reports a worker that takes no more and has nothing outstanding.
    #[inline]
    fn check_drained(&mut self, index: usize) {
        let worker = &self.workers.all[index];
        if worker.limit > 0 || worker.account.outstanding() > 0 {
            return;
        }
        let (is_leaving, id) = (worker.is_leaving, self.workers.id(index));
        let takes_none = worker.is_draining || worker.bound == 0;
        if is_leaving {
            self.remove(index);
            self.events.push_back(Event::Left { worker: id });
        } else if takes_none && !worker.was_drained {
            self.workers.all[index].was_drained = true;
            self.events.push_back(Event::Drained { worker: id });
        }
    }

    /// Removes a member. Returns how many numbers were outstanding.
    pub(crate) fn remove(&mut self, index: usize) -> u64 {
        self.end_shared(index);
        if self.ring.is_used() {
            self.ring.remove(index as u16);
        }
        let outstanding = self.workers.remove(index);
        self.counts.abandoned += outstanding;
        outstanding
    }
}
