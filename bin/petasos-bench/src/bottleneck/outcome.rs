//! The results of the processes, and their output.

use petasos_netio_xdp::ImpairStats;
use petasos_report::{Column, Histogram, Latency, Machine, Table, duration_us, significant};
use serde_json::{Value, json};

use super::probe::Probed;
use super::{BottleneckArgs, Control};
use crate::error::BenchError;
use crate::publish;

/// The result of one run.
pub struct Outcome {
    control: Control,
    clients: Vec<Client>,
    /// Packets that reached the server a second time.
    duplicates: u64,
    /// Round-trip times of probes.
    probed: Probed,
    /// Counters of the slow port during the run.
    port: Vec<(&'static str, u64)>,
    latency: Histogram,
    /// Smoothed round-trip times of sessions.
    session_rtt: Histogram,
}

/// The results of one client.
#[derive(Clone, Copy, Debug)]
struct Client {
    completed: u64,
    bytes: u64,
    elapsed_s: f64,
    packets: u64,
    retransmissions: u64,
    spurious: u64,
    timeouts: u64,
    echoes: u64,
}

impl Client {
    fn parse(report: &Value) -> Option<Client> {
        let count = |name: &str| report[name].as_u64();
        Some(Client {
            completed: count("completed")?,
            bytes: count("bytes")?,
            elapsed_s: report["elapsed_s"].as_f64()?,
            packets: count("packets")?,
            retransmissions: count("retransmissions")?,
            spurious: count("spurious")?,
            timeouts: count("timeouts")?,
            echoes: count("echoes")?,
        })
    }
}

impl Outcome {
    /// Combines the reports of a run's clients and its server with the port's counters before and
    /// after.
    pub fn new(
        control: Control,
        (reports, served): (&[String], &str),
        probed: Probed,
        (before, after): (ImpairStats, ImpairStats),
    ) -> Result<Outcome, BenchError> {
        let (mut latency, mut session_rtt) = (Histogram::new(), Histogram::new());
        let mut clients = Vec::new();
        for report in reports {
            let report: Value = serde_json::from_str(report)?;
            latency.merge(&serde_json::from_value(report["latency"].clone())?);
            session_rtt.merge(&serde_json::from_value(report["rtt"].clone())?);
            clients.push(Client::parse(&report).ok_or("a client's report makes no sense")?);
        }
        let served: Value = serde_json::from_str(served)?;
        let duplicates = served["duplicates"].as_u64();
        let duplicates = duplicates.ok_or("the server's report makes no sense")?;
        let difference = |((name, after), (_, before))| (name, after - before);
        let port = after.iter().zip(before.iter()).map(difference).collect();
        Ok(Outcome { control, clients, duplicates, probed, port, latency, session_rtt })
    }

    fn sum(&self, of: impl Fn(&Client) -> u64) -> u64 {
        self.clients.iter().map(of).sum()
    }

    /// Megabits of payload per second, of each client.
    fn rates(&self) -> impl Iterator<Item = f64> {
        self.clients.iter().map(|client| mbit_per_s(client.bytes, client.elapsed_s))
    }

    /// Megabits of payload per second, of all clients together until the last one has ended.
    fn rate(&self) -> f64 {
        let elapsed_s = self.clients.iter().map(|client| client.elapsed_s).fold(0.0, f64::max);
        mbit_per_s(self.sum(|client| client.bytes), elapsed_s)
    }

    /// Jain's index of the clients' rates: 1 if all are equal, 1/N if one client gets everything.
    fn fairness(&self) -> f64 {
        let (sum, squares) = (self.rates().sum::<f64>(), self.rates().map(|rate| rate * rate));
        let squares: f64 = squares.sum();
        if squares > 0.0 { sum * sum / squares / self.clients.len() as f64 } else { 0.0 }
    }

    fn port(&self, counter: &str) -> u64 {
        self.port.iter().find(|(name, _)| *name == counter).map_or(0, |(_, value)| *value)
    }

