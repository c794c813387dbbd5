//! Streams as sequences of requests: both halves as state machines (R14 to R21).
//!
//! An *exchange* is one request of a stream and its response; what one direction of it carries is a
//! *segment*. [`CallerStream`] makes exchanges and takes answers, [`ServerStream`] takes exchanges
//! and answers them. An exchange that the server holds unanswered is its permit to speak next.
//! [`StreamNumbers`] and [`SessionStreams`] are what a session of streams knows at its two ends.
//!
//! The driver owns calls, handles, buffers and timers. It calls in the order of these families:
//! `handle_*` with what came, then `poll_event` until it has nothing more (and runs the application
//! on it, which calls `send`, `close`, `end`, …), then `poll_exchange` or `poll_answer` until it
//! has nothing more, and sends what that gave. After each step of an application, polling again
//! suffices.
//!
//! Two exchanges under way are a stream's own. More are lent by its session, from slots that no
//! stream needs, and given back with their answers ([`StreamNumbers::lend`]); a server that has
//! nothing to say gives permits back when the driver says so ([`ServerStream::give_back_permits`]).
//!
//! Invariants: at most [`WIDTH_MAX`] exchanges of a stream are under way; segments are handled in
//! order of number however they arrive; neither half holds more than [`FLOW_BYTES_MAX`] and then
//! [`WIDE_BYTES_MAX`], or two segments, of what its application has not taken, whatever the peer
//! does, or the stream ends. A message is moved, never copied, and a segment of one message
//! allocates nothing.

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
