//! eRPC's section 6.3 in simulation: `all_to_all [OPTION VALUE]…`; `all_to_all help` lists the
//! options. Prints a row for each number of sessions, or one JSON object per line with `--json`.

use std::process::ExitCode;

use petasos_base::Clock;
use petasos_sim::LeafSpine;
use petasos_sim::all_to_all::{self, AllToAllConfig, AllToAllResult};

const USAGE: &str = "\
usage: all_to_all [OPTION VALUE]…
  --hosts N          10 or 100 (100)
  --threads N        threads on each host (1)
  --pair N,N,…       client sessions of each thread with each other thread (1)
  --in-flight N      calls that each thread keeps open (60)
  --credits N        packets in flight per session (8)
  --frames N         frames that a thread's receive queue holds (4096)
  --pause US         how long threads are kept off their cores, about once a millisecond (0)
  --request BYTES    length of requests (32)
  --measure US       virtual time of measuring, in microseconds (500)
  --seed N           whence randomness comes (1)
  --drain yes        afterwards let every call end, and check that each was handled once
  --json yes         JSON, one object for each number of sessions";

fn main() -> ExitCode {
    let (config, pairs, json) = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(mistake) => {
            eprintln!("{mistake}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if !json {
        println!(
            "{:>7} {:>15} {:>11} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8} {:>8}",
            "threads",
            "sessions/thread",
            "M/s per host",
            "p50 µs",
            "p99 µs",
            "p99.9 µs",
            "queue max",
            "drops",
            "resent",
            "Mhops/s",
        );
    }
    for sessions_per_pair in pairs {
        let clock = Clock::system();
        let begin = clock.now();
        match all_to_all::run(&AllToAllConfig { sessions_per_pair, ..config }) {
            Ok(result) if json => {
                println!("{}", serde_json::to_string(&result).expect("a result is plain data"));
            }
            Ok(result) => print_row(&result, clock.now().nanos_since(begin)),
            Err(violation) => {
                eprintln!("seed {}: {violation}", config.seed);
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn print_row(result: &AllToAllResult, nanos: u64) {
    let (latency, traffic) = (result.latency.unwrap_or_default(), &result.traffic);
    println!(
        "{:>7} {:>15} {:>12.2} {:>9.1} {:>9.1} {:>9.1} {:>9} {:>8} {:>8} {:>8.2}",
        result.threads,
        result.sessions_per_thread,
        result.mrps_per_host,
        latency.p50_us,
        latency.p99_us,
        latency.p999_us,
        traffic.receive_queue_frames_max,
        traffic.drops(),
        traffic.retransmissions,
        traffic.packet_hops as f64 * 1e3 / nanos as f64,
    );
}

type Arguments = (AllToAllConfig, Vec<u32>, bool);

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let (mut config, mut pairs, mut json) = (AllToAllConfig::erpc(1), vec![1], false);
    while let Some(option) = words.next() {
        let value = words.next().ok_or_else(|| format!("{option} needs a value"))?;
        match (option.as_str(), value.as_str()) {
            ("--hosts", "10") => {
                let hundred = LeafSpine::hundred_hosts();
                config.shape = LeafSpine { leaves: 2, hosts_per_leaf: 5, spines: 2, ..hundred };
            }
            ("--hosts", "100") => config.shape = LeafSpine::hundred_hosts(),
            ("--threads", n) => config.threads_per_host = number(n)?,
            ("--pair", list) => pairs = list.split(',').map(number).collect::<Result<_, _>>()?,
            ("--in-flight", n) => config.in_flight = number(n)?,
            ("--credits", n) => config.session.credits = number(n)?,
            ("--frames", n) => config.host.receive_frames = number(n)?,
            ("--pause", us) => config.host.pause_nanos = number::<u64>(us)? * 1000,
            ("--request", n) => config.request_bytes = number(n)?,
            ("--measure", us) => config.measured_nanos = number::<u64>(us)? * 1000,
            ("--seed", n) => config.seed = number(n)?,
            ("--drain", "yes") => config.drain = true,
            ("--json", "yes") => json = true,
            _ => return Err(format!("unknown option or value: {option} {value}")),
        }
    }
    Ok((config, pairs, json))
}

fn number<T: core::str::FromStr>(word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("{word} is not a number that fits"))
}
