//! Figure 7b: a rate limit is attached while calls run, opened, and removed.

use std::time::Duration;

use petasos_report::{Axis, Column, Figure as Chart, Series, Table, Tone};
use petasos_report::{significant, with_si_prefix};
use serde_json::json;

use super::operator::{Change, Done, Operator};
use super::stage::{PairTurn, Stage, calls};
use super::stages::{JOINED, asked_at_s, change_at_ends, changes, counted, rate, rates, typical};
use crate::error::BenchError;
use crate::managed::service::BARE;
use crate::report::Report;

/// The limit is this part of the rate without one.
const PART: f64 = 0.5;
const KIND: &str = "rate_limit";
/// More than there can be.
const OPEN: &str = r#"{"rate_per_s": 100000000, "burst": 1000000}"#;
const STAGES: [&str; 4] = ["none", "limited", "open", "removed"];

/// Measures it within `seconds`.
///
/// # Errors
/// If a process does not come up or has died, or a change is refused.
pub fn run(seconds: f64) -> Result<Report, BenchError> {
    let mut stage = Stage::start(BARE, BARE, &[calls(32, 128)])?;
    let [operator, _] = stage.operators()?;
    let stage_time = Duration::from_secs_f64((seconds / 5.0).max(0.2));
    // It opens connections, and says how much can be limited.
    let (warm, ()) = stage.turn(stage_time, || Ok(()))?;
    let limit = rounded(rate(&warm[0]) * PART);
    let duration = stage_time * STAGES.len() as u32;
    let (turns, done) = stage.turn(duration, || change(&operator, stage_time, limit))?;
    report(seconds, limit, &turns, &done)
}

/// Two digits of a number.
fn rounded(rate: f64) -> u64 {
    let unit = 10_f64.powf((rate.max(10.0).log10() - 1.0).floor());
    ((rate / unit).round() * unit).max(1.0) as u64
}

/// The changes at the ends of stages.
fn change(operator: &Operator, stage: Duration, limit: u64) -> Result<Vec<Done>, BenchError> {
    // An engine that limits from its first call on.
    let configuration = format!(r#"{{"rate_per_s": {limit}, "burst": 64}}"#);
    let attach = || operator.change(Change::Attach { kind: KIND, configuration: &configuration });
    let open = || operator.change(Change::Configure { kind: KIND, configuration: OPEN });
    let remove = || operator.change(Change::Detach { kind: KIND });
    change_at_ends(stage, &[&attach, &open, &remove])
}

fn report(
    seconds: f64,
    limit: u64,
    turns: &[PairTurn],
    done: &[Done],
) -> Result<Report, BenchError> {
    let [turn] = turns else { return Err("there is one application".into()) };
    let tally = &turn.tally;
    let typical = typical(tally, done);
    let [none, limited, open, removed] = typical[..] else { return Err("a stage is lost".into()) };
    let mut report = Report::new(
        "7b",
        json!({
            "seconds": seconds, "request_bytes": 32, "response_bytes": 8, "window": 128,
            "limit_per_s": limit, "slice_ms": JOINED,
        }),
    );
    let latency = &turn.client.latency;
    report.with(
        "contenders",
        json!({ "managed": {
            "ops_per_s": rate(turn), "p50_us": latency.quantile_us(0.5),
            "p99_us": latency.quantile_us(0.99), "completed": turn.client.completed,
        }}),
    );
    report.with(
        "stages",
        json!({ "none": { "ops_per_s": none },
        "limited": { "ops_per_s": limited }, "open": { "ops_per_s": open },
        "removed": { "ops_per_s": removed } }),
    );
    report.with(
        "ratios",
        json!({ "limited": { "limit": limited / limit as f64 },
        "open": { "none": open / none }, "removed": { "none": removed / none } }),
    );
    report.with("changes", changes(&["attach", "open", "remove"], turns, done));
    let all: Vec<(f64, f64)> = rates(tally, 0, u64::MAX).collect();
    report.with("series", json!(all));
    report.tables.push(table(&typical, limit));
    report.notes.push(counted(turns));
    report.charts.push(chart(all, limit, &asked_at_s(tally, done)));
    Ok(report)
}

fn table(typical: &[f64], limit: u64) -> Table {
    let mut table = Table::new([
        Column::text("Limit"),
        Column::number("Rate", "1/s"),
        Column::number("of the first", ""),
    ]);
    let limit = with_si_prefix(limit as f64);
    let names = ["none yet".to_owned(), limit, "never reached".to_owned(), "removed".to_owned()];
    for (name, rate) in names.into_iter().zip(typical) {
        table.push([name, with_si_prefix(*rate), significant(rate / typical[0])]);
    }
    table
}

fn chart(all: Vec<(f64, f64)>, limit: u64, at_s: &[f64]) -> Chart {
    let end = all.last().map_or(0.0, |(at, _)| *at);
    let at = |index: usize| at_s.get(index).copied().unwrap_or(end);
    let (attached, opened, removed) = (at(0), at(1), at(2));
    let series = vec![
        Series::new("calls/s", Tone::Primary, all),
        Series::new("limit", Tone::Secondary, [(attached, limit as f64), (opened, limit as f64)]),
    ];
    let (x, y) = (Axis::linear("Time", "s"), Axis::linear("Rate", "calls/s"));
    Chart::lines("A rate limit under full load", x, y, series).caption(format!(
        "Attached after {attached:.1} s, opened after {opened:.1} s, removed after {removed:.1} s. \
         Each point is {JOINED} ms."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::tally::{SLICE_NS, Tally};

    #[test]
    fn limits_have_two_digits() {
        assert_eq!([rounded(123_456.0), rounded(98_765.0), rounded(0.0)], [120_000, 99_000, 1]);
    }

    #[test]
    fn stages_are_told_apart() {
        let slices = |calls: u32| vec![calls; 500];
        let per_slice = [slices(100), slices(50), slices(98), slices(100)].concat();
        let tally = Tally { begun_ns: 0, per_slice, sent: 7, ..Tally::default() };
        let client = crate::rpc::phase::Turn {
            completed: 7,
            elapsed_s: 2.0,
            ..crate::rpc::phase::Turn::default()
        };
        let turn = PairTurn { client, tally, lost: 0, duplicated: 1 };
        let done: Vec<_> = [500, 1000, 1500]
            .map(|ms| Done { asked_ns: ms * SLICE_NS, answered_ns: ms * SLICE_NS })
            .to_vec();
        let report = report(2.5, 50_000, &[turn], &done).expect("all stages are there");
        let ratios = &report.results["ratios"];
        assert_eq!(ratios["limited"]["limit"], 1.0, "{ratios}");
        assert_eq!(ratios["open"]["none"], 0.98);
        let changes = &report.results["changes"];
        assert_eq!((&changes["count"], &changes["duplicated"]), (&json!(3), &json!(1)));
        assert_eq!(changes["made"][1]["at_s"], 1.0);
    }
}
