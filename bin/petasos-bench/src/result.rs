//! Results of turns, and their output.

use petasos_report::with_si_prefix;
use petasos_report::{
    Column, ExperimentResult, Measured, Quantity, Table, duration_us, significant,
};

use super::args::BenchArgs;
use super::load::LoadTurn;
use super::turns::{ServerReport, Traffic};
use crate::error::BenchError;

/// One Petasos turn, both sides.
#[derive(Clone, Debug)]
pub struct PetasosTurn {
    pub load: LoadTurn,
    pub server: ServerReport,
    /// What the client sent and received.
    pub traffic: Traffic,
}

/// Sums over all Petasos turns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    rpcs: u64,
    cpu_s: f64,
    /// The traffic of both sides.
    pub traffic: Traffic,
}

impl Totals {
    pub fn add(&mut self, turn: &PetasosTurn) {
        self.rpcs += turn.load.completed;
        self.cpu_s += turn.load.cpu_s + turn.server.cpu_s;
        self.traffic.add(turn.traffic);
        self.traffic.add(turn.server.traffic);
    }

    /// Adds the costs per RPC to `result`.
    pub fn apply(&self, mut result: ExperimentResult) -> ExperimentResult {
        let rpcs = self.rpcs.max(1) as f64;
        result.cpu_s_per_million = Some(self.cpu_s / rpcs * 1e6);
        result.packets_per_rpc = Some(self.traffic.packets as f64 / rpcs);
        result.syscalls_per_rpc = Some(self.traffic.syscalls as f64 / rpcs);
        result
    }
}

/// Prints the result, and writes the requested files.
pub fn publish(args: &BenchArgs, mut result: ExperimentResult) -> Result<(), BenchError> {
    let extra = std::mem::take(&mut result.parameters);
    result.parameters = args.parameters();
    result.parameters.extend(extra);
    if let Some(path) = &args.json {
        result.write(path)?;
    }
    if args.print_json {
        print!("{}", result.to_json());
        return Ok(());
    }
    println!("{}", result.machine);
    table(&result).print()?;
    let ratio = |name: &str, ratio: Option<f64>| {
        if let Some(ratio) = ratio {
            println!("{name}: {ratio:.3} (median of {} pairs of turns)", result.pairs.len());
        }
    };
    ratio("ratio to the floor", result.ratio);
    ratio("ratio to one datagram per call", result.ratio_single);
    println!(
        "per RPC: {} packets, {} system calls, {} µs of processor time (both sides)",
        significant(result.packets_per_rpc.unwrap_or(0.0)),
        significant(result.syscalls_per_rpc.unwrap_or(0.0)),
        significant(result.cpu_s_per_million.unwrap_or(0.0)),
    );
    Ok(())
}

fn table(result: &ExperimentResult) -> Table {
    let mut table = Table::new([
        Column::text("Contender"),
        Column::number("p50", ""),
        Column::number("p99", ""),
        Column::number("p99.9", ""),
        Column::number(quantity_name(result.quantity), unit(result.quantity)),
    ]);
    let rows = [
        ("Petasos", Some(result.petasos)),
        ("floor", result.floor),
        ("one datagram per call", result.single),
    ];
    for (name, measured) in rows {
        if let Some(measured) = measured {
            table.push(row(name, &measured));
        }
    }
    table
}

fn row(name: &str, measured: &Measured) -> [String; 5] {
    let time = |us: Option<f64>| us.map_or("–".to_owned(), duration_us);
    let rate = measured.ops_per_s.map(with_si_prefix);
    let rate = rate.or_else(|| measured.gbit_per_s.map(significant));
    [
        name.to_owned(),
        time(measured.p50_us),
        time(measured.p99_us),
        time(measured.p999_us),
        rate.unwrap_or("–".to_owned()),
    ]
}

fn quantity_name(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::GbitPerS => "Payload",
        Quantity::OpsPerS | Quantity::LatencyUs => "Rate",
    }
}

fn unit(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::GbitPerS => "Gbit/s",
        Quantity::OpsPerS | Quantity::LatencyUs => "1/s",
    }
}
