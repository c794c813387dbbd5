//! `petasos bench loss`: large requests with packet loss, compared with the same without loss.
//!
//! Two pairs of processes run over loopback UDP with the default configuration. One pair drops each
//! received packet with a probability, on both sides, after GRO has been split. They take turns,
//! and the result is the median ratio of neighbouring turns. There are many turns and many
//! processes, because machines are noisy. At probabilities of 1e-4 and above, a turn is long enough
//! to contain losses. Below, few turns contain any, so the output has the total number of losses.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser};
use petasos_report::{Column, Machine, Pairs, Progress, Quantity, Ratio, Table, significant};
use serde_json::{Value, json};

use super::args::BenchArgs;
use super::load;
use super::peer::Pair;
use super::publish;
use super::turns::{ServerTurn, pin};
use crate::error::BenchError;

/// Measure large requests with packet loss, compared with the same without loss
#[derive(Args, Clone, Debug)]
pub struct LossArgs {
    /// Probabilities of losing each packet, one experiment for each
    #[arg(long, value_delimiter = ',', default_value = "1e-7,1e-6,1e-5,1e-4,1e-3,1e-2")]
    losses: Vec<f64>,
    /// Request size in bytes
    #[arg(long, default_value_t = 8_000_000)]
    size: u32,
    /// Requests outstanding
    #[arg(long, default_value_t = 1)]
    window: u32,
    /// Largest datagram payload in bytes, headers of IP and UDP not counted
    #[arg(long, default_value_t = 8972)]
    datagram: u32,
    /// Length of a turn in milliseconds
    #[arg(long, default_value_t = 150)]
    turn_ms: u64,
    /// Turns with losses, per probability, and as many without
    #[arg(long, default_value_t = 50)]
    turns: u64,
    /// Go-back-N instead of selective retransmission
    #[arg(long)]
    go_back_n: bool,
    /// Also write the result as JSON to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Print the result as JSON instead of a table
    #[arg(long)]
    print_json: bool,
}

/// The goals of milestone 2: probability, and share of the bandwidth without loss.
const GOALS: [(f64, f64); 3] = [(1e-4, 0.95), (1e-3, 0.8), (1e-2, 0.5)];

/// After this many turns, both pairs of processes are restarted. The position of their memory makes
/// one of them up to a tenth faster than the other, as long as they live.
const TURNS_PER_START: u64 = 5;

/// The totals of several turns.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    packets: u64,
    /// Request packets lost on the way: those sent again, minus those that the server had already.
    lost_requests: u64,
    /// Packets from the server that were dropped.
    lost_answers: u64,
    retransmissions: u64,
    /// Packets that reached the server a second time.
    duplicates: u64,
    timeouts: u64,
    completed: u64,
    elapsed_s: f64,
}

/// The result for one probability.
struct Row {
    loss: f64,
    ratio: Ratio,
    lossy_gbit_per_s: f64,
    lossless_gbit_per_s: f64,
    totals: Totals,
}

/// Parses the command line of `petasos bench bandwidth`, on which this experiment is based.
#[derive(Parser)]
struct Bandwidth {
    #[command(flatten)]
    args: BenchArgs,
}

impl LossArgs {
    fn check(&self) -> Result<(), BenchError> {
        if self.losses.iter().any(|loss| !(0.0..1.0).contains(loss)) {
            return Err("--losses are probabilities, at least 0 and below 1".into());
        }
        if self.turns == 0 || self.turn_ms == 0 || self.size < 32 || self.window == 0 {
            return Err("--turns, --turn-ms and --window are at least 1, --size is 32".into());
        }
        Ok(())
    }

    /// The settings of a pair of processes that drop packets with this probability.
    fn bandwidth(&self, loss: f64) -> Result<BenchArgs, BenchError> {
        let options = [
            format!("--loss={loss}"),
            format!("--size={}", self.size),
            format!("--window={}", self.window),
            format!("--datagram={}", self.datagram),
        ];
        let words = ["petasos".to_owned(), "bandwidth".to_owned()].into_iter().chain(options);
        let words = words.chain(self.go_back_n.then(|| "--go-back-n".to_owned()));
        Ok(Bandwidth::try_parse_from(words)?.args)
    }

    fn parameters(&self) -> Value {
        json!({
            "losses": self.losses,
            "size_bytes": self.size,
            "window": self.window,
            "datagram_bytes_max": self.datagram,
            "turn_ms": self.turn_ms,
            "turns": self.turns,
            "recovery": if self.go_back_n { "go-back-n" } else { "selective" },
        })
    }
}

/// Runs every probability, and prints the results.
pub fn run(args: &LossArgs) -> Result<(), BenchError> {
    args.check()?;
    pin(0);
    let mut rows = Vec::new();
    let mut progress = Progress::new("loss", args.losses.len() as u64);
    for &loss in &args.losses {
        rows.push(measure(args, loss)?);
        progress.set(rows.len() as u64);
    }
    progress.finish("done");
    publish(args, &rows)
}

