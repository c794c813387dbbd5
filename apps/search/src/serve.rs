//! `search serve`: workers over Petasos, HTTP/1.1, or both, from one source.

use std::io::BufRead;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use petasos::config::Polling;
use petasos::{Join, LoopConfig, Server};
use petasos_base::SystemClock;
use petasos_pacing::Deadlines;

use crate::error::Failed;
use crate::http;
use crate::messages::SearchServer;
use crate::recording;
use crate::source::CorpusArgs;
use crate::worker::{Source, Workers};

/// How long workers may take to become members of a group.
const JOIN_MAX: Duration = Duration::from_secs(20);
/// Between two looks whether they have.
const LOOK: Duration = Duration::from_millis(5);

/// Answer queries until a signal comes, or standard input ends with --attended
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// Serve calls of Petasos there [default: 127.0.0.1:0, if not --http]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Serve HTTP/1.1 there
    #[arg(long, value_name = "ADDRESS:PORT")]
    http: Option<SocketAddr>,
    /// Workers, each with a thread; the ports of all but the first follow, or are any with port 0
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// Join a group of workers: router://HOST:PORT[,HOST:PORT…]
    #[arg(long, value_name = "TARGET", conflicts_with = "http")]
    join: Option<String>,
    /// How many requests each worker takes from a router at a time
    #[arg(long, value_name = "NUMBER", default_value_t = 16, requires = "join")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=4095))]
    bound: u16,
    /// Answer what `search record` has written there, as late as it took, and nothing else; workers
    /// sleep meanwhile, so that there can be more than processors
    #[arg(long, value_name = "FILE")]
    recording: Option<PathBuf>,
    /// Take so many times as long as was recorded
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, requires = "recording")]
    #[arg(value_parser = factor)]
    stretch: f64,
    /// End with standard input; a line `count` there is answered with how many were asked
    #[arg(long)]
    attended: bool,
    #[command(flatten)]
    corpus: CorpusArgs,
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>().map_err(|error| error.to_string())? {
        factor @ 0.0..=1e6 => Ok(factor),
        _ => Err("not from 0 to 1000000".into()),
    }
}

/// Serves.
///
/// # Errors
/// If there is nothing to search, or it cannot be served.
pub fn serve(args: &ServeArgs) -> Result<(), Failed> {
    let workers = Workers::new(source(args)?);
    let listen = match (args.listen, args.http) {
        (None, None) => Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        (listen, _) => listen,
    };
    let numbers = 0..args.workers;
    let servers = listen.map_or(Ok(Vec::new()), |listen| {
        let at = numbers.clone().map(|number| nth(listen, number));
        at.map(|listen| serve_one(args, &workers, listen)).collect::<Result<_, Failed>>()
    })?;
    let mut addresses: Vec<_> = servers.iter().filter_map(Server::local_address).collect();
    if let Some(listen) = args.http {
        for number in numbers {
            addresses.push(http::start(workers.worker(), nth(listen, number))?);
        }
    }
    wait_until_members(&servers)?;
    let addresses: Vec<_> = addresses.iter().map(|address| format!(" {address}")).collect();
    println!("ready{}", addresses.concat());
    if args.attended { attend(&workers) } else { wait_for_signal() }
}

fn source(args: &ServeArgs) -> Result<Source, Failed> {
    Ok(match &args.recording {
        None => Source::Engine(Box::new(args.corpus.engine()?)),
        Some(path) => Source::Recording {
            recording: recording::read(path)?,
            stretch: args.stretch,
            deadlines: Deadlines::start(),
        },
    })
}

/// The address of a worker.
fn nth(mut first: SocketAddr, number: u16) -> SocketAddr {
    if first.port() != 0 {
        first.set_port(first.port().saturating_add(number));
    }
    first
}

fn serve_one(args: &ServeArgs, workers: &Workers, listen: SocketAddr) -> Result<Server, Failed> {
    let mut config = LoopConfig::default();
    // Workers share processors with each other.
    config.endpoint.polling = Polling::Adaptive { spin: Duration::ZERO };
    let server = Server::builder().add(SearchServer::new(workers.worker())).listen(listen);
    let server = match &args.join {
        Some(group) => server.join(Join::new(group).bound(args.bound)),
        None => server,
    };
    Ok(server.loop_config(config).start()?)
}

fn wait_until_members(servers: &[Server]) -> Result<(), Failed> {
    let clock = SystemClock::default();
    let give_up_at = clock.now() + JOIN_MAX;
    loop {
        let at_routers: Vec<_> = servers.iter().flat_map(Server::routers).collect();
        let Some(missing) = at_routers.iter().find(|at| !at.is_member) else { return Ok(()) };
        if clock.now() > give_up_at {
            let why = missing.failure.as_ref().map(|failure| format!(": {failure:?}"));
            let why = why.unwrap_or_default();
            return Err(Failed(format!("{} does not take a worker{why}", missing.router)));
        }
        std::thread::sleep(LOOK);
    }
}

/// Answers lines of standard input until it ends.
fn attend(workers: &Workers) -> Result<(), Failed> {
    for line in std::io::stdin().lock().lines() {
        match &*line? {
            "count" => println!("ran {}", workers.answered()),
            other => return Err(Failed(format!("a command that is not known: {other}"))),
        }
    }
    Ok(())
}

fn wait_for_signal() -> Result<(), Failed> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(())
    })
}
