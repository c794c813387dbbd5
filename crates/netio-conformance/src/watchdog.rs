//! How long a test polls for something that must happen.
//!
//! This is a watchdog, not a deadline. On a busy host, the thread that a test waits for may not run
//! for seconds, while the test polls any number of times. So the watchdog measures time, with a
//! generous limit.

use std::time::Duration;

use petasos_base::Clock;

const PATIENCE: Duration = Duration::from_secs(60);

/// The turns of a polling loop, numbered from 0. They end once nothing more is to be expected.
pub fn turns() -> impl Iterator<Item = u64> {
    let clock = Clock::system();
    let give_up = clock.now() + PATIENCE;
    (0..).take_while(move |_| clock.now() < give_up)
}
