//! The server's side of a measurement: a process that runs the commands from its standard input.
//!
//! It prints its addresses. For each line of input it runs one turn until the next line (`stop`),
//! and reports. It ends when its input ends, so that it does not outlive a client that dies.

use std::io::{BufRead, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use petasos_base::sync::{AtomicBool, Ordering};
use petasos_endpoint::{Endpoint, Node, NodeConfig};

use super::args::{BenchArgs, PollingArg, Transport};
use super::floor::FloorServer;
use super::network;
use super::turns::{ServerReport, ServerTurn, Traffic, pin, process_cpu_s, thread_cpu_s};
use crate::error::BenchError;
use petasos_cli::service::{SIZED, sized};

const BUFFER_BYTES: usize = 8_000_000;

/// The core of the server.
const CORE: usize = 1;

/// Serves turns until the input ends.
pub fn run(args: &BenchArgs) -> Result<(), BenchError> {
    let any = place(args)?;
    let node =
        Node::start(NodeConfig { listen: Some(any), plaintext: true, ..NodeConfig::default() })?;
    pin(CORE);
    let io = args.open(any)?;
    let mut endpoint = args.endpoint(io, ());
    endpoint.register(SIZED, sized);
    endpoint.attach(&node)?;
    let mut floor = FloorServer::open(args, any)?;
    let mut memory = vec![1; BUFFER_BYTES];
    let control = node.local_address().ok_or("the node does not listen")?;
    println!("ready {control} {}", floor.local_address());
    let stop = Arc::new(AtomicBool::new(false));
    let lines = read_lines(Arc::clone(&stop));
    let adaptive = args.polling == PollingArg::Adaptive;
    let mut seen = Traffic::of(&endpoint);
    loop {
        let line = match lines.recv_timeout(Duration::from_millis(1)) {
            Ok(line) => line,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                // Handles session setup between turns.
                endpoint.run_once();
                continue;
            }
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
        };
        let turn = ServerTurn::parse(&line).ok_or("a turn that the server does not know")?;
        println!("started");
        std::io::stdout().flush()?;
        let report = match turn {
            ServerTurn::Petasos => serve(&mut endpoint, &stop, adaptive, &mut seen),
            ServerTurn::Idle => idle(&mut endpoint, &stop),
            ServerTurn::Echo(path) => {
                let turn = floor.echo(path, || take(&stop))?;
                ServerReport { cpu_s: turn.cpu_s, ..ServerReport::default() }
            }
            ServerTurn::Drain(bytes) => {
                let turn = floor.drain(bytes, &mut memory, || take(&stop))?;
                let (bytes, elapsed_s, cpu_s) = (turn.bytes, turn.elapsed_s, turn.cpu_s);
                ServerReport { bytes, elapsed_s, cpu_s, ..ServerReport::default() }
            }
        };
        println!("{}", report.line());
        std::io::stdout().flush()?;
    }
}

/// The address to serve at: on loopback, or in a network that the client makes.
fn place(args: &BenchArgs) -> Result<SocketAddr, BenchError> {
    if args.transport != Transport::Xdp {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    }
    network::leave_host()?;
    println!("apart");
    std::io::stdout().flush()?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    if line.trim_end() != "joined" {
        return Err("the client has made no network".into());
    }
    network::configure_server()?;
    Ok(network::server())
}

/// Whether the client has ended the turn.
fn take(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Relaxed) && stop.swap(false, Ordering::Relaxed)
}

/// Runs one turn. `seen` is the state at the last report, so traffic between turns counts in the
/// next turn.
fn serve(
    endpoint: &mut Endpoint<()>,
    stop: &AtomicBool,
    adaptive: bool,
    seen: &mut Traffic,
) -> ServerReport {
    let cpu_start = thread_cpu_s();
    if adaptive {
        let patience = Duration::from_millis(5);
        while !take(stop) {
            endpoint.run_for(patience, |_, _| stop.load(Ordering::Relaxed));
        }
    } else {
        while !take(stop) {
            for _ in 0..64 {
                endpoint.run_once();
            }
        }
    }
    let now = Traffic::of(endpoint);
    let traffic = now.since(std::mem::replace(seen, now));
    let memory = endpoint.memory();
    ServerReport {
        cpu_s: thread_cpu_s() - cpu_start,
        session_bytes: memory.session_bytes,
        pool_bytes: memory.pool.lent_bytes + memory.pool.kept_bytes,
        traffic,
        ..ServerReport::default()
    }
}

/// Waits as a server in production does. The processor time of the whole process counts.
fn idle(endpoint: &mut Endpoint<()>, stop: &AtomicBool) -> ServerReport {
    let cpu_start = process_cpu_s();
    // The end of the turn does not wake a sleeping loop, so the timeout is short.
    while !take(stop) {
        endpoint.run_for(Duration::from_secs(1), |_, _| stop.load(Ordering::Relaxed));
    }
    ServerReport { cpu_s: process_cpu_s() - cpu_start, ..ServerReport::default() }
}

/// Reads the input on a separate thread: `stop` sets the flag, other lines go to the receiver. The
/// receiver is disconnected when the input ends.
fn read_lines(stop: Arc<AtomicBool>) -> Receiver<String> {
    let (lines, received) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if line == "stop" {
                stop.store(true, Ordering::Relaxed);
            } else if lines.send(line).is_err() {
                break;
            }
        }
        // The turn ends when the client does.
        stop.store(true, Ordering::Relaxed);
    });
    received
}
