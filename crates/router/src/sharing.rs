//! What the core does about slots that others give as well.

use petasos_base::Time;
use petasos_wire::WorkerCounts;

use crate::account::Account;
use crate::router::Router;
use crate::shared::{NOTHING, Shared, SharedCounts, SharedSlots};

impl<T> Router<T> {
    /// Gives slots together with others from now on. There are no workers yet.
    pub fn share(&mut self, slots: Box<dyn SharedSlots>) {
        let published = vec![NOTHING; self.workers.all.len()].into();
        self.shared = Some(Shared { slots, published });
    }

    /// Learns what others have given and were told. Returns whether there was anything.
    pub fn learn_shared(&mut self, now: Time) -> bool {
        if self.shared.is_none() {
            return false;
        }
        let before = (self.counts.given, self.counts.feedback);
        for index in 0..self.workers.all.len() {
            if self.workers.members.contains(index) {
                self.learn_place(now, index);
            }
        }
        before != (self.counts.given, self.counts.feedback)
    }

    /// Says what workers may have, as far as that has changed.
    pub fn publish(&mut self) {
        let Some(shared) = &mut self.shared else { return };
        for (place, worker) in self.workers.all.iter().enumerate() {
            // A place without a worker has a limit of 0.
            let (limit, share) = (worker.limit, worker.share);
            if shared.published[place] != (limit, share) {
                shared.published[place] = (limit, share);
                shared.slots.set_limit(place, limit, share);
            }
        }
    }

    pub(crate) fn begin_shared(&mut self, index: usize, bound: u16) {
        if let Some(shared) = &mut self.shared {
            shared.published[index] = NOTHING;
            shared.slots.begin(index, bound);
        }
    }

    pub(crate) fn end_shared(&mut self, index: usize) {
        if let Some(shared) = &mut self.shared {
            shared.slots.end(index);
        }
    }

    /// Takes a worker's slot, which it seems to have. If others were faster, what is known of it is
    /// right afterwards.
    #[inline]
    pub(crate) fn take_slot(&mut self, now: Time, index: usize) -> bool {
        self.shared.is_none() || self.take_shared(now, index)
    }

    fn take_shared(&mut self, now: Time, index: usize) -> bool {
        self.publish();
        let taken = self.shared.as_mut().and_then(|shared| shared.slots.take(index));
        match taken {
            Some(number) => self.learn_given(now, index, number - 1),
            None => self.learn_place(now, index),
        }
        taken.is_some()
    }

    /// Takes the number of a probe, which follows what others have given.
    pub(crate) fn take_probe(&mut self, now: Time, index: usize) {
        if let Some(shared) = &mut self.shared {
            let number = shared.slots.take_probe(index);
            self.learn_given(now, index, number - 1);
        }
    }

    /// Tells others what a worker tells, which is newer than all that is known here. Returns
    /// whether it is newer than all that they know.
    pub(crate) fn tell_shared(&mut self, index: usize, told: &WorkerCounts) -> bool {
        let Some(shared) = &mut self.shared else { return true };
        let worker = &self.workers.all[index];
        let mut account: Account = worker.account;
        if account.learn(told.settled, told.received).is_err() {
            // Nothing is told; that it cannot be is found again.
            return true;
        }
        let before = WorkerCounts { settled: worker.account.settled_told(), ..worker.told() };
        shared.slots.tell(index, &before, told, account.received())
    }

    fn learn_given(&mut self, now: Time, index: usize, given: u64) {
        let gave = given.saturating_sub(self.workers.all[index].account.given());
        if gave > 0 {
            self.counts.requests += gave;
            self.counts.given += gave;
            self.workers.learn_given(now, index, gave);
            self.watch(now, index);
        }
    }

    pub(crate) fn learn_place(&mut self, now: Time, index: usize) {
        let Some(shared) = &self.shared else { return };
        let SharedCounts { given, told } = shared.slots.counts(index);
        self.learn_given(now, index, given);
        if told.sequence != self.workers.all[index].sequence {
            // The other one has checked what it heeds.
            let _ = self.hear(now, index, &told);
        }
    }
}
