//! The two ends of a contender, for any system.

use std::net::SocketAddr;
use std::time::Duration;

use super::phase::{Phase, Turn};
use super::stop::Stop;
use crate::error::BenchError;

/// Makes calls, in any system.
pub trait Client {
    /// Makes calls for `duration`, and waits for their answers.
    fn turn(&mut self, phase: Phase, duration: Duration) -> Result<Turn, BenchError>;
}

/// Answers calls, in any system.
pub trait Server {
    /// The addresses for clients.
    fn addresses(&self) -> Vec<SocketAddr>;
    /// Answers until `stop` is set.
    fn serve(&mut self, phase: Phase, stop: &Stop) -> Result<Turn, BenchError>;
}
