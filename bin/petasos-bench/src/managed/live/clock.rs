//! A clock that all processes of the host share.

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of the system's monotonic clock.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every system has this clock");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}
