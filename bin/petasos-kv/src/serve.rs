//! `petasos kv serve`: a table of keys and values, until it is told to stop.
//!
//! Threads: one per loop, each with a node of its own, so with an address of its own. The main
//! thread waits for a signal, or for a loop that has failed, and then lets all loops finish what
//! they have begun.

use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use clap::{Args, ValueEnum};
use petasos_base::Clock;
use petasos_base::sync::{AtomicBool, Ordering};
use petasos_cli::ends::{End, spawn, watch_signals, watch_stdin};
use petasos_cli::failure::Failure;
use petasos_cli::output;
use petasos_cli::security::SecurityArgs;
use petasos_cli::size::{in_words, parse_bytes};
use petasos_cli::transport::TransportArgs;
use petasos_endpoint::{Endpoint, EndpointConfig, Node, NodeConfig, Notifier, Polling};
use petasos_kv::{Owner, Seat, Service};
use petasos_store::Mode;

use crate::sizing::{Wanted, table};

/// How long an adaptive loop spins before it sleeps.
const SPIN: Duration = Duration::from_micros(50);
/// How long a loop that ends waits for what it has passed on.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// The arguments of `petasos kv serve`.
#[derive(Args)]
pub struct ServeArgs {
    /// Where the first loop listens, as ADDRESS:PORT. Port 0 takes any free port. Further loops
    /// take any free ports of the address; clients learn them from any loop.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7421")]
    listen: SocketAddr,
    /// What happens when memory is full: a cache forgets what is old, a store refuses writes.
    #[arg(long, value_enum, default_value_t = ModeArg::Cache)]
    mode: ModeArg,
    /// Memory for all items. It is taken at once.
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = parse_bytes)]
    memory: usize,
    /// How many items there will be, if that is known [default: one for each 160 bytes].
    #[arg(long, value_name = "N")]
    items: Option<u64>,
    /// The longest value.
    #[arg(long, value_name = "BYTES", default_value = "1MiB", value_parser = parse_bytes)]
    value_max: usize,
    /// Loops, each with a thread and a share of the keys.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=256))]
    loops: u16,
    /// Never sleep: the lowest latency, for a whole core per loop.
    #[arg(long)]
    spin: bool,
    #[command(flatten)]
    transport: TransportArgs,
    #[command(flatten)]
    security: SecurityArgs,
    /// Stop when standard input ends as well: for a server that must not outlive its parent.
    #[arg(long)]
    until_stdin_closes: bool,
}

/// `--mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ModeArg {
    Cache,
    Store,
}

/// What a loop's thread needs besides its seat.
#[derive(Clone)]
struct Setup {
    listen: SocketAddr,
    polling: Polling,
    transport: TransportArgs,
    security: SecurityArgs,
    is_stopping: Arc<AtomicBool>,
}

/// A loop that runs.
struct Running {
    address: SocketAddr,
    notifier: Notifier,
}

/// Serves until a signal, the end of standard input, or a failure.
///
/// # Errors
/// If the server cannot be set up, or one of its threads fails.
pub fn run(args: &ServeArgs) -> Result<(), Failure> {
    let config = table(&args.wanted()?)?;
    let (ends, end) = channel();
    watch_signals(ends.clone())?;
    let held = in_words(config.log_bytes);
    output::note(&format!("petasos: taking {held} for items"));
    let made = Service::new(&config, args.loops);
    let (service, seats) = made.map_err(|error| Failure::new(error.to_string()))?;
    let setup = Setup::new(args);
    let (loops, threads) = start_all(seats, &setup, &ends)?;
    service.set_addresses(loops.iter().map(|running| running.address).collect());
    if args.until_stdin_closes {
        watch_stdin(ends);
    }
    output::answer(format!("listening on {}", loops[0].address).as_bytes())?;
    let outcome = wait(&end);
    // Pairs with the load in `live`: a loop that is notified sees it.
    setup.is_stopping.store(true, Ordering::Release);
    loops.iter().for_each(|running| running.notifier.notify());
    threads.into_iter().for_each(|thread| {
        // One that panicked has said so.
        let _ = thread.join();
    });
    outcome
}

