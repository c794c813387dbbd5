//! One packet I/O made of two: UDP to other hosts, shared-memory rings to processes of this one.
//!
//! Which of the two a session takes is agreed when it is set up (`docs/spec/control.md`, C17);
//! from then on its route says it. What holds:
//!
//! - **A busy ring costs UDP nothing but a bounded delay, and UDP costs a busy ring no system call
//!   per turn.** While the rings bring nothing, UDP is asked in every turn. `turns` has the
//!   figures.
//! - **The rings may be missing.** Policy may forbid them, and so may the system: then everything
//!   goes over UDP.
//! - A full ring holds back packets to its peer only, a full socket those over UDP.
//!
//! Boundary rule: sees bytes, addresses and routes; no `unsafe`, and nothing of the protocol.

mod config;
mod io;
mod turns;

pub use config::{LocalConfig, LocalPolicy};
pub use io::LocalIo;
