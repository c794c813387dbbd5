//! `petasos bench contention`: the rate while other processes compete for the same cores, and the
//! recovery time afterwards.
//!
//! A transport that mistakes a descheduled peer for a lost packet drowns in its own
//! retransmissions. Therefore Petasos and the raw echo, which needs no timers, take turns under the
//! same contention. These turns are long, because the scheduler's time slices are milliseconds. A
//! spinning client and a spinning server run at the same time only occasionally, so the ratio of
//! short turns would depend on the scheduler's choices.
//!
//! Before that, both are measured without contention, to choose the batch size of the raw echo,
//! which then stays fixed. Afterwards, contention ends several times in the middle of a turn of
//! Petasos.

mod competitors;
mod outcome;
mod recovery;

use std::time::Duration;

use clap::Args;
use petasos_report::{Pairs, Progress, Quantity};

use super::against::{batches, raw_rate};
use super::args::{BenchArgs, TURN, Transport};
use super::peer::Pair;
use super::result::Totals;
use super::turns::pin;
use crate::error::BenchError;
pub use competitors::Competitors;
use competitors::Role;
use outcome::Outcome;

/// Pairs of turns without contention.
const QUIET_PAIRS: usize = 10;

/// The arguments that only `contention` has.
#[derive(Args, Clone, Debug)]
pub struct ContentionArgs {
    /// With `contention`: busy processes, spread over the two cores
    #[arg(long, default_value_t = 4)]
    pub competitors: usize,
    /// With `contention`: length of a turn under it, in milliseconds
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub turn_ms: u64,
    /// With `contention`: how often it ends in the middle of a turn
    #[arg(long, default_value_t = 5)]
    pub ends: usize,
    /// Run as one of the busy processes (internal)
    #[arg(long, hide = true)]
    competitor_role: Option<Role>,
}

impl ContentionArgs {
    /// The length of a turn under contention.
    fn turn(&self) -> Duration {
        Duration::from_millis(self.turn_ms)
    }
}

/// Turns under contention.
struct Contended {
    pairs: Pairs,
    /// The totals of Petasos's turns.
    totals: Totals,
    /// Datagrams that the raw echo considered lost after a timeout.
    floor_lost: u64,
}

/// Runs the experiment, or one of its busy processes.
pub fn run(args: &BenchArgs, how: &ContentionArgs) -> Result<(), BenchError> {
    if let Some(role) = &how.competitor_role {
        return competitors::compete(role);
    }
    check(args, how)?;
    pin(0);
    let mut pair = Pair::start(args)?;
    pair.petasos()?;
    let (quiet, batch) = without_contention(args, how, &mut pair)?;
    let contended = under_contention(args, how, &mut pair, batch)?;
    let mut recoveries = Vec::new();
    let mut progress = Progress::new("recovery", how.ends as u64);
    for done in 0..how.ends {
        recoveries.push(recovery::trial(how, &mut pair)?);
        progress.set(done as u64 + 1);
    }
    progress.finish("done");
    outcome::publish(args, how, &Outcome { batch, quiet, contended, recoveries })
}

fn check(args: &BenchArgs, how: &ContentionArgs) -> Result<(), BenchError> {
    if args.transport == Transport::Loopback {
        return Err("on loopback client and server are one thread, which waits for nobody; \
                    measure contention with --transport udp, shm, xdp or auto"
            .into());
    }
    if args.connect.is_some() || args.interface.is_some() {
        return Err("contention is for cores that both sides share with others: without \
                    --connect and --interface the bench starts a server beside itself"
            .into());
    }
    if how.competitors == 0 {
        return Err("without competitors there is no contention; see `petasos bench rate`".into());
    }
    if how.ends == 0 {
        return Err("--ends is at least 1".into());
    }
    Ok(())
}

/// Short turns without competitors, and the batch size with which the raw echo was fastest.
fn without_contention(
    args: &BenchArgs,
    how: &ContentionArgs,
    pair: &mut Pair,
) -> Result<(Pairs, usize), BenchError> {
    let (batches, turn) = (batches(args), how.turn().min(TURN));
    let names: Vec<_> = batches.iter().map(ToString::to_string).collect();
    let mut pairs = Pairs::new(Quantity::OpsPerS, names.clone());
    let mut progress = Progress::new("alone", QUIET_PAIRS as u64);
    for done in 0..QUIET_PAIRS {
        let load = pair.petasos_beside(turn, || {})?.load;
        let ours = load.completed as f64 / load.whole_s;
        let mut floors = Vec::new();
        for &batch in &batches {
            floors.push(raw_rate(args, pair, batch, turn)?.ops_per_s());
        }
        pairs.push(ours, &floors).ok();
        progress.set(done as u64 + 1);
    }
    progress.finish("done");
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let best = pairs.best_floor(&names).ok_or("no turn of the raw echo measured anything")?;
    let batch = best.parse().expect("the names are numbers");
    Ok((pairs, batch))
}

/// Long turns with competitors.
fn under_contention(
    args: &BenchArgs,
    how: &ContentionArgs,
    pair: &mut Pair,
    batch: usize,
) -> Result<Contended, BenchError> {
    let turn = how.turn();
    let goal = ((args.seconds() / turn.as_secs_f64() / 2.0) as usize).max(1);
    let mut contended = Contended {
        pairs: Pairs::new(Quantity::OpsPerS, ["raw echo"]),
        totals: Totals::default(),
        floor_lost: 0,
    };
    let mut progress = Progress::new("under contention", goal as u64);
    let mut competitors = Competitors::start(how.competitors, turn * 2 * goal as u32)?;
    for done in 0..goal {
        let ours = pair.petasos_beside(turn, || {})?;
        let theirs = raw_rate(args, pair, batch, turn)?;
        let rate = ours.load.completed as f64 / ours.load.whole_s;
        contended.pairs.push(rate, &[theirs.ops_per_s()]).ok();
        contended.totals.add(&ours);
        contended.floor_lost += theirs.lost;
        progress.set(done as u64 + 1);
    }
    competitors.end();
    competitors.wait()?;
    progress.finish("done");
    Ok(contended)
}
