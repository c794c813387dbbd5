//! What figure 10 reports.

use petasos_report::{Column, Figure as Chart, Table, Tone, median, significant};
use serde_json::{Map, Value, json};

use super::super::policies::outcome::{chart, contender, line, points};
use super::PAPER_LOAD;
use super::recorded::Recorded;
use crate::report::Report;
use crate::router::args::RouterArgs;
use crate::router::curves::Curve;
use crate::router::open_loop::Arrived;
use crate::router::side::Skipped;
use crate::router::team::{COMPARED_LOAD, OBJECTIVE, WORKERS};

/// The router's contender that others are compared with, as the paper's.
const OURS: &str = "jbsq1";
/// What pictures compare.
const GROUPS: [(&str, &[&str]); 2] = [
    ("the router, and others", &[OURS, "tcp-random", "nginx", "nginx-zone"]),
    ("policies and proxies", &[OURS, "random", "jbsq3", "haproxy"]),
];
const TONES: [Tone; 4] = [Tone::Primary, Tone::Secondary, Tone::Tertiary, Tone::Quaternary];

/// Makes the report.
pub fn report(
    args: &RouterArgs,
    recorded: &Recorded,
    curves: &[Curve],
    skipped: Skipped,
    arrived: &Arrived,
) -> Report {
    let objective_us = OBJECTIVE * args.mean_us as f64;
    let times = recorded.times_us();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    let parameters = json!({
        "workers": WORKERS,
        "queries": times.len(),
        "mean_us": args.mean_us,
        "service_us": { "p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "max": at(1.0) },
        "stretch": recorded.stretch,
        "objective_us": objective_us,
        "compared_load": COMPARED_LOAD,
        "paper_load": PAPER_LOAD,
        "rounds": args.rounds(),
        "slept": true,
    });
    let mut report = Report::of("router", "10", parameters);
    let by_name = |value: &dyn Fn(&Curve) -> Value| -> Value {
        let pairs = curves.iter().map(|curve| (curve.name().to_owned(), value(curve)));
        pairs.collect::<Map<_, _>>().into()
    };
    report.with("contenders", by_name(&|curve| contender_of(curve, objective_us)));
    report.with("curves", by_name(&|curve| points(&curve.tails())));
    report.with("ratios", by_name(&|curve| ratios_of(curve, curves)));
    report.with("arrivals", arrived.json());
    report.tables.push(table(curves));
    report.charts.extend(charts(curves));
    report.notes.push(note(args, recorded));
    report.skipped = skipped;
    report
}

fn note(args: &RouterArgs, recorded: &Recorded) -> String {
    format!(
        "Service times are what queries took when they were recorded ({}), times {}: {} µs on \
         average. {WORKERS} workers of one process sleep through them and answer with the results \
         that were found then.",
        recorded.said,
        significant(recorded.stretch),
        args.mean_us,
    )
}

fn contender_of(curve: &Curve, objective_us: f64) -> Value {
    let mut json = contender(curve, objective_us);
    json["p99_us_at_paper_load"] = json!(curve.median_at(PAPER_LOAD, |sample| sample.p99_us));
    json
}

/// The median of the ratios of the same rounds: the other's 99th percentile over this one's.
fn ratio(curve: &Curve, other: &Curve, load: f64) -> Option<f64> {
    let pairs = other.at(load).iter().zip(curve.at(load));
    median(pairs.map(|(other, own)| other.p99_us / own.p99_us))
}

fn ratios_of(curve: &Curve, curves: &[Curve]) -> Value {
    let mut ratios = Map::new();
    for other in curves.iter().filter(|other| other.name() != curve.name()) {
        let mut add = |name: String, load| {
            ratios.insert(name, json!(ratio(curve, other, load)));
        };
        add(format!("p99_of_{}", other.name()), COMPARED_LOAD);
        add(format!("p99_of_{}_at_paper_load", other.name()), PAPER_LOAD);
    }
    ratios.into()
}

fn table(curves: &[Curve]) -> Table {
    let mut table = Table::new([
        Column::text("search"),
        Column::number(format!("p50 at {COMPARED_LOAD}"), "µs"),
        Column::number("p99", "µs"),
        Column::number(format!("over {OURS}"), ""),
        Column::number(format!("p99 at {PAPER_LOAD}"), "µs"),
        Column::number(format!("over {OURS}"), ""),
        Column::number("processor", "µs"),
    ]);
    let shown = |value: Option<f64>| value.map_or("–".to_owned(), significant);
    let ours = curves.iter().find(|curve| curve.name() == OURS);
    for curve in curves {
        let over = |load| shown(ours.and_then(|ours| ratio(ours, curve, load)));
        table.push([
            curve.name().to_owned(),
            shown(curve.median_at(COMPARED_LOAD, |sample| sample.p50_us)),
            shown(curve.median_at(COMPARED_LOAD, |sample| sample.p99_us)),
            over(COMPARED_LOAD),
            shown(curve.median_at(PAPER_LOAD, |sample| sample.p99_us)),
            over(PAPER_LOAD),
            shown(curve.median_at(COMPARED_LOAD, |sample| sample.cpu_s_per_million)),
        ]);
    }
    table
}

fn charts(curves: &[Curve]) -> Vec<Chart> {
    let of_name = |name: &&str| curves.iter().find(|curve| curve.name() == *name);
    let group = |(what, names): (&str, &[&str])| {
        let lines: Vec<_> = names
            .iter()
            .filter_map(of_name)
            .zip(TONES)
            .map(|(curve, tone)| line(curve.name(), tone, &curve.tails()))
            .collect();
        (lines.len() > 1).then(|| chart(format!("Search, {WORKERS} workers: {what}"), lines))
    };
    GROUPS.into_iter().filter_map(group).collect()
}
