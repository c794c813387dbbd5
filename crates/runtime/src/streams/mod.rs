//! The streams of a loop: a table with the callers' halves and the handlers' halves.
//!
//! When an application uses a stream, the call changes the half in the table and adds the half's
//! place to the list of halves that may have something to send. The turn processes that list after
//! it has polled the ready tasks, so that a message that a handler sends at once travels with the
//! answer that the protocol owes anyway (R18). What arrives from the network changes the half first
//! and then wakes the task that waits for it.
//!
//! Invariants: a place is in use as long as its half has not ended, or a `StreamHandle` or a
//! handler refers to it. The generation distinguishes successive users of a place. A caller's half
//! has a slot in a session from its first exchange until it ends. A session knows a server's half
//! by its number until the half ends.
//!
//! Access rules: futures see only a `StreamHandle`. `turn::callers` and `turn::handlers` drive the
//! two kinds of halves, and only they talk to the endpoint. `remote` is what other threads share
//! with a loop. Nothing in this module knows the endpoint's state.

mod encoded;
mod parts;
mod pump;
mod remote;
mod retry;
mod served;
mod slots;
mod table;

pub(crate) use encoded::{EncodedMessage, Keeper, decoded, extent, outgoing};
pub(crate) use parts::{Event, Form, Target};
pub use parts::{Side, StreamKey};
pub(crate) use remote::{Ask, Call, RemoteStream};
pub(crate) use retry::{Restart, StreamAsk, StreamRetry};
pub use table::Streams;
pub(crate) use table::{Caller, Half, Queued, Server};
