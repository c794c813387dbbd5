//! `petasos serve`: runs the demonstration services until it is told to stop.
//!
//! Threads: one per endpoint; those of the typed server, if requested; one that waits for signals;
//! one that watches standard input, if requested. The main thread waits until the first of them
//! reports an end, and then lets the endpoints finish their running calls.

mod typed;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;

use core::time::Duration;

use clap::{Args, ValueEnum};
use petasos_base::sync::{AtomicBool, Ordering};
use petasos_endpoint::{Endpoint, EndpointConfig, Node, NodeConfig, Polling, WorkerPool};

use crate::client::{SPIN, open_endpoint};
use petasos_cli::ends::{End, spawn, watch_signals, watch_stdin};
use petasos_cli::failure::Failure;
use petasos_cli::output;
use petasos_cli::security::SecurityArgs;
use petasos_cli::service::handlers::answer_waiting;
use petasos_cli::service::{Server, Shared, register};
use petasos_cli::size::parse_bytes;
use petasos_cli::transport::TransportArgs;

/// The arguments of `petasos serve`.
#[derive(Args)]
pub struct ServeArgs {
    /// Where to listen for clients, as ADDRESS:PORT. Port 0 takes any free port.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7411",
          value_parser = parse_address)]
    listen: SocketAddr,
    /// How a thread waits for work: always spinning, or spinning a little and then sleeping.
    #[arg(long, value_enum, default_value_t = PollingArg::Adaptive)]
    polling: PollingArg,
    /// Endpoints, each with a thread of its own; clients' sessions spread over them.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=256))]
    endpoints: u16,
    #[command(flatten)]
    transport: TransportArgs,
    #[command(flatten)]
    security: SecurityArgs,
    #[command(flatten)]
    typed: typed::TypedArgs,
    /// Memory for stored values; more are refused.
    #[arg(long, value_name = "BYTES", default_value = "1GiB", value_parser = parse_bytes)]
    memory_max: usize,
    /// Stop when standard input ends as well: for a server that must not outlive its parent.
    #[arg(long)]
    until_stdin_closes: bool,
}

/// `--polling`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PollingArg {
    /// Never sleep: the lowest latency, for a whole core per thread.
    Spin,
    /// Spin for a moment, then sleep.
    Adaptive,
    /// Likewise, but let other threads have the core while spinning.
    Yield,
}

impl PollingArg {
    /// The mode for the endpoint's configuration.
    pub fn mode(self) -> Polling {
        match self {
            PollingArg::Spin => Polling::Spin,
            PollingArg::Adaptive => Polling::Adaptive { spin: SPIN },
            PollingArg::Yield => Polling::Yield { spin: SPIN },
        }
    }
}

fn parse_address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "expected ADDRESS:PORT, such as 127.0.0.1:7411 or [::1]:7411")
}

/// Serves until a signal, the end of standard input, or a failure.
///
/// # Errors
/// If the server cannot be set up, or one of its threads fails.
pub fn run(args: &ServeArgs) -> Result<(), Failure> {
    let config = NodeConfig {
        listen: Some(args.listen),
        name: format!("petasos serve, process {}", std::process::id()),
        ..NodeConfig::default()
    };
    let node = Node::start(args.security.apply(config)?)?;
    let address = node.local_address().expect("a node that was told to listen does");
    let (ends, end) = channel();
    watch_signals(ends.clone())?;
    let stopping = Arc::new(AtomicBool::new(false));
    let setup = Setup::new(args, &node, &stopping)?;
    let threads = start_endpoints(&setup, args.endpoints, &ends)?;
    let typed = args.typed.start(&setup.store, &args.security)?;
    drop(setup);
    if args.until_stdin_closes {
        watch_stdin(ends);
    }
    output::answer(format!("listening on {address}").as_bytes())?;
    typed.iter().try_for_each(typed::announce)?;
    let outcome = wait(&end, typed.as_ref());
    // Pairs with the load in `serve`: an endpoint that the drain wakes sees the flag.
    stopping.store(true, Ordering::Release);
    node.drain();
    typed.into_iter().for_each(typed::end);
    for thread in threads {
        // If the thread panicked, its guard has reported this.
        let _ = thread.join();
    }
    outcome
}

/// How often to look whether the server's routers have said something.
const LOOK: Duration = Duration::from_millis(200);

