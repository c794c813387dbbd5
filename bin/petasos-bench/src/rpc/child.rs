//! One process of a measurement, which runs the commands from its standard input.
//!
//! A server prints `ready ADDRESS…`. It answers `serve PHASE` with `started` and, after `stop`,
//! with `done` and the result. A client answers `turn PHASE MICROSECONDS` with `done` and the
//! result. Both end when their input ends, so that they do not outlive a parent that dies.

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::args::{Carrier, RpcArgs};
use super::direct::{DirectClient, DirectServer};
use super::ends::{Client, Server};
use super::floor::{FloorClient, FloorServer};
use super::grpc::GrpcServer;
use super::phase::{Phase, Turn};
use super::role::{Contender, Role, Side};
use super::stop::Stop;
use super::tonic::{TonicClient, TonicServer};
use super::typed::{self, TypedClient};
use crate::error::BenchError;
use crate::turns::{pin, process_cpu_s};

/// Runs as the process that `args` name, until its input ends.
pub fn run(args: &RpcArgs, role: Role) -> Result<(), BenchError> {
    pin(role.side.core());
    match role.side {
        Side::Client => be_client(client(args, role.contender)?.as_mut()),
        Side::Server => be_server(server(args, role.contender)?.as_mut()),
    }
}

fn client(args: &RpcArgs, contender: Contender) -> Result<Box<dyn Client>, BenchError> {
    Ok(match contender {
        Contender::Petasos => Box::new(TypedClient::new(args, false)?),
        Contender::PetasosSleeping => Box::new(TypedClient::new(args, true)?),
        Contender::PetasosShared => Box::new(TypedClient::new(&shared(args), false)?),
        Contender::PetasosSharedSleeping => Box::new(TypedClient::new(&shared(args), true)?),
        Contender::Tonic | Contender::Grpc => Box::new(TonicClient::new(args)?),
        Contender::Direct => Box::new(DirectClient::new(args, false)?),
        Contender::DirectSleeping => Box::new(DirectClient::new(args, true)?),
        Contender::Floor => Box::new(FloorClient::new(args)?),
        Contender::Program(_) => return Err("a program of its own is no process of this".into()),
    })
}

fn server(args: &RpcArgs, contender: Contender) -> Result<Box<dyn Server>, BenchError> {
    Ok(match contender {
        Contender::Petasos => Box::new(typed::server(args, false)?),
        Contender::PetasosSleeping => Box::new(typed::server(args, true)?),
        Contender::PetasosShared => Box::new(typed::server(&shared(args), false)?),
        Contender::PetasosSharedSleeping => Box::new(typed::server(&shared(args), true)?),
        Contender::Tonic => Box::new(TonicServer::new(args)?),
        Contender::Grpc => Box::new(GrpcServer::new(args)?),
        Contender::Direct => Box::new(DirectServer::new(args, false)?),
        Contender::DirectSleeping => Box::new(DirectServer::new(args, true)?),
        Contender::Floor => Box::new(FloorServer::new(args)?),
        Contender::Program(_) => return Err("a program of its own is no process of this".into()),
    })
}

/// The same arguments, but with shared memory.
fn shared(args: &RpcArgs) -> RpcArgs {
    RpcArgs { transport: Carrier::Auto, ..args.clone() }
}

/// Makes calls as the commands on standard input say, until it ends.
pub fn be_client(client: &mut dyn Client) -> Result<(), BenchError> {
    say("ready")?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        let ["turn", phase, micros] = words[..] else { return Err(unknown(&line)) };
        let phase = Phase::named(phase).ok_or_else(|| unknown(&line))?;
        let duration = Duration::from_micros(micros.parse()?);
        let cpu_start = process_cpu_s();
        let turn = client.turn(phase, duration)?;
        done(Turn { cpu_s: process_cpu_s() - cpu_start, ..turn })?;
    }
    Ok(())
}

/// Answers calls as the commands on standard input say, until it ends.
pub fn be_server(server: &mut dyn Server) -> Result<(), BenchError> {
    let addresses = server.addresses();
    let addresses: Vec<_> = addresses.iter().map(|address| format!(" {address}")).collect();
    say(&format!("ready{}", addresses.concat()))?;
    let stop = Arc::new(Stop::default());
    for line in read_lines(Arc::clone(&stop)) {
        let phase = line.strip_prefix("serve ").and_then(Phase::named);
        let phase = phase.ok_or_else(|| unknown(&line))?;
        let cpu_start = process_cpu_s();
        say("started")?;
        let turn = server.serve(phase, &stop)?;
        done(Turn { cpu_s: process_cpu_s() - cpu_start, ..turn })?;
    }
    Ok(())
}

fn unknown(line: &str) -> BenchError {
    format!("a command that the process does not know: {line}").into()
}

fn done(turn: Turn) -> Result<(), BenchError> {
    say(&format!("done {}", serde_json::to_string(&turn)?))
}

fn say(line: &str) -> Result<(), BenchError> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// Reads the input on a separate thread: `stop` ends the turn, other lines go to the receiver. The
/// receiver is disconnected when the input ends.
fn read_lines(stop: Arc<Stop>) -> Receiver<String> {
    let (lines, received) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if line == "stop" {
                stop.raise();
            } else if lines.send(line).is_err() {
                break;
            }
        }
        // The turn ends when the parent does.
        stop.raise();
    });
    received
}
