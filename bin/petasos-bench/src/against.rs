//! Latency, rate and bandwidth, compared with the floors.

use std::time::Duration;

use petasos_base::Clock;
use petasos_floor::{Flood, Path, Turn, deadline};
use petasos_report::ExperimentResult;
use petasos_report::{Histogram, Machine, Measured, Pairs, Progress, Quantity};

use super::args::{BenchArgs, Experiment, TURN, Transport};
use super::peer::Pair;
use super::result::{PetasosTurn, Totals, publish};
use super::turns::{ServerTurn, pin};
use crate::error::BenchError;

/// Bytes of the header before every payload.
const HEADER_BYTES: usize = 24;
/// Batch sizes of the raw echo. The best one is the floor.
const BATCHES: [usize; 3] = [16, 32, 64];

/// Runs the experiment.
pub fn run(args: &BenchArgs) -> Result<(), BenchError> {
    pin(0);
    let mut pair = Pair::start(args)?;
    pair.petasos()?;
    match args.experiment {
        Experiment::Latency => latency(args, &mut pair),
        Experiment::Rate => rate(args, &mut pair),
        Experiment::Bandwidth => bandwidth(args, &mut pair),
        Experiment::Contention | Experiment::Factors | Experiment::Sessions | Experiment::Idle => {
            unreachable!("these have runs of their own")
        }
    }
}

fn latency(args: &BenchArgs, pair: &mut Pair) -> Result<(), BenchError> {
    let bytes = args.request_bytes() as usize + HEADER_BYTES;
    let (mut petasos, mut floor) = (Histogram::new(), Histogram::new());
    let (mut pairs, mut totals) = (Pairs::new(Quantity::LatencyUs, ["floor"]), Totals::default());
    let goal = args.pairs(2);
    let mut progress = Progress::new("latency", goal as u64);
    for done in 0..goal {
        let ours = pair.petasos()?;
        let echo = ServerTurn::Echo(Path::Singles);
        let (theirs, _) = pair.turn(echo, |pair| pair.floor.ping(bytes, turn()))?;
        let medians = (ours.load.latency.quantile_us(0.5), theirs.latency.quantile_us(0.5));
        pairs.push(medians.0.unwrap_or(f64::NAN), &[medians.1.unwrap_or(f64::NAN)]).ok();
        petasos.merge(&ours.load.latency);
        floor.merge(&theirs.latency);
        totals.add(&ours);
        progress.set(done as u64 + 1);
    }
    progress.finish("done");
    let mut result = ExperimentResult::new("latency", Machine::read(), &pairs);
    result = result.with_floor(&pairs, "floor");
    result.petasos = Measured::default().with_latency(&petasos);
    result.floor = Some(Measured::default().with_latency(&floor));
    publish(args, totals.apply(result))
}

fn rate(args: &BenchArgs, pair: &mut Pair) -> Result<(), BenchError> {
    let batches = batches(args);
    let singles = (args.transport != Transport::Xdp).then_some("single");
    let names: Vec<_> = batches.iter().map(|batch| format!("batch {batch}")).collect();
    let all_names = names.iter().cloned().chain(singles.map(str::to_owned));
    let mut pairs = Pairs::new(Quantity::OpsPerS, all_names);
    let (mut latency, mut totals) = (Histogram::new(), Totals::default());
    let goal = args.pairs(1 + batches.len() + usize::from(singles.is_some()));
    let mut progress = Progress::new("rate", goal as u64);
    for done in 0..goal {
        let ours = pair.petasos()?;
        let mut floors = Vec::new();
        for batch in batches.iter().copied().chain(singles.map(|_| 1)) {
            floors.push(raw_rate(args, pair, batch, TURN)?.ops_per_s());
        }
        pairs.push(ours.load.ops_per_s(), &floors).ok();
        latency.merge(&ours.load.latency);
        totals.add(&ours);
        progress.set(done as u64 + 1);
    }
    progress.finish("done");
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let best = pairs.best_floor(&names).ok_or("no turn of the floor measured anything")?;
    let mut result = ExperimentResult::new("rate", Machine::read(), &pairs);
    result = result.with_floor(&pairs, best);
    if let Some(single) = singles {
        result = result.with_single(&pairs, single);
    }
    result.petasos = result.petasos.with_latency(&latency);
    result = result.parameter("floor", best);
    publish(args, totals.apply(result))
}

/// The batch sizes for the raw echo with this window.
pub fn batches(args: &BenchArgs) -> Vec<usize> {
    let window = args.window();
    let batches: Vec<_> = BATCHES.into_iter().filter(|batch| *batch <= window).collect();
    // A bare AF_XDP echo forms its own batches from what is in the ring.
    let whole = batches.is_empty() || args.transport == Transport::Xdp;
    if whole { vec![window] } else { batches }
}

/// One turn of the raw echo. With batches of one, datagrams are sent and received one by one.
pub fn raw_rate(
    args: &BenchArgs,
    pair: &mut Pair,
    batch: usize,
    duration: Duration,
) -> Result<Turn, BenchError> {
    let datagram_bytes = args.request_bytes() as usize + HEADER_BYTES;
    let shape = Flood { datagram_bytes, window: args.window(), batch };
    let run = |pair: &mut Pair| pair.floor.flood(shape, deadline(&clock(), duration));
    Ok(pair.turn(ServerTurn::Echo(shape.path()), run)?.0)
}

fn bandwidth(args: &BenchArgs, pair: &mut Pair) -> Result<(), BenchError> {
    let memory = vec![7; args.request_bytes() as usize];
    let datagram_bytes = args.datagram();
    let mut pairs = Pairs::new(Quantity::GbitPerS, ["floor"]);
    let (mut latency, mut totals) = (Histogram::new(), Totals::default());
    let goal = args.pairs(2);
    let mut progress = Progress::new("bandwidth", goal as u64);
    for done in 0..goal {
        let ours: PetasosTurn = pair.petasos()?;
        let run = |pair: &mut Pair| pair.floor.blast(datagram_bytes, &memory, turn());
        let (_, received) = pair.turn(ServerTurn::Drain(datagram_bytes), run)?;
        let floor = received.bytes as f64 * 8.0 / 1e9 / received.elapsed_s;
        pairs.push(ours.load.gbit_per_s(args.request_bytes()), &[floor]).ok();
        latency.merge(&ours.load.latency);
        totals.add(&ours);
        progress.set(done as u64 + 1);
    }
    progress.finish("done");
    let mut result = ExperimentResult::new("bandwidth", Machine::read(), &pairs);
    result = result.with_floor(&pairs, "floor");
    result.petasos = result.petasos.with_latency(&latency);
    publish(args, totals.apply(result))
}

fn clock() -> Clock {
    Clock::system()
}

/// Ends a raw turn after [`TURN`].
fn turn() -> impl FnMut() -> bool {
    deadline(&clock(), TURN)
}
