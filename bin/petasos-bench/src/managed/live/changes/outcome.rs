//! What changes have done to calls, as JSON, table and picture.

use petasos_report::{Axis, Bar, Column, Figure as Chart, Histogram, Table, Tone, significant};
use petasos_report::{duration_us, with_si_prefix};
use serde_json::{Map, Value, json};

use super::gaps::Around;
use super::{Found, PAUSE, Totals, WINDOWS};
use crate::error::BenchError;
use crate::report::Report;

/// A quantile of what is told of each time.
fn quantile(all: &[Around], quantile: f64, of: impl Fn(&Around) -> f64) -> Option<f64> {
    let mut values: Vec<f64> = all.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    let rank = (values.len() as f64 * quantile).ceil() as usize;
    values.get(rank.max(1) - 1).copied()
}

fn gap(all: &[Around], at: f64) -> Option<f64> {
    quantile(all, at, |around| around.gap_us)
}

/// The second application's mean rate.
fn second(all: &[Around]) -> Option<f64> {
    let sum: f64 = all.iter().map(|around| around.second_per_s).sum();
    (!all.is_empty()).then(|| sum / all.len() as f64)
}

fn ratio(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    Some(one? / other?).filter(|ratio| ratio.is_finite())
}

/// Reports all kinds.
///
/// # Errors
/// If no change was measured.
pub fn report(count: usize, found: &[Found], totals: &Totals) -> Result<Report, BenchError> {
    if found.iter().all(|found| found.changes.is_empty()) {
        return Err("no change was measured: allow more --seconds".into());
    }
    let mut report = Report::new(
        "changes",
        json!({
            "changes": count, "pause_ms": PAUSE.as_millis() as u64, "request_bytes": 32,
            "response_bytes": 8, "windows": WINDOWS, "around_ms": 5,
        }),
    );
    let kinds: Map<_, _> = found.iter().map(|of| (of.kind.to_owned(), kind_json(of))).collect();
    report.with("contenders", contenders(totals));
    report.with("changes", total(found, totals, kinds));
    report.tables.push(table(found));
    let [lost, duplicated] = lost_and_duplicated(totals);
    let sent: u64 = totals.turns.iter().flatten().map(|turn| turn.tally.sent).sum();
    report.notes.push(format!("{lost} calls lost, {duplicated} run twice, of {sent}"));
    report.notes.push("gaps: the longest time around a change without the end of a call".into());
    report.charts = charts(found);
    Ok(report)
}

fn lost_and_duplicated(totals: &Totals) -> [u64; 2] {
    let turns = totals.turns.iter().flatten();
    turns.fold([0, 0], |[lost, twice], turn| [lost + turn.lost, twice + turn.duplicated])
}

fn kind_json(of: &Found) -> Value {
    let (changes, shams) = (&of.changes, &of.shams);
    json!({
        "count": of.made,
        "measured": changes.len(),
        "shams": shams.len(),
        "lost": of.lost,
        "duplicated": of.duplicated,
        "gap_us_p50": gap(changes, 0.5),
        "gap_us_p99": gap(changes, 0.99),
        "sham_gap_us_p50": gap(shams, 0.5),
        "sham_gap_us_p99": gap(shams, 0.99),
        "took_us_p50": quantile(changes, 0.5, |around| around.took_us),
        "sham_took_us_p50": quantile(shams, 0.5, |around| around.took_us),
        "ratios": {
            "gap_p50": ratio(gap(changes, 0.5), gap(shams, 0.5)),
            "gap_p99": ratio(gap(changes, 0.99), gap(shams, 0.99)),
            "second_rate": ratio(second(changes), second(shams)),
        },
    })
}

/// All kinds together, and each.
fn total(found: &[Found], totals: &Totals, kinds: Map<String, Value>) -> Value {
    let all = |of: fn(&Found) -> &Vec<Around>| -> Vec<Around> {
        found.iter().flat_map(of).copied().collect()
    };
    let (changes, shams) = (all(|of| &of.changes), all(|of| &of.shams));
    let [lost, duplicated] = lost_and_duplicated(totals);
    json!({
        "count": found.iter().map(|of| of.made).sum::<u64>(),
        "lost": lost,
        "duplicated": duplicated,
        "gap_us_p99": gap(&changes, 0.99),
        "sham_gap_us_p99": gap(&shams, 0.99),
        "second_rate_ratio": ratio(second(&changes), second(&shams)),
        "kinds": kinds,
    })
}

