//! Streams of a loop: the halves of calls and of handlers, in one table.
//!
//! What an application does with a stream it does to the half in the table, and the half's place
//! goes on the list of those that may have something to send. The turn goes through that list once
//! ready tasks have been polled, so that what a handler says at once goes with the answer that the
//! protocol owes anyway (R18). What the network brings goes to the half first, and wakes who waits
//! for it.
//!
//! Invariants: a place is used while the half is not over, or a `StreamHandle` or a handler refers
//! to it; its generation tells its users apart. A caller's half has a slot in a session from its
//! first exchange until it is over. A server's half is known to its session by its number until it
//! is over.
//!
//! Who may touch what: futures see a `StreamHandle` only; `turn::callers` and `turn::handlers`
//! drive the two halves, and alone talk to the endpoint; `remote` is what other threads share with
//! a loop. Nothing here knows the endpoint's state.

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
