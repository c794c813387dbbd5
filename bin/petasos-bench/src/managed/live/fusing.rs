//! Figure 9: tensors as BytePS pushes them, over a fabric whose scheduler lets packets share
//! messages, or not.
//!
//! The services are the same in both cases: their operators switch the scheduler between turns. One
//! thread calls, as in the paper, which does not say how many calls are outstanding: one, and 16.

use std::time::Duration;

use clap::ValueEnum;
use petasos_report::{Axis, Bar, Column, Figure as Chart, Progress, Table, Tone};
use petasos_report::{duration_us, significant};
use serde_json::{Map, Value, json};

use super::interval::Mean;
use super::operator::{Change, Operator};
use super::tensors::option;
use crate::error::BenchError;
use crate::managed::models::Model;
use crate::managed::part_args::PartName;
use crate::managed::service::{BARE, Service, Setup, Transport};
use crate::managed::shape::{Shape, Work};
use crate::managed::team::{CLIENT_CORE, SERVER_CORE, part_with};
use crate::report::Report;
use crate::rpc::phase::{Phase, Turn};
use crate::rpc::process::{Process, turn_of};

const OVER_FABRIC: Setup = Setup { transport: Transport::Fabric, ..BARE };
/// Outstanding calls.
const WINDOWS: [usize; 2] = [1, 16];
const TURN_MS: u64 = 200;
const ROUNDS_MIN: usize = 3;
/// The contenders, by whether packets share messages.
const NAMES: [(bool, &str, Tone); 2] =
    [(false, "each", Tone::Muted), (true, "fused", Tone::Primary)];

/// The services of both hosts, who switches them, and the server of all models.
struct Hosts {
    // It ends before its service.
    server: Process,
    near: Service,
    far: Service,
    operators: [Operator; 2],
}

/// One model, with a number of outstanding calls.
struct Row {
    model: Model,
    window: usize,
    /// Mean latencies of the rounds, by contender.
    means_us: [Vec<f64>; 2],
    completed: [u64; 2],
}

/// Measures it within `seconds`, of the models with these names or of all.
///
/// # Errors
/// If a model is not known, or a process does not come up or has died: also if the service was
/// built without libfabric.
pub fn run(points: &[String], turn_ms: Option<u64>, seconds: f64) -> Result<Report, BenchError> {
    let turn = Duration::from_millis(turn_ms.unwrap_or(TURN_MS));
    let models = chosen(points)?;
    let row_s = seconds / (models.len() * WINDOWS.len()) as f64;
    let mut hosts = Hosts::start()?;
    let mut rows = Vec::new();
    for model in models {
        for window in WINDOWS {
            rows.push(hosts.measure(model, window, (turn, row_s))?);
        }
    }
    Ok(report(seconds, turn, &rows))
}

fn chosen(points: &[String]) -> Result<Vec<Model>, BenchError> {
    let named = |point: &String| {
        Model::from_str(point, true).map_err(|_| format!("figure 9 has no model {point}").into())
    };
    match points {
        [] => Ok(Model::value_variants().to_vec()),
        points => points.iter().map(named).collect(),
    }
}

impl Hosts {
    fn start() -> Result<Hosts, BenchError> {
        let far = Service::start(SERVER_CORE, OVER_FABRIC)?;
        let near = Service::start(CLIENT_CORE, OVER_FABRIC)?;
        let operator = |service: &Service| Operator::connect(&service.admin(), "");
        let operators = [operator(&near)?, operator(&far)?];
        let options = ["--service", &far.path()];
        let part = PartName::TensorServer;
        let (server, _) = part_with(part, SERVER_CORE, shape(1), &[], &options)?;
        Ok(Hosts { server, near, far, operators })
    }

    /// As many rounds as fit into so many seconds.
    fn measure(
        &mut self,
        model: Model,
        window: usize,
        (turn, seconds): (Duration, f64),
    ) -> Result<Row, BenchError> {
        let (part, servers, path) =
            (PartName::TensorClient, [self.far.address()], self.near.path());
        let options = [["--service", &path], option(model)].concat();
        let (mut client, _) = part_with(part, CLIENT_CORE, shape(window), &servers, &options)?;
        let (means_us, completed) = Default::default();
        let mut row = Row { model, window, means_us, completed };
        let mut left_s = seconds;
        let mut progress = Progress::new(&format!("managed 9 {}", row.label()), 100);
        // The first opens connections and touches memory.
        for round in 0.. {
            for (place, (is_fused, ..)) in NAMES.into_iter().enumerate() {
                for operator in &self.operators {
                    operator.change(Change::Fusing { fused: is_fused })?;
                }
                let turn = turn_of(&mut client, &mut self.server, Phase::Window, turn)?.client;
                left_s -= turn.elapsed_s;
                if round > 0 {
                    row.add(place, &turn);
                }
            }
            progress.set((100.0 * (1.0 - left_s / seconds)).clamp(0.0, 100.0) as u64);
            if round >= ROUNDS_MIN && left_s <= 0.0 {
                break;
            }
        }
        progress.finish("done");
        Ok(row)
    }
}

