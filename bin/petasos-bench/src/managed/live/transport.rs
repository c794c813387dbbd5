//! Figure 7a: the transport is changed while calls run, first at the servers' host, then at the
//! host of A's client: TCP with a system call for each piece of a packet, then for each batch.
//!
//! As in the paper, applications A and B share the service of the servers' host, and their clients
//! are behind services of their own: that of B's client is not changed. The hosts of both clients
//! share a core here, and the paper's are machines.

use std::time::Duration;

use petasos_report::{Axis, Column, Figure as Chart, Series, Table, Tone};
use petasos_report::{significant, with_si_prefix};
use serde_json::{Value, json};

use super::operator::{Change, Done, Operator};
use super::stage::{PairTurn, Stage, calls};
use super::stages::{JOINED, asked_at_s, change_at_ends, changes, counted, rate, rates, typical};
use crate::error::BenchError;
use crate::managed::service::{BARE, Setup, Transport};
use crate::report::Report;

const OVER_TCP: Setup = Setup { transport: Transport::Tcp, ..BARE };
const STAGES: [&str; 3] = ["pieces", "server", "both"];
const CHANGES: [&str; 2] = ["server", "client"];
/// A and B.
const NAMES: [&str; 2] = ["managed", "second"];
/// Their outstanding calls.
const WINDOWS: [usize; 2] = [32, 8];
/// What readers of the results have to know.
const B: &str = "the service of B's client is another than A's, on the same core, and not changed";

/// Measures it within `seconds`.
///
/// # Errors
/// If a process does not come up or has died, or a change is refused.
pub fn run(seconds: f64) -> Result<Report, BenchError> {
    let mut stage = Stage::start_apart(OVER_TCP, &WINDOWS.map(|window| calls(32, window)))?;
    let [client, server] = stage.operators()?;
    for operator in [&client, &server, &stage.second_operator()?] {
        gather(operator, false)?;
    }
    let stage_time = Duration::from_secs_f64((seconds / 4.0).max(0.2));
    // It opens connections.
    stage.turn(stage_time, || Ok(()))?;
    let duration = stage_time * STAGES.len() as u32;
    let (turns, done) = stage.turn(duration, || {
        change_at_ends(stage_time, &[&|| gather(&server, true), &|| gather(&client, true)])
    })?;
    report(seconds, &turns, &done)
}

fn gather(operator: &Operator, gathered: bool) -> Result<Done, BenchError> {
    operator.change(Change::Transport { gathered })
}

fn report(seconds: f64, turns: &[PairTurn], done: &[Done]) -> Result<Report, BenchError> {
    let mut report = Report::new(
        "7a",
        json!({
            "seconds": seconds, "request_bytes": 32, "response_bytes": 8, "windows": WINDOWS,
            "slice_ms": JOINED,
        }),
    );
    let named = || NAMES.iter().zip(turns);
    report.with("contenders", named().map(|(name, turn)| contender(name, turn)).collect());
    let mut stages = Vec::new();
    for (name, turn) in named() {
        let typical = typical(&turn.tally, done);
        if typical.len() != STAGES.len() || typical.iter().any(|rate| rate.is_nan()) {
            return Err(format!("a stage of {name} is too short to measure").into());
        }
        stages.push(typical);
    }
    report.with(
        "stages",
        by_stage(|application, stage| json!({ "ops_per_s": stages[application][stage] })),
    );
    let to_first =
        |application: usize, stage: usize| stages[application][stage] / stages[application][0];
    report.with(
        "ratios",
        by_stage(|application, stage| json!({ "pieces": to_first(application, stage) })),
    );
    report.with("changes", changes(&CHANGES, turns, done));
    let series = turns.iter().map(|turn| rates(&turn.tally, 0, u64::MAX).collect());
    let series: Vec<Vec<(f64, f64)>> = series.collect();
    report.with(
        "series",
        NAMES.iter().zip(&series).map(|(name, all)| entry(name, json!(all))).collect(),
    );
    report.tables.push(table(&stages));
    report.notes.push(counted(turns));
    report.notes.push(B.to_owned());
    report.charts.push(chart(series, &asked_at_s(&turns[0].tally, done)));
    Ok(report)
}

