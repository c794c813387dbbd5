//! Figure 1: the model's curves, by the simulation that `petasos simulate queueing` runs.
//!
//! Nothing is measured. The theory of what is known (M/M/k, M/D/1) is in that crate's tests.

use petasos_queueing::{Discipline, Effort, Latency, Model, Service, simulate_all};
use petasos_report::{Axis, Column, Figure as Chart, Series, Table, Tone, significant};
use serde_json::{Map, Value, json};

use super::args::RouterArgs;
use crate::error::BenchError;
use crate::report::Report;

/// The paper's.
const WORKERS: usize = 16;
const SERVICES: [Service; 3] = [Service::Deterministic, Service::Exponential, Service::Bimodal1];
const POLICIES: [&str; 5] = ["random", "pl2", "rr", "jsq", "single"];
const LOADS: [f64; 10] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95];
const QUICK_LOADS: [f64; 3] = [0.2, 0.5, 0.8];
const TONES: [Tone; 5] =
    [Tone::Muted, Tone::Quaternary, Tone::Tertiary, Tone::Secondary, Tone::Primary];
/// Threads that simulate.
const THREADS: usize = 2;

/// A curve: 99th percentiles in mean service times.
struct Curve {
    service: Service,
    policy: &'static str,
    points: Vec<(f64, Latency)>,
}

/// Simulates the figure.
///
/// # Errors
/// If something cannot be simulated.
pub fn run(args: &RouterArgs) -> Result<Report, BenchError> {
    let loads: &[f64] = if args.quick { &QUICK_LOADS } else { &LOADS };
    let effort = match args.quick {
        true => Effort::requests(200_000, 1),
        false => Effort::default(),
    };
    let services = args.services_or(&SERVICES);
    let mut models = Vec::new();
    for service in &services {
        for policy in POLICIES {
            let discipline: Discipline = policy.parse()?;
            models.extend(loads.iter().map(|load| Model {
                service: *service,
                discipline,
                workers: WORKERS,
                load: *load,
                delay: 0.0,
                hold: 0.0,
            }));
        }
    }
    eprintln!("petasos bench: simulating {} points", models.len());
    let latencies = simulate_all(&models, &effort, THREADS, |_| {})?;
    let curves = models.chunks(loads.len()).zip(latencies.chunks(loads.len()));
    let curve = |((models, latencies), policy): ((&[Model], &[Option<Latency>]), &&'static str)| {
        let points =
            models.iter().zip(latencies).filter_map(|(model, it)| Some((model.load, (*it)?)));
        Curve { service: models[0].service, policy, points: points.collect() }
    };
    let curves: Vec<_> = curves.zip(POLICIES.iter().cycle()).map(curve).collect();
    Ok(report(&services, &curves))
}

fn report(services: &[Service], curves: &[Curve]) -> Report {
    let parameters = json!({ "workers": WORKERS, "unit": "mean service times" });
    let mut report = Report::of("router", "1", parameters);
    let json = |curve: &Curve| {
        let points: Value = curve.points.iter().map(json_of).collect();
        (format!("{}/{}", curve.service, curve.policy), points)
    };
    report.with("curves", curves.iter().map(json).collect::<Map<_, _>>().into());
    for service in services {
        let curves = || curves.iter().filter(|curve| curve.service == *service);
        report.tables.push(table(*service, curves()));
        let line = |(curve, tone): (&Curve, Tone)| {
            let points = curve.points.iter().map(|(load, it)| (load * 100.0, it.p99.value));
            Series::new(curve.policy, tone, points)
        };
        let (x, y) = (Axis::linear("Load", "%"), Axis::log("99th percentile", "S"));
        let title = format!("Model of {WORKERS} workers, {service} service times");
        report.charts.push(Chart::lines(title, x, y, curves().zip(TONES).map(line).collect()));
    }
    report.notes.push("99th percentiles in mean service times (S), without any delay.".into());
    report
}

fn json_of((load, latency): &(f64, Latency)) -> Value {
    let p99 = latency.p99;
    json!({ "load": load, "p99": p99.value, "stderr": p99.stderr })
}

fn table<'a>(service: Service, curves: impl Iterator<Item = &'a Curve>) -> Table {
    let curves: Vec<_> = curves.collect();
    let names = curves.iter().map(|curve| Column::number(curve.policy, ""));
    let first = Column::number(format!("{service}: load"), "");
    let mut table = Table::new(core::iter::once(first).chain(names));
    let loads = curves.first().map_or(&[][..], |curve| &curve.points);
    for (load, _) in loads {
        let at = |curve: &&Curve| {
            let point = curve.points.iter().find(|(at, _)| at == load);
            point.map_or("–".to_owned(), |(_, it)| significant(it.p99.value))
        };
        table.push(core::iter::once(load.to_string()).chain(curves.iter().map(at)));
    }
    table
}
