//! What a loop does when a timer is due.

use petasos_base::Time;

use super::keys::CallKey;
use super::streams::StreamKey;
use super::task::Task;

/// What becomes due.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields' names say it")]
pub enum Due {
    Handler {
        task: Task,
        generation: u32,
        at: Time,
    },
    /// A call that waits for a bind, or to be sent again.
    Call {
        call: CallKey,
        at: Time,
    },
    Channel {
        channel: u32,
        at: Time,
    },
    Stream {
        key: StreamKey,
        at: Time,
    },
    /// Streams of sessions that are gone.
    Sweep {
        at: Time,
    },
    /// A timer that a future waits for.
    Timer {
        number: u32,
        at: Time,
    },
}

impl Due {
    /// When it is due.
    pub(crate) fn at(self) -> Time {
        match self {
            Due::Handler { at, .. } | Due::Call { at, .. } | Due::Channel { at, .. } => at,
            Due::Stream { at, .. } | Due::Sweep { at } | Due::Timer { at, .. } => at,
        }
    }
}