impl ServeArgs {
    fn wanted(&self) -> Result<Wanted, Failure> {
        let value_bytes_max = u32::try_from(self.value_max).map_err(|_| {
            Failure::with_advice("a value has at most 1 MiB", "give a lower --value-max")
        })?;
        Ok(Wanted {
            mode: match self.mode {
                ModeArg::Cache => Mode::Cache,
                ModeArg::Store => Mode::Store,
            },
            memory_bytes: self.memory as u64,
            items: self.items,
            value_bytes_max,
            loops: self.loops,
        })
    }
}

impl Setup {
    fn new(args: &ServeArgs) -> Setup {
        Setup {
            listen: args.listen,
            polling: if args.spin { Polling::Spin } else { Polling::Adaptive { spin: SPIN } },
            transport: args.transport.clone(),
            security: args.security.clone(),
            is_stopping: Arc::default(),
        }
    }

    /// A loop's endpoint, and its node.
    fn open(&self, seat: Seat) -> Result<(Endpoint<Owner>, Node), Failure> {
        let number = seat.number();
        let port = if number == 0 { self.listen.port() } else { 0 };
        let config = NodeConfig {
            listen: Some(SocketAddr::new(self.listen.ip(), port)),
            name: format!("petasos kv, process {}, loop {number}", std::process::id()),
            ..NodeConfig::default()
        };
        let node = Node::start(self.security.apply(config)?)?;
        let io = self.transport.open(self.listen.ip(), number.into())?;
        let config = EndpointConfig { polling: self.polling, ..EndpointConfig::default() };
        let opened = seat.open(config, io, Clock::system());
        let mut endpoint = opened.map_err(|error| {
            Failure::with_advice(format_args!("cannot start a loop: {error}"), "raise `ulimit -n`")
        })?;
        endpoint.attach(&node)?;
        Ok((endpoint, node))
    }

    fn start(&self, seat: Seat) -> Result<(Endpoint<Owner>, Node, Running), Failure> {
        let (mut endpoint, node) = self.open(seat)?;
        let notifier = endpoint.notifier();
        let notifier = notifier.map_err(|error| Failure::new(error.to_string()))?;
        let address = node.local_address().expect("a node that was told to listen does");
        Ok((endpoint, node, Running { address, notifier }))
    }

    /// A loop's thread.
    fn live(&self, seat: Seat, ready: &Sender<Result<Running, Failure>>) {
        // If sending fails, the process is already ending.
        let (mut endpoint, node) = match self.start(seat) {
            Ok((endpoint, node, running)) => {
                let _ = ready.send(Ok(running));
                (endpoint, node)
            }
            Err(failure) => return drop(ready.send(Err(failure))),
        };
        // Pairs with the store in `run`.
        endpoint.run(|_, _| self.is_stopping.load(Ordering::Acquire));
        node.drain();
        endpoint.shut_down(DRAIN_TIMEOUT);
    }
}

/// Reports a thread that ends before it is told to.
struct Guard {
    ends: Sender<End>,
    is_stopping: Arc<AtomicBool>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.is_stopping.load(Ordering::Acquire) {
            let failed = "a loop of the server has failed";
            let _ = self.ends.send(Err(Failure::with_advice(failed, "restart it")));
        }
    }
}

fn start_all(
    seats: Vec<Seat>,
    setup: &Setup,
    ends: &Sender<End>,
) -> Result<(Vec<Running>, Vec<JoinHandle<()>>), Failure> {
    let (mut loops, mut threads) = (Vec::new(), Vec::new());
    for seat in seats {
        let (ready, started) = channel();
        let (setup, ends) = (setup.clone(), ends.clone());
        let name = format!("petasos-kv-{}", seat.number());
        threads.push(spawn(&name, move || {
            let _guard = Guard { ends, is_stopping: setup.is_stopping.clone() };
            setup.live(seat, &ready);
        })?);
        let failed = || Failure::with_advice("a loop has failed as it started", "see above");
        loops.push(started.recv().map_err(|_| failed())??);
    }
    Ok((loops, threads))
}

fn wait(end: &Receiver<End>) -> Result<(), Failure> {
    let reason = end.recv().expect("the thread of signals keeps a sender")?;
    output::note(&format!("petasos: {reason}: finishing what has begun"));
    Ok(())
}