fn entry(name: &str, value: Value) -> (String, Value) {
    (name.to_owned(), value)
}

fn contender(name: &str, turn: &PairTurn) -> (String, Value) {
    let latency = &turn.client.latency;
    entry(
        name,
        json!({
            "ops_per_s": rate(turn), "p50_us": latency.quantile_us(0.5),
            "p99_us": latency.quantile_us(0.99), "completed": turn.client.completed,
            "lost": turn.lost, "duplicated": turn.duplicated,
        }),
    )
}

/// A value for each application and stage, by their names.
fn by_stage(value: impl Fn(usize, usize) -> Value) -> Value {
    let applications = NAMES.iter().enumerate().map(|(application, name)| {
        let stages = STAGES.iter().enumerate();
        entry(name, stages.map(|(stage, name)| entry(name, value(application, stage))).collect())
    });
    applications.collect()
}

fn table(stages: &[Vec<f64>]) -> Table {
    let mut table = Table::new([
        Column::text("Gathered at"),
        Column::number("Rate of A", "1/s"),
        Column::number("of its first", ""),
        Column::number("Rate of B", "1/s"),
        Column::number("of its first", ""),
    ]);
    let [first, second] = stages else { return table };
    let hosts = ["no host", "the servers' host", "that of A's client, too"];
    for (stage, name) in hosts.into_iter().enumerate() {
        let cells = [first, second]
            .map(|rates| [with_si_prefix(rates[stage]), significant(rates[stage] / rates[0])]);
        table.push([name.to_owned()].into_iter().chain(cells.into_iter().flatten()));
    }
    table
}

fn chart(rates: Vec<Vec<(f64, f64)>>, at_s: &[f64]) -> Chart {
    let top = rates.iter().flatten().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let of = ["A: 32 calls outstanding", "B: 8 calls outstanding"].into_iter().zip(rates);
    let changed = ["servers' host changed", "host of A's client changed"].into_iter().zip(at_s);
    let changed = changed.map(|(name, at)| (name, vec![(*at, 0.0), (*at, top)]));
    let tones = [Tone::Primary, Tone::Muted, Tone::Secondary, Tone::Tertiary];
    let lines = of.chain(changed).zip(tones);
    let series = lines.map(|((name, points), tone)| Series::new(name, tone, points)).collect();
    let (x, y) = (Axis::linear("Time", "s"), Axis::linear("Rate", "calls/s"));
    let title = "TCP that gathers, from a system call for each piece";
    let caption = format!("Each point is {JOINED} ms, except those that mark changes.");
    Chart::lines(title, x, y, series).caption(caption)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::phase::Turn;
    use crate::rpc::tally::{SLICE_NS, Tally};

    #[test]
    fn each_application_is_compared_with_its_first_stage() {
        let turn = |stages: [u32; 3]| {
            let per_slice = stages.map(|calls| vec![calls; 500]).concat();
            let tally = Tally { begun_ns: 0, per_slice, sent: 7, ..Tally::default() };
            let client = Turn { completed: 7, elapsed_s: 1.5, ..Turn::default() };
            PairTurn { client, tally, lost: 1, duplicated: 0 }
        };
        let at = |ms| Done { asked_ns: ms * SLICE_NS, answered_ns: ms * SLICE_NS };
        let turns = [turn([100, 110, 180]), turn([40, 40, 39])];
        let report = report(2.0, &turns, &[at(500), at(1000)]).expect("all stages are there");
        let ratios = &report.results["ratios"];
        assert_eq!(ratios["managed"]["both"]["pieces"], 1.8, "{ratios}");
        assert_eq!(ratios["second"]["server"]["pieces"], 1.0, "{ratios}");
        let changes = &report.results["changes"];
        assert_eq!((&changes["lost"], &changes["made"][1]["at_s"]), (&json!(2), &json!(1.0)));
    }
}
