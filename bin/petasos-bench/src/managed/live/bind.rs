//! How long an application takes to attach, and then to bind a schema of 50 messages.
//!
//! In each round a service is new. A first process binds the schema, which the service has to be
//! sent, to check and to plan (*cold*); while it stays, a second binds the same (*cached*); a third
//! binds a schema of four messages, which is new as well. Then the service is started again with
//! what it has kept on disk, and a process binds the schema (*restarted*), and once more without
//! that, but with the schema in a file that it loads (*prefetched*).
//!
//! A process *attaches* when its loop is made, and is attached when the service lets it serve at an
//! address. It *binds* from there until the service has bound what it serves. Neither contains what
//! a process does once when it starts.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use petasos::message::Message;
use petasos_report::{Axis, Bar, Column, Figure as Chart, Histogram, Progress, Table, Tone};
use petasos_report::{duration_us, median, significant};
use serde_json::{Map, Value, json};

use super::clock::now_ns;
use super::operator::Operator;
use super::stage::{CLIENT, calls};
use crate::error::BenchError;
use crate::managed::folder::Folder;
use crate::managed::messages::wide;
use crate::managed::part_args::PartName;
use crate::managed::service::{BARE, KnownSchemas, Service};
use crate::managed::team::{CLIENT_CORE, SERVER_CORE, part_behind};
use crate::report::Report;
use crate::rpc::phase::Phase;
use crate::rpc::process::Process;

const MESSAGES: usize = 50;
const SMALL_MESSAGES: usize = 4;
const ROUNDS_MIN: usize = 3;
const ROUNDS_MAX: usize = 500;
/// Those that bind in a round, in this order.
const BINDERS: [(&str, PartName, Tone); 5] = [
    ("cold", PartName::WideBinder, Tone::Secondary),
    ("cached", PartName::WideBinder, Tone::Primary),
    ("small", PartName::SmallBinder, Tone::Muted),
    ("restarted", PartName::WideBinder, Tone::Primary),
    ("prefetched", PartName::WideBinder, Tone::Primary),
];
/// Before these of them, the service is started again.
const RESTARTED: usize = 3;
const PREFETCHED: usize = 4;
/// It has kept so many schemas then.
const KEPT: usize = 2;
/// It takes so long to keep them at most, in ms.
const KEEP_MAX_MS: u64 = 5000;

/// The times of one place in the rounds, in µs.
#[derive(Default)]
struct Times {
    /// From when it was attached until it is served.
    bind_us: Vec<f64>,
    /// From the first thing that it does to attach until it is served.
    attach_us: Vec<f64>,
    /// From the start of its process on.
    process_us: Vec<f64>,
}

/// Measures it within `seconds`.
///
/// # Errors
/// If a process does not come up, or is not served.
pub fn run(seconds: f64) -> Result<Report, BenchError> {
    let mut times: [Times; BINDERS.len()] = Default::default();
    let (begun_ns, mut schema_bytes) = (now_ns(), 0);
    let mut progress = Progress::new("managed bind", seconds as u64);
    let folder = Folder::new("prefetched")?;
    let file = folder.path().join("wide.schema");
    std::fs::write(&file, wide::Part1::TYPE.module.schema().encode())?;
    for round in 0..=ROUNDS_MAX {
        let elapsed_s = (now_ns() - begun_ns) as f64 / 1e9;
        if round > ROUNDS_MIN && elapsed_s > seconds {
            break;
        }
        let schemas = Folder::new("schemas")?;
        let start = |known| Service::start_with(SERVER_CORE, BARE, Some(known));
        let mut service = start(KnownSchemas::Kept(schemas.path()))?;
        let mut processes = Vec::new();
        for (at, ((_, part, _), times)) in BINDERS.iter().zip(&mut times).enumerate() {
            if at == RESTARTED {
                await_kept(schemas.path())?;
            }
            if at >= RESTARTED {
                processes.clear();
                drop(service);
                service = start(match at {
                    PREFETCHED => KnownSchemas::Loaded(&file),
                    _ => KnownSchemas::Kept(schemas.path()),
                })?;
            }
            let (process, [bind_us, attach_us, process_us]) = bind(&service, *part)?;
            // The first round touches the files of all programs.
            if round > 0 {
                times.bind_us.push(bind_us);
                times.attach_us.push(attach_us);
                times.process_us.push(process_us);
            }
            processes.push(process);
            if schema_bytes == 0 {
                schema_bytes = Operator::connect(&service.admin(), CLIENT)?.schema_bytes()?;
            }
        }
        progress.set(elapsed_s as u64);
    }
    progress.finish("done");
    Ok(report(seconds, schema_bytes, &times))
}

