//! Figure 11: Redis, a primary with replicas, at growing load: TCP clients that pick nodes
//! themselves, and requests of the library by way of a router.
//!
//! Load is a closed loop with more and more requests outstanding: one thread cannot send Poisson
//! arrivals at these rates and vouch for their times. So latencies are from sending, and a point's
//! load is what was answered.

mod nodes;
mod outcome;
mod targets;

use std::time::Duration;

use petasos_base::Clock;
use petasos_load::{Target, closed_loop};

use super::args::RouterArgs;
use super::client::Client;
use super::side::Skipped;
use crate::error::BenchError;
use crate::report::Report;
use nodes::Nodes;

/// A primary and its replicas.
const NODES: usize = 4;
/// The 99th percentile that a load must keep to.
const OBJECTIVE_US: f64 = 2000.0;
/// Requests that are outstanding, in the order in which they are measured.
const OUTSTANDING: [usize; 9] = [4, 16, 32, 64, 128, 256, 512, 1024, 2048];
const QUICK_OUTSTANDING: [usize; 4] = [16, 64, 256, 1024];
/// Of requests, how many are writes.
const MIXES: [Mix; 2] = [
    Mix { name: "0.2 % writes", writes_per_1000: 2 },
    Mix { name: "2 % writes", writes_per_1000: 20 },
];

#[derive(Clone, Copy, Debug)]
struct Mix {
    name: &'static str,
    writes_per_1000: u64,
}

/// Who decides which node serves a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Contender {
    name: &'static str,
    /// The router's policy; `None` for TCP clients.
    policy: Option<&'static str>,
}

const CONTENDERS: [Contender; 3] = [
    Contender { name: "tcp", policy: None },
    Contender { name: "random", policy: Some("random") },
    Contender { name: "jbsq20", policy: Some("jbsq20") },
];

/// A contender with a mix, and what each round has measured of each point.
struct Row {
    contender: Contender,
    mix: Mix,
    points: Vec<Vec<Sample>>,
}

/// A point of a round.
#[derive(Clone, Copy, Debug)]
struct Sample {
    p50_us: f64,
    p99_us: f64,
    ops_per_s: f64,
    /// Of nodes and router, for a million requests.
    cpu_s_per_million: f64,
}

/// Measures the figure.
///
/// # Errors
/// If nothing can be measured, or a contender fails.
pub fn run(args: &RouterArgs) -> Result<Report, BenchError> {
    let contenders = args.chosen(&CONTENDERS, |contender| contender.name)?;
    let (client, mut skipped, mut sides) = (Client::new()?, Skipped::new(), Vec::new());
    for contender in contenders {
        match Nodes::start(NODES, contender.policy) {
            Ok(nodes) => sides.push((contender, nodes)),
            Err(error) => {
                eprintln!("petasos bench: {} is skipped: {error}", contender.name);
                skipped.push((contender.name, error.to_string()));
            }
        }
    }
    if sides.is_empty() {
        let why = skipped.first().map_or("", |(_, why)| why);
        return Err(format!("no contender can be measured: {why}").into());
    }
    let outstanding: &[usize] = if args.quick { &QUICK_OUTSTANDING } else { &OUTSTANDING };
    let rows = measure(args, &client, &sides, outstanding)?;
    Ok(outcome::report(args, outstanding, &rows, skipped))
}

/// All contenders take turns at each point of each mix.
fn measure(
    args: &RouterArgs,
    client: &Client,
    sides: &[(Contender, Nodes)],
    outstanding: &[usize],
) -> Result<Vec<Row>, BenchError> {
    let rounds = args.rounds();
    let turns = rounds * MIXES.len() * outstanding.len() * sides.len();
    let length = Duration::from_secs_f64(args.turn_seconds_of(turns));
    let mut rows = Vec::new();
    for mix in MIXES {
        let row = |(contender, _): &(Contender, Nodes)| Row {
            contender: *contender,
            mix,
            points: vec![Vec::new(); outstanding.len()],
        };
        rows.extend(sides.iter().map(row));
    }
    let most = *outstanding.iter().max().expect("there are points");
    for round in 0..rounds {
        eprintln!("petasos bench: round {} of {rounds}", round + 1);
        for (at, (mix_row, side)) in
            MIXES.iter().flat_map(|mix| sides.iter().map(move |side| (mix, side))).enumerate()
        {
            let (contender, nodes) = side;
            let failed = |error: BenchError| format!("{}: {error}", contender.name);
            let mut target = targets::connect(client, nodes, *mix_row, most).map_err(failed)?;
            for (place, count) in outstanding.iter().enumerate() {
                let sample = turn(nodes, &mut *target, *count, length).map_err(failed)?;
                rows[at].points[place].push(sample);
            }
        }
    }
    Ok(rows)
}

fn turn(
    nodes: &Nodes,
    target: &mut dyn Target,
    outstanding: usize,
    length: Duration,
) -> Result<Sample, BenchError> {
    // What is opened, resolved or allocated on the way is not measured.
    let clock = Clock::system();
    closed_loop(target, &clock, outstanding, length / 5, false)?;
    let before = nodes.cpu_s();
    let closed = closed_loop(target, &clock, outstanding, length, false)?;
    let cpu_s = nodes.cpu_s() - before;
    let quantile = |quantile| closed.latencies.quantile_us(quantile).unwrap_or_default();
    Ok(Sample {
        p50_us: quantile(0.5),
        p99_us: quantile(0.99),
        ops_per_s: closed.ops_per_s(),
        cpu_s_per_million: cpu_s * 1e6 / closed.answered.max(1) as f64,
    })
}
