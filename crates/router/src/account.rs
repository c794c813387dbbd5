//! The slots of one worker: numbers that the router has given and that are not yet settled.
//!
//! The router numbers what it gives a worker: 1, 2, 3, … (RT19). The worker *settles* each number
//! once, and it alone: when it has answered or refused the request, or when it has waited for a
//! missing one long enough and will not take it any more (RT21). It tells how many it has settled.
//! What is outstanding is the difference of two counts that only grow:
//!
//! ```text
//! given − settled
//! ```
//!
//! Therefore slots are conserved by construction: no order, loss or repetition of feedback returns
//! a slot twice or loses one. What is lost at the end, so that the worker does not miss it, a probe
//! shows: a number that is given and settled at once (RT22). All lower ones are missing then.
//!
//! Invariant: `settled <= received <= given`.

/// A worker takes no number for new that is further above the highest that it has (RT21).
pub(crate) const AHEAD_MAX: u64 = 8192;

/// Counts of one worker. See the module's documentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    given: u64,
    received: u64,
    settled: u64,
}

impl Account {
    /// Numbers that were given, and that are not settled.
    #[inline]
    pub fn outstanding(&self) -> u64 {
        self.given - self.settled
    }

    /// How many numbers were given: the last one.
    pub fn given(&self) -> u64 {
        self.given
    }

    /// The highest number that has reached the worker, as far as it has told.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// How many numbers are settled, as far as the worker has told.
    pub fn settled(&self) -> u64 {
        self.settled
    }

    /// Takes a slot. Returns the number.
    #[inline]
    pub(crate) fn give(&mut self) -> u64 {
        self.given += 1;
        self.given
    }

    /// Takes the worker's counts, which are newer than what is known. Returns how many numbers were
    /// settled since.
    ///
    /// # Errors
    /// If no worker that keeps to the rules says this. Nothing has changed then.
    #[inline]
    pub(crate) fn learn(&mut self, settled: u64, received: u64) -> Result<u64, WrongCounts> {
        let is_possible = settled >= self.settled && received >= self.received;
        if !is_possible || settled > received || received > self.given {
            return Err(WrongCounts);
        }
        self.received = received;
        Ok(settled - core::mem::replace(&mut self.settled, settled))
    }
}

/// A count has fallen, or more was settled than received, or received than given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrongCounts;

#[cfg(test)]
mod tests {
    use super::*;

    fn given(numbers: u64) -> Account {
        let mut account = Account::default();
        (0..numbers).for_each(|_| _ = account.give());
        account
    }

    #[test]
    fn slots_return_with_what_is_settled() {
        let mut account = given(5);
        for (settled, received, news) in [(0, 2, 0), (2, 4, 2), (2, 4, 0), (5, 5, 3)] {
            assert_eq!(account.learn(settled, received), Ok(news));
            assert_eq!(account.outstanding(), 5 - settled);
        }
    }

    #[test]
    fn counts_that_cannot_be_change_nothing() {
        let mut account = given(3);
        account.learn(1, 2).expect("it can be");
        let before = account;
        for counts in [(0, 2), (1, 1), (3, 2), (1, 4), (4, 4), (u64::MAX, u64::MAX)] {
            assert_eq!(account.learn(counts.0, counts.1), Err(WrongCounts), "{counts:?}");
        }
        assert_eq!(account, before);
    }
}
