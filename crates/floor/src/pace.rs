//! When to read the clock: seldom, because one reading costs a tenth of a receive.

use std::time::Duration;

use petasos_base::{Clock, Time};

/// After so many microseconds without progress, outstanding datagrams count as lost.
pub const SILENCE_MAX_US: u64 = 5000;

/// A `stop` that returns true once `duration` has passed from now.
pub fn deadline(clock: &Clock, duration: Duration) -> impl FnMut() -> bool + use<> {
    let clock = clock.clone();
    let end = clock.now() + duration;
    move || clock.now() >= end
}

/// What to do after a receive that returned nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    /// Try again.
    Wait,
    /// Nothing has arrived for [`SILENCE_MAX_US`]: what was outstanding is lost.
    Silent,
    /// The turn is over.
    Stop,
}

/// Counts iterations, and checks `stop` and the clock in every 64th of them.
pub(crate) struct Pace<S> {
    clock: Clock,
    stop: S,
    busy: u32,
    idle: u32,
    idle_since: Option<Time>,
}

impl<S: FnMut() -> bool> Pace<S> {
    pub(crate) fn new(clock: &Clock, stop: S) -> Pace<S> {
        Pace { clock: clock.clone(), stop, busy: 0, idle: 0, idle_since: None }
    }

    /// Notes progress; true when the turn is over.
    #[inline]
    pub(crate) fn progress_ends(&mut self) -> bool {
        self.idle = 0;
        self.idle_since = None;
        self.busy += 1;
        self.busy.is_multiple_of(CHECK_INTERVAL) && (self.stop)()
    }

    /// Notes a call without progress.
    #[inline]
    pub(crate) fn idle(&mut self) -> Idle {
        self.idle += 1;
        if self.idle.is_multiple_of(CHECK_INTERVAL) { self.look_up() } else { Idle::Wait }
    }

    #[cold]
    fn look_up(&mut self) -> Idle {
        if (self.stop)() {
            return Idle::Stop;
        }
        let now = self.clock.now();
        let since = *self.idle_since.get_or_insert(now);
        if now.nanos_since(since) < SILENCE_MAX_US * 1000 {
            return Idle::Wait;
        }
        self.idle_since = None;
        Idle::Silent
    }
}

const CHECK_INTERVAL: u32 = 64;

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use petasos_base::VirtualClock;

    use super::*;

    #[test]
    fn stop_is_asked_in_every_64th_iteration() {
        let asked = Cell::new(0);
        let clock = Clock::Virtual(VirtualClock::default());
        let mut pace = Pace::new(&clock, || {
            asked.set(asked.get() + 1);
            asked.get() == 2
        });
        let iterations = (1..=1000).find(|_| pace.progress_ends());
        assert_eq!((iterations, asked.get()), (Some(128), 2));
    }

    #[test]
    fn silence_is_noticed_after_its_time_and_again_after_another() {
        let time = VirtualClock::default();
        let mut pace = Pace::new(&Clock::Virtual(time.clone()), || false);
        let mut look = |now_us: u64| {
            time.set(Time::from_nanos(now_us * 1000));
            (0..CHECK_INTERVAL).map(|_| pace.idle()).last().expect("the interval is not empty")
        };
        assert_eq!(look(10), Idle::Wait);
        assert_eq!(look(SILENCE_MAX_US), Idle::Wait);
        assert_eq!(look(SILENCE_MAX_US + 10), Idle::Silent);
        assert_eq!(look(SILENCE_MAX_US + 20), Idle::Wait);
        assert_eq!(look(2 * SILENCE_MAX_US + 20), Idle::Silent);
    }

    #[test]
    fn progress_ends_a_silence() {
        let time = VirtualClock::default();
        let mut pace = Pace::new(&Clock::Virtual(time.clone()), || false);
        (0..CHECK_INTERVAL).for_each(|_| assert_eq!(pace.idle(), Idle::Wait));
        time.set(Time::from_nanos(SILENCE_MAX_US * 1000));
        assert!(!pace.progress_ends());
        (0..CHECK_INTERVAL).for_each(|_| assert_eq!(pace.idle(), Idle::Wait));
    }

    #[test]
    fn a_deadline_passes() {
        let time = VirtualClock::default();
        let mut stop = deadline(&Clock::Virtual(time.clone()), Duration::from_nanos(5));
        assert!(!stop());
        time.set(Time::from_nanos(5));
        assert!(stop());
    }
}
