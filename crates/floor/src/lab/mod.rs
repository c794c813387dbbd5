//! Small experiments with a switch: the same work is done with and without a guideline of Kalia's
//! thesis (chapter 3).
//!
//! The thesis is about NICs. Here each guideline is tried on something that takes the place of the
//! NIC's queue on this host: a kernel socket, an AF_XDP transmit ring, a ring in shared memory, or
//! memory itself. Both positions of a switch use the same sockets, rings and memory, and differ in
//! one respect.
//!
//! Everything runs on the calling thread, except that a ring has a partner thread at its other end,
//! which does the same in both positions.

mod memory;
mod ring;
mod udp;
mod xdp;

use std::time::Duration;

use petasos_base::Clock;

use crate::FloorError;

pub use memory::{FEW, PageWalk, States};
pub use ring::{Inlining, Publishing, Releasing, RingCount};
pub use udp::{Calls, Placement, SocketCount, StatefulEcho, Trains};
pub use xdp::{Kicks, QueueCount, Reclaiming, Sender};

/// The size of a batch, as in the thesis's batches of SENDs.
pub const BATCH: usize = 16;
/// Bytes of a datagram or record: a header and 32 bytes.
pub const MESSAGE_BYTES: usize = HEADER_BYTES + PAYLOAD_BYTES;
/// Queues in experiments that compare one queue with several.
pub const QUEUES: usize = 4;

const HEADER_BYTES: usize = 24;
const PAYLOAD_BYTES: usize = 32;
/// A period without progress that counts as an interruption; longer than every step.
const PAUSE: Duration = Duration::from_micros(500);
/// A turn takes at most this many times its intended duration.
const STRETCH_MAX: u32 = 10;

/// An experiment that can follow a guideline or not.
pub trait Switch {
    /// Does a short piece of the work. Returns the number of operations; 0 means that the other end
    /// must make progress first.
    ///
    /// # Errors
    /// See [`FloorError`].
    fn step(&mut self, follow: bool) -> Result<u64, FloorError>;
}

/// Operations per second over about `duration`; 0 if there were none.
///
/// Periods of more than half a millisecond without progress do not count: then this core or the
/// partner's was doing something else. On a busy machine a turn takes longer, up to ten times.
///
/// # Errors
/// Those of the experiment.
pub fn rate(
    experiment: &mut dyn Switch,
    follow: bool,
    clock: &Clock,
    duration: Duration,
) -> Result<f64, FloorError> {
    let start = clock.now();
    let (mut progress_at, mut now) = (start, start);
    let (mut done, mut counted) = (0, Duration::ZERO);
    while counted < duration && now - start < duration * STRETCH_MAX {
        let operations = experiment.step(follow)?;
        now = clock.now();
        if operations > 0 {
            let stretch = now - progress_at;
            if stretch <= PAUSE {
                done += operations;
                counted += stretch;
            }
            progress_at = now;
        }
    }
    Ok(if done > 0 { done as f64 / counted.as_secs_f64() } else { 0.0 })
}

#[cfg(test)]
mod tests;
