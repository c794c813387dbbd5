//! `petasos bench incast`: the experiments of eRPC's Table 5 and related ones, in simulation.
//!
//! Many senders of large requests share one receiver's link. The results are the link's utilization
//! and the queue's length, with and without congestion control, and the effect on small calls at
//! the same time. The simulated hosts run the same protocol code as the processes of the other
//! experiments. The result of a seed is the same on every machine.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use petasos_proto::{CongestionConfig, Recovery};
use petasos_report::{Column, Latency, Machine, Progress, Table, significant};
use petasos_sim::incast::{self, IncastConfig, IncastResult, VictimConfig};
use petasos_sim::{BufferConfig, LeafSpine};
use serde_json::{Value, json};

use super::publish;
use crate::error::BenchError;

/// Simulate many senders of large requests to one receiver (eRPC, Table 5)
#[derive(Args, Clone, Debug)]
pub struct IncastArgs {
    /// How many senders, one run for each
    #[arg(long, value_delimiter = ',', default_values_t = [20, 50, 100])]
    senders: Vec<u32>,
    /// Congestion control, one run for each: none, timely, swift or dctcp. With several joined by
    /// "+", the senders use them in turn
    #[arg(long, value_delimiter = ',', default_value = "swift,none")]
    control: Vec<Control>,
    /// Hosts in the network: 100 or 1000
    #[arg(long, default_value_t = 100, value_parser = parse_hosts)]
    hosts: u32,
    /// Buffer memory that the ports of a switch share, in megabytes
    #[arg(long, default_value_t = 12, conflicts_with = "port_kb")]
    shared_mb: u64,
    /// Small buffers per port instead of shared ones, in kilobytes (IRN's setting)
    #[arg(long)]
    port_kb: Option<u64>,
    /// Mark packets (ECN) above this much in a port's queue, in kilobytes
    #[arg(long)]
    mark_kb: Option<u64>,
    /// During the incast, calls of this many bytes each way between the other hosts
    #[arg(long)]
    victims: Option<u32>,
    /// Other hosts that each victim calls, at random
    #[arg(long, default_value_t = 16, requires = "victims")]
    peers: u32,
    /// Probability of losing each packet, on every host's link
    #[arg(long, default_value_t = 0.0)]
    loss: f64,
    /// Go-back-N instead of selective retransmission
    #[arg(long)]
    go_back_n: bool,
    /// Virtual time measured, after 5 ms of warm-up, in milliseconds
    #[arg(long, default_value_t = 20)]
    measured_ms: u64,
    /// The seed of all randomness
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also write the result as JSON to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Print the result as JSON instead of a table
    #[arg(long)]
    print_json: bool,
}

/// The algorithms that the senders of a run use in turn.
#[derive(Clone, Debug)]
struct Control {
    name: String,
    mix: Vec<CongestionConfig>,
}

impl FromStr for Control {
    type Err = String;

    fn from_str(name: &str) -> Result<Control, String> {
        let mix = name.split('+').map(|name| match name {
            "none" => Ok(CongestionConfig::none()),
            "timely" => Ok(CongestionConfig::timely()),
            "swift" => Ok(CongestionConfig::swift()),
            "dctcp" => Ok(CongestionConfig::dctcp()),
            _ => Err(format!("`{name}` is none of none, timely, swift, dctcp")),
        });
        Ok(Control { name: name.to_owned(), mix: mix.collect::<Result<_, _>>()? })
    }
}

fn parse_hosts(word: &str) -> Result<u32, String> {
    match word {
        "100" => Ok(100),
        "1000" => Ok(1000),
        _ => Err("networks of 100 and of 1000 hosts are described".to_owned()),
    }
}

/// The results of eRPC on its cluster (its Table 5): senders, whether controlled, Gbit/s, median
/// and 99th percentile of the round-trip time in microseconds.
const ERPC: [(u32, bool, f64, f64, f64); 6] = [
    (20, true, 21.8, 39.0, 67.0),
    (20, false, 23.1, 202.0, 204.0),
    (50, true, 18.4, 34.0, 174.0),
    (50, false, 23.0, 524.0, 524.0),
    (100, true, 22.8, 349.0, 969.0),
    (100, false, 23.0, 1056.0, 1060.0),
];

/// Runs every combination, and prints the results.
pub fn run(args: &IncastArgs) -> Result<(), BenchError> {
    args.check()?;
    let mut rows = Vec::new();
    let runs = args.senders.len() * args.control.len();
    let mut progress = Progress::new("incast", runs as u64);
    for &senders in &args.senders {
        for control in &args.control {
            let result = incast::run(&args.config(senders, control));
            let result = result.map_err(|violation| {
                format!("{senders} senders, {}, seed {}: {violation}", control.name, args.seed)
            })?;
            rows.push((control, result));
            progress.set(rows.len() as u64);
        }
    }
    progress.finish("done");
    publish(args, &rows)
}

