//! A hashed timing wheel of sessions (Varghese and Lauck, 1987), one millisecond a slot.
//!
//! Each session has at most one live entry, which fires at its `timer_at`. Entries are never
//! removed: the owner ignores an entry that fires early, or for a session that has re-armed. So
//! arming costs a push, and a call that completes in time costs nothing.

use petasos_base::Time;

const TICK_NS: u64 = 1_000_000;
const SLOTS: u64 = 256;
/// How many entries a slot has room for at first: enough for a program with few busy sessions.
const SLOT_ENTRIES: usize = 8;

/// The session to be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerEntry {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

pub(crate) struct TimerWheel {
    slots: Box<[Vec<TimerEntry>]>,
    /// The next tick to be processed.
    tick: u64,
    entries: usize,
}

impl TimerWheel {
    pub(crate) fn new(now: Time) -> TimerWheel {
        TimerWheel {
            slots: (0..SLOTS).map(|_| Vec::with_capacity(SLOT_ENTRIES)).collect(),
            tick: now.as_nanos() / TICK_NS,
            entries: 0,
        }
    }

    /// Makes `entry` fire at `at` or up to a tick later; earlier if `at` is beyond the wheel's
    /// reach. Returns that time: `at`, or the earlier one, at which the owner has to arm the entry
    /// again.
    pub(crate) fn arm(&mut self, at: Time, entry: TimerEntry) -> Time {
        let tick = (at.as_nanos() / TICK_NS + 1).clamp(self.tick, self.tick + SLOTS - 1);
        self.slots[(tick % SLOTS) as usize].push(entry);
        self.entries += 1;
        at.min(Time::from_nanos(tick * TICK_NS))
    }

    /// Whether [`TimerWheel::fire`] has ticks to process.
    #[inline]
    pub(crate) fn is_due(&self, now: Time) -> bool {
        now.as_nanos() >= self.tick * TICK_NS
    }

    /// Moves the entries of all ticks up to `now` to `due`.
    pub(crate) fn fire(&mut self, now: Time, due: &mut Vec<TimerEntry>) {
        let last = now.as_nanos() / TICK_NS;
        if self.entries > 0 {
            for tick in self.tick..=last.min(self.tick + SLOTS - 1) {
                due.append(&mut self.slots[(tick % SLOTS) as usize]);
            }
            self.entries -= due.len();
        }
        self.tick = last + 1;
    }

    /// When to call [`TimerWheel::fire`] next; [`Time::NEVER`] if nothing is armed.
    pub(crate) fn next_at(&self) -> Time {
        if self.entries == 0 {
            return Time::NEVER;
        }
        let armed = |tick: &u64| !self.slots[(tick % SLOTS) as usize].is_empty();
        let tick = (self.tick..self.tick + SLOTS).find(armed).expect("entries are counted");
        Time::from_nanos(tick * TICK_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(index: u32) -> TimerEntry {
        TimerEntry { index, generation: 0 }
    }

    #[test]
    fn an_empty_wheel_never_fires() {
        let mut wheel = TimerWheel::new(Time::ZERO);
        assert_eq!(wheel.next_at(), Time::NEVER);
        let mut due = Vec::new();
        wheel.fire(Time::from_nanos(u64::MAX / 2), &mut due);
        assert!(due.is_empty());
    }

    proptest! {
        /// No entry fires before its time, unless it is beyond the wheel's reach, and none more
        /// than two ticks after it, however the time advances.
        #[test]
        fn entries_fire_in_their_tick(
            delays_ms in prop::collection::vec(0u64..200, 1..50),
            steps_ms in prop::collection::vec(1u64..30, 1..100),
        ) {
            let mut wheel = TimerWheel::new(Time::from_nanos(5 * TICK_NS));
            for (index, delay) in delays_ms.iter().enumerate() {
                wheel.arm(Time::from_nanos((5 + delay) * TICK_NS), entry(index as u32));
            }
            let (mut now, mut due, mut fired) = (5 * TICK_NS, Vec::new(), 0);
            for step in steps_ms {
                let before = now;
                now += step * TICK_NS;
                wheel.fire(Time::from_nanos(now), &mut due);
                for entry in due.drain(..) {
                    let at = (5 + delays_ms[entry.index as usize]) * TICK_NS;
                    prop_assert!(at <= now && at + 2 * TICK_NS > before);
                    fired += 1;
                }
                let next = wheel.next_at();
                prop_assert_eq!(next == Time::NEVER, fired == delays_ms.len());
            }
        }
    }
}
