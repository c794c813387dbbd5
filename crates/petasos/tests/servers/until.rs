//! Waiting for what other threads do.

use std::time::Duration;

/// Waits until something that other threads do has happened.
pub fn until(mut happened: impl FnMut() -> bool) {
    let tick = Duration::from_millis(1);
    let mut ticks = 50_000;
    while !happened() {
        assert!(ticks > 0, "it does not happen");
        ticks -= 1;
        std::thread::sleep(tick);
    }
}