impl IncastArgs {
    fn check(&self) -> Result<(), BenchError> {
        if self.senders.contains(&0) {
            return Err("an incast has senders: --senders 20,50,100".into());
        }
        if !(0.0..1.0).contains(&self.loss) {
            return Err("--loss is a probability, at least 0 and below 1".into());
        }
        if self.measured_ms == 0 || self.victims == Some(0) || self.peers == 0 {
            return Err("--measured-ms, --victims and --peers are at least 1".into());
        }
        let marks = self.mark_kb.is_some();
        let dctcp = self.control.iter().any(|control| control.name.contains("dctcp"));
        if dctcp && !marks {
            return Err("dctcp answers marks, and no switch sets any: add --mark-kb 80".into());
        }
        Ok(())
    }

    fn config(&self, senders: u32, control: &Control) -> IncastConfig {
        let mut config = IncastConfig::table_5(senders);
        let shape = match self.hosts {
            1000 => LeafSpine::thousand_hosts(),
            _ => LeafSpine::hundred_hosts(),
        };
        let buffer = match self.port_kb {
            Some(kb) => BufferConfig::per_port(kb * 1000),
            None => BufferConfig::dynamic(self.shared_mb * 1_000_000, 8.0),
        };
        let marking = self.mark_kb.map(|kb| buffer.marking_above(kb * 1000));
        config.shape = shape.with_buffer(marking.unwrap_or(buffer));
        config.shape.host_link.faults.loss = self.loss;
        config.mix.clone_from(&control.mix);
        config.session.congestion = control.mix[0];
        if self.go_back_n {
            config.session.recovery = Recovery::GoBackN;
        }
        config.victims = self.victims.map(|bytes| VictimConfig {
            request_bytes: bytes,
            response_bytes: bytes,
            peers: self.peers,
        });
        config.measured_nanos = self.measured_ms * 1_000_000;
        config.seed = self.seed;
        config
    }

    fn parameters(&self) -> Value {
        json!({
            "senders": self.senders,
            "control": self.control.iter().map(|control| &control.name).collect::<Vec<_>>(),
            "hosts": self.hosts,
            "shared_mb": self.shared_mb,
            "port_kb": self.port_kb,
            "mark_kb": self.mark_kb,
            "victims_bytes": self.victims,
            "peers": self.peers,
            "loss": self.loss,
            "recovery": if self.go_back_n { "go-back-n" } else { "selective" },
            "measured_ms": self.measured_ms,
            "seed": self.seed,
        })
    }
}

fn publish(args: &IncastArgs, rows: &[(&Control, IncastResult)]) -> Result<(), BenchError> {
    let row = |(control, result): &(&Control, IncastResult)| {
        let mut row = serde_json::to_value(result).expect("a result is plain data");
        row["control"] = json!(control.name);
        row
    };
    let json = json!({
        "experiment": "incast",
        "parameters": args.parameters(),
        "machine": Machine::read(),
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
    });
    publish::publish((args.json.as_deref(), args.print_json), &json, || {
        table(args, rows).print()?;
        println!("simulated: {} hosts at 25 Gbit/s, two tiers, 2:1 oversubscribed;", args.hosts);
        println!(
            "in brackets what eRPC's Table 5 reports of its cluster, with and without control"
        );
        Ok(())
    })
}

fn table(args: &IncastArgs, rows: &[(&Control, IncastResult)]) -> Table {
    let mut columns = vec![
        Column::number("Senders", ""),
        Column::text("Control"),
        Column::number("Goodput", "Gbit/s"),
        Column::number("RTT p50", "µs"),
        Column::number("RTT p99", "µs"),
        Column::number("Fairness", "Jain"),
        Column::number("Drops", ""),
        Column::number("Marks", ""),
        Column::number("Resent", ""),
    ];
    if args.victims.is_some() {
        columns.push(Column::number("Victims p50", "µs"));
        columns.push(Column::number("Victims p99", "µs"));
    }
    let mut table = Table::new(columns);
    for (control, result) in rows {
        table.push(cells(control, result));
    }
    table
}

fn cells(control: &Control, result: &IncastResult) -> Vec<String> {
    let controlled = control.name != "none";
    let erpc = ERPC.iter().find(|row| (row.0, row.1) == (result.senders, controlled));
    let beside = |value: f64, theirs: Option<f64>| match theirs {
        Some(theirs) => format!("{} ({theirs})", significant(value)),
        None => significant(value),
    };
    let rtt = result.rtt.unwrap_or_default();
    let traffic = &result.traffic;
    let mut cells = vec![
        result.senders.to_string(),
        control.name.clone(),
        beside(result.goodput_gbps, erpc.map(|row| row.2)),
        beside(rtt.p50_us, erpc.map(|row| row.3)),
        beside(rtt.p99_us, erpc.map(|row| row.4)),
        format!("{:.2}", result.fairness),
        traffic.drops().to_string(),
        traffic.marks.to_string(),
        traffic.retransmissions.to_string(),
    ];
    if let Some(victims) = result.victims {
        let Latency { p50_us, p99_us, .. } = victims.latency.unwrap_or_default();
        cells.extend([significant(p50_us), significant(p99_us)]);
    }
    cells
}
