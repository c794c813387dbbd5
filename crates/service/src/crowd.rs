//! Counts the bytes of an application's messages that wait to leave the host, and decides whether
//! they are too many (D8).
//!
//! Streams whose messages are read can exceed the limit, too, if there are many and each is faster
//! than the network. So at the limit, the hub stops reading from the application for a moment, in
//! which the network takes a quarter of the limit if it can. If it cannot, the hub does not pause
//! again until the network has done so, and ends streams instead.

use std::time::Duration;

use petasos_base::Time;

/// What waits, of one application.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    bytes: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Calm,
    /// The application is not heard until then.
    Pauses(Time),
    /// It was not heard for long enough.
    Ends,
}

impl Crowd {
    pub(crate) fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    pub(crate) fn remove(&mut self, bytes: usize) {
        self.bytes -= bytes;
    }

    /// Whether the application may be heard, as far as this is concerned.
    #[inline]
    pub(crate) fn is_heard(&self) -> bool {
        !matches!(self.state, State::Pauses(_))
    }

    /// Whether there is nothing to [decide](Crowd::is_too_much), with at most so many bytes.
    #[inline]
    pub(crate) fn is_small(&self, bytes_max: usize) -> bool {
        self.bytes < bytes_max && self.state == State::Calm
    }

    /// Whether a stream has to end for it now.
    pub(crate) fn is_too_much(&mut self, bytes_max: usize, pause: Duration, now: Time) -> bool {
        if self.bytes < (bytes_max - bytes_max / 4).max(1) {
            self.state = State::Calm;
            return false;
        }
        let is_full = self.bytes >= bytes_max;
        match self.state {
            State::Calm if is_full => self.state = State::Pauses(now + pause),
            State::Pauses(until) if now >= until => self.state = State::Ends,
            _ => {}
        }
        is_full && self.state == State::Ends
    }

    /// When to decide again.
    pub(crate) fn due(&self) -> Time {
        match self.state {
            State::Pauses(until) => until,
            State::Calm | State::Ends => Time::NEVER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(100);

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn what_is_taken_in_time_costs_a_pause_and_no_stream() {
        let mut crowd = Crowd::default();
        crowd.add(99);
        assert!(crowd.is_small(100));
        crowd.add(1);
        for (taken, ms) in [(0, 10), (25, 109)] {
            crowd.remove(taken);
            assert!(!crowd.is_small(100) && !crowd.is_too_much(100, PAUSE, at(ms)));
            assert_eq!((crowd.is_heard(), crowd.due()), (false, at(110)));
        }
        crowd.remove(1);
        assert!(!crowd.is_too_much(100, PAUSE, at(109)));
        assert!(crowd.is_heard() && crowd.is_small(100) && crowd.due() == Time::NEVER);
        // It may pause again.
        crowd.add(26);
        assert!(!crowd.is_too_much(100, PAUSE, at(1000)) && !crowd.is_heard());
    }

    #[test]
    fn what_is_not_taken_in_time_ends_and_nobody_pauses_for_it_again() {
        let mut crowd = Crowd::default();
        crowd.add(150);
        assert!(!crowd.is_too_much(100, PAUSE, at(0)));
        assert!(crowd.is_too_much(100, PAUSE, at(100)) && crowd.is_heard());
        crowd.remove(51);
        assert!(!crowd.is_too_much(100, PAUSE, at(100)) && crowd.is_heard());
        crowd.add(1);
        assert!(crowd.is_too_much(100, PAUSE, at(101)) && crowd.is_heard());
        crowd.remove(26);
        assert!(!crowd.is_too_much(100, PAUSE, at(102)));
        crowd.add(26);
        assert!(
            !crowd.is_too_much(100, PAUSE, at(103)) && !crowd.is_heard(),
            "a quarter was taken"
        );
    }

    #[test]
    fn a_limit_of_nothing_lets_nothing_wait_for_ever() {
        for bytes_max in [0, 1] {
            let mut crowd = Crowd::default();
            crowd.add(1);
            assert!(!crowd.is_too_much(bytes_max, PAUSE, at(0)));
            assert!(crowd.is_too_much(bytes_max, PAUSE, at(100)));
            crowd.remove(1);
            assert!(!crowd.is_too_much(bytes_max, PAUSE, at(101)) && crowd.is_heard());
        }
    }
}
