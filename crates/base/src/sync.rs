//! The only door to atomics. Under `--cfg loom` it leads to the model checker's.
//!
//! The exemption of this module from the ban in `clippy.toml` is the point of the module.
#![allow(clippy::disallowed_types)]

#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
