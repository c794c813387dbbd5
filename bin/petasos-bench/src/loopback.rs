//! The cost of the protocol alone: client and server in one thread, connected by memory.
//!
//! The floor uses the same memory without Petasos: it echoes trains of datagrams of the same
//! length.

use petasos_base::Clock;
use petasos_endpoint::Endpoint;
use petasos_netio::memory::{Hub, MemoryConfig, MemoryIo};
use petasos_netio::{PacketIo, Route, TX_BATCH_MAX};
use petasos_report::{ExperimentResult, Histogram, Machine, Measured, Pairs, Progress, Quantity};

use super::args::{BenchArgs, Experiment, TURN};
use super::load::{self, Load, LoadTurn};
use super::result::{PetasosTurn, Totals, publish};
use super::turns::{ServerReport, Traffic, pin, thread_cpu_s};
use crate::error::BenchError;
use petasos_cli::service::{SIZED, sized};

const HEADER_BYTES: usize = 24;

/// Runs the experiment.
pub fn run(args: &BenchArgs) -> Result<(), BenchError> {
    pin(0);
    let (mut client, mut server) = join(args)?;
    petasos(&mut client, &mut server)?;
    let quantity = match args.experiment {
        Experiment::Latency => Quantity::LatencyUs,
        Experiment::Bandwidth => Quantity::GbitPerS,
        _ => Quantity::OpsPerS,
    };
    let mut pairs = Pairs::new(quantity, ["floor"]);
    let (mut latency, mut totals) = (Histogram::new(), Totals::default());
    let goal = args.pairs(2);
    let mut progress = Progress::new("loopback", goal as u64);
    for done in 0..goal {
        let before = (Traffic::of(&client), Traffic::of(&server));
        let ours = petasos(&mut client, &mut server)?;
        let datagrams_per_s = floor(args);
        let (value, floor) = match quantity {
            Quantity::LatencyUs => {
                let median = ours.latency.quantile_us(0.5).unwrap_or(f64::NAN);
                (median, 1e6 / datagrams_per_s)
            }
            Quantity::OpsPerS => (ours.ops_per_s(), datagrams_per_s),
            Quantity::GbitPerS => {
                let floor = datagrams_per_s * args.datagram() as f64 * 8.0 / 1e9;
                (ours.gbit_per_s(args.request_bytes()), floor)
            }
        };
        pairs.push(value, &[floor]).ok();
        latency.merge(&ours.latency);
        let traffic = Traffic::of(&server).since(before.1);
        let server = ServerReport { traffic, ..ServerReport::default() };
        let traffic = Traffic::of(&client).since(before.0);
        totals.add(&PetasosTurn { load: ours, server, traffic });
        progress.set(done as u64 + 1);
    }
    progress.finish("done");
    let name = format!("{:?}", args.experiment).to_lowercase();
    let result = ExperimentResult::new(&name, Machine::read(), &pairs);
    let mut result = result.with_floor(&pairs, "floor");
    result.petasos = result.petasos.with_latency(&latency);
    if quantity == Quantity::LatencyUs {
        result.petasos = Measured::default().with_latency(&latency);
    }
    publish(args, totals.apply(result))
}

fn join(args: &BenchArgs) -> Result<(Endpoint<Load>, Endpoint<()>), BenchError> {
    let config = MemoryConfig { datagram_bytes_max: args.datagram(), ..MemoryConfig::default() };
    let hub = Hub::direct(config);
    let mut server = args.endpoint(hub.port(), ());
    server.register(SIZED, sized);
    let exact = args.experiment == Experiment::Latency;
    let load = Load::new(args.request_bytes(), args.response_bytes(), args.batch(), exact);
    let mut client = args.endpoint(hub.port(), load);
    for _ in 0..args.sessions() {
        let address = server.local_address();
        let offer = client.open_session(address, None)?.ok_or("no room for the sessions")?;
        let client_ip = client.local_address().ip();
        let granted = server.accept_session(&offer.params, client_ip, None);
        let granted = granted.map_err(|code| format!("the session was refused: {code:?}"))?;
        client.establish_session(&offer, &granted, address.ip())?;
        client.state_mut().sessions.push(offer.session);
    }
    load::prepare(&mut client, args.window())?;
    Ok((client, server))
}

fn petasos(client: &mut Endpoint<Load>, server: &mut Endpoint<()>) -> Result<LoadTurn, BenchError> {
    load::turn_beside(client, TURN, || {
        server.run_once();
    })
}

/// Datagrams per second that the memory echoes without Petasos.
fn floor(args: &BenchArgs) -> f64 {
    let datagram_bytes = match args.experiment {
        Experiment::Bandwidth => args.datagram(),
        _ => args.request_bytes() as usize + HEADER_BYTES,
    };
    let window = match args.experiment {
        Experiment::Bandwidth => TX_BATCH_MAX,
        _ => args.window(),
    };
    let hub = Hub::direct(MemoryConfig {
        datagram_bytes_max: datagram_bytes.max(args.datagram()),
        ..MemoryConfig::default()
    });
    let (mut near, mut far) = (hub.port(), hub.port());
    let train = vec![1; datagram_bytes * window.min(TX_BATCH_MAX)];
    let mut staging = Vec::new();
    let clock = Clock::system();
    let (start, _) = (clock.now(), thread_cpu_s());
    let mut echoed = 0;
    let trains = window.div_ceil(TX_BATCH_MAX);
    loop {
        for _ in 0..trains {
            near.transmit_train(Route(1), &train, datagram_bytes);
        }
        echo(&mut far, &mut staging, datagram_bytes);
        echoed += near.receive().frames().count();
        let elapsed = clock.now() - start;
        if elapsed >= TURN {
            return echoed as f64 / elapsed.as_secs_f64();
        }
    }
}

fn echo(far: &mut MemoryIo, staging: &mut Vec<u8>, datagram_bytes: usize) {
    staging.clear();
    for frame in far.receive().frames() {
        staging.extend_from_slice(frame.bytes);
    }
    for train in staging.chunks(datagram_bytes * TX_BATCH_MAX) {
        far.transmit_train(Route(0), train, datagram_bytes);
    }
}
