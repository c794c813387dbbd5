//! Durations as `poll(2)` takes them.

use rustix::event::Timespec;

pub(crate) fn timespec_of(nanos: u64) -> Timespec {
    const SECOND_NS: u64 = 1_000_000_000;
    Timespec { tv_sec: (nanos / SECOND_NS) as i64, tv_nsec: (nanos % SECOND_NS) as _ }
}
