//! One worker: what it tells, what it may get, and why less than that.

use core::time::Duration;

use petasos_base::Time;
use petasos_wire::{TRANSMISSION_NUMBERS, WorkerCounts};

use crate::account::{Account, WrongCounts};
use crate::policy::Bound;

/// A worker, as long as it is a member. One that joins later in the same place has another ID, so
/// that what is still said about the earlier one is not taken for its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkerId {
    pub(crate) index: u16,
    pub(crate) generation: u32,
}

impl WorkerId {
    /// The worker's place, below [`Config::workers_max`](crate::Config::workers_max). Places of
    /// workers that have left are used again.
    pub fn index(self) -> usize {
        self.index.into()
    }
}

/// A worker that joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Join {
    /// Names the worker beyond its membership: keys that went to it before go to it again.
    pub identity: u64,
    /// How many requests it takes at a time: n.
    pub bound: u16,
    /// Its part of the requests, in percent of a full one's. 1 to 100; others are taken as the
    /// nearest of these.
    pub weight: u8,
}

/// The number that a message with such a count has.
pub(crate) fn low_sequence(count: u64) -> u32 {
    (count % u64::from(TRANSMISSION_NUMBERS)) as u32
}

/// Whether a message with this number is newer than another: of the two ways round, that is the
/// shorter one (RT22).
#[inline]
pub(crate) fn is_newer(sequence: u32, than: u32) -> bool {
    let ahead = sequence.wrapping_sub(than) % TRANSMISSION_NUMBERS;
    (1..TRANSMISSION_NUMBERS / 2).contains(&ahead)
}

/// What the router knows of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerState {
    /// Its slots.
    pub account: Account,
    /// How many requests it may have at present; 0 if it gets none.
    pub limit: u16,
    /// How many it takes at a time, as it has announced: n.
    pub bound: u16,
    /// Its part of the requests at present, in percent of a full one's.
    pub share: u8,
    /// The same without a slow start.
    pub weight: u8,
    /// It gets nothing yet ([`hold_back`](crate::Router::hold_back)).
    pub is_held_back: bool,
    /// It has no control connection.
    pub is_lost: bool,
    /// It was told to get no more ([`drain`](crate::Router::drain)), or it leaves.
    pub is_draining: bool,
    /// It gets nothing until then.
    pub ejected_until: Option<Time>,
    /// It does not answer, and gets nothing until it is heard.
    pub is_silent: bool,
    /// When it was heard for the last time.
    pub heard_at: Time,
}

/// A place of the table, with a worker or without.
#[derive(Clone, Debug)]
pub(crate) struct Worker {
    pub generation: u32,
    pub identity: u64,
    pub account: Account,
    /// As announced by the latest message, and which one that was.
    pub bound: u16,
    pub sequence: u32,
    pub weight: u8,
    /// In percent of the full weight and bound: below 100 after a slow start has begun.
    pub ramp: u8,
    pub ramp_from: Time,
    pub is_draining: bool,
    /// It gets nothing yet, as its control connection wants.
    pub is_held_back: bool,
    /// It is removed when nothing is outstanding.
    pub is_leaving: bool,
    /// It was told that it is drained, since the last request.
    pub was_drained: bool,
    pub ejected_until: Option<Time>,
    pub heard_at: Time,
    pub is_silent: bool,
    /// Since when.
    pub silent_since: Time,
    /// Since when it has no connection.
    pub lost_at: Option<Time>,
    /// When a number was given, or one other than a probe's was settled, for the last time.
    pub quiet_since: Time,
    /// How long that may last until the next probe.
    pub probe_wait: Duration,
    /// Probes since it was heard.
    pub probes: u64,
    /// When the first of them was sent.
    pub asked_at: Time,
    /// The earliest time at which a timer looks at it.
    pub look_at: Time,
    /// Follow from the above: see [`Worker::update`].
    pub limit: u16,
    pub share: u8,
    /// What the table's sets and sums say of it.
    pub was_willing: bool,
    pub is_free: bool,
    pub is_idle: bool,
}

impl Worker {
    /// A place without a worker.
    pub(crate) fn vacant() -> Worker {
        Worker {
            generation: 0,
            identity: 0,
            account: Account::default(),
            bound: 0,
            sequence: 0,
            weight: 100,
            ramp: 100,
            ramp_from: Time::ZERO,
            is_draining: false,
            is_held_back: false,
            is_leaving: false,
            was_drained: false,
            ejected_until: None,
            heard_at: Time::ZERO,
            is_silent: false,
            silent_since: Time::ZERO,
            lost_at: None,
            quiet_since: Time::ZERO,
            probe_wait: Duration::ZERO,
            probes: 0,
            asked_at: Time::ZERO,
            look_at: Time::NEVER,
            limit: 0,
            share: 100,
            was_willing: false,
            is_free: false,
            is_idle: false,
        }
    }

    /// Sets what follows: limit and share. A slow start reduces both; a limit stays at least 1.
    pub(crate) fn update(&mut self, bound: Bound) {
        let percent = |of: u32| (of * u32::from(self.ramp)).div_ceil(100);
        let limit = percent(bound.of(self.bound).into()) as u16;
        let share = percent(self.weight.into()) as u8;
        let is_out = self.is_silent || self.is_held_back || self.ejected_until.is_some();
        let gets_none = is_out || self.is_draining || self.is_leaving;
        (self.limit, self.share) = (if gets_none { 0 } else { limit }, share);
    }

    /// Whether it will take requests, at some time.
    pub(crate) fn is_willing(&self) -> bool {
        !self.is_draining && !self.is_leaving && self.bound > 0
    }

