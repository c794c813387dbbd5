//! The command line of one process of a measurement, and how it speaks.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};

use clap::{Args, ValueEnum};
use petasos_queueing::Service;

use super::sleeping::Times;
use crate::error::BenchError;

/// What a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PartName {
    /// Servers of typed calls, each with one loop.
    Workers,
    /// Servers of HTTP/1.1, each with one port.
    Http,
    /// A server of typed calls with one queue and threads.
    Dispatcher,
    /// A server of HTTP/1.1 with Tokio's threads.
    Pool,
    /// Answers datagrams.
    Echo,
    /// Passes datagrams on.
    Forwarder,
}

/// Be one process of `petasos bench router` (internal)
#[derive(Args, Clone, Debug)]
pub struct PartArgs {
    pub name: PartName,
    #[arg(long)]
    pub core: usize,
    /// The routers that workers join, or whom a forwarder sends to
    #[arg(long)]
    pub router: Vec<SocketAddr>,
    /// Where workers are
    #[arg(long, default_value = "127.0.0.1")]
    pub ip: IpAddr,
    #[arg(long, default_value_t = 1)]
    pub workers: usize,
    /// How many requests a worker takes at a time
    #[arg(long, default_value_t = 64)]
    pub bound: u16,
    #[arg(long, default_value = "deterministic")]
    pub service: Service,
    #[arg(long, default_value_t = 0)]
    pub mean_ns: u64,
    #[arg(long, default_value_t = 0)]
    pub way_ns: u64,
    /// How long a worker's loop spins before it sleeps
    #[arg(long, default_value_t = 0)]
    pub spin_us: u64,
    /// Says of each `Put` that it runs, before it is answered
    #[arg(long, action = clap::ArgAction::Set, default_value_t = false)]
    pub tells: bool,
}

impl PartName {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            PartName::Workers => "workers",
            PartName::Http => "http",
            PartName::Dispatcher => "dispatcher",
            PartName::Pool => "pool",
            PartName::Echo => "echo",
            PartName::Forwarder => "forwarder",
        }
    }
}

impl PartArgs {
    /// How long requests take.
    pub fn times(&self) -> Times {
        Times { service: self.service, mean_ns: self.mean_ns, way_ns: self.way_ns }
    }
}

/// Says a line at once: also a process that is killed next has said it.
pub fn say(line: &str) -> Result<(), BenchError> {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes())?;
    Ok(out.flush()?)
}
