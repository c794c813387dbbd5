//! How long a test polls for what has to happen.
//!
//! A watchdog, not a deadline: on a busy host, the thread that a test waits for may not run for
//! seconds, and any number of turns can pass in between. So it counts time, generously.

use std::time::Duration;

use petasos_base::Clock;

const PATIENCE: Duration = Duration::from_secs(60);

/// The turns of whoever polls, numbered from 0. They end only when nothing more is to be expected.
pub fn turns() -> impl Iterator<Item = u64> {
    let clock = Clock::system();
    let give_up = clock.now() + PATIENCE;
    (0..).take_while(move |_| clock.now() < give_up)
}
