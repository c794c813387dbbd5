//! The hotel reservation of `apps/hotel`, which measures itself: what is shown of that.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use petasos_report::{Axis, Bar, Column, Figure as Chart, Table, Tone, duration_us, significant};
use rustix::process::geteuid;
use serde_json::Value;

use crate::error::BenchError;
use crate::managed::folder::Folder;
use crate::managed::sidecars::Sidecar;
use crate::report::Report;

/// A figure of the paper about the hotel reservation.
#[derive(Debug)]
pub struct HotelFigure {
    name: &'static str,
    title: &'static str,
    /// The statistic's name in the application's report.
    statistic: &'static str,
    /// The same in its ratios.
    ratio: &'static str,
    managed: &'static str,
    other: &'static str,
}

/// Figure 8. The paper has a null policy here and in figure 12, and none in the others.
pub const MEAN: HotelFigure = HotelFigure {
    name: "8",
    title: "Hotel reservation, mean",
    statistic: "mean_us",
    ratio: "mean",
    managed: "managed-null",
    other: "tonic-envoy",
};

/// Figure 12.
pub const TAIL: HotelFigure = HotelFigure {
    name: "12",
    title: "Hotel reservation, 99th percentile",
    statistic: "p99_us",
    ratio: "p99",
    ..MEAN
};

/// Figure 13.
pub const MEAN_ALONE: HotelFigure =
    HotelFigure { name: "13", managed: "managed", other: "tonic", ..MEAN };

/// Figure 14.
pub const TAIL_ALONE: HotelFigure =
    HotelFigure { name: "14", managed: "managed", other: "tonic", ..TAIL };

/// Requests per second, as in the paper.
const RATE: &str = "20";
/// The length of a turn, unless the user says otherwise.
const TURN_MS: u64 = 10_000;
/// The parts of the application, in the order of the paper's figures.
const PARTS: [&str; 8] =
    ["frontend", "search", "geo", "rate", "profile", "recommendation", "reservation", "user"];
/// What a time is divided into.
const DIVISION: [(&str, &str); 3] =
    [("total", "all"), ("app", "in applications"), ("network", "between them")];

/// Runs the application in both ways in turns, each for so many seconds.
///
/// # Errors
/// A program is missing, or the measurement fails.
pub fn run(figure: &HotelFigure, turn_ms: Option<u64>, seconds: f64) -> Result<Report, BenchError> {
    let measured = measure(figure, turn_ms.unwrap_or(TURN_MS), seconds)?;
    let mut report = Report::new(figure.name, measured["parameters"].clone());
    let over = match figure.managed {
        "managed-null" => &measured["over_managed_null"],
        _ => &measured["over_managed"],
    };
    report.with("stacks", measured["stacks"].clone());
    report.with("ratios", over[figure.other].clone());
    report.tables.push(table(figure, &measured));
    report.notes.push(note(figure, &over[figure.other]));
    report.notes.extend(failures(figure, &measured));
    report.charts = DIVISION.map(|division| chart(figure, &measured, division)).to_vec();
    Ok(report)
}

/// The application, which is built beside this program.
fn beside(name: &str) -> Result<PathBuf, BenchError> {
    let program = std::env::current_exe()?.with_file_name(name);
    match program.is_file() {
        true => Ok(program),
        false => Err(format!("{name} is not built: `cargo build --release -p {name}`").into()),
    }
}

fn measure(figure: &HotelFigure, turn_ms: u64, seconds: f64) -> Result<Value, BenchError> {
    let (hotel, petasosd) = (beside("hotel")?, beside("petasosd")?);
    let folder = Folder::new("hotel")?;
    let json = folder.path().join("json");
    let turn_s = (turn_ms as f64 / 1e3).min(seconds);
    let mut words: Vec<OsString> = vec!["measure".into(), "--stacks".into()];
    words.push(format!("{},{}", figure.managed, figure.other).into());
    words.extend(["--rate".into(), RATE.into(), "--seconds".into(), seconds.to_string().into()]);
    words.extend(["--turn".into(), turn_s.to_string().into(), "--petasosd".into()]);
    words.extend([petasosd.into(), "--json".into(), json.clone().into()]);
    if figure.other == "tonic-envoy" {
        words.extend(["--envoy".into(), Sidecar::Envoy.program()?.into()]);
    }
    if geteuid().is_root() {
        words.push("--namespaces".into());
    }
    let mut command = Command::new(hotel);
    let status = command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    if !status.success() {
        return Err(format!("hotel has failed ({status})").into());
    }
    let measured: Value = serde_json::from_str(&std::fs::read_to_string(json)?)?;
    match measured["skipped"].get(0) {
        None => Ok(measured),
        Some(missing) => Err(format!("left out: {missing}").into()),
    }
}

