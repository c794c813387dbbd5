//! The clock that the event loop reads, real or virtual.

use core::cell::Cell;
use std::rc::Rc;

use crate::Time;

/// A source of [`Time`]. A clone reads the same clock.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The processor's monotonic counter.
    System(SystemClock),
    /// A clock that moves only when it is set, for simulation, tests and instruction counts.
    Virtual(VirtualClock),
}

impl Clock {
    /// The system's monotonic clock. All system clocks of a process start at the same point.
    pub fn system() -> Clock {
        Clock::System(SystemClock::default())
    }

    /// The present time.
    pub fn now(&self) -> Time {
        match self {
            Clock::System(system) => system.now(),
            Clock::Virtual(clock) => clock.now(),
        }
    }
}

/// The processor's monotonic counter, scaled to nanoseconds. All clocks of a process start at the
/// same point. Unlike a [`Clock`], a `SystemClock` can be moved to another thread.
#[derive(Clone, Debug)]
pub struct SystemClock {
    clock: quanta::Clock,
}

impl SystemClock {
    /// The present time.
    pub fn now(&self) -> Time {
        Time::from_nanos(self.clock.delta_as_nanos(0, self.clock.raw()))
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock { clock: quanta::Clock::new() }
    }
}

/// A clock that stands still until it is set.
#[derive(Clone, Debug, Default)]
pub struct VirtualClock {
    now: Rc<Cell<Time>>,
}

impl VirtualClock {
    /// The present virtual time.
    pub fn now(&self) -> Time {
        self.now.get()
    }

    /// Moves the clock to `time`.
    ///
    /// # Panics
    /// If `time` lies in the past: a monotonic clock never runs backwards.
    pub fn set(&self, time: Time) {
        assert!(time >= self.now.get(), "a monotonic clock never runs backwards");
        self.now.set(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_of_a_virtual_clock_share_its_time() {
        let clock = VirtualClock::default();
        let reader = Clock::Virtual(clock.clone());
        clock.set(Time::from_nanos(7));
        assert_eq!(reader.now(), Time::from_nanos(7));
    }

    #[test]
    fn the_system_clock_does_not_run_backwards() {
        let clock = Clock::system();
        let first = clock.now();
        assert!(clock.now() >= first);
    }
}
