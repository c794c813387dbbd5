//! eRPC's Table 5 and its neighbours in simulation: `incast [OPTION VALUE]…`; `incast help` lists
//! the options. Prints a table, or with `--json` one JSON object a line.

use std::process::ExitCode;

use petasos_base::Clock;
use petasos_proto::{CongestionConfig, Recovery};
use petasos_sim::incast::{self, IncastConfig, IncastResult, VictimConfig};
use petasos_sim::{BufferConfig, LeafSpine};

const USAGE: &str = "\
usage: incast [OPTION VALUE]…
  --senders N,N,…    incast degrees (20,50,100)
  --hosts N          100 or 1000 (100)
  --shared MB        shared switch buffers, in MB (12)
  --alpha X          dynamic threshold of shared buffers (8)
  --port KB          static buffers of so much per port, in place of shared ones
  --mark KB          ECN: mark above so much in a port's queue
  --credits N        packets in flight per session (32)
  --payload BYTES    message bytes per packet (1024)
  --request BYTES    length of a request (8388608)
  --control A,A,…    none, timely, swift or dctcp: senders take them in turn (swift)
  --recovery NAME    selective or go-back-n (selective)
  --loss P           packets lost, of those on each host's link (0)
  --victims BYTES    calls of so many bytes each way beside the incast
  --peers N          threads that each of them calls, at random (16)
  --warm-up MS       virtual time before measuring (5)
  --measure MS       virtual time of measuring (20)
  --seed N           whence randomness comes (1)
  --drain yes        afterwards let every call end, and check that each was handled once
  --json yes         JSON, one object for each degree";

struct Arguments {
    config: IncastConfig,
    senders: Vec<u32>,
    json: bool,
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(mistake) => {
            eprintln!("{mistake}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if !arguments.json {
        println!(
            "{:>7} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>8}",
            "senders",
            "Gbit/s",
            "p50 µs",
            "p99 µs",
            "fairness",
            "drops",
            "marks",
            "resent",
            "timeouts",
            "vict. p50",
            "vict. p99",
            "Mhops/s",
        );
    }
    for &senders in &arguments.senders {
        let config = IncastConfig { senders, ..arguments.config.clone() };
        let clock = Clock::system();
        let begin = clock.now();
        match incast::run(&config) {
            Ok(result) if arguments.json => print_json(&result),
            Ok(result) => print_row(&result, clock.now().nanos_since(begin)),
            Err(violation) => {
                eprintln!("{senders} senders, seed {}: {violation}", config.seed);
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn print_json(result: &IncastResult) {
    println!("{}", serde_json::to_string(result).expect("a result is plain data"));
}

fn print_row(result: &IncastResult, nanos: u64) {
    let rtt = result.rtt.unwrap_or_default();
    let traffic = &result.traffic;
    let victims = result.victims.and_then(|victims| victims.latency).unwrap_or_default();
    println!(
        "{:>7} {:>9.2} {:>9.1} {:>9.1} {:>9.4} {:>8} {:>8} {:>8} {:>8} {:>9.1} {:>9.1} {:>8.2}",
        result.senders,
        result.goodput_gbps,
        rtt.p50_us,
        rtt.p99_us,
        result.fairness,
        traffic.drops(),
        traffic.marks,
        traffic.retransmissions,
        traffic.timeouts,
        victims.p50_us,
        victims.p99_us,
        traffic.packet_hops as f64 * 1e3 / nanos as f64,
    );
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let config = IncastConfig::table_5(1);
    let mut arguments = Arguments { config, senders: vec![20, 50, 100], json: false };
    let mut buffer = BufferConfig::dynamic(12_000_000, 8.0);
    let mut loss = 0.0;
    while let Some(option) = words.next() {
        let value = words.next().ok_or_else(|| format!("{option} needs a value"))?;
        match option.as_str() {
            "--shared" => buffer.pool_bytes = number::<u64>(&value)? * 1_000_000,
            "--alpha" => buffer.alpha = number(&value)?,
            "--port" => buffer = BufferConfig::per_port(number::<u64>(&value)? * 1000),
            "--mark" => buffer = buffer.marking_above(number::<u64>(&value)? * 1000),
            "--loss" => loss = number(&value)?,
            _ => set(&mut arguments, &option, &value)?,
        }
    }
    let shape = arguments.config.shape.with_buffer(buffer);
    arguments.config.shape = shape;
    arguments.config.shape.host_link.faults.loss = loss;
    Ok(arguments)
}

fn set(arguments: &mut Arguments, option: &str, value: &str) -> Result<(), String> {
    let config = &mut arguments.config;
    match (option, value) {
        ("--senders", list) => {
            arguments.senders = list.split(',').map(number).collect::<Result<_, _>>()?;
        }
        ("--hosts", "100") => config.shape = LeafSpine::hundred_hosts(),
        ("--hosts", "1000") => config.shape = LeafSpine::thousand_hosts(),
        ("--credits", n) => config.session.credits = number(n)?,
        ("--payload", n) => config.session.payload_bytes = number(n)?,
        ("--request", n) => config.request_bytes = number(n)?,
        ("--control", list) => {
            config.mix = list.split(',').map(congestion).collect::<Result<_, _>>()?;
            config.session.congestion = config.mix[0];
        }
        ("--recovery", "selective") => config.session.recovery = Recovery::Selective,
        ("--recovery", "go-back-n") => config.session.recovery = Recovery::GoBackN,
        ("--victims", n) => {
            let bytes = number(n)?;
            let before = config.victims.unwrap_or_default();
            let victims = VictimConfig { request_bytes: bytes, response_bytes: bytes, ..before };
            config.victims = Some(victims);
        }
        ("--peers", n) => config.victims.get_or_insert_default().peers = number(n)?,
        ("--warm-up", ms) => config.warm_up_nanos = number::<u64>(ms)? * 1_000_000,
        ("--measure", ms) => config.measured_nanos = number::<u64>(ms)? * 1_000_000,
        ("--seed", n) => config.seed = number(n)?,
        ("--drain", "yes") => config.drain = true,
        ("--json", "yes") => arguments.json = true,
        _ => return Err(format!("{option} {value} is not known")),
    }
    Ok(())
}

fn congestion(name: &str) -> Result<CongestionConfig, String> {
    match name {
        "none" => Ok(CongestionConfig::none()),
        "timely" => Ok(CongestionConfig::timely()),
        "swift" => Ok(CongestionConfig::swift()),
        "dctcp" => Ok(CongestionConfig::dctcp()),
        _ => Err(format!("no congestion control {name}")),
    }
}

fn number<T: core::str::FromStr>(word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("{word} is not a number that fits"))
}
