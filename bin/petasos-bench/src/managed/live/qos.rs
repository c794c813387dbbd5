//! Table 4: an application that calls one at a time beside one that moves long messages, on the
//! same services, with and without a policy that lets small messages go first.

use std::time::Duration;

use petasos_report::{Axis, Bar, Column, Figure as Chart, Histogram, Progress, Table, Tone};
use petasos_report::{duration_us, median, significant};
use serde_json::{Map, Value, json};

use super::stage::{PairTurn, Stage, calls};
use crate::error::BenchError;
use crate::managed::service::{BARE, Setup};
use crate::report::Report;

/// Bytes of requests, and calls outstanding: of the first application, and of its neighbour.
const SMALL: (u32, usize) = (32, 1);
const LONG: (u32, usize) = (32 << 10, 64);
const TURN_MS: u64 = 300;
const ROUNDS_MIN: usize = 3;

/// One policy for all applications of the clients' host. Its service sends some long requests
/// ahead, which the other one puts in order again.
const SMALL_FIRST: Setup = Setup {
    policies: r#"[{"application": "*", "kind": "qos",
  "configuration": {"order": {"small_first": {"threshold_bytes": 1024}},
    "in_flight_bytes_max": 1048576, "hold_max_us": 100000}}]"#,
    ..BARE
};
/// The same for those of the servers' host: they have few long requests to handle at a time.
const FEW_AT_A_TIME: Setup = Setup {
    policies: r#"[{"application": "*", "kind": "qos",
  "configuration": {"order": {"small_first": {"threshold_bytes": 1024}},
    "in_flight_bytes_max": 131072, "hold_max_us": 100000}}]"#,
    ..BARE
};
/// The same two, each for all applications of a runtime together.
const SMALL_FIRST_OF_ALL: Setup = Setup {
    policies: r#"[{"application": "*", "kind": "qos",
  "configuration": {"order": {"small_first": {"threshold_bytes": 1024}}, "scope": "runtime",
    "in_flight_bytes_max": 1048576, "hold_max_us": 100000}}]"#,
    ..BARE
};
const FEW_OF_ALL: Setup = Setup {
    policies: r#"[{"application": "*", "kind": "qos",
  "configuration": {"order": {"small_first": {"threshold_bytes": 1024}}, "scope": "runtime",
    "in_flight_bytes_max": 131072, "hold_max_us": 100000}}]"#,
    ..BARE
};
/// The contenders: their services, of the clients' host and of the servers'.
const SETUPS: [(&str, [Setup; 2], Tone); 3] = [
    ("without", [BARE, BARE], Tone::Muted),
    ("small-first", [SMALL_FIRST, FEW_AT_A_TIME], Tone::Primary),
    ("small-first-of-all", [SMALL_FIRST_OF_ALL, FEW_OF_ALL], Tone::Secondary),
];

/// The results of a contender.
struct Row {
    stage: Stage,
    latency: Histogram,
    p99_us: Vec<f64>,
    gbit_per_s: Vec<f64>,
    calls: [u64; 2],
    lost: u64,
    duplicated: u64,
}

/// Measures it within `seconds`.
///
/// # Errors
/// If a process does not come up, or has died.
pub fn run(turn_ms: Option<u64>, seconds: f64) -> Result<Report, BenchError> {
    let turn = Duration::from_millis(turn_ms.unwrap_or(TURN_MS));
    let rounds = (seconds / (turn.as_secs_f64() * SETUPS.len() as f64)) as usize;
    let rounds = rounds.max(ROUNDS_MIN);
    let mut rows = Vec::new();
    for (_, setup, _) in SETUPS {
        rows.push(Row::start(setup)?);
    }
    let mut progress = Progress::new("managed table4", rounds as u64);
    for round in 0..=rounds {
        for row in &mut rows {
            let (turns, ()) = row.stage.turn(turn, || Ok(()))?;
            // The first opens connections and touches memory.
            if round > 0 {
                row.add(&turns);
            }
        }
        progress.set(round as u64);
    }
    progress.finish("done");
    Ok(report(seconds, turn, &rows))
}

impl Row {
    fn start([near, far]: [Setup; 2]) -> Result<Row, BenchError> {
        let shapes = [SMALL, LONG].map(|(bytes, window)| calls(bytes, window));
        Ok(Row {
            stage: Stage::start(near, far, &shapes)?,
            latency: Histogram::new(),
            p99_us: Vec::new(),
            gbit_per_s: Vec::new(),
            calls: [0; 2],
            lost: 0,
            duplicated: 0,
        })
    }

