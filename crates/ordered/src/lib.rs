//! Ordered maps of keys to numbers, which many threads read and write at the same time.
//!
//! [`OrderedMap`] is what such a map does; [`BplusTree`] is the one to use, by the crate `scc`
//! (ADR 56). What is promised beside other threads:
//! - *get*, *put* and *delete* take effect one after the other for each key, each between its call
//!   and its return.
//! - A *scan* visits keys in order, none twice, and each that is there from its beginning to its
//!   end. Of a key that comes, goes or changes meanwhile it may show either. It is no snapshot.
//!
//! Boundary rule: knows no RPCs, starts no threads.

#![forbid(unsafe_code)]

mod bplus_tree;
mod map;
mod page;

pub use bplus_tree::BplusTree;
pub use map::{Direction, KEY_BYTES_MAX, KeyRange, KeyTooLong, OrderedMap};
pub use page::{Page, Sum};
