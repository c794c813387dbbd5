//! What figures 6 and 7 report.

use petasos_report::{Axis, Column, Figure as Chart, Series, Table, Tone, median, significant};
use serde_json::{Map, Value, json};

use super::predicted::Predicted;
use super::{Measured, Setting};
use crate::report::Report;
use crate::router::args::RouterArgs;
use crate::router::curves::{Curve, Sample, Tail, load_at};
use crate::router::open_loop::Arrived;
use crate::router::side::Skipped;
use crate::router::team::{COMPARED_LOAD, OBJECTIVE, WORKERS};

const TONES: [Tone; 5] =
    [Tone::Primary, Tone::Secondary, Tone::Tertiary, Tone::Quaternary, Tone::Muted];

/// Makes the report.
pub fn report(
    args: &RouterArgs,
    setting: &Setting,
    all: &[Measured],
    skipped: Skipped,
    arrived: &Arrived,
) -> Report {
    let objective_us = OBJECTIVE * args.mean_us as f64;
    let parameters = json!({
        "workers": WORKERS,
        "mean_us": args.mean_us,
        "communication": setting.communication,
        "objective_us": objective_us,
        "compared_load": COMPARED_LOAD,
        "rounds": args.rounds(),
        "slept": true,
    });
    let mut report = Report::of("router", setting.figure, parameters);
    let mut maps: [Map<String, Value>; 4] = Default::default();
    for measured in all {
        let prefix = match setting.services.len() {
            1 => String::new(),
            _ => format!("{}/", measured.service),
        };
        let [contenders, curves, predicted, ratios] = &mut maps;
        for curve in &measured.curves {
            let name = format!("{prefix}{}", curve.name());
            contenders.insert(name.clone(), contender(curve, objective_us));
            curves.insert(name.clone(), points(&curve.tails()));
            ratios.insert(name, Value::Object(ratios_of(curve, measured, objective_us)));
        }
        for (name, prediction) in &measured.predicted {
            predicted.insert(format!("{prefix}{name}"), of_prediction(prediction, objective_us));
        }
        report.tables.push(table(measured, objective_us));
        report.charts.extend(charts(setting, measured));
    }
    for (name, map) in ["contenders", "curves", "predicted", "ratios"].into_iter().zip(maps) {
        report.with(name, Value::Object(map));
    }
    report.with("arrivals", arrived.json());
    report.notes.push(note(args, setting));
    report.skipped = skipped;
    report
}

fn note(args: &RouterArgs, setting: &Setting) -> String {
    format!(
        "Service times are deadlines that {WORKERS} workers of one process sleep through, {} µs on \
         average; so is the way between router and worker, {} mean service times there and back. \
         The objective is a 99th percentile of {OBJECTIVE} mean service times.",
        args.mean_us, setting.communication
    )
}

/// Points of a curve.
pub fn points(tails: &[Tail]) -> Value {
    let point =
        |tail: &Tail| json!({"load": tail.load, "p99_us": tail.p99_us, "stderr": tail.stderr_us});
    tails.iter().map(point).collect()
}

/// A contender at the load where all are compared.
pub fn contender(curve: &Curve, objective_us: f64) -> Value {
    let at = |value: fn(&Sample) -> f64| curve.median_at(COMPARED_LOAD, value);
    json!({
        "p50_us": at(|sample| sample.p50_us),
        "p99_us": at(|sample| sample.p99_us),
        "ops_per_s": at(|sample| sample.ops_per_s),
        "cpu_s_per_million": at(|sample| sample.cpu_s_per_million),
        "ways_us": curve.ways_us,
        "load_at_objective": load_at(&curve.tails(), objective_us),
    })
}

fn of_prediction(prediction: &Predicted, objective_us: f64) -> Value {
    json!({
        "delay_us": prediction.delay_us,
        "curve": points(&prediction.tails),
        "load_at_objective": load_at(&prediction.tails, objective_us),
    })
}