    fn add(&mut self, turns: &[PairTurn]) {
        let [small, long] = turns else { return };
        self.latency.merge(&small.client.latency);
        self.p99_us.extend(small.client.latency.quantile_us(0.99));
        let calls_per_s = long.client.completed as f64 / long.client.elapsed_s;
        self.gbit_per_s.push(calls_per_s * f64::from(LONG.0) * 8e-9);
        for (calls, turn) in self.calls.iter_mut().zip(turns) {
            *calls += turn.client.completed;
            self.lost += turn.lost;
            self.duplicated += turn.duplicated;
        }
    }

    fn json(&self) -> Value {
        json!({
            "p50_us": self.latency.quantile_us(0.5),
            "p95_us": self.latency.quantile_us(0.95),
            "p99_us": self.latency.quantile_us(0.99),
            "gbit_per_s": median(self.gbit_per_s.iter().copied()),
            "completed": self.calls[0],
            "completed_long": self.calls[1],
            "lost": self.lost,
            "duplicated": self.duplicated,
            "rounds": self.p99_us,
        })
    }
}

/// The median of the rounds' ratios.
fn ratio(ours: &[f64], theirs: &[f64]) -> Option<f64> {
    median(ours.iter().zip(theirs).map(|(one, other)| one / other).filter(|r| r.is_finite()))
}

fn report(seconds: f64, turn: Duration, rows: &[Row]) -> Report {
    let mut report = Report::new(
        "table4",
        json!({
            "seconds": seconds, "turn_ms": turn.as_secs_f64() * 1e3,
            "request_bytes": SMALL.0, "window": SMALL.1,
            "long_request_bytes": LONG.0, "long_window": LONG.1,
        }),
    );
    let named = || SETUPS.iter().zip(rows);
    let all = named().map(|((name, ..), row)| ((*name).to_owned(), row.json()));
    report.with("contenders", Value::Object(all.collect::<Map<_, _>>()));
    let without = &rows[0];
    let ratios = named().map(|((name, ..), row)| {
        let p99 = ratio(&row.p99_us, &without.p99_us);
        let bandwidth = ratio(&row.gbit_per_s, &without.gbit_per_s);
        ((*name).to_owned(), json!({ "p99": p99, "bandwidth": bandwidth }))
    });
    report.with("ratios", Value::Object(ratios.collect::<Map<_, _>>()));
    let mut table = Table::new([
        Column::text("Order"),
        Column::number("p50", ""),
        Column::number("p95", ""),
        Column::number("p99", ""),
        Column::number("Long", "Gbit/s"),
        Column::number("p99 of without", ""),
        Column::number("long of without", ""),
    ]);
    for ((name, ..), row) in named() {
        let latency = |q| row.latency.quantile_us(q).map_or("–".into(), duration_us);
        let number = |value: Option<f64>| value.map_or("–".into(), significant);
        table.push([
            (*name).to_owned(),
            latency(0.5),
            latency(0.95),
            latency(0.99),
            number(median(row.gbit_per_s.iter().copied())),
            number(ratio(&row.p99_us, &without.p99_us)),
            number(ratio(&row.gbit_per_s, &without.gbit_per_s)),
        ]);
    }
    report.tables.push(table);
    report.charts = charts(rows);
    report
}

fn charts(rows: &[Row]) -> Vec<Chart> {
    let chart = |title: &str, axis, value: &dyn Fn(&Row) -> Option<f64>| {
        let bars = SETUPS.iter().zip(rows);
        let bars =
            bars.filter_map(|((name, _, tone), row)| Some(Bar::new(*name, value(row)?, *tone)));
        Chart::bars(title, axis, bars.collect())
    };
    let latency = |q: f64| move |row: &Row| row.latency.quantile_us(q);
    let axis = || Axis::linear("Round trip", "µs");
    vec![
        chart("32 bytes, one at a time, beside 64 of 32 KiB: p95", axis(), &latency(0.95)),
        chart("The same: p99", axis(), &latency(0.99)),
        chart("The neighbour's goodput", Axis::linear("Goodput", "Gbit/s"), &|row| {
            median(row.gbit_per_s.iter().copied())
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_those_of_the_same_rounds() {
        assert_eq!(ratio(&[1.0, 9.0, 4.0], &[2.0, 3.0, 2.0]), Some(2.0));
        assert_eq!(ratio(&[1.0], &[0.0]), None);
    }
}