/// A statistic of a part of the application.
fn value(figure: &HotelFigure, measured: &Value, way: &str, part: &str, of: &str) -> Option<f64> {
    measured["stacks"][way]["parts"][part][of][figure.statistic].as_f64()
}

fn table(figure: &HotelFigure, measured: &Value) -> Table {
    let ways = [figure.managed, figure.other];
    let columns = ways
        .into_iter()
        .flat_map(|way| DIVISION.map(|(_, what)| Column::number(format!("{way}, {what}"), "")));
    let mut table = Table::new([Column::text("Service")].into_iter().chain(columns));
    for part in PARTS {
        let cells = ways.into_iter().flat_map(|way| {
            DIVISION.map(|(of, _)| {
                value(figure, measured, way, part, of).map_or("–".into(), duration_us)
            })
        });
        table.push([part.to_owned()].into_iter().chain(cells));
    }
    table
}

fn note(figure: &HotelFigure, ratios: &Value) -> String {
    let ratio = |name: &str| ratios[name].as_f64().map_or("–".into(), significant);
    format!(
        "{}: {} times as long as {}; the network's part of the mean {} times",
        figure.other,
        ratio(figure.ratio),
        figure.managed,
        ratio("network"),
    )
}

/// What has failed, which the times leave out.
fn failures(figure: &HotelFigure, measured: &Value) -> Vec<String> {
    let of = |way: &str| {
        let stack = &measured["stacks"][way];
        let failed = stack["failed"].as_u64().filter(|failed| *failed > 0)?;
        Some(format!("{way}: {failed} requests failed, the first: {}", stack["failure"]))
    };
    [figure.managed, figure.other].into_iter().filter_map(of).collect()
}

fn chart(figure: &HotelFigure, measured: &Value, (of, what): (&str, &str)) -> Chart {
    let ways = [(figure.managed, Tone::Primary), (figure.other, Tone::Secondary)];
    let bars = PARTS.into_iter().flat_map(|part| {
        ways.into_iter().filter_map(move |(way, tone)| {
            let time_us = value(figure, measured, way, part, of)?;
            Some(Bar::new(format!("{part}, {way}"), time_us, tone))
        })
    });
    let title = format!("{}: {what}", figure.title);
    Chart::bars(title, Axis::linear("Time", "µs"), bars.collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn measured() -> Value {
        let times = json!({ "total": { "mean_us": 3.0 }, "app": { "mean_us": 1.0 },
                            "network": { "mean_us": 2.0 } });
        let way = json!({ "parts": { "frontend": times, "geo": times } });
        json!({ "stacks": { "managed-null": way, "tonic-envoy": way } })
    }

    #[test]
    fn what_was_not_called_has_no_bar() {
        let svg = petasos_report::sheet(&[chart(&MEAN, &measured(), DIVISION[0])]);
        for name in ["frontend, managed-null", "geo, tonic-envoy"] {
            assert!(svg.contains(name), "{name}");
        }
        assert!(!svg.contains("user, ") && !svg.contains("NaN"));
        assert_eq!(value(&TAIL, &measured(), "managed-null", "geo", "total"), None);
    }

    #[test]
    fn ratios_are_told() {
        let said = note(&MEAN, &json!({ "mean": 2.5, "network": 4.0 }));
        assert!(said.starts_with("tonic-envoy: 2.50 times as long as managed-null"), "{said}");
        assert!(note(&TAIL_ALONE, &Value::Null).contains("–"));
        assert!(failures(&MEAN, &measured()).is_empty());
        let stacks = json!({ "stacks": { "tonic": { "failed": 2, "failure": "504" } } });
        assert_eq!(
            failures(&MEAN_ALONE, &stacks),
            [r#"tonic: 2 requests failed, the first: "504""#]
        );
    }
}
