//! Events that clients and handlers see.

use petasos::{Code, Status};
use petasos_base::Time;
use petasos_sim::cluster::Life;

use crate::plan::Plan;

/// Something that the application has seen or done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// A client begins a call.
    Begun { call: u64, client: Life, plan: Plan, timeout_at: Time },
    /// A handler runs; `right` if it was given what the client sent.
    Ran { call: u64, run: u64, server: Life, right: bool },
    /// A handler is over. `None`: it was dropped.
    RunEnded { call: u64, run: u64, code: Option<Code> },
    /// The runtime took a message from a client.
    SentUp { call: u64, index: u32 },
    /// The client has closed its half.
    ClosedUp { call: u64 },
    /// A handler was given a message.
    GotUp { call: u64, run: u64, index: u32, right: bool },
    /// A handler was told that no more messages follow.
    EndedUp { call: u64, run: u64 },
    /// The runtime took a message from a handler.
    SentDown { call: u64, run: u64, index: u32 },
    /// A client was given a message.
    GotDown { call: u64, run: u64, index: u32, right: bool },
    /// A stream that had ended gave something else when it was asked again.
    EndedOtherwise { call: u64 },
    /// The client gives the call up.
    Cancelled { call: u64 },
    /// A call is over for its client.
    Ended { call: u64, outcome: Outcome },
    /// A host dies.
    Died { host: Life },
    /// A host takes no more calls.
    Drained { host: Life },
}

/// What a client was told at the end of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// An answer of this run, which had read so many messages.
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
