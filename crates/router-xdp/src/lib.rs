//! The part of a router that runs in the kernel: an XDP program that gives first packets to workers
//! and hears feedback, before the kernel has built a packet (ADR 46).
//!
//! `program/router.bpf.c` is the program, and `program/router.bpf.o` its object, which `cargo xtask
//! ci programs` compares with what Debian's clang 14 makes of it. [`RouterProgram`] is the program
//! in the kernel, and the memory that it shares with this process: what a worker may have, what it
//! was given and has told, which numbers of clients were taken, and what waits. Both may give
//! numbers and take feedback at any time, each by one atomic instruction.
//!
//! Invariants, whoever acts and dies:
//! - a worker has no more than its limit and than it has announced, probes aside (RT22);
//! - a number of a client is taken once (RT3), and a number of a worker is given once (RT19).
//!
//! A program may be followed by another one, with memory of its own, of the process that comes
//! next: what that one does not know, it leaves to the [earlier](RouterProgram::follow) one.
//! Meanwhile a [`HeldProgram`] is kept by a process that knows nothing of routers (ADR 47).
//!
//! Boundary rule: shares memory and moves packets between it and its caller; decides nothing that a
//! plane decides.

#![forbid(unsafe_code)]

mod held;
mod layout;
mod program;
mod tier;

pub use held::HeldProgram;
pub use layout::{HEADERS_BYTES, WORKERS_MAX};
pub use program::{OBJECT, PlaceCounts, PlaceNames, ProgramConfig, RouterProgram, SECTION};
pub use tier::ProgramTier;
