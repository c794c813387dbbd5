//! When a worker has to be looked at next.
//!
//! Each place has one time at which a timer looks at its worker, no later than anything is due.
//! What moves this time to earlier sets another timer; what moves it to later does not, and the
//! timer finds nothing to do then. So a worker that gets a request every microsecond sets a timer
//! every two milliseconds.

use petasos_base::Time;

use crate::config::Liveness;
use crate::router::Router;
use crate::worker::Worker;

/// A slow start begins with this part of weight and bound.
pub(crate) const RAMP_FIRST_PERCENT: u8 = 10;
/// And proceeds in such steps.
const RAMP_STEP_PERCENT: u64 = 10;

impl<T> Router<T> {
    /// Sets a timer, if a probe of a worker is due earlier than it is looked at.
    #[inline]
    pub(crate) fn watch(&mut self, now: Time, index: usize) {
        let worker = &self.workers.all[index];
        let is_watched = self.config.liveness.is_some();
        if is_watched && worker.probe_at().is_some_and(|at| at < worker.look_at) {
            self.schedule(now, index);
        }
    }

    /// Sets a timer for what a worker's state demands next.
    pub(crate) fn schedule(&mut self, now: Time, index: usize) {
        let worker = &self.workers.all[index];
        let ramp = self.config.slow_start.filter(|_| worker.ramp < 100).map(|slow_start| {
            let percent = (u64::from(worker.ramp) + RAMP_STEP_PERCENT).min(100);
            worker.ramp_from.plus_nanos(slow_start.as_nanos() as u64 / 100 * percent)
        });
        let liveness = self.config.liveness.map(|liveness| due(&liveness, worker));
        let next = [ramp, worker.ejected_until, liveness].into_iter().flatten().min();
        let worker = &mut self.workers.all[index];
        if let Some(next) = next.filter(|next| *next < worker.look_at) {
            worker.look_at = self.timers.insert(now, next, index as u16);
        }
    }
}

/// When a worker gets a probe, is silent or gone, whichever is first.
fn due(liveness: &Liveness, worker: &Worker) -> Time {
    let all = [worker.probe_at(), silent_at(liveness, worker), gone_at(liveness, worker)];
    all.into_iter().flatten().min().unwrap_or(Time::NEVER)
}

/// When a worker is silent, if it goes on like this. One that was idle has told nothing for long.
pub(crate) fn silent_at(liveness: &Liveness, worker: &Worker) -> Option<Time> {
    let is_asked = worker.probes >= 2 && !worker.is_silent;
    is_asked.then_some(worker.heard_at.max(worker.asked_at) + liveness.lease)
}

/// When a worker is no member any more: one without a connection after a lease, and a silent one
/// after a longer time, whatever its connection (RT23, RT35).
pub(crate) fn gone_at(liveness: &Liveness, worker: &Worker) -> Option<Time> {
    let lost = worker.lost_at.map(|at| at.max(worker.heard_at) + liveness.lease);
    let silent = worker.is_silent.then_some(worker.silent_since + liveness.outlive);
    [lost, silent].into_iter().flatten().min()
}
