//! Spinning, and giving up the processor meanwhile.

use core::time::Duration;

use crate::Time;
use crate::spin_window::SpinWindow;

/// A yield during which nobody has run takes less.
const YIELD_TIME_MAX: Duration = Duration::from_micros(3);
/// Turns without work between two yields of a loop that has its processor to itself.
const TURNS_ALONE: u32 = 32;

/// When a loop that spins gives up its processor, and when it stops spinning (ADR 18).
///
/// A yield takes as long as what runs meanwhile. One that comes back at once has shown that nobody
/// waits for the processor, and the loop does not ask again for some turns.
#[derive(Debug)]
pub struct Yielder {
    turns: u32,
    /// Somebody has run during the last yield.
    is_shared: bool,
    window: SpinWindow,
}

impl Yielder {
    /// Of a loop that spins for so long at most, and at first.
    pub fn new(spin_max: Duration) -> Yielder {
        Yielder { turns: 0, is_shared: true, window: SpinWindow::new(spin_max) }
    }

    /// How long to spin now, after the last work, before sleeping.
    #[inline]
    pub fn spin(&self, now: Time) -> Duration {
        self.window.spin(now)
    }

    /// The loop has slept for so long.
    pub fn slept(&mut self, slept: Duration) {
        self.window.slept(slept);
    }

    /// The loop has had nothing to do in a turn. `now` reads its clock.
    pub fn rest(&mut self, now: impl Fn() -> Time) {
        self.turns += 1;
        if self.is_shared || self.turns >= TURNS_ALONE {
            let began = now();
            std::thread::yield_now();
            let ended = now();
            self.is_shared = ended - began > YIELD_TIME_MAX;
            self.window.came_back(began, ended);
            self.turns = 0;
        }
    }
}
