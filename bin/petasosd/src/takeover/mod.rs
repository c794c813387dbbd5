//! A newer `petasosd` takes over while calls run (ADR 20).
//!
//! The process that runs (the *giver*) listens at `takeover.sock`, beside the applications' socket.
//! One that is started with `--takeover` (the *taker*) connects there, gets the listening sockets
//! and the configuration in force, and says when it serves. From then on the giver accepts nobody,
//! tells each application of the successor, and ends when nothing is left to do.
//!
//! # Invariants
//! - Nothing changes before the taker has said that it serves. If it dies before, the giver goes
//!   on.
//! - The giver never waits for the taker: it takes one packet each time that it looks at its
//!   sockets, and each phase has a time by which it is over.
//! - Only the giver's user and root may take over; one process at a time.

mod giver;
mod predecessor;
mod taker;
mod wire;

use std::path::{Path, PathBuf};

pub use giver::{Giver, Step};
pub use predecessor::Predecessor;
pub use taker::{Taken, take};
pub use wire::{Offer, Reach, Reached, STATES_BYTES_MAX, Said, Which, states};

/// The socket at which a process takes over from the one whose applications attach at `socket`.
pub fn path_beside(socket: &Path) -> PathBuf {
    socket.with_file_name("takeover.sock")
}
