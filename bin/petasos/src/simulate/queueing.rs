//! `petasos simulate queueing`: the policies of the router's core, with simulated workers.

use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use clap::Args;
use petasos_cli::failure::Failure;
use petasos_cli::output;
use petasos_queueing::{Discipline, Effort, Model, ModelError, Service, simulate_all};
use petasos_report::{Progress, write_atomically};

use super::outcome::{Outcome, Point};

/// The most points of a run.
const POINTS_MAX: usize = 100_000;

/// The arguments of `petasos simulate queueing`. Without any, it is the first figure of R2P2's
/// paper.
#[derive(Args)]
pub struct QueueingArgs {
    /// Distributions of service times, all with the mean 1: deterministic, exponential, bimodal1
    /// (90 % take 0.5 and 10 % 5.5), bimodal2 (10 % take ten times as long as the rest).
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    #[arg(default_value = "deterministic,exponential,bimodal1")]
    dist: Vec<Service>,
    /// Policies: random, pl2 (the better of two), rr (in turn), jsq (the shortest queue), jbsqN
    /// (the same with at most N requests per worker), single (one queue, M/G/k: the ideal).
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    #[arg(default_value = "random,pl2,rr,jsq,jbsq2,single")]
    policy: Vec<Discipline>,
    /// The parts of the workers' time that requests need.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    #[arg(default_value = "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.75,0.8,0.85,0.9,0.95")]
    loads: Vec<f64>,
    /// How many workers there are.
    #[arg(long, value_name = "NUMBER", default_value_t = 16)]
    workers: usize,
    /// The round trip between router and worker, in mean service times. Half of it is a request's
    /// way, and part of its latency; half of it is that of feedback. With `single`, workers have
    /// the next request at once.
    #[arg(long, value_name = "TIME", default_value_t = 0.0)]
    #[arg(allow_negative_numbers = true)]
    delay: f64,
    /// How long jsq and jbsqN hold up to 32 requests back while no worker is idle, in mean service
    /// times.
    #[arg(long, value_name = "TIME", default_value_t = 0.0)]
    #[arg(allow_negative_numbers = true)]
    hold: f64,
    /// The seed of all random numbers. The same seed gives the same results.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Simulate so many requests for each point, instead of as many as --precision demands. Whether
    /// they were enough to tell the errors is said.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// The standard error to reach, in percent of the 99th percentile; for the mean, half of it.
    #[arg(long, value_name = "PERCENT", default_value_t = Effort::default().precision * 100.0)]
    #[arg(conflicts_with = "requests")]
    precision: f64,
    /// How many points are simulated at the same time. As many as there are cores without it.
    #[arg(long, value_name = "NUMBER")]
    threads: Option<usize>,
    /// Write the points as CSV: dist,policy,load,p99,stderr,mean. `-` is standard output, instead
    /// of the table.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Print the points as one JSON object.
    #[arg(long)]
    json: bool,
}

/// Simulates all points and prints them.
pub fn run(args: &QueueingArgs) -> Result<(), Failure> {
    let is_for_stdout = args.csv.as_deref() == Some(Path::new("-"));
    if is_for_stdout && args.json {
        let advice = "name a file for one of them";
        return Err(Failure::with_advice("--csv - and --json both want standard output", advice));
    }
    let outcome = Outcome { points: points(args)?, workers: args.workers, delay: args.delay };
    if let Some(path) = args.csv.as_deref().filter(|_| !is_for_stdout) {
        write_atomically(path, outcome.csv().as_bytes())?;
    }
    match (args.json, is_for_stdout) {
        (true, _) => output::answer(format!("{:#}", outcome.json()).as_bytes()),
        (_, true) => output::answer(outcome.csv().as_bytes()),
        _ => outcome.print(),
    }
}

fn points(args: &QueueingArgs) -> Result<Vec<Point>, Failure> {
    let lists = [args.dist.len(), args.policy.len(), args.loads.len()];
    let points = lists.into_iter().fold(1, usize::saturating_mul);
    if points > POINTS_MAX {
        let what = format_args!("these are {points} points");
        return Err(Failure::with_advice(what, format_args!("{POINTS_MAX} are the most")));
    }
    let models = models(args);
    let cores = || available_parallelism().map_or(1, usize::from);
    let threads = args.threads.unwrap_or_else(cores);
    let mut progress = Progress::new("simulate queueing", models.len() as u64);
    let done = |done: usize| progress.set(done as u64);
    let latencies = simulate_all(&models, &effort(args)?, threads, done).map_err(wrong_model)?;
    progress.finish(&format!("{} points", models.len()));
    let points = models.into_iter().zip(latencies);
    Ok(points.map(|(model, latency)| Point { model, latency }).collect())
}

fn models(args: &QueueingArgs) -> Vec<Model> {
    let mut models = Vec::new();
    for service in args.dist.iter().copied() {
        for discipline in args.policy.iter().copied() {
            models.extend(args.loads.iter().map(|load| Model {
                service,
                discipline,
                workers: args.workers,
                load: *load,
                delay: args.delay,
                hold: args.hold,
            }));
        }
    }
    models
}

fn effort(args: &QueueingArgs) -> Result<Effort, Failure> {
    if let Some(requests) = args.requests {
        return Ok(Effort::requests(requests, args.seed));
    }
    if !(0.01..=100.0).contains(&args.precision) {
        let what = format_args!("--precision is {}", args.precision);
        return Err(Failure::with_advice(what, "give 0.01 to 100"));
    }
    Ok(Effort { seed: args.seed, precision: args.precision / 100.0, ..Effort::default() })
}

fn wrong_model(error: ModelError) -> Failure {
    Failure::with_advice(error, "see `petasos simulate queueing --help`")
}
