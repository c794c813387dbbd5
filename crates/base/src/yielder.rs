//! Giving up the processor while spinning.

use core::time::Duration;

use crate::Time;

/// A yield during which nobody has run takes less.
const YIELD_TIME_MAX: Duration = Duration::from_micros(3);
/// Turns without work between two yields of a loop that has its processor to itself.
const TURNS_ALONE: u32 = 32;

/// When a loop that spins gives up its processor (ADR 18).
///
/// A yield takes as long as what runs meanwhile. One that comes back at once has shown that nobody
/// waits for the processor, and the loop does not ask again for some turns.
#[derive(Debug)]
pub struct Yielder {
    turns: u32,
    /// Somebody has run during the last yield.
    is_shared: bool,
}

impl Default for Yielder {
    fn default() -> Yielder {
        Yielder { turns: 0, is_shared: true }
    }
}

impl Yielder {
    /// The loop has had nothing to do in a turn. `now` reads its clock.
    pub fn rest(&mut self, now: impl Fn() -> Time) {
        self.turns += 1;
        if self.is_shared || self.turns >= TURNS_ALONE {
            let began = now();
            std::thread::yield_now();
            self.is_shared = now() - began > YIELD_TIME_MAX;
            self.turns = 0;
        }
    }
}
