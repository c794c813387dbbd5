//! Slots that somebody else gives as well: a program in the kernel, before packets come here.
//!
//! Who gives is decided by one counter for each worker, which both have ([`SharedSlots`]): a number
//! that was taken there is given. This core learns afterwards what the other one has given and was
//! told ([`Router::learn_shared`]), as if it had happened then, and says what a worker may have
//! ([`Router::publish`]). Silence, ejections and weights are decided here alone.
//!
//! Invariant: an account here is never ahead of the shared counters.

use petasos_base::Time;
use petasos_wire::WorkerCounts;

use crate::account::Account;
use crate::router::Router;

/// What is known of a worker's slots to all who give them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedCounts {
    /// How many numbers were given.
    pub given: u64,
    /// The newest feedback.
    pub told: WorkerCounts,
}

/// Counters of workers, by their places ([`WorkerId::index`](crate::WorkerId::index)), of which
/// others change some as well.
pub trait SharedSlots: Send {
    /// A worker has joined at a place, and announces *n*. Nobody else gives to it yet.
    fn begin(&mut self, place: usize, bound: u16);
    /// The worker is no member any more. Nobody gives to it any more.
    fn end(&mut self, place: usize);
    /// The most that a worker may have, and its part in percent of a full one's.
    fn set_limit(&mut self, place: usize, limit: u16, share: u8);
    /// A worker's counters.
    fn counts(&self, place: usize) -> SharedCounts;
    /// Takes a worker's next number if it has fewer than its limit and than it has announced.
    fn take(&mut self, place: usize) -> Option<u64>;
    /// Takes a worker's next number in any case.
    fn take_probe(&mut self, place: usize) -> u64;
    /// Puts newer feedback in the place of `before`, unless others have put something there.
    /// `received` is that of `told` as a count.
    fn tell(
        &mut self,
        place: usize,
        before: &WorkerCounts,
        told: &WorkerCounts,
        received: u64,
    ) -> bool;
}

/// Limit and share of a place without a worker.
const NOTHING: (u16, u8) = (0, 100);

/// The counters, and what was published.
pub(crate) struct Shared {
    slots: Box<dyn SharedSlots>,
    /// Limit and share of each place.
    published: Box<[(u16, u8)]>,
}

impl core::fmt::Debug for Shared {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Shared").field("published", &self.published).finish_non_exhaustive()
    }
}

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
    #[inline]
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
