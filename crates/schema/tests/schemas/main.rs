//! What a schema is made of, refuses, looks like in memory and is compared by.
//!
//! One program, since linking it costs more than running it. `memory` counts allocations, for
//! which it needs a process for itself.

#[path = "../common/mod.rs"]
mod common;
mod compact;
mod compare;
mod descriptors;
mod files;
mod hashes;
mod layout;
mod load;
mod print;
mod refusals;