/// Calls of one thread. What they carry is the model's.
fn shape(window: usize) -> Shape {
    Shape { work: Work::Bytes, request_bytes: 0, response_bytes: 0, window, threads: 1 }
}

impl Row {
    fn label(&self) -> String {
        format!("{}, {} outstanding", self.model.name(), self.window)
    }

    fn add(&mut self, place: usize, turn: &Turn) {
        self.means_us[place].push(turn.call_s * 1e6 / turn.completed as f64);
        self.completed[place] += turn.completed;
    }

    /// The part of the latency that the scheduler saves, round by round.
    fn saved(&self) -> Option<Mean> {
        let [each, fused] = &self.means_us;
        let saved: Vec<f64> =
            each.iter().zip(fused).map(|(one, other)| 1.0 - other / one).collect();
        Mean::of(&saved)
    }

    fn json(&self) -> Value {
        let contender = |(place, (_, name, _)): (usize, &(bool, &str, Tone))| {
            let mean = Mean::of(&self.means_us[place]);
            let row = json!({
                "mean_us": mean.map(|mean| mean.value),
                "half_interval_us": mean.map(|mean| mean.half),
                "completed": self.completed[place],
                "rounds": self.means_us[place],
            });
            ((*name).to_owned(), row)
        };
        let contenders: Map<_, _> = NAMES.iter().enumerate().map(contender).collect();
        let saved = self.saved();
        json!({
            "label": self.label(),
            "model": self.model.name(),
            "window": self.window,
            "tensors": self.model.tensor_bytes().len(),
            "contenders": contenders,
            "saved": saved.map(|mean| mean.value),
            "half_interval_of_saved": saved.map(|mean| mean.half),
        })
    }
}

fn report(seconds: f64, turn: Duration, rows: &[Row]) -> Report {
    let mut report = Report::new(
        "9",
        json!({
            "seconds": seconds, "turn_ms": turn.as_secs_f64() * 1e3, "windows": WINDOWS,
            "key_bytes": 8, "length_bytes": 4, "provider": "udp",
        }),
    );
    report.with("points", rows.iter().map(Row::json).collect());
    report.tables.push(table(rows));
    report.notes.push("means of calls, with 95 % intervals over the rounds".to_owned());
    report.notes.push(PROVIDER.to_owned());
    report.charts = WINDOWS.iter().map(|window| chart(*window, rows)).collect();
    report
}

/// What readers of the results have to know.
const PROVIDER: &str = "libfabric's provider is udp, whose messages have at most 1472 bytes: full \
                        packets fill one, and small ones share one";

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new([
        Column::text("Model"),
        Column::number("Outstanding", ""),
        Column::number("Each by itself", ""),
        Column::number("±", ""),
        Column::number("Fused", ""),
        Column::number("±", ""),
        Column::number("Saved", "%"),
        Column::number("±", "%"),
    ]);
    for row in rows {
        let means = row.means_us.each_ref().map(|means| Mean::of(means));
        let latency = |mean: Option<Mean>| match mean {
            Some(Mean { value, half }) => [duration_us(value), duration_us(half)],
            None => ["–", "–"].map(str::to_owned),
        };
        let saved = match row.saved() {
            Some(Mean { value, half }) => [value, half].map(|part| significant(part * 100.0)),
            None => ["–", "–"].map(str::to_owned),
        };
        let cells = [latency(means[0]), latency(means[1]), saved];
        let start = [row.model.name().to_owned(), row.window.to_string()];
        table.push(start.into_iter().chain(cells.into_iter().flatten()));
    }
    table
}

fn chart(window: usize, rows: &[Row]) -> Chart {
    let of_window = rows.iter().filter(|row| row.window == window);
    let bars = of_window.flat_map(|row| {
        NAMES.iter().enumerate().filter_map(move |(place, (_, name, tone))| {
            let Mean { value, half } = Mean::of(&row.means_us[place])?;
            let bar = Bar::new(format!("{}, {name}", row.model.name()), value, *tone);
            Some(bar.range((value - half).max(0.0), value + half))
        })
    });
    let title = format!("Tensors over a fabric, {window} outstanding");
    Chart::bars(title, Axis::linear("Mean latency", "µs"), bars.collect())
        .caption("Ranges are 95 % confidence intervals over rounds.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_chosen_by_name() {
        assert_eq!(chosen(&[]).expect("all are known").len(), 3);
        let one = chosen(&["mobilenet".to_owned()]).expect("it is known");
        assert_eq!(one, [Model::MobileNet]);
        assert!(chosen(&["ResNet".to_owned()]).is_err());
    }
}
