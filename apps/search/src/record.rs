//! `search record`: answers many queries one after another, and writes down how long each took.

use std::path::PathBuf;

use clap::Args;
use petasos_base::SystemClock;

use crate::answer::{Answer, HITS};
use crate::ask;
use crate::engine::Engine;
use crate::error::Failed;
use crate::query::{Drawn, draw};
use crate::recording::{self, Record};
use crate::source::CorpusArgs;

/// Each query is answered so often; the shortest time counts, as others were disturbed.
const TIMES: usize = 3;

/// Which queries are drawn
#[derive(Args, Clone, Debug)]
pub struct QueriesArgs {
    /// How many queries
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub count: u32,
    /// The same number draws the same queries from the same dictionaries
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
}

/// Answer many queries, one after another in one thread, and write answers and times to a file
#[derive(Args, Clone, Debug)]
pub struct RecordArgs {
    /// The file to write, for `search serve --recording`
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    queries: QueriesArgs,
    #[command(flatten)]
    corpus: CorpusArgs,
}

/// Records.
///
/// # Errors
/// If the corpus cannot be read, or the file not be written.
pub fn record(args: &RecordArgs) -> Result<(), Failed> {
    let engine = args.corpus.engine()?;
    let drawn = draw(engine.corpus(), args.queries.count as usize, args.queries.seed);
    let clock = SystemClock::default();
    let records = drawn.into_iter().map(|drawn| record_one(&engine, &clock, drawn));
    let records = records.collect::<Result<Vec<_>, _>>()?;
    recording::write(&args.out, &records)?;
    ask::print(&summary(&records))
}

fn record_one(engine: &Engine, clock: &SystemClock, drawn: Drawn) -> Result<Record, Failed> {
    let (mut took_ns, mut answer) = (u64::MAX, Answer::default());
    for _ in 0..TIMES {
        let begun = clock.now();
        answer = Answer::find(engine, &drawn.text, HITS)?;
        took_ns = took_ns.min((clock.now() - begun).as_nanos() as u64);
    }
    Ok(Record { query: drawn.text, kind: drawn.kind.to_owned(), took_ns, answer })
}

/// How many were recorded, and how long they took.
fn summary(records: &[Record]) -> String {
    let mut times: Vec<u64> = records.iter().map(|record| record.took_ns).collect();
    times.sort_unstable();
    let us = |ns: u64| ns as f64 / 1000.0;
    let at = |part: f64| times.get((times.len() as f64 * part) as usize).map_or(0.0, |ns| us(*ns));
    let mean = us(times.iter().sum()) / times.len().max(1) as f64;
    format!(
        "{} queries: mean {mean:.0} µs, median {:.0} µs, 99 % {:.0} µs, longest {:.0} µs\n",
        times.len(),
        at(0.5),
        at(0.99),
        times.last().map_or(0.0, |ns| us(*ns)),
    )
}
