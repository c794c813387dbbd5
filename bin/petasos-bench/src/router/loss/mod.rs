//! Packets that are lost between clients, the router and workers: how much of the rate is left, and
//! whether all places of workers are free when all is over.
//!
//! Everything is in a network namespace, whose loopback interface loses one datagram of a hundred
//! in every other turn. Workers sleep through their service times, and more requests are always
//! outstanding than they have places: a place that a lost packet takes is missing in the rate. What
//! leaves as one train is lost as one, as the kernel's loopback carries it so.

mod outcome;

use std::time::Duration;

use petasos_base::SystemClock;
use petasos_load::Target;
use petasos_netio_xdp::{Impair, ImpairConfig, ImpairStats};
use petasos_queueing::Service;

use super::args::RouterArgs;
use super::client::{Asked, Client};
use super::closed::{Point, PointRounds, Row, turn};
use super::operator::Operator;
use super::programs::ROUTER_CORE;
use super::side::{Kind, Setup, Side};
use crate::error::BenchError;
use crate::report::Report;

const LOSS: f64 = 0.01;
const INTERFACE: &str = "lo";
/// More than there can be: what is lost is lost at random.
const QUEUE_BYTES_MAX: u32 = 1 << 30;
const POLICY: &str = "jbsq3";
const WORKERS: usize = 16;
/// More than workers and their queues take.
const OUTSTANDING: usize = 128;
/// Turns of each kind of request, with and without losses.
const ROUNDS: usize = 6;
/// How long places may take until they are free: longer than anything is repeated.
const FREE_MAX: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);

/// Without losses, and with them.
pub const NAMES: [&str; 2] = ["whole", "lossy"];
/// Requests that run from the first packet, and those that ask first.
const KINDS: [(&str, bool); 2] = [("get", false), ("put", true)];

/// What came of it.
struct Measured {
    kinds: Vec<(&'static str, PointRounds)>,
    packets: ImpairStats,
    /// Workers, and places that none of them has given back.
    workers: u32,
    leaked: u64,
}

/// Measures requests of both kinds.
///
/// # Errors
/// If a request fails, or the namespace does not lose packets.
pub fn run(args: &RouterArgs) -> Result<Report, BenchError> {
    let client = Client::new()?;
    let service = args.dist.first().copied().unwrap_or(Service::Exponential);
    let setup =
        Setup { service, mean_ns: args.mean_us * 1000, ..Setup::at_once(WORKERS, ROUTER_CORE) };
    let side = Side::start(Kind::Router(POLICY), &setup, &client)?;
    let operator = side.operator()?;
    let chosen = args.chosen(&KINDS, |kind| kind.0)?;
    let rounds = if args.quick { 1 } else { ROUNDS };
    let seconds = args.seconds_of(chosen.len() * NAMES.len() * rounds);
    let (mut kinds, mut packets) = (Vec::new(), ImpairStats::default());
    for (name, asks_first) in chosen {
        let point = Point {
            label: name.to_owned(),
            asked: Asked { asks_first, ..Asked::short(0) },
            outstanding: OUTSTANDING,
        };
        let mut target = side.connect(&point.asked, OUTSTANDING as u32)?;
        let mut rows = NAMES.map(|name| Row { name, turns: Vec::new() });
        for round in 0..rounds {
            eprintln!("petasos bench: {name}, round {} of {rounds}", round + 1);
            let take = |target: &mut dyn Target| {
                turn(&point, &side, target, Duration::from_secs_f64(seconds))
            };
            rows[0].turns.push(take(&mut *target)?);
            let port = losing()?;
            rows[1].turns.push(take(&mut *target)?);
            packets.add(&port.stats()?);
        }
        kinds.push((name, PointRounds { point, rows: rows.into() }));
    }
    let (workers, leaked) = left_taken(&operator)?;
    Ok(outcome::report(args, rounds, &Measured { kinds, packets, workers, leaked }))
}

/// Loses packets until it is dropped.
fn losing() -> Result<Impair, BenchError> {
    let config =
        ImpairConfig { queue_bytes_max: QUEUE_BYTES_MAX, mark_above_bytes: None, loss: LOSS };
    let mut port = Impair::new(INTERFACE, &config)?;
    port.add_exit(INTERFACE)?;
    Ok(port)
}

/// How many workers there are, and how many of their places stay taken though nobody asks.
fn left_taken(operator: &Operator) -> Result<(u32, u64), BenchError> {
    let clock = SystemClock::default();
    let give_up_at = clock.now() + FREE_MAX;
    loop {
        let counts = operator.counts()?;
        if counts.outstanding == 0 || clock.now() > give_up_at {
            return Ok((counts.workers, counts.outstanding));
        }
        std::thread::sleep(LOOK);
    }
}
