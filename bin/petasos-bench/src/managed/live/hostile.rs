//! Two good applications beside ten hostile ones, compared with ten programs that only compute.
//! Contenders are a service with all applications in one runtime, and one with a runtime for the
//! good ones. Hostile programs wait for the service now and then; so there are also ten that
//! compute besides.

use std::time::Duration;

use petasos_report::{Axis, Bar, Column, Figure as Chart, Progress, Table, Tone};
use petasos_report::{median, significant};
use serde_json::{Map, Value, json};

use super::stage::calls;
use crate::contention::Competitors;
use crate::error::BenchError;
use crate::managed::part_args::PartName;
use crate::managed::service::{BARE, Service, Setup};
use crate::managed::shape::Shape;
use crate::managed::team::{CLIENT_CORE, SERVER_CORE, part_with};
use crate::report::Report;
use crate::rpc::phase::Phase;
use crate::rpc::process::{Process, begin_turn, end_turn};

/// Bytes of requests, and calls outstanding.
const CALLS: (u32, usize) = (32, 32);
/// Hostile programs, or those that compute.
const BESIDE: usize = 10;
const TURN_MS: u64 = 1000;
const ROUNDS_MIN: usize = 3;
/// The name of both good applications.
const GOOD: &str = "good";

/// A runtime for the good applications.
const DEDICATED: Setup = Setup { options: &["--dedicated-runtime", GOOD], ..BARE };
/// The contenders: how their service is started.
const SETUPS: [(&str, Setup, Tone); 2] =
    [("shared", BARE, Tone::Muted), ("dedicated", DEDICATED, Tone::Primary)];

/// A contender.
struct Row {
    // Applications end before their service.
    client: Process,
    server: Process,
    service: Service,
    /// Calls per second of each round: beside those that compute, those that are hostile, and those
    /// that are both.
    rates: [Vec<f64>; 3],
    /// Calls that have failed.
    failed: u64,
}

/// Measures it within `seconds`.
///
/// # Errors
/// If a process does not come up, or has died.
pub fn run(turn_ms: Option<u64>, seconds: f64) -> Result<Report, BenchError> {
    let turn = Duration::from_millis(turn_ms.unwrap_or(TURN_MS));
    let rounds = (seconds / (turn.as_secs_f64() * 3.0 * SETUPS.len() as f64)) as usize;
    let rounds = rounds.max(ROUNDS_MIN);
    let mut rows = Vec::new();
    for (_, setup, _) in SETUPS {
        rows.push(Row::start(setup)?);
    }
    let mut progress = Progress::new("managed hostile", rounds as u64);
    for round in 0..=rounds {
        for row in &mut rows {
            let rates = row.round(turn)?;
            // The first opens connections and touches memory.
            if round > 0 {
                row.rates.iter_mut().zip(rates).for_each(|(all, rate)| all.push(rate));
            }
        }
        progress.set(round as u64);
    }
    progress.finish("done");
    Ok(report(seconds, turn, &rows))
}

impl Row {
    fn start(setup: Setup) -> Result<Row, BenchError> {
        let service = Service::start(SERVER_CORE, setup)?;
        let (shape, path) = (calls(CALLS.0, CALLS.1), service.path());
        let options = ["--service", &path, "--application", GOOD];
        let server = part_with(PartName::NumberedServer, SERVER_CORE, shape, &[], &options)?;
        let (server, addresses) = server;
        let (client, _) =
            part_with(PartName::NumberedClient, CLIENT_CORE, shape, &addresses, &options)?;
        Ok(Row { client, server, service, rates: Default::default(), failed: 0 })
    }

    /// Calls per second beside each.
    fn round(&mut self, turn: Duration) -> Result<[f64; 3], BenchError> {
        let mut competitors = Competitors::start(BESIDE, turn)?;
        let computing = self.turn(turn)?;
        competitors.end();
        competitors.wait()?;
        Ok([computing, self.beside_hostile(turn, 1)?, self.beside_hostile(turn, 2)?])
    }