    fn json(&self) -> Value {
        json!({
            "control": self.control.name(),
            "mbit_per_s": self.rate(),
            "client_mbit_per_s": self.rates().collect::<Vec<_>>(),
            "client_completed": self.clients.iter().map(|each| each.completed).collect::<Vec<_>>(),
            "fairness": self.fairness(),
            "rtt": self.probed.rtt.latency(),
            "probes": self.probed.sent,
            "probes_lost": self.probed.lost,
            "session_rtt": self.session_rtt.latency(),
            "latency": self.latency.latency(),
            "port": self.port.iter().map(|(name, value)| ((*name).to_owned(), json!(value)))
                .collect::<serde_json::Map<_, _>>(),
            "packets": self.sum(|client| client.packets),
            "retransmissions": self.sum(|client| client.retransmissions),
            "spurious": self.sum(|client| client.spurious),
            "duplicates": self.duplicates,
            "timeouts": self.sum(|client| client.timeouts),
            "echoes": self.sum(|client| client.echoes),
        })
    }

    fn cells(&self) -> Vec<String> {
        let least = self.rates().fold(f64::INFINITY, f64::min);
        let most = self.rates().fold(0.0, f64::max);
        let rtt = self.probed.rtt.latency().unwrap_or_default();
        let Latency { p50_us, p99_us, .. } = self.session_rtt.latency().unwrap_or_default();
        vec![
            self.control.name().to_owned(),
            significant(self.rate()),
            format!("{}–{}", significant(least), significant(most)),
            format!("{:.2}", self.fairness()),
            duration_us(rtt.p50_us),
            duration_us(rtt.p99_us),
            duration_us(p50_us),
            duration_us(p99_us),
            (self.port("overflowed") + self.port("lost")).to_string(),
            self.port("marked").to_string(),
            self.sum(|client| client.retransmissions).to_string(),
            self.duplicates.to_string(),
            self.sum(|client| client.timeouts).to_string(),
        ]
    }
}

fn mbit_per_s(bytes: u64, elapsed_s: f64) -> f64 {
    if elapsed_s > 0.0 { bytes as f64 * 8.0 / 1e6 / elapsed_s } else { 0.0 }
}

impl BottleneckArgs {
    fn parameters(&self) -> Value {
        json!({
            "clients": self.clients,
            "rate_mbit": self.rate_mbit,
            "queue_kb": self.queue_kb,
            "mark_kb": self.mark_kb,
            "loss": self.loss,
            "size_bytes": self.size,
            "window": self.window,
            "datagram_bytes_max": self.datagram,
            "seconds": self.seconds,
        })
    }
}

/// Prints all runs, and writes the requested files.
pub fn publish(args: &BottleneckArgs, rows: &[Outcome]) -> Result<(), BenchError> {
    let json = json!({
        "experiment": "bottleneck",
        "parameters": args.parameters(),
        "machine": Machine::read(),
        "rows": rows.iter().map(Outcome::json).collect::<Vec<_>>(),
    });
    publish::publish((args.json.as_deref(), args.print_json), &json, || print(args, rows))
}

fn print(args: &BottleneckArgs, rows: &[Outcome]) -> Result<(), BenchError> {
    let mut table = Table::new([
        Column::text("Control"),
        Column::number("Payload", "Mbit/s"),
        Column::number("Each client", "Mbit/s"),
        Column::number("Fairness", "Jain"),
        Column::number("RTT p50", ""),
        Column::number("RTT p99", ""),
        Column::number("Session p50", ""),
        Column::number("Session p99", ""),
        Column::number("Drops", ""),
        Column::number("Marks", ""),
        Column::number("Resent", ""),
        Column::number("Duplicates", ""),
        Column::number("Timeouts", ""),
    ]);
    for row in rows {
        table.push(row.cells());
    }
    table.print()?;
    println!(
        "{} client processes behind {} Mbit/s and a queue of {} kB, marking above {} kB;",
        args.clients, args.rate_mbit, args.queue_kb, args.mark_kb
    );
    println!("RTT: single packets beside the traffic, answered by the server's kernel;");
    println!("Session: the clients' own smoothed round trips, processes' waking included");
    Ok(())
}
