//! The floor: four processes that pass bytes, and do nothing else.
//!
//! ```text
//! client -- rings --> service -- UDP --> service -- rings --> server     and back
//! ```
//!
//! Calls are cut into frames (`frame`), which services pass on unread. Nobody loses frames: rings
//! have back-pressure, and between services is a window of bytes (`hop`) that fits the sockets'
//! buffers. So there are no timers, and a lost frame ends the measurement of this contender.
//!
//! All of them wait as the managed service waits (`link`): they look for work for 50 µs after the
//! last, giving up the core to a neighbour that has some, and then sleep until they are woken.

mod ends;
mod frame;
mod hop;
mod link;
mod service;

pub use ends::{RelayClient, RelayServer};
pub use service::{end_with_input, serve};
