//! The clocks of hosts: one that counts, at a rate of its own, and one that says the day, which
//! jumps when somebody sets it.
//!
//! Both are exact unless a world is told otherwise ([`crate::WorldConfig::own_clocks`],
//! [`crate::Action::Drift`], [`crate::Action::JumpDay`]).

use std::cell::Cell;
use std::rc::Rc;

use petasos_base::{Time, VirtualClock};

/// The clock of day of a host. A clone reads the same one.
#[derive(Clone, Debug)]
pub struct DayClock {
    counting: VirtualClock,
    /// Beside [`START_UNIX_NANOS`].
    offset_nanos: Rc<Cell<i64>>,
}

impl DayClock {
    /// Nanoseconds since 1970, as the host believes. They may run backwards.
    pub fn unix_nanos(&self) -> u64 {
        let exact = START_UNIX_NANOS.saturating_add(self.counting.now().as_nanos());
        exact.saturating_add_signed(self.offset_nanos.get())
    }
}

/// The day on which every world begins: 2026-01-01.
const START_UNIX_NANOS: u64 = 1_767_225_600 * 1_000_000_000;

/// How far a clock may be off its rate: it always runs forwards.
const PPM_MAX: i32 = 900_000;

/// The clocks of one host. They go on while it is dead.
pub(crate) struct HostClocks {
    /// What the host reads.
    pub(crate) counting: VirtualClock,
    /// None if the host reads the world's clock.
    drift: Option<Drift>,
    offset_nanos: Rc<Cell<i64>>,
}

/// From one point on, the clock runs at one rate.
struct Drift {
    world: Time,
    local: Time,
    ppm: i32,
}

impl HostClocks {
    /// Clocks of a host that reads the world's clock.
    pub(crate) fn shared(world: VirtualClock) -> HostClocks {
        HostClocks { counting: world, drift: None, offset_nanos: Rc::default() }
    }

    /// Clocks of a host's own, exact for now.
    pub(crate) fn own() -> HostClocks {
        let drift = Some(Drift { world: Time::ZERO, local: Time::ZERO, ppm: 0 });
        HostClocks { counting: VirtualClock::default(), drift, offset_nanos: Rc::default() }
    }

    pub(crate) fn day(&self) -> DayClock {
        let offset_nanos = self.offset_nanos.clone();
        DayClock { counting: self.counting.clone(), offset_nanos }
    }

    /// Sets the counting clock for a run at `now`. Gives what the host reads.
    #[inline]
    pub(crate) fn read(&self, now: Time) -> Time {
        let Some(drift) = &self.drift else { return now };
        let local = drift.local_at(now);
        self.counting.set(local);
        local
    }

    /// When the clock shows `local`, in the world's time.
    #[inline]
    pub(crate) fn world_at(&self, local: Time) -> Time {
        self.drift.as_ref().map_or(local, |drift| drift.world_at(local))
    }

    /// From `now` on the clock is `ppm` millionths fast.
    ///
    /// # Panics
    /// If the host reads the world's clock, or the clock would not run: the caller's fault.
    pub(crate) fn set_rate(&mut self, now: Time, ppm: i32) {
        let drift = self.drift.as_mut().expect("a world whose clocks drift has `own_clocks`");
        assert!((-PPM_MAX..=PPM_MAX).contains(&ppm), "a clock is off by at most {PPM_MAX} ppm");
        *drift = Drift { world: now, local: drift.local_at(now), ppm };
    }

    pub(crate) fn jump_day(&self, by_nanos: i64) {
        self.offset_nanos.set(self.offset_nanos.get().saturating_add(by_nanos));
    }
}

impl Drift {
    fn rate(&self) -> u128 {
        (MILLION + i64::from(self.ppm)) as u128
    }

    fn local_at(&self, world: Time) -> Time {
        let passed = u128::from(world.nanos_since(self.world));
        self.local.plus_nanos(saturated(passed * self.rate() / MILLION as u128))
    }

    /// The first time at which the clock shows `local` or more.
    fn world_at(&self, local: Time) -> Time {
        if local == Time::NEVER {
            return Time::NEVER;
        }
        let left = u128::from(local.nanos_since(self.local));
        self.world.plus_nanos(saturated((left * MILLION as u128).div_ceil(self.rate())))
    }
}

fn saturated(nanos: u128) -> u64 {
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

const MILLION: i64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_shows_what_was_asked_for_when_it_says_so() {
        for ppm in [-900_000, -100_000, -37, 0, 1, 250, 100_000, 900_000] {
            let mut clocks = HostClocks::own();
            clocks.set_rate(Time::from_nanos(1000), ppm);
            for nanos in [1000, 1001, 2000, 12_345, 1_000_000_007] {
                let world = clocks.world_at(Time::from_nanos(nanos));
                let read = clocks.read(world).as_nanos();
                let tick = 2 + u64::from(ppm > 0);
                assert!((nanos..nanos + tick).contains(&read), "{ppm}: {nanos}, {read}");
            }
            assert_eq!(clocks.world_at(Time::NEVER), Time::NEVER);
        }
    }

    #[test]
    fn a_clock_does_not_jump_when_its_rate_changes() {
        let mut clocks = HostClocks::own();
        let nanos = Time::from_nanos;
        clocks.set_rate(nanos(0), 500_000);
        assert_eq!(clocks.read(nanos(1000)), nanos(1500));
        clocks.set_rate(nanos(1000), -500_000);
        assert_eq!(clocks.read(nanos(1000)), nanos(1500));
        assert_eq!(clocks.read(nanos(2000)), nanos(2000));
    }
}