/// Waits until the service has kept all schemas: it does that beside its work.
fn await_kept(folder: &Path) -> Result<(), BenchError> {
    for _ in 0..KEEP_MAX_MS {
        let is_whole = |name: &OsStr| !name.as_encoded_bytes().starts_with(b".");
        let files = std::fs::read_dir(folder)?.filter_map(Result::ok);
        if files.filter(|file| is_whole(&file.file_name())).count() == KEPT {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err("petasosd does not keep the schemas".into())
}

/// A process that has bound, and how long it took, in µs: to bind, to attach and bind, and with its
/// start.
fn bind(service: &Service, part: PartName) -> Result<(Process, [f64; 3]), BenchError> {
    let begun_ns = now_ns();
    let path = service.path();
    let (mut process, _) = part_behind(part, CLIENT_CORE, calls(32, 1), &[], Some(&path))?;
    let turn = process.turn_alone(Phase::Window)?;
    let process_us = Duration::from_nanos(now_ns() - begun_ns).as_secs_f64() * 1e6;
    Ok((process, [turn.bind_s * 1e6, turn.elapsed_s * 1e6, process_us]))
}

fn report(seconds: f64, schema_bytes: u64, times: &[Times; BINDERS.len()]) -> Report {
    let mut report = Report::new(
        "bind",
        json!({
            "seconds": seconds, "messages": MESSAGES, "schema_bytes": schema_bytes,
        }),
    );
    let rows = || BINDERS.iter().zip(times);
    let row = |((name, ..), times): (&(&str, _, _), &Times)| ((*name).to_owned(), json_of(times));
    report.with("contenders", Value::Object(rows().map(row).collect::<Map<_, _>>()));
    let ratio = |one: usize, other: usize| {
        let pairs = times[one].bind_us.iter().zip(&times[other].bind_us);
        median(pairs.map(|(one, other)| one / other))
    };
    report.with(
        "ratios",
        json!({
            "cold": {
                "cached": ratio(0, 1), "small": ratio(0, 2), "restarted": ratio(0, 3),
                "prefetched": ratio(0, 4),
            },
            "cached": { "small": ratio(1, 2) },
        }),
    );
    let mut table = Table::new([
        Column::text("Binding"),
        Column::number("p50", ""),
        Column::number("p99", ""),
        Column::number("with attaching", ""),
        Column::number("with the process's start", ""),
        Column::number("of cached", ""),
    ]);
    for (at, ((name, ..), times)) in rows().enumerate() {
        let us = |value: Option<f64>| value.map_or("–".into(), duration_us);
        let bind = histogram(&times.bind_us);
        table.push([
            (*name).to_owned(),
            us(bind.quantile_us(0.5)),
            us(bind.quantile_us(0.99)),
            us(median(times.attach_us.iter().copied())),
            us(median(times.process_us.iter().copied())),
            ratio(at, 1).map_or("–".into(), significant),
        ]);
    }
    report.tables.push(table);
    report.notes.push(format!(
        "a schema of {MESSAGES} messages, {schema_bytes} bytes; `small` is one of {SMALL_MESSAGES}"
    ));
    report.charts.push(chart(times));
    report
}

fn histogram(times_us: &[f64]) -> Histogram {
    let mut histogram = Histogram::new();
    times_us.iter().for_each(|us| histogram.record_ns((us * 1e3) as u64));
    histogram
}

fn json_of(times: &Times) -> Value {
    let bind = histogram(&times.bind_us);
    json!({
        "p50_us": bind.quantile_us(0.5),
        "p99_us": bind.quantile_us(0.99),
        "attach_p50_us": median(times.attach_us.iter().copied()),
        "process_p50_us": median(times.process_us.iter().copied()),
        "completed": times.bind_us.len(),
        "rounds": times.bind_us,
    })
}

fn chart(times: &[Times; BINDERS.len()]) -> Chart {
    let bars = BINDERS.iter().zip(times).filter_map(|((name, _, tone), times)| {
        Some(Bar::new(*name, median(times.bind_us.iter().copied())?, *tone))
    });
    Chart::bars("Bind a schema of 50 messages", Axis::linear("Time", "µs"), bars.collect()).caption(
        "Cold: a new service. Cached: another process has bound it. Small: 4 messages, cold. \
         Restarted: a new service that has read it from its cache. Prefetched: from a file.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::managed::messages::policies;

    #[test]
    fn times_of_the_same_round_are_compared() {
        let times = |bind_us: [f64; 3]| {
            let (attach_us, process_us) = (vec![700.0; 3], vec![900.0; 3]);
            Times { bind_us: bind_us.to_vec(), attach_us, process_us }
        };
        let [cold, cached] = [times([300.0, 800.0, 500.0]), times([100.0, 200.0, 250.0])];
        let all = [cold, cached, times([50.0; 3]), times([100.0; 3]), times([250.0; 3])];
        let report = report(1.0, 123, &all);
        assert_eq!(report.results["ratios"]["cold"]["cached"], 3.0);
        assert_eq!(report.results["contenders"]["small"]["completed"], 3);
        assert_eq!(report.results["contenders"]["cold"]["attach_p50_us"], 700.0);
        assert_eq!(report.results["ratios"]["cold"]["restarted"], 5.0);
        assert_eq!(report.results["ratios"]["cold"]["prefetched"], 2.0);
    }

    #[test]
    fn the_schemas_that_are_bound_have_as_many_messages_as_is_said() {
        fn messages_beside<T: Message>() -> usize {
            T::TYPE.module.schema().messages().len()
        }
        assert_eq!(messages_beside::<wide::Part1>(), MESSAGES);
        assert_eq!(messages_beside::<policies::Numbered>(), SMALL_MESSAGES);
    }
}