fn wait(end: &Receiver<End>, typed: Option<&typed::Typed>) -> Result<(), Failure> {
    let mut memberships = typed.and_then(typed::Typed::memberships);
    let reason = loop {
        let Some(memberships) = &mut memberships else { break end.recv() };
        match end.recv_timeout(LOOK) {
            Err(RecvTimeoutError::Timeout) => memberships.report(),
            Err(RecvTimeoutError::Disconnected) => break Err(RecvError),
            Ok(reason) => break Ok(reason),
        }
    };
    let reason = reason.expect("the signal thread keeps a sender")?;
    output::note(&format!("petasos: {reason}: finishing what has begun"));
    Ok(())
}

/// The data that each endpoint's thread needs.
#[derive(Clone)]
struct Setup {
    node: Node,
    transport: TransportArgs,
    ip: IpAddr,
    polling: Polling,
    store: Shared,
    workers: WorkerPool,
    stopping: Arc<AtomicBool>,
}

impl Setup {
    fn new(args: &ServeArgs, node: &Node, stopping: &Arc<AtomicBool>) -> Result<Setup, Failure> {
        let workers = WorkerPool::new(WORKERS, WORKER_QUEUE_MAX);
        Ok(Setup {
            node: node.clone(),
            transport: args.transport.clone(),
            ip: args.listen.ip(),
            polling: args.polling.mode(),
            store: Shared::new(args.memory_max),
            workers: workers.map_err(|e| Failure::new(format!("cannot start a thread: {e}")))?,
            stopping: stopping.clone(),
        })
    }

    fn open(&self, index: u16) -> Result<Endpoint<Server>, Failure> {
        let config = EndpointConfig { polling: self.polling, ..EndpointConfig::default() };
        let state = Server::new(self.store.clone(), config.session.message_bytes_max as usize);
        let mut endpoint = open_endpoint(&self.transport, (self.ip, index.into()), config, state)?;
        register(&mut endpoint, &self.workers, &self.stopping)?;
        endpoint.attach(&self.node)?;
        Ok(endpoint)
    }

    /// The main function of an endpoint's thread.
    fn live(self, index: u16, ready: &Sender<Result<(), Failure>>) {
        let (opened, stopping) = (self.open(index), self.stopping.clone());
        // The thread must not hold the node: otherwise the node would never end.
        drop(self);
        // If sending fails, the process is already ending.
        match opened {
            Ok(endpoint) => {
                let _ = ready.send(Ok(()));
                serve(endpoint, &stopping);
            }
            Err(failure) => drop(ready.send(Err(failure))),
        }
    }
}

/// Starts the endpoints' threads, and waits until all have joined the node.
fn start_endpoints(
    setup: &Setup,
    count: u16,
    ends: &Sender<End>,
) -> Result<Vec<JoinHandle<()>>, Failure> {
    let (ready, waiting) = channel();
    let mut threads = Vec::new();
    for index in 0..count {
        let (setup, ready) = (setup.clone(), ready.clone());
        let guard = Guard { ends: ends.clone(), stopping: setup.stopping.clone() };
        let run = move || {
            let _guard = guard;
            setup.live(index, &ready);
        };
        threads.push(spawn(&format!("petasos-{index}"), run)?);
    }
    // A thread that panics drops its sender without sending.
    drop(ready);
    for _ in 0..count {
        waiting.recv().map_err(|_| thread_failed())??;
    }
    Ok(threads)
}

/// Reports a thread that ends unexpectedly.
struct Guard {
    ends: Sender<End>,
    stopping: Arc<AtomicBool>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Pairs with the store in `run`.
        if !self.stopping.load(Ordering::Acquire) {
            // If sending fails, the process is already ending.
            let _ = self.ends.send(Err(thread_failed()));
        }
    }
}

fn thread_failed() -> Failure {
    Failure::with_advice("a thread of the server has failed", "restart it, and report the bug")
}

fn serve(mut endpoint: Endpoint<Server>, stopping: &AtomicBool) {
    // Pairs with the store in `run`.
    let is_stopping = || stopping.load(Ordering::Acquire);
    while !is_stopping() {
        endpoint.run(|server, _| server.is_asked() || is_stopping());
        answer_waiting(&mut endpoint);
    }
    let unfinished = endpoint.shut_down(DRAIN_TIMEOUT);
    if unfinished.requests > 0 {
        output::note(&format!("petasos: {} requests were cut off", unfinished.requests));
    }
}

/// How long a stopping server waits for handlers that have not answered yet.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// The number of threads for [`petasos_cli::service::SLOW`], and of requests that may wait for one.
const WORKERS: usize = 4;
const WORKER_QUEUE_MAX: usize = 1024;
