//! What time does to workers: probes, leases, ejections that end, slow starts that go on.

use petasos_base::Time;

use crate::account::AHEAD_MAX;
use crate::output::Event;
use crate::router::Router;
use crate::schedule::{RAMP_FIRST_PERCENT, gone_at, silent_at};
use crate::worker::WorkerId;

impl<T> Router<T> {
    /// Does what is due. Calls before [`Router::next_timeout`] do nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        if !self.timers.is_due(now) {
            return;
        }
        let mut due = core::mem::take(&mut self.due);
        self.timers.advance(now, |index| due.push(index));
        for index in due.drain(..) {
            let index = usize::from(index);
            let worker = &mut self.workers.all[index];
            // An item that was set before an earlier one is due later, and means nothing then.
            if worker.look_at <= now {
                worker.look_at = Time::NEVER;
                if self.workers.members.contains(index) {
                    self.look_at(now, index);
                }
            }
        }
        self.due = due;
    }

    fn look_at(&mut self, now: Time, index: usize) {
        if self.check_liveness(now, index) {
            return;
        }
        if self.workers.all[index].ejected_until.is_some_and(|until| now >= until) {
            self.restore(now, index);
        }
        self.ramp(now, index);
        self.schedule(now, index);
    }

    /// Sends a worker a probe, or gives it up, if it is time for that. Returns whether it is gone.
    fn check_liveness(&mut self, now: Time, index: usize) -> bool {
        let Some(liveness) = self.config.liveness else { return false };
        let worker = &self.workers.all[index];
        let is_past = |at: Option<Time>| at.is_some_and(|at| now >= at);
        let is_silent = is_past(silent_at(&liveness, worker));
        let (is_gone, asks) = (is_past(gone_at(&liveness, worker)), is_past(worker.probe_at()));
        // With more, it would not take its numbers for new any more (RT21).
        let is_passed_by = asks && worker.account.outstanding() >= AHEAD_MAX;
        let id = self.workers.id(index);
        if is_gone || is_passed_by {
            let outstanding = self.remove(index);
            self.events.push_back(Event::Gone { worker: id, outstanding });
            return true;
        }
        if is_silent {
            self.silence(now, index);
        }
        if asks {
            self.take_probe(now, index);
            let number = self.workers.probe(now, index, liveness.probe_after_max);
            self.probes.push_back((id, number));
        }
        false
    }

    /// Ends ejections that would leave requests without a taker: that of the primary, and all, if
    /// those who could have been used otherwise cannot be used any more. Returns whether it has.
    #[inline(always)]
    pub(crate) fn recall(&mut self, now: Time) -> bool {
        let is_out = |index: &usize| self.workers.all[*index].ejected_until.is_some();
        let needed = match self.workers.usable {
            0 if self.workers.ejected > 0 => 0..self.workers.all.len(),
            _ => match self.workers.primary.map(WorkerId::index).filter(is_out) {
                Some(primary) => primary..primary + 1,
                None => return false,
            },
        };
        for index in needed {
            if self.workers.all[index].ejected_until.is_some() {
                self.restore(now, index);
                self.schedule(now, index);
            }
        }
        true
    }

    /// Ends an ejection. The worker begins slowly, if workers do.
    fn restore(&mut self, now: Time, index: usize) {
        let worker = &mut self.workers.all[index];
        worker.ejected_until = None;
        if self.config.slow_start.is_some() {
            (worker.ramp, worker.ramp_from) = (RAMP_FIRST_PERCENT, now);
        }
        self.failures[index].begin(now, worker.account.settled());
        self.workers.ejected -= 1;
        self.workers.update(index);
        self.events.push_back(Event::Restored { worker: self.workers.id(index) });
    }

    /// Sets a slow start's percentage: that of the time that has passed.
    fn ramp(&mut self, now: Time, index: usize) {
        let Some(slow_start) = self.config.slow_start else { return };
        let worker = &mut self.workers.all[index];
        if worker.ramp < 100 {
            let passed_ns = now.nanos_since(worker.ramp_from).min(slow_start.as_nanos() as u64);
            let percent = u128::from(passed_ns) * 100 / slow_start.as_nanos();
            worker.ramp = worker.ramp.max(percent as u8);
            self.workers.update(index);
        }
    }
}