    /// Whether it may get a request.
    #[inline]
    pub(crate) fn has_slot(&self) -> bool {
        self.account.outstanding() < u64::from(self.limit)
    }

    /// Its load with one request more, relative to its share, less that of an idle worker of full
    /// weight. For workers of full weight this is the number of outstanding requests.
    #[inline]
    pub(crate) fn load(&self) -> u64 {
        match self.share {
            100 => self.account.outstanding(),
            share => (self.account.outstanding() + 1) * 100 / u64::from(share) - 1,
        }
    }

    /// Counts a request that is given now.
    #[inline]
    pub(crate) fn give(&mut self, now: Time, probe_after: Duration) -> u64 {
        self.was_drained = false;
        (self.quiet_since, self.probe_wait) = (now, probe_after);
        self.account.give()
    }

    /// Counts requests that others have given.
    pub(crate) fn learn_given(&mut self, now: Time, numbers: u64, probe_after: Duration) {
        self.was_drained = false;
        (self.quiet_since, self.probe_wait) = (now, probe_after);
        self.account.learn_given(numbers);
    }

    /// The message that was heeded last, but for its counts of numbers.
    pub(crate) fn told(&self) -> WorkerCounts {
        WorkerCounts { sequence: self.sequence, received: 0, settled: 0, bound: self.bound }
    }

    /// Counts a probe that is sent now. The next one has twice the time, up to `wait_max`.
    pub(crate) fn probe(&mut self, now: Time, wait_max: Duration) -> u64 {
        if self.probes == 0 {
            self.asked_at = now;
        }
        self.probes += 1;
        self.quiet_since = now;
        self.probe_wait = (self.probe_wait * 2).min(wait_max);
        self.account.give()
    }

    /// Takes newer feedback. Returns how many numbers were settled.
    #[inline]
    pub(crate) fn learn(
        &mut self,
        now: Time,
        told: &WorkerCounts,
        probe_after: Duration,
    ) -> Result<u64, WrongCounts> {
        let settled = self.account.learn(told.settled, told.received)?;
        (self.sequence, self.heard_at) = (told.sequence, now);
        // That a probe is settled says only that the worker is there.
        if settled > core::mem::take(&mut self.probes) {
            (self.quiet_since, self.probe_wait) = (now, probe_after);
        }
        Ok(settled)
    }

    /// When a probe is due: never, while nothing is outstanding, unless it is silent or its
    /// connection is lost.
    pub(crate) fn probe_at(&self) -> Option<Time> {
        let is_away = self.lost_at.is_some() || self.is_silent;
        let is_asked = self.account.outstanding() > 0 || is_away;
        is_asked.then_some(self.quiet_since + self.probe_wait)
    }

    pub(crate) fn state(&self) -> WorkerState {
        WorkerState {
            account: self.account,
            limit: self.limit,
            bound: self.bound,
            share: self.share,
            weight: self.weight,
            is_held_back: self.is_held_back,
            is_lost: self.lost_at.is_some(),
            is_draining: self.is_draining || self.is_leaving,
            ejected_until: self.ejected_until,
            is_silent: self.is_silent,
            heard_at: self.heard_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(bound: u16, weight: u8, ramp: u8) -> Worker {
        let mut worker = Worker { bound, weight, ramp, ..Worker::vacant() };
        worker.update(Bound::Announced);
        worker
    }

    #[test]
    fn a_slow_start_reduces_bound_and_weight_but_not_to_nothing() {
        for ((bound, weight, ramp), expected) in [
            ((10, 100, 100), (10, 100)),
            ((10, 50, 10), (1, 5)),
            ((3, 1, 10), (1, 1)),
            ((0, 100, 10), (0, 10)),
        ] {
            let worker = worker(bound, weight, ramp);
            assert_eq!((worker.limit, worker.share), expected, "{bound} {weight} {ramp}");
        }
    }

    #[test]
    fn rt22_newer_is_what_is_ahead_by_less_than_half_of_the_numbers() {
        let (last, half) = (TRANSMISSION_NUMBERS - 1, TRANSMISSION_NUMBERS / 2);
        assert!(is_newer(1, 0) && is_newer(0, last) && is_newer(half - 1, 0));
        assert!(!is_newer(0, 0) && !is_newer(last, 0) && !is_newer(half, 0) && !is_newer(4, 5));
    }

    #[test]
    fn loads_are_compared_by_weight() {
        let (mut full, mut half) = (worker(9, 100, 100), worker(9, 50, 100));
        assert_eq!((full.load(), half.load()), (0, 1));
        full.account.give();
        assert_eq!((full.load(), half.load()), (1, 1));
        half.account.give();
        assert_eq!((full.load(), half.load()), (1, 3));
    }

    #[test]
    fn only_requests_that_are_settled_are_news() {
        let told =
            |sequence, settled| WorkerCounts { sequence, received: settled, settled, bound: 4 };
        let at = Time::from_nanos;
        let mut worker = worker(4, 100, 100);
        let after = Duration::from_nanos(10);
        assert_eq!(worker.probe_at(), None);
        worker.give(at(5), after);
        assert_eq!(worker.probe_at(), Some(at(15)));
        worker.probe(at(15), Duration::from_nanos(30));
        worker.probe(at(35), Duration::from_nanos(30));
        assert_eq!(worker.probe_at(), Some(at(65)));
        assert_eq!(worker.learn(at(40), &told(1, 2), after), Ok(2));
        assert_eq!((worker.probe_at(), worker.probes), (Some(at(65)), 0), "the request is not");
        assert_eq!(worker.learn(at(50), &told(2, 3), after), Ok(1));
        assert_eq!(worker.probe_at(), None);
    }
}