/// Both applications over all turns.
fn contenders(totals: &Totals) -> Value {
    let of = |which: usize| {
        let (mut completed, mut elapsed_s, mut latency) = (0, 0.0, Histogram::new());
        for turn in &totals.turns {
            let client = &turn[which].client;
            completed += client.completed;
            elapsed_s += client.elapsed_s;
            latency.merge(&client.latency);
        }
        json!({
            "p50_us": latency.quantile_us(0.5),
            "p99_us": latency.quantile_us(0.99),
            "ops_per_s": completed as f64 / elapsed_s,
            "completed": completed,
        })
    };
    json!({ "managed": of(0), "second": of(1) })
}

fn table(found: &[Found]) -> Table {
    let mut table = Table::new([
        Column::text("Change"),
        Column::number("Done", ""),
        Column::number("Lost", ""),
        Column::number("Twice", ""),
        Column::number("Gap p50", ""),
        Column::number("p99", ""),
        Column::number("of shams p50", ""),
        Column::number("p99", ""),
        Column::number("Took", ""),
        Column::number("Second", "1/s"),
        Column::number("of shams", ""),
    ]);
    for of in found {
        let us = |value: Option<f64>| value.map_or("–".into(), duration_us);
        let took = quantile(&of.changes, 0.5, |around| around.took_us);
        table.push([
            of.kind.to_owned(),
            of.made.to_string(),
            of.lost.to_string(),
            of.duplicated.to_string(),
            us(gap(&of.changes, 0.5)),
            us(gap(&of.changes, 0.99)),
            us(gap(&of.shams, 0.5)),
            us(gap(&of.shams, 0.99)),
            us(took),
            second(&of.changes).map_or("–".into(), with_si_prefix),
            ratio(second(&of.changes), second(&of.shams)).map_or("–".into(), significant),
        ]);
    }
    table
}

fn charts(found: &[Found]) -> Vec<Chart> {
    let chart = |(name, at): (&str, f64)| {
        let bars = found.iter().flat_map(|of| {
            let change = gap(&of.changes, at);
            let sham = gap(&of.shams, at);
            [
                change.map(|us| Bar::new(of.kind, us, Tone::Primary)),
                sham.map(|us| Bar::new(format!("{}: sham", of.kind), us, Tone::Muted)),
            ]
        });
        let title = format!("Longest time without the end of a call around a change: {name}");
        Chart::bars(title, Axis::linear("Gap", "µs"), bars.flatten().collect())
    };
    [("median", 0.5), ("99th percentile", 0.99)].map(chart).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(gap_us: f64) -> Around {
        Around { gap_us, took_us: 1.0, second_per_s: 100.0 }
    }

    #[test]
    fn quantiles_are_of_those_that_there_are() {
        let all: Vec<_> = (1..=200).map(|us| around(f64::from(us))).collect();
        assert_eq!(
            (gap(&all, 0.5), gap(&all, 0.99), gap(&[], 0.5)),
            (Some(100.0), Some(198.0), None)
        );
    }

    #[test]
    fn each_kind_is_reported_beside_its_shams() {
        let found = [Found {
            made: 1,
            changes: vec![around(30.0)],
            shams: vec![around(20.0)],
            duplicated: 2,
            ..Found::new("attach")
        }];
        let report = report(1, &found, &Totals::default()).expect("one was measured");
        let kind = &report.results["changes"]["kinds"]["attach"];
        assert_eq!((&kind["count"], &kind["duplicated"]), (&json!(1), &json!(2)));
        assert_eq!(kind["ratios"]["gap_p99"], 1.5);
        assert_eq!(kind["ratios"]["second_rate"], 1.0);
        assert_eq!(report.results["changes"]["sham_gap_us_p99"], 20.0);
        assert!(super::report(1, &[Found::new("attach")], &Totals::default()).is_err());
    }
}
