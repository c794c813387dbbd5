//! How long to spin before sleeping.

use core::time::Duration;

use crate::Time;

/// The shortest spin but none.
const SPIN_MIN: Duration = Duration::from_micros(8);
/// Who shares the processor and answers soon is away for less.
const AWAY_MAX: Duration = Duration::from_micros(500);
/// A loop does not spin for so many times as long as somebody else has computed. One that has
/// little of the processor is met seldom, and does not matter.
const BARRED_TIMES: u32 = 8;
/// The same, at most.
const BARRED_MAX: Duration = Duration::from_millis(200);

/// How long a loop spins before it sleeps (ADR 18): no longer than is worth it.
///
/// A sleep that a spin of the greatest length would have spared makes the next spin longer; one
/// that lasts longer makes it shorter, down to none. (Linux does the same for processors without
/// work: "guest halt polling".)
///
/// A loop that gives up its processor while it spins, and comes back late, has met somebody who
/// computes. Such a loop is not woken when a message comes, since it does not sleep. So it does not
/// spin at all for a while: the system prefers who was asleep to who computes.
#[derive(Debug)]
pub(crate) struct SpinWindow {
    spin: Duration,
    max: Duration,
    barred_until: Time,
}

impl SpinWindow {
    /// Spins for `max` at most, and at first.
    pub(crate) fn new(max: Duration) -> SpinWindow {
        SpinWindow { spin: max, max, barred_until: Time::ZERO }
    }

    /// How long to spin now after the last work.
    #[inline]
    pub(crate) fn spin(&self, now: Time) -> Duration {
        if now < self.barred_until { Duration::ZERO } else { self.spin }
    }

    /// The loop has slept for so long.
    pub(crate) fn slept(&mut self, slept: Duration) {
        self.spin = match slept <= self.max {
            true => (self.spin * 2).max(SPIN_MIN).min(self.max),
            false if self.spin > SPIN_MIN => self.spin / 2,
            false => Duration::ZERO,
        };
    }

    /// The loop gave up its processor at `since`, and has it again.
    pub(crate) fn came_back(&mut self, since: Time, now: Time) {
        let away = now - since;
        if away > AWAY_MAX {
            self.barred_until = now + (away * BARRED_TIMES).min(BARRED_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Duration = Duration::from_micros(50);
    const US: Duration = Duration::from_micros(1);

    #[test]
    fn who_sleeps_for_long_stops_spinning_and_who_sleeps_shortly_begins_again() {
        let mut window = SpinWindow::new(MAX);
        assert_eq!(window.spin(Time::ZERO), MAX);
        let mut spins = Vec::new();
        while window.spin(Time::ZERO) > Duration::ZERO {
            spins.push(window.spin(Time::ZERO));
            window.slept(MAX + US);
        }
        assert!(spins.is_sorted_by(|longer, shorter| longer > shorter), "{spins:?}");
        assert!(spins.len() <= 5, "{spins:?}");
        window.slept(Duration::from_secs(1));
        assert_eq!(window.spin(Time::ZERO), Duration::ZERO);
        for _ in 0..4 {
            window.slept(MAX);
        }
        assert_eq!(window.spin(Time::ZERO), MAX);
    }

    #[test]
    fn who_is_not_to_spin_never_does() {
        let mut window = SpinWindow::new(Duration::ZERO);
        window.slept(Duration::ZERO);
        assert_eq!(window.spin(Time::ZERO), Duration::ZERO);
    }

    #[test]
    fn beside_somebody_who_computes_it_does_not_spin_for_a_while() {
        let mut window = SpinWindow::new(MAX);
        let now = Time::ZERO + Duration::from_secs(9);
        window.came_back(now, now + AWAY_MAX);
        assert_eq!(window.spin(now), MAX, "it was its partner");
        for away in [AWAY_MAX + US, Duration::from_millis(3), Duration::from_secs(1)] {
            window.came_back(now, now + away);
            let barred = (away * BARRED_TIMES).min(BARRED_MAX);
            assert_eq!(window.spin(now + away + (barred - US)), Duration::ZERO);
            assert_eq!(window.spin(now + away + barred), MAX);
        }
    }
}
