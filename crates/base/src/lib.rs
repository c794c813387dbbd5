//! Basics that every other crate may use: time, a timing wheel, random numbers and secrets,
//! numbers of packets and which were seen, counters, histograms, token buckets, prefetching,
//! atomics, and a doorbell.
//!
//! Boundary rule: depends on no other Petasos crate. The only I/O is reading the clock.

#![deny(unsafe_code)]

mod byte_reader;
mod clock;
mod counters;
mod doorbell;
mod log_linear;
#[allow(unsafe_code, reason = "the one seam: see the module")]
mod prefetch;
mod replay_window;
mod rng;
mod secret_block;
mod serial;
mod slot_lists;
mod spin_window;
pub mod sync;
mod time;
mod token_buckets;
mod wheel;
mod yielder;

pub use byte_reader::ByteReader;
pub use clock::{Clock, SystemClock, VirtualClock};
pub use doorbell::Doorbell;
pub use log_linear::{
    LOG_LINEAR_BUCKETS, LogLinear, SharedHistogram, log_linear_highest, log_linear_quantile,
    quantile_of_counts,
};
pub use prefetch::{LINE_BYTES, prefetch, prefetch_head};
pub use replay_window::{Freshness, ReplayWindow, replay_words};
pub use rng::{Rng, random_seed, secret_u64};
pub use secret_block::SecretBlock;
pub use serial::extend;
pub use slot_lists::{SLOTS_MAX, SlotLists};
pub use time::Time;
pub use token_buckets::TokenBuckets;
pub use wheel::Wheel;
pub use yielder::Yielder;
