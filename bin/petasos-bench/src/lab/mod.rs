//! `petasos bench lab`: the effect of the guidelines of Kalia's thesis for the use of NICs (its
//! chapter 3) on this host, together with the thesis's figures.
//!
//! Each guideline is tried with each kind of queue that replaces the NIC's here. A pair is the same
//! small experiment against the guideline and with it, in alternating turns. The result is the
//! median ratio of neighbouring turns. The experiments are in `petasos_floor::lab`; this module has
//! one file per guideline with the comparisons and the requirements. A pair that cannot run on this
//! host or as this user is reported as skipped, with advice.

mod completions;
mod connections;
mod doorbells;
mod guideline;
mod inlining;
mod pages;
mod queues;
mod result;
mod turns;
mod veth;

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use petasos_base::Clock;
use petasos_floor::lab::{FEW, Switch};
use petasos_report::Progress;

use super::turns::pin;
use crate::error::BenchError;
use guideline::Guideline;
use result::Row;

/// Try the guidelines for the use of NICs (Kalia's thesis, chapter 3) on this host
#[derive(Args, Clone, Debug)]
pub struct LabArgs {
    /// Pairs to measure [default: all]
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(names()))]
    only: Vec<String>,
    /// Seconds to measure each pair, all turns together; longer if other processes use the cores
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Memory over which packets are spread, for pairs where that matters, in megabytes
    #[arg(long, default_value_t = 256)]
    memory_mb: usize,
    /// The number of connections, for pairs with many
    #[arg(long, default_value_t = 20_000)]
    connections: usize,
    /// Also write the result as JSON to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Print the result as JSON instead of a table
    #[arg(long)]
    print_json: bool,
}

/// A guideline on one kind of queue or memory.
struct Pair {
    /// The name on the command line and in the JSON.
    name: &'static str,
    guideline: &'static Guideline,
    /// The queue or memory that is used.
    over: &'static str,
    /// The procedure against the guideline; [`MANY`] stands for the number of connections.
    off: &'static str,
    /// The procedure with the guideline.
    on: &'static str,
    /// The unit of the operations.
    operations: &'static str,
    /// The explanation that is shown if the guideline has little or no effect.
    why: &'static str,
    /// Sets up the experiment, or returns why that is impossible.
    open: fn(&Bench) -> Result<Box<dyn Switch>, BenchError>,
}

/// The context for setting up pairs.
struct Bench<'a> {
    args: &'a LabArgs,
    /// Cores on which this process may run.
    cores: usize,
}

/// A placeholder for the number of connections.
const MANY: &str = "MANY";
/// The core for a second thread.
const PARTNER_CORE: usize = 1;

impl Pair {
    /// The procedure against the guideline.
    fn off(&self, args: &LabArgs) -> String {
        self.off.replace(MANY, &args.connections.to_string())
    }
}

impl Bench<'_> {
    /// The core for a partner thread that spins.
    fn partner_core(&self) -> Result<usize, BenchError> {
        if self.cores < 2 {
            return Err(
                "the other end of a ring spins on a core of its own; there is but one, so \
                 allow this process a second"
                    .into(),
            );
        }
        Ok(PARTNER_CORE)
    }
}

/// All pairs, in the order of the guidelines.
fn pairs() -> impl Iterator<Item = &'static Pair> {
    let doorbells = doorbells::PAIRS.iter().chain(&completions::PAIRS);
    let memory = pages::PAIRS.iter().chain(&connections::PAIRS);
    doorbells.chain(&inlining::PAIRS).chain(&queues::PAIRS).chain(memory)
}

fn names() -> Vec<&'static str> {
    pairs().map(|pair| pair.name).collect()
}

/// Measures the requested pairs, and prints the results.
pub fn run(args: &LabArgs) -> Result<(), BenchError> {
    args.check()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    pin(0);
    let (bench, clock) = (Bench { args, cores }, Clock::system());
    let chosen: Vec<_> = pairs().filter(|pair| args.chose(pair)).collect();
    let mut progress = Progress::new("lab", chosen.len() as u64);
    let mut rows = Vec::new();
    for pair in chosen {
        let outcome = (pair.open)(&bench)
            .and_then(|mut experiment| turns::measure(&mut *experiment, args.seconds, &clock));
        rows.push(Row { pair, outcome: outcome.map_err(|error| error.to_string()) });
        progress.set(rows.len() as u64);
    }
    progress.finish("done");
    result::publish(args, &rows)
}

impl LabArgs {
    fn check(&self) -> Result<(), BenchError> {
        if !(self.seconds > 0.0 && self.seconds <= SECONDS_MAX) {
            return Err("--seconds is more than 0 and at most 3600".into());
        }
        if !(1..=MEMORY_MB_MAX).contains(&self.memory_mb) {
            return Err("--memory-mb is from 1 to 65536".into());
        }
        if !(FEW..=CONNECTIONS_MAX).contains(&self.connections) {
            return Err("--connections is from 10 to 1000000".into());
        }
        Ok(())
    }

    fn chose(&self, pair: &Pair) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == pair.name)
    }

    fn memory_bytes(&self) -> usize {
        self.memory_mb * 1_000_000
    }
}

const SECONDS_MAX: f64 = 3600.0;
const MEMORY_MB_MAX: usize = 65_536;
const CONNECTIONS_MAX: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_guideline_is_tried() {
        let mut names = names();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for guideline in guideline::ALL {
            assert!(pairs().any(|pair| pair.guideline == guideline), "{}", guideline.name);
        }
    }
}
