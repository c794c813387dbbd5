//! Measures Petasos alone, against a running `petasos serve`. There is no floor, because the other
//! side has none.

use std::net::SocketAddr;
use std::time::Duration;

use petasos_cli::connect;
use petasos_cli::failure::Failure;
use petasos_cli::security::SecurityArgs;
use petasos_cli::transport::TransportArgs;
use petasos_endpoint::{Endpoint, Node, NodeConfig};
use petasos_report::{ExperimentResult, Histogram, Machine, Measured, Pairs, Progress, Quantity};

use super::args::{BenchArgs, Experiment, PollingArg, TURN};
use super::load::{self, Load};
use super::result::{PetasosTurn, Totals, publish};
use super::turns::{ServerReport, Traffic};
use crate::error::BenchError;

/// A client endpoint at `local`, with sessions to `server` and a window of requests.
pub fn open_client(
    args: &BenchArgs,
    local: SocketAddr,
    server: SocketAddr,
) -> Result<(Node, Endpoint<Load>), BenchError> {
    let security = match args.connect {
        Some(_) => args.security.clone(),
        // Both processes belong to this program, in a separate network or on loopback.
        None => SecurityArgs::plaintext(),
    };
    let config = security.apply(NodeConfig::default())?;
    let node = Node::start(config).map_err(Failure::from)?;
    let io = args.open(local)?;
    let exact = args.experiment == Experiment::Latency;
    let mut load = Load::new(args.request_bytes(), args.response_bytes(), args.batch(), exact);
    load.adaptive = args.polling == PollingArg::Adaptive;
    let mut client = args.endpoint(io, load);
    client.attach(&node)?;
    for _ in 0..args.sessions() {
        let session = client.connect_and_wait(server, Duration::from_secs(5));
        let session =
            session.map_err(|error| connect::failure(server, &error, &TransportArgs::default()))?;
        client.state_mut().sessions.push(session);
    }
    if args.sessions.is_some() {
        client.state_mut().pick_sessions();
    }
    load::prepare(&mut client, args.window())?;
    Ok((node, client))
}

/// Runs the experiment. Packets and system calls are only those of this side.
pub fn run(args: &BenchArgs) -> Result<(), BenchError> {
    let server = args.connect.ok_or("--connect names no server")?;
    let (_node, mut client) = open_client(args, args.towards(server)?, server)?;
    let quantity = match args.experiment {
        Experiment::Latency => Quantity::LatencyUs,
        Experiment::Bandwidth => Quantity::GbitPerS,
        _ => Quantity::OpsPerS,
    };
    let none: [&str; 0] = [];
    let mut pairs = Pairs::new(quantity, none);
    let (mut latency, mut totals) = (Histogram::new(), Totals::default());
    let goal = args.pairs(1);
    let mut progress = Progress::new("turns", goal as u64);
    for done in 0..goal {
        let before = Traffic::of(&client);
        let turn = load::turn(&mut client, TURN)?;
        let traffic = Traffic::of(&client).since(before);
        let value = match quantity {
            Quantity::LatencyUs => turn.latency.quantile_us(0.5).unwrap_or(f64::NAN),
            Quantity::OpsPerS => turn.ops_per_s(),
            Quantity::GbitPerS => turn.gbit_per_s(args.request_bytes()),
        };
        pairs.push(value, &[]).ok();
        latency.merge(&turn.latency);
        let server = ServerReport::default();
        totals.add(&PetasosTurn { load: turn, server, traffic });
        progress.set(done as u64 + 1);
    }
    progress.finish("done");
    let name = format!("{:?}", args.experiment).to_lowercase();
    let mut result = ExperimentResult::new(&name, Machine::read(), &pairs);
    result.petasos = match quantity {
        Quantity::LatencyUs => Measured::default().with_latency(&latency),
        _ => result.petasos.with_latency(&latency),
    };
    publish(args, totals.apply(result))
}
