//! What every other crate may use: time, a timing wheel, random numbers, counters, the atomics
//! seam.
//!
//! Boundary rule: depends on no Petasos crate and performs no I/O but reading the clock.

mod clock;
mod counters;
mod rng;
pub mod sync;
mod time;
mod wheel;

pub use clock::{Clock, VirtualClock};
pub use rng::{Rng, random_seed};
pub use time::Time;
pub use wheel::{SLOTS_MAX, Wheel};
