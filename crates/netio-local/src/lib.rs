//! Packet I/O over two transports: UDP to other hosts, and shared-memory rings to processes of this
//! host.
//!
//! The peers agree on a session's transport when the session is set up (`docs/spec/control.md`,
//! C17). From then on its route determines it. Properties:
//!
//! - **A busy ring delays UDP only by a bounded time, and UDP costs a busy ring no system call per
//!   turn.** While the rings receive nothing, UDP is polled in every turn. `turns` has the figures.
//! - **There may be no rings.** Policy or the system may forbid them. Then everything goes over
//!   UDP.
//! - A full ring holds back only packets to its peer; a full socket only packets over UDP.
//!
//! Boundary rule: sees bytes, addresses and routes; no `unsafe`, and nothing of the protocol.

mod config;
mod io;
mod turns;

pub use config::{LocalConfig, LocalPolicy};
pub use io::LocalIo;