/// Medians of ratios of the same rounds, and ratios with predictions.
fn ratios_of(curve: &Curve, measured: &Measured, objective_us: f64) -> Map<String, Value> {
    let of = |part: Option<f64>, whole: Option<f64>| json!(part.zip(whole).map(|(a, b)| a / b));
    let mut ratios = Map::new();
    for other in measured.curves.iter().filter(|other| other.name() != curve.name()) {
        let pairs = other.at(COMPARED_LOAD).iter().zip(curve.at(COMPARED_LOAD));
        let ratio = median(pairs.map(|(other, own)| other.p99_us / own.p99_us));
        ratios.insert(format!("p99_of_{}", other.name()), json!(ratio));
        let cpu = |curve: &Curve| curve.median_at(COMPARED_LOAD, |sample| sample.cpu_s_per_million);
        let load = |curve: &Curve| load_at(&curve.tails(), objective_us);
        ratios.insert(format!("cpu_to_{}", other.name()), of(cpu(curve), cpu(other)));
        let name = format!("load_at_objective_to_{}", other.name());
        ratios.insert(name, of(load(curve), load(other)));
    }
    let predicted = measured.predicted.iter().find(|(name, _)| *name == curve.name());
    if let Some((_, predicted)) = predicted {
        let p99 = curve.median_at(COMPARED_LOAD, |sample| sample.p99_us);
        ratios.insert("p99_to_predicted".into(), of(p99, predicted.at(COMPARED_LOAD)));
        let load = load_at(&curve.tails(), objective_us);
        let best = load_at(&predicted.tails, objective_us);
        ratios.insert("load_at_objective_to_predicted".into(), of(load, best));
    }
    ratios
}

fn table(measured: &Measured, objective_us: f64) -> Table {
    let mut table = Table::new([
        Column::text(format!("{} service times", measured.service)),
        Column::number("p50", "µs"),
        Column::number("p99", "µs"),
        Column::number("predicted", "µs"),
        Column::number("of random", ""),
        Column::number("load at the objective", ""),
        Column::number("predicted", ""),
        Column::number("processor", "µs"),
    ]);
    let shown = |value: Option<f64>| value.map_or("–".to_owned(), significant);
    let random = measured.curves.iter().find(|curve| curve.name() == "random");
    for curve in &measured.curves {
        let at = |value: fn(&Sample) -> f64| curve.median_at(COMPARED_LOAD, value);
        let predicted = measured.predicted.iter().find(|(name, _)| *name == curve.name());
        let pairs = random.map(|it| it.at(COMPARED_LOAD).iter().zip(curve.at(COMPARED_LOAD)));
        let of_random =
            pairs.and_then(|pairs| median(pairs.map(|(random, own)| own.p99_us / random.p99_us)));
        table.push([
            curve.name().to_owned(),
            shown(at(|sample| sample.p50_us)),
            shown(at(|sample| sample.p99_us)),
            shown(predicted.and_then(|(_, it)| it.at(COMPARED_LOAD))),
            shown(of_random),
            shown(load_at(&curve.tails(), objective_us)),
            shown(predicted.and_then(|(_, it)| load_at(&it.tails, objective_us))),
            shown(at(|sample| sample.cpu_s_per_million)),
        ]);
    }
    table
}

/// What pictures compare: no more contenders than there are tones.
const GROUPS: [(&str, &[&str]); 4] = [
    ("policies", &["jbsq3", "direct", "random", "rr", "jsq"]),
    ("bounds", &["jbsq3", "jbsq1", "jbsq2", "jbsq5"]),
    ("proxies", &["jbsq3", "nginx", "haproxy", "nginx-zone"]),
    ("one queue", &["jbsq3", "dispatcher", "tokio"]),
];

fn charts(setting: &Setting, measured: &Measured) -> Vec<Chart> {
    let single = measured.predicted.iter().find(|(name, _)| *name == "single");
    let of_name = |name: &&str| measured.curves.iter().find(|curve| curve.name() == *name);
    let title =
        |what: &str| format!("{}, {} service times: {what}", setting.title, measured.service);
    let mut charts = Vec::new();
    for (what, names) in GROUPS {
        let curves = names.iter().filter_map(of_name).zip(TONES);
        let lines: Vec<_> =
            curves.map(|(curve, tone)| line(curve.name(), tone, &curve.tails())).collect();
        if lines.len() > 1 {
            charts.push(chart(title(what), lines));
        }
    }
    // What was measured, and what was predicted of the same.
    for name in ["random", "jbsq3"] {
        let curve = of_name(&name);
        let predicted = measured.predicted.iter().find(|(it, _)| *it == name);
        if let (Some(curve), Some((_, predicted)), Some((_, single))) = (curve, predicted, single) {
            let lines = vec![
                line(name, Tone::Primary, &curve.tails()),
                line("predicted", Tone::Secondary, &predicted.tails),
                line("M/G/k", Tone::Muted, &single.tails),
            ];
            charts.push(chart(title(name), lines));
        }
    }
    charts
}

/// A curve's line.
pub fn line(name: &str, tone: Tone, tails: &[Tail]) -> Series {
    Series::new(name, tone, tails.iter().map(|tail| (tail.load * 100.0, tail.p99_us)))
}

/// Latency by load.
pub fn chart(title: String, lines: Vec<Series>) -> Chart {
    let (x, y) = (Axis::linear("Load", "%"), Axis::log("99th percentile", "µs"));
    Chart::lines(title, x, y, lines)
}
