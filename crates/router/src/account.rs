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

use petasos_wire::SETTLED_NUMBERS;

/// A worker takes no number for new that is further above the highest that it has (RT21).
pub(crate) const AHEAD_MAX: u64 = 8192;

/// Given numbers are told modulo this (RT19).
const GIVEN_NUMBERS: u64 = petasos_wire::GIVEN_NUMBERS as u64;
/// Counts of settled numbers are told modulo this (RT20).
const COUNTS: u64 = SETTLED_NUMBERS as u64;

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

    /// Takes note of so many slots that others have taken.
    pub(crate) fn learn_given(&mut self, numbers: u64) {
        self.given += numbers;
    }

    /// How many numbers are settled, as the worker tells it.
    pub(crate) fn settled_told(&self) -> u32 {
        (self.settled % COUNTS) as u32
    }

    /// Takes the worker's counts, which are newer than what is known: of settled numbers, and the
    /// highest that has arrived, as [`WorkerCounts`](petasos_wire::WorkerCounts) has them. Returns
    /// how many numbers were settled since.
    ///
    /// # Errors
    /// If no worker that keeps to the rules says this. Nothing has changed then.
    #[inline]
    pub(crate) fn learn(&mut self, settled: u32, received: u32) -> Result<u64, WrongCounts> {
        // Far fewer are outstanding than the counts distinguish (RT22): a count that has fallen
        // seems to have risen by more than that.
        let news = u64::from(settled).wrapping_sub(self.settled) % COUNTS;
        let above = self.given.wrapping_sub(received.into()) % GIVEN_NUMBERS;
        let received = self.given.checked_sub(above).ok_or(WrongCounts)?;
        let settled = self.settled + news;
        if settled > received || received < self.received {
            return Err(WrongCounts);
        }
        (self.settled, self.received) = (settled, received);
        Ok(news)
    }

    /// As if so many numbers had been given and settled.
    pub(crate) fn at(count: u64) -> Account {
        Account { given: count, received: count, settled: count }
    }
}

/// A count has fallen, or more was settled than received, or received than given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrongCounts;

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts from which counts wrap.
    const STARTS: [u64; 4] = [0, GIVEN_NUMBERS - 2, COUNTS - 2, 3 * COUNTS - 2];

    fn given(start: u64, numbers: u64) -> Account {
        let mut account = Account::at(start);
        (0..numbers).for_each(|_| _ = account.give());
        account
    }

    fn learn(account: &mut Account, settled: u64, received: u64) -> Result<u64, WrongCounts> {
        account.learn((settled % COUNTS) as u32, (received % GIVEN_NUMBERS) as u32)
    }

    #[test]
    fn rt22_slots_return_with_what_is_settled() {
        for start in STARTS {
            let mut account = given(start, 5);
            for (settled, received, news) in [(0, 2, 0), (2, 4, 2), (2, 4, 0), (5, 5, 3)] {
                assert_eq!(learn(&mut account, start + settled, start + received), Ok(news));
                assert_eq!(account.outstanding(), 5 - settled, "{start}");
            }
        }
    }

    #[test]
    fn rt22_counts_that_cannot_be_change_nothing() {
        for start in STARTS {
            let mut account = given(start, 3);
            learn(&mut account, start + 1, start + 2).expect("it can be");
            let before = account;
            let far = [COUNTS / 2, COUNTS - 1].map(|far| (start + far, start + 3));
            for counts in [(0, 2), (1, 1), (3, 2), (1, 4), (4, 4)]
                .map(|(settled, received)| (start + settled, start + received))
                .into_iter()
                .chain(far)
            {
                assert_eq!(learn(&mut account, counts.0, counts.1), Err(WrongCounts), "{counts:?}");
            }
            assert_eq!(account.learn(u32::MAX, u32::MAX), Err(WrongCounts));
            assert_eq!(account, before);
        }
    }
}
