//! Events that clients and handlers see.

use petasos::{Code, Status};
use petasos_base::Time;
use petasos_sim::cluster::Life;

use crate::plan::Plan;

/// Something that the application has observed or done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// A client begins a call.
    Begun { call: u64, client: Life, plan: Plan, timeout_at: Time },
    /// A handler runs; `right` if its request is what the client sent.
    Ran { call: u64, run: u64, server: Life, right: bool },
    /// A handler has ended. `None`: it was dropped.
    RunEnded { call: u64, run: u64, code: Option<Code> },
    /// The runtime took a message from a client.
    SentUp { call: u64, index: u32 },
    /// The client has closed its half.
    ClosedUp { call: u64 },
    /// A handler received a message.
    GotUp { call: u64, run: u64, index: u32, right: bool },
    /// A handler was told that no more messages follow.
    EndedUp { call: u64, run: u64 },
    /// The runtime took a message from a handler.
    SentDown { call: u64, run: u64, index: u32 },
    /// A client received a message.
    GotDown { call: u64, run: u64, index: u32, right: bool },
    /// A stream that had ended returned another result when it was polled again.
    EndedOtherwise { call: u64 },
    /// The client cancels the call.
    Cancelled { call: u64 },
    /// A call has ended for its client.
    Ended { call: u64, outcome: Outcome },
    /// A host dies.
    Died { host: Life },
    /// A host takes no more calls.
    Drained { host: Life },
}

/// The outcome that a client is told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// The answer of this run, which had read this many messages.
    Answer {
        run: u64,
        pieces: u32,
        right: bool,
    },
    /// The end of a stream.
    End,
    Failed {
        code: Code,
        message: String,
    },
}

impl From<Status> for Outcome {
    fn from(status: Status) -> Outcome {
        Outcome::Failed { code: status.code(), message: status.message().to_owned() }
    }
}
