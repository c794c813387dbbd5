//! Slots that somebody else gives as well: a program in the kernel, before packets come here.
//!
//! Who gives is decided by one counter for each worker, which both have ([`SharedSlots`]): a number
//! that was taken there is given. This core learns afterwards what the other one has given and was
//! told ([`learn_shared`](crate::Router::learn_shared)), as if it had happened then, and says what
//! a worker may have ([`publish`](crate::Router::publish)). Silence, ejections and weights are
//! decided here alone.
//!
//! Invariant: an account here is never ahead of the shared counters.

use petasos_wire::WorkerCounts;

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
pub(crate) const NOTHING: (u16, u8) = (0, 100);

/// The counters, and what was published.
pub(crate) struct Shared {
    pub(crate) slots: Box<dyn SharedSlots>,
    /// Limit and share of each place.
    pub(crate) published: Box<[(u16, u8)]>,
}

impl core::fmt::Debug for Shared {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Shared").field("published", &self.published).finish_non_exhaustive()
    }
}