fn measure(args: &LossArgs, loss: f64) -> Result<Row, BenchError> {
    let mut pairs = Pairs::new(Quantity::GbitPerS, ["lossless"]);
    let mut totals = Totals::default();
    let mut processes = Processes::start(args, loss)?;
    for index in 0..args.turns {
        if index > 0 && index % TURNS_PER_START == 0 {
            drop(processes);
            processes = Processes::start(args, loss)?;
        }
        // The order alternates, so that a machine that gets busier favours neither side.
        let (with, without) = if index % 2 == 0 {
            let without = turn(args, &mut processes.lossless)?;
            (turn(args, &mut processes.lossy)?, without)
        } else {
            (turn(args, &mut processes.lossy)?, turn(args, &mut processes.lossless)?)
        };
        pairs.push(with.gbit_per_s(args), &[without.gbit_per_s(args)]).ok();
        totals.add(&with);
    }
    let ratio = pairs.ratio("lossless").ok_or("no turn without losses measured anything")?;
    Ok(Row {
        loss,
        ratio,
        lossy_gbit_per_s: pairs.petasos_median().unwrap_or(0.0),
        lossless_gbit_per_s: pairs.floor_median("lossless").unwrap_or(0.0),
        totals,
    })
}

/// The two pairs of processes. Each has had a turn.
struct Processes {
    lossy: Pair,
    lossless: Pair,
}

impl Processes {
    fn start(args: &LossArgs, loss: f64) -> Result<Processes, BenchError> {
        let lossless = Pair::start(&args.bandwidth(0.0)?)?;
        let lossy = Pair::start(&args.bandwidth(loss)?)?;
        let mut processes = Processes { lossy, lossless };
        turn(args, &mut processes.lossless)?;
        turn(args, &mut processes.lossy)?;
        Ok(processes)
    }
}

/// One turn of a pair.
fn turn(args: &LossArgs, pair: &mut Pair) -> Result<Totals, BenchError> {
    let duration = Duration::from_millis(args.turn_ms);
    let before = pair.client.stats();
    let (load, server) =
        pair.turn(ServerTurn::Petasos, |pair| load::turn(&mut pair.client, duration))?;
    let after = pair.client.stats();
    let (client, earlier) = (after.client, before.client);
    let retransmissions = client.retransmissions - earlier.retransmissions;
    let duplicates = server.traffic.duplicates;
    Ok(Totals {
        packets: client.request_packets - earlier.request_packets,
        lost_requests: retransmissions.saturating_sub(duplicates),
        lost_answers: after.event_loop.injected_losses - before.event_loop.injected_losses,
        retransmissions,
        duplicates,
        timeouts: client.timeouts - earlier.timeouts,
        completed: load.completed,
        elapsed_s: load.elapsed_s,
    })
}

impl Totals {
    fn add(&mut self, turn: &Totals) {
        self.packets += turn.packets;
        self.lost_requests += turn.lost_requests;
        self.lost_answers += turn.lost_answers;
        self.retransmissions += turn.retransmissions;
        self.duplicates += turn.duplicates;
        self.timeouts += turn.timeouts;
        self.completed += turn.completed;
        self.elapsed_s += turn.elapsed_s;
    }

    fn gbit_per_s(&self, args: &LossArgs) -> f64 {
        self.completed as f64 * f64::from(args.size) * 8.0 / 1e9 / self.elapsed_s
    }
}

impl Row {
    fn goal(&self) -> Option<f64> {
        GOALS.iter().find(|(loss, _)| *loss == self.loss).map(|(_, goal)| *goal)
    }

    fn json(&self) -> Value {
        let Totals { packets, retransmissions, duplicates, timeouts, completed, .. } = self.totals;
        json!({
            "loss": self.loss,
            "ratio": self.ratio,
            "goal": self.goal(),
            "gbit_per_s": self.lossy_gbit_per_s,
            "lossless_gbit_per_s": self.lossless_gbit_per_s,
            "completed": completed,
            "packets": packets,
            "lost_requests": self.totals.lost_requests,
            "lost_answers": self.totals.lost_answers,
            "retransmissions": retransmissions,
            "duplicates": duplicates,
            "timeouts": timeouts,
        })
    }

    fn cells(&self) -> Vec<String> {
        vec![
            format!("{:e}", self.loss),
            significant(self.lossy_gbit_per_s),
            significant(self.lossless_gbit_per_s),
            format!("{:.3}", self.ratio.median),
            self.goal().map_or("–".to_owned(), |goal| goal.to_string()),
            self.totals.packets.to_string(),
            self.totals.lost_requests.to_string(),
            self.totals.lost_answers.to_string(),
            self.totals.duplicates.to_string(),
            self.totals.timeouts.to_string(),
        ]
    }
}

fn publish(args: &LossArgs, rows: &[Row]) -> Result<(), BenchError> {
    let json = json!({
        "experiment": "loss",
        "parameters": args.parameters(),
        "machine": Machine::read(),
        "rows": rows.iter().map(Row::json).collect::<Vec<_>>(),
    });
    publish::publish((args.json.as_deref(), args.print_json), &json, || print(args, rows))
}

fn print(args: &LossArgs, rows: &[Row]) -> Result<(), BenchError> {
    let mut table = Table::new([
        Column::text("Loss"),
        Column::number("Payload", "Gbit/s"),
        Column::number("lossless", "Gbit/s"),
        Column::number("Ratio", ""),
        Column::number("Goal", ""),
        Column::number("Packets", ""),
        Column::number("Lost", ""),
        Column::number("Lost answers", ""),
        Column::number("Duplicates", ""),
        Column::number("Timeouts", ""),
    ]);
    for row in rows {
        table.push(row.cells());
    }
    table.print()?;
    println!(
        "requests of {} bytes, datagrams of {}; ratio: median of {} pairs of turns of {} ms",
        args.size, args.datagram, args.turns, args.turn_ms
    );
    Ok(())
}