    fn beside_hostile(&mut self, turn: Duration, threads: usize) -> Result<f64, BenchError> {
        let (path, shape) = (self.service.path(), Shape { threads, ..calls(CALLS.0, CALLS.1) });
        let mut intruders = Vec::new();
        for index in 0..BESIDE {
            let options = ["--service", &*path];
            let core = [CLIENT_CORE, SERVER_CORE][index % 2];
            intruders.push(part_with(PartName::Intruder, core, shape, &[], &options)?.0);
        }
        let rate = self.turn(turn)?;
        if intruders.iter_mut().any(Process::has_ended) {
            return Err("a hostile program has ended: there were fewer than asked for".into());
        }
        Ok(rate)
    }

    fn turn(&mut self, turn: Duration) -> Result<f64, BenchError> {
        begin_turn(&mut self.client, &mut self.server, Phase::Window, turn)?;
        let done = end_turn(&mut self.client, &mut self.server)?.client;
        if self.service.running.program.has_ended() {
            return Err("the service has died".into());
        }
        if let Some(tally) = &done.tally {
            self.failed += tally.sent.saturating_sub(tally.answered);
        }
        Ok(done.completed as f64 / done.elapsed_s)
    }

    /// The median of the rounds' ratios to those beside programs that compute.
    fn kept(&self, beside: usize) -> Option<f64> {
        let rounds = self.rates[beside].iter().zip(&self.rates[0]);
        median(rounds.map(|(rate, computing)| rate / computing).filter(|it| it.is_finite()))
    }

    fn rate(&self, beside: usize) -> Option<f64> {
        median(self.rates[beside].iter().copied())
    }

    fn json(&self) -> Value {
        let [computing, hostile, both] = [0, 1, 2].map(|beside| self.rate(beside));
        json!({
            "ops_per_s": { "computing": computing, "hostile": hostile, "both": both },
            "failed": self.failed,
            "rounds": self.rates,
        })
    }
}

fn report(seconds: f64, turn: Duration, rows: &[Row]) -> Report {
    let mut report = Report::new(
        "hostile",
        json!({
            "seconds": seconds, "turn_ms": turn.as_secs_f64() * 1e3, "beside": BESIDE,
            "request_bytes": CALLS.0, "window": CALLS.1,
        }),
    );
    let named = || SETUPS.iter().zip(rows);
    let all = named().map(|((name, ..), row)| ((*name).to_owned(), row.json()));
    report.with("contenders", Value::Object(all.collect::<Map<_, _>>()));
    let kept = named().map(|((name, ..), row)| {
        ((*name).to_owned(), json!({ "hostile": row.kept(1), "both": row.kept(2) }))
    });
    report.with("ratios", Value::Object(kept.collect::<Map<_, _>>()));
    let mut table = Table::new([
        Column::text("Good applications"),
        Column::number("Beside computing", "calls/s"),
        Column::number("Hostile", "calls/s"),
        Column::number("Both", "calls/s"),
        Column::number("Hostile, of computing", ""),
        Column::number("Both, of computing", ""),
        Column::number("Failed", ""),
    ]);
    let number = |value: Option<f64>| value.map_or("–".into(), significant);
    for ((name, ..), row) in named() {
        table.push([
            (*name).to_owned(),
            number(row.rate(0)),
            number(row.rate(1)),
            number(row.rate(2)),
            number(row.kept(1)),
            number(row.kept(2)),
            row.failed.to_string(),
        ]);
    }
    report.tables.push(table);
    let bars =
        named().filter_map(|((name, _, tone), row)| Some(Bar::new(*name, row.kept(2)?, *tone)));
    report.charts = vec![Chart::bars(
        "Rate beside ten hostile applications that compute, of that beside ten that only compute",
        Axis::linear("Rate", ""),
        bars.collect(),
    )];
    report
}
