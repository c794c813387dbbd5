//! What figure 11 reports.

use petasos_report::{Axis, Column, Figure as Chart, Series, Table, Tone, median, significant};
use serde_json::{Map, Value, json};

use super::{MIXES, NODES, OBJECTIVE_US, Row, Sample};
use crate::report::Report;
use crate::router::args::RouterArgs;
use crate::router::side::Skipped;

const NOTE: &str = "One core is the client's, all nodes and the router share the other. Load is a \
    closed loop with more and more requests outstanding, one thread's; latencies are from sending. \
    TCP clients have 32 connections to each node, and pipeline with more requests than these. The \
    objective is a 99th percentile of 2 ms.";

/// Makes the report.
pub fn report(args: &RouterArgs, outstanding: &[usize], rows: &[Row], skipped: Skipped) -> Report {
    let parameters = json!({
        "nodes": NODES,
        "objective_us": OBJECTIVE_US,
        "outstanding": outstanding,
        "rounds": args.rounds(),
        "closed_loop": true,
        "quick": args.quick,
    });
    let mut report = Report::of("router", "11", parameters);
    let named = |value: &dyn Fn(&Row) -> Value| -> Value {
        rows.iter().map(|row| (row.name(), value(row))).collect::<Map<_, _>>().into()
    };
    report.with("contenders", named(&contender));
    report.with("curves", named(&|row| curve(row, outstanding)));
    report.with("ratios", named(&|row| ratios(row, rows)));
    for mix in MIXES {
        let of_mix: Vec<&Row> = rows.iter().filter(|row| row.mix.name == mix.name).collect();
        report.tables.push(table(mix.name, &of_mix, rows));
        report.charts.push(chart(mix.name, &of_mix));
    }
    report.notes.push(NOTE.to_owned());
    report.skipped = skipped;
    report
}

impl Row {
    /// The contender's name, with the mix.
    fn name(&self) -> String {
        format!("{}/{}", self.mix.name, self.contender.name)
    }

    fn median_at(&self, place: usize, value: fn(&Sample) -> f64) -> Option<f64> {
        median(self.points[place].iter().map(value))
    }

    /// Of a round, the point with the highest rate that keeps to the objective.
    fn best(&self, round: usize) -> Option<Sample> {
        let samples = self.points.iter().filter_map(|point| point.get(round));
        let kept = samples.filter(|sample| sample.p99_us <= OBJECTIVE_US);
        kept.copied().max_by(|one, other| one.ops_per_s.total_cmp(&other.ops_per_s))
    }

    fn rounds(&self) -> usize {
        self.points.first().map_or(0, Vec::len)
    }

    /// The median of the best points of all rounds; `None` if a round has none.
    fn at_objective(&self, value: fn(&Sample) -> f64) -> Option<f64> {
        let best: Option<Vec<_>> = (0..self.rounds()).map(|round| self.best(round)).collect();
        median(best?.iter().map(value))
    }

    /// The median of the ratios of the rates at the objective, of the same rounds.
    fn ratio_to(&self, other: &Row) -> Option<f64> {
        let pair = |round| Some(self.best(round)?.ops_per_s / other.best(round)?.ops_per_s);
        median((0..self.rounds()).filter_map(pair))
    }
}

fn contender(row: &Row) -> Value {
    json!({
        "p50_us": row.at_objective(|sample| sample.p50_us),
        "p99_us": row.at_objective(|sample| sample.p99_us),
        "ops_per_s": row.at_objective(|sample| sample.ops_per_s),
        "cpu_s_per_million": row.at_objective(|sample| sample.cpu_s_per_million),
        "load_at_objective": row.at_objective(|sample| sample.ops_per_s),
    })
}

fn curve(row: &Row, outstanding: &[usize]) -> Value {
    let point = |(place, outstanding): (usize, &usize)| {
        let p99: Vec<f64> = row.points[place].iter().map(|sample| sample.p99_us).collect();
        json!({
            "outstanding": outstanding,
            "load": row.median_at(place, |sample| sample.ops_per_s),
            "p50_us": row.median_at(place, |sample| sample.p50_us),
            "p99_us": row.median_at(place, |sample| sample.p99_us),
            "stderr": standard_error(&p99),
            "cpu_s_per_million": row.median_at(place, |sample| sample.cpu_s_per_million),
        })
    };
    outstanding.iter().enumerate().map(point).collect()
}

/// Of the mean of rounds; `None` of one round.
fn standard_error(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (count - 1.0) / count).sqrt())
}

/// To the others of the same mix.
fn ratios(row: &Row, rows: &[Row]) -> Value {
    let others = rows.iter().filter(|other| {
        other.mix.name == row.mix.name && other.contender.name != row.contender.name
    });
    let to = |other: &Row| {
        (format!("load_at_objective_to_{}", other.contender.name), json!(row.ratio_to(other)))
    };
    others.map(to).collect::<Map<_, _>>().into()
}

fn table(mix: &str, of_mix: &[&Row], rows: &[Row]) -> Table {
    let mut table = Table::new([
        Column::text(mix.to_owned()),
        Column::number("rate at the objective", "1/s"),
        Column::number("of tcp", ""),
        Column::number("p50", "µs"),
        Column::number("p99", "µs"),
        Column::number("processor", "µs"),
    ]);
    let shown = |value: Option<f64>| value.map_or("–".to_owned(), significant);
    let tcp = rows.iter().find(|row| row.mix.name == mix && row.contender.policy.is_none());
    for row in of_mix {
        table.push([
            row.contender.name.to_owned(),
            shown(row.at_objective(|sample| sample.ops_per_s)),
            shown(tcp.and_then(|tcp| row.ratio_to(tcp))),
            shown(row.at_objective(|sample| sample.p50_us)),
            shown(row.at_objective(|sample| sample.p99_us)),
            shown(row.at_objective(|sample| sample.cpu_s_per_million)),
        ]);
    }
    table
}

fn chart(mix: &str, rows: &[&Row]) -> Chart {
    let line = |row: &&Row| {
        let tone = match row.contender.name {
            "jbsq20" => Tone::Primary,
            "random" => Tone::Tertiary,
            _ => Tone::Secondary,
        };
        let points = (0..row.points.len()).filter_map(|place| {
            let rate = row.median_at(place, |sample| sample.ops_per_s)?;
            Some((rate / 1000.0, row.median_at(place, |sample| sample.p99_us)?))
        });
        Series::new(row.contender.name, tone, points)
    };
    let (x, y) = (Axis::linear("Rate", "thousands/s"), Axis::log("99th percentile", "µs"));
    Chart::lines(format!("Redis, {NODES} nodes, {mix}"), x, y, rows.iter().map(line).collect())
}
