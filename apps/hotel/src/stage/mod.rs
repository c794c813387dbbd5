//! The whole application on one machine: stores, services, and what is between them, on four hosts,
//! which are network namespaces or only in name.
//!
//! Everything is a child process of the main thread. A child ends when it is dropped here, and is
//! killed by the kernel if this process ends otherwise.

mod envoy;
mod folder;
mod interactive;
pub mod launch;
mod network;
mod process;
mod programs;
mod stack;
mod stores;

use std::path::PathBuf;

use clap::Args;

use crate::error::Error;
pub use interactive::{PlayArgs, play};
pub use network::Network;
pub use programs::Programs;
pub use stack::{Stack, StackName};
pub use stores::Stores;

/// Where everything runs
#[derive(Args, Clone, Debug)]
pub struct StageArgs {
    /// Make a network namespace for each of the four hosts, which needs root
    #[arg(long)]
    pub namespaces: bool,
    /// The managed service's program [default: `petasosd` beside this program]
    #[arg(long)]
    pub petasosd: Option<PathBuf>,
    /// Envoy's program [default: `envoy` on the path]
    #[arg(long)]
    pub envoy: Option<PathBuf>,
}

/// What all stacks share.
pub struct Stage {
    pub programs: Programs,
    pub network: Network,
    pub stores: Stores,
}

impl Stage {
    /// Starts the stores and makes the network. It has to run in a local set on the main thread.
    ///
    /// # Errors
    /// A program is missing, or does not come up.
    pub async fn start(args: &StageArgs) -> Result<Stage, Error> {
        let programs = Programs::find(args);
        let network = if args.namespaces { Network::namespaces()? } else { Network::loopback() };
        let stores = Stores::start().await?;
        Ok(Stage { programs, network, stores })
    }
}
