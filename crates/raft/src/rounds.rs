//! Rounds in which a leader learns that it still leads: reads by index, and leases (QR14, QR15).

use std::collections::VecDeque;

/// Rounds that may be under way. Further reads wait for one of them to end.
const ROUNDS_MAX: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// The last round that has begun. They are counted from 1.
    begun: u64,
    /// Rounds that are under way, and when they were begun, in microseconds.
    under_way: VecDeque<(u64, u64)>,
    /// When the newest round that a majority has answered was begun.
    confirmed_us: Option<u64>,
    /// Whether reads wait for the next round.
    is_wanted: bool,
    /// Whether a round is to begin for the lease alone.
    is_due: bool,
    /// Rounds that reads wait for, with the index from which they may be answered.
    reads: VecDeque<(u64, u64)>,
}

impl Rounds {
    /// A read wants to know: the round that will say so.
    pub(crate) fn want(&mut self) -> u64 {
        self.is_wanted = true;
        self.begun + 1
    }

    /// A round is to begin also if no read waits: it renews the lease. If many are under way, there
    /// is no need.
    pub(crate) fn renew(&mut self) {
        self.is_due = self.under_way.len() < ROUNDS_MAX / 2;
    }

    /// Whether a round has to begin.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_due || (self.is_wanted && self.under_way.len() < ROUNDS_MAX)
    }

    /// Begins a round. Reads that wait for it may be answered from `index` on.
    pub(crate) fn begin(&mut self, now_us: u64, index: u64) {
        self.begun += 1;
        self.is_due = false;
        self.under_way.push_back((self.begun, now_us));
        if std::mem::take(&mut self.is_wanted) {
            self.reads.push_back((self.begun, index));
        }
    }

    /// The newest round.
    pub(crate) fn newest(&self) -> u64 {
        self.begun
    }

    /// Ends rounds that `is_answered`, by a majority, and those before.
    pub(crate) fn confirm(&mut self, is_answered: impl Fn(u64) -> bool) {
        let answered = self.under_way.iter().rposition(|(round, _)| is_answered(*round));
        let Some(answered) = answered else { return };
        let last = self.under_way.drain(..=answered).next_back();
        self.confirmed_us = last.map(|(_, begun_us)| begun_us);
    }

    /// A read's round that has been confirmed, and from which index on it may be answered.
    pub(crate) fn next_read(&mut self) -> Option<(u64, u64)> {
        let oldest = self.under_way.front().map_or(self.begun + 1, |(round, _)| *round);
        self.reads.pop_front_if(|(round, _)| *round < oldest)
    }

    /// When the newest round that was confirmed was begun.
    pub(crate) fn confirmed_us(&self) -> Option<u64> {
        self.confirmed_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_round_answers_earlier_reads() {
        let mut rounds = Rounds::default();
        assert_eq!(rounds.want(), 1);
        assert_eq!(rounds.want(), 1, "one round for all that wait");
        rounds.begin(10, 5);
        assert_eq!(rounds.want(), 2);
        rounds.begin(20, 6);
        rounds.begin(30, 7);
        assert_eq!(rounds.next_read(), None);
        rounds.confirm(|round| round <= 2);
        assert_eq!(rounds.next_read(), Some((1, 5)));
        assert_eq!(rounds.next_read(), Some((2, 6)));
        assert_eq!(rounds.next_read(), None);
        assert_eq!(rounds.confirmed_us(), Some(20));
    }
}
