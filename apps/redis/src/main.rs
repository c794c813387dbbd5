//! `petasos-redis-adapter`: a port on loopback at which clients of Redis reach a group of nodes
//! behind a router.

#![forbid(unsafe_code)]

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use petasos::{Channel, Credentials, Loop, LoopConfig, PemFiles, Security, TlsConfig};
use petasos_redis::{Adapter, Limits, RedisClient};
use tokio::signal::unix::{SignalKind, signal};

/// Serve clients of Redis with a group of nodes behind a router
///
/// Writes go to the group's primary, at most once; reads go to any node, so that they may be behind
/// the writes. Commands that need one connection to one node are refused.
#[derive(Parser, Debug)]
#[command(name = "petasos-redis-adapter", version)]
struct Args {
    /// The group's routers: `router://HOST:PORT[,HOST:PORT…]`
    #[arg(long)]
    group: String,
    /// Where clients connect; an address of loopback
    #[arg(long, default_value = "127.0.0.1:6380")]
    listen: SocketAddr,
    /// Where reads go: with `primary` they see what was written
    #[arg(long, default_value = "any")]
    reads: Reads,
    /// How long a request may take, in milliseconds
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    timeout_ms: u64,
    /// Connections at a time
    #[arg(long, default_value_t = 1024)]
    connections_max: usize,
    /// PEM file with the authorities of routers and nodes
    #[arg(long, requires_all = ["tls_cert", "tls_key"])]
    tls_ca: Option<PathBuf>,
    /// PEM file with this adapter's certificate
    #[arg(long, requires = "tls_ca")]
    tls_cert: Option<PathBuf>,
    /// PEM file with the certificate's key
    #[arg(long, requires = "tls_ca")]
    tls_key: Option<PathBuf>,
    /// Allow an unencrypted group beyond loopback, where everybody in the network can listen
    #[arg(long, conflicts_with = "tls_ca")]
    plaintext: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Reads {
    Any,
    Primary,
}

impl Args {
    fn security(&self) -> Security {
        if self.tls_ca.is_none() {
            return if self.plaintext { Security::Plaintext } else { Security::Loopback };
        }
        let files = PemFiles {
            authorities: self.tls_ca.clone(),
            certificate: self.tls_cert.clone(),
            key: self.tls_key.clone(),
        };
        Security::Tls(TlsConfig { credentials: Credentials::Files(files), allow: None })
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("petasos-redis-adapter: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, serve(args))
}

async fn serve(args: &Args) -> Result<(), Box<dyn Error>> {
    let config = LoopConfig { security: args.security(), ..LoopConfig::default() };
    let event_loop = Loop::new(config)?;
    tokio::task::spawn_local(event_loop.drive());
    let channel = Channel::builder(&args.group).connect().await;
    let channel = channel.map_err(|error| format!("cannot reach `{}`: {error}", args.group))?;
    let limits = Limits {
        connections_max: args.connections_max,
        timeout: Duration::from_millis(args.timeout_ms),
        reads_on_primary: args.reads == Reads::Primary,
    };
    let adapter = Adapter::bind(args.listen, RedisClient::new(channel), limits).await;
    let adapter =
        adapter.map_err(|error| format!("cannot listen at `{}`: {error}", args.listen))?;
    println!("petasos-redis-adapter: listening at {}", adapter.local_address()?);
    let (mut end, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        () = adapter.serve() => {}
        _ = end.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
