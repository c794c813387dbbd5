//! Everything that needs `unsafe`: libfabric's objects and the memory that it shares with us.
//!
//! - `ffi`: the declarations that bindgen makes.
//! - `object`: objects that are closed with their owner.
//! - `info`: what providers offer.
//! - `memory`: the slots that packets are received into and sent from.
//! - `open`: the steps of opening an endpoint.
//! - `endpoint`: an endpoint with its queues; the only user of slots.

mod endpoint;
mod ffi;
mod info;
mod memory;
mod object;
mod open;

pub(crate) use endpoint::{Endpoint, Outcome, Peer, Polled, Queue};
pub(crate) use info::{library_version, list};
pub(crate) use open::{Forced, check_specific};

/// Received or completed packets that one read of a queue brings, at most.
pub(crate) const POLL_MAX: usize = 64;
