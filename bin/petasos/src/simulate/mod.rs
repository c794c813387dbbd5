//! `petasos simulate`: what can be said without a network.

mod outcome;
mod queueing;

use clap::Subcommand;
use petasos_cli::failure::Failure;

/// What is simulated.
#[derive(Subcommand)]
pub enum SimulateCommand {
    /// Latencies of requests that a router gives to workers, by policy and load.
    Queueing(queueing::QueueingArgs),
}

/// Runs a simulation.
///
/// # Errors
/// If it cannot be simulated, or the result cannot be written.
pub fn run(command: &SimulateCommand) -> Result<(), Failure> {
    match command {
        SimulateCommand::Queueing(args) => queueing::run(args),
    }
}
