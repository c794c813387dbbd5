//! The Petasos protocol without I/O: both halves of a session as state machines.
//!
//! It has no sockets, clocks, threads or global randomness. Time is an argument, and the caller
//! owns the buffers: the state machines name places in them as *(slot, byte offset)* and return
//! headers to be sent. That is why the same code runs on a socket, in memory and in a simulated
//! cluster.
//!
//! Both halves have four families of methods, and a caller uses them in this order each turn:
//!
//! 1. `handle_*`: packets that arrived, then timers that are due;
//! 2. commands (`enqueue`, `cancel`, `respond`, …): what the application wants;
//! 3. `poll_*`: call them until they return `None`; each result is a packet to be sent *now*;
//! 4. getters, at any time.
//!
//! The sessions also keep data for the caller: a [`ClientSession`] one context per call, a
//! [`ServerSession`] one buffer per slot (the request being assembled, later the response kept for
//! retransmission). Each is returned exactly once.
//!
//! Requests to groups of workers begin in [`pairs`], before there is a session, and are taken in
//! [`taken`]; [`given`] is the worker's end of a router's slots.
//!
//! Rules of `docs/spec/wire.md` are cited as `W1`, `W2`, …, and those of `docs/spec/route.md` as
//! `RT1`, `RT2`, ….

mod client;
mod congestion;
pub mod given;
mod idle_bound;
pub mod pairs;
mod params;
mod path;
mod rtt;
mod scoreboard;
mod server;
mod share;
mod slots;
mod spares;
mod stats;
pub mod taken;
#[cfg(test)]
mod tests;

pub use client::{
    Binding, Call, CallOptions, ClientSession, Enqueued, Expired, ResponseAction, Sent, Transmit,
};
pub use congestion::{
    AlgorithmConfig, Congestion, CongestionConfig, CongestionConfigError, DctcpConfig, Feedback,
    Pace, Pacer, SwiftConfig, TimelyConfig,
};
pub use idle_bound::IdleBound;
pub use params::{CREDITS_IDLE, Recovery, SessionParams, TimerConfig};
pub use path::LinkPath;
pub use server::{RequestAction, Respond, ServerSession, ServerTransmit};
pub use share::{CreditShare, Membership, Sharer, Sharers};
pub use stats::{ClientStats, Drop, ServerStats};
