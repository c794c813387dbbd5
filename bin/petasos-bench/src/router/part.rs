//! One process of a measurement: workers, or whatever else answers.
//!
//! It prints `ready ADDRESS…` when all routers give its workers requests, answers `count` with how
//! many requests were run, and ends with its standard input.

use std::io::BufRead;
use std::net::SocketAddr;

use super::part_args::{PartArgs, PartName, say};
use super::{bare, http, pool, workers};
use crate::error::BenchError;
use crate::turns::pin;

/// Runs as a process until its standard input ends.
///
/// # Errors
/// What the process could not do.
pub fn be_part(args: &PartArgs) -> Result<(), BenchError> {
    // Threads that are started later run there as well.
    pin(args.core);
    match args.name {
        PartName::Workers => {
            let workers = workers::start(args)?;
            answer(&workers.addresses, || workers.run())?;
            workers.end();
            Ok(())
        }
        PartName::Http => {
            let servers = http::start(args)?;
            answer(&servers.addresses, || servers.run())
        }
        PartName::Dispatcher => {
            let pool = pool::dispatcher(args)?;
            answer(&pool.addresses, || pool.run())
        }
        PartName::Pool => {
            let pool = pool::tokio(args)?;
            answer(&pool.addresses, || pool.run())
        }
        PartName::Echo => answer(&[bare::echo(args.ip)?], || 0),
        PartName::Forwarder => answer(&[bare::forwarder(args)?], || 0),
    }
}

fn answer(addresses: &[SocketAddr], run: impl Fn() -> u64) -> Result<(), BenchError> {
    let addresses: Vec<_> = addresses.iter().map(|address| format!(" {address}")).collect();
    say(&format!("ready{}", addresses.concat()))?;
    for line in std::io::stdin().lock().lines() {
        match &*line? {
            "count" => say(&format!("ran {}", run()))?,
            other => {
                return Err(format!("a command that the process does not know: {other}").into());
            }
        }
    }
    Ok(())
}
