//! Streams as sequences of requests: both halves as state machines (R14 to R21).
//!
//! An *exchange* is one request of a stream and its response; what one direction of it carries is a
//! *segment*. [`CallerStream`] makes exchanges and takes answers, [`ServerStream`] takes exchanges
//! and answers them. With an exchange that it holds unanswered the server can speak next.
//! [`StreamNumbers`] and [`SessionStreams`] are what a session of streams knows at its two ends.
//!
//! The driver owns calls, handles, buffers and timers. It calls the methods of these families in
//! this order: `handle_*` with what arrived; `poll_event` until it returns nothing (running the
//! application on each event, which calls `send`, `close`, `end`, …); then `poll_exchange` or
//! `poll_answer` until it returns nothing, sending each result. After an application has made
//! progress by itself, polling again is enough.
//!
//! Two exchanges under way are a stream's own. More are lent by its session, from slots that no
//! stream needs, and given back with their answers ([`StreamNumbers::lend`]); a server that has
//! nothing to say gives them back when the driver says so ([`ServerStream::release_spare`]).
//!
//! Invariants: a stream has at most [`WIDTH_MAX`] exchanges in progress. Segments are handled in
//! order of their numbers, in whatever order they arrive. Whatever the peer does, neither half
//! holds more untaken bytes than [`FLOW_BYTES_MAX`] plus the greater of [`WIDE_BYTES_MAX`] and two
//! segments; otherwise the stream ends. A message is moved, never copied, and a segment of one
//! message allocates nothing.

mod caller;
mod flow;
mod parse;
mod segment;
mod server;
mod session;
mod window;
mod write;

pub use caller::{CallerEvent, CallerStream};
pub use flow::FLOW_BYTES_MAX;
pub use parse::SegmentError;
pub use segment::{Body, CallerSegment, Message, Messages, Open, ServerSegment};
pub use server::{ServerEvent, ServerStream};
pub use session::{Arrival, SessionStreams, StreamNumbers};
pub use window::{WIDE_BYTES_MAX, WIDTH_MAX};
pub use write::LONE_HEAD_BYTES;

#[cfg(test)]
mod tests;
