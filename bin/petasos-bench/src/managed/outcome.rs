//! The results as JSON and as a table.

use petasos_report::{Column, Machine, Table, duration_us, significant, with_si_prefix};
use serde_json::{Map, Value, json};

use super::args::ManagedArgs;
use super::figures::Figure;
use super::measure::{Measured, PointResult, Row};
use super::sidecars::Sidecar;
use crate::error::BenchError;

/// The contender with the paper's proxy.
const ENVOY: &str = Sidecar::Envoy.name();

/// The results of a figure.
pub struct Outcome<'a> {
    args: &'a ManagedArgs,
    figure: &'a Figure,
    measured: &'a Measured,
}

impl<'a> Outcome<'a> {
    pub fn new(args: &'a ManagedArgs, figure: &'a Figure, measured: &'a Measured) -> Outcome<'a> {
        Outcome { args, figure, measured }
    }

    /// All results. Those of the headline's point stand at the top, too.
    pub fn json(&self) -> Value {
        let skipped = self.measured.skipped.iter();
        let skipped = skipped
            .map(|out| json!({ "name": out.name, "points": out.points, "reason": out.reason }));
        let points: Vec<_> = self.measured.points.iter().map(point_json).collect();
        let headline = points.get(self.measured.headline).cloned().unwrap_or_default();
        json!({
            "experiment": "managed",
            "figure": self.figure.name,
            "quantity": self.figure.quantity.name(),
            "parameters": {
                "seconds": self.args.seconds.unwrap_or(self.figure.seconds),
                "turn_ms": self.args.turn(self.figure).as_secs_f64() * 1e3,
                "headline": headline["label"],
                "beside": self.args.beside,
            },
            "machine": Machine::read(),
            "contenders": headline["contenders"],
            "ratios": headline["ratios"],
            "best_proxied": headline["best_proxied"],
            "points": points,
            "skipped": skipped.collect::<Vec<_>>(),
            "idle": self.measured.idle.as_ref().map(|idle| match idle {
                Ok(idle) => idle.json(),
                Err(reason) => json!({ "reason": reason }),
            }),
        })
    }

    /// Prints a table for each point, and who was skipped.
    pub fn print(&self) -> Result<(), BenchError> {
        for result in &self.measured.points {
            let shape = result.point.shape;
            println!(
                "{} {}: {} bytes there, {} back, {} outstanding, {} client thread(s)",
                self.figure.varied,
                result.point.label,
                shape.request_bytes,
                shape.response_bytes,
                shape.window,
                shape.threads,
            );
            table(result).print()?;
        }
        for row in self.measured.points.iter().flat_map(|result| &result.rows) {
            if row.forbidden > 0 {
                println!(
                    "{}: {} of {} calls refused that are forbidden",
                    row.name, row.refused, row.forbidden
                );
            }
        }
        println!("ratios are medians over the rounds, of {}", self.figure.quantity.name());
        match &self.measured.idle {
            Some(Ok(idle)) => println!("{}", idle.text()),
            Some(Err(reason)) => println!("left out: idle applications: {reason}"),
            None => {}
        }
        for out in &self.measured.skipped {
            println!("left out: {} at {}: {}", out.name, out.points.join(", "), out.reason);
        }
        Ok(())
    }
}

fn table(result: &PointResult) -> Table {
    let proxied = result.best_proxied().unwrap_or("best proxy");
    let mut table = Table::new([
        Column::text("Contender"),
        Column::number("p50", ""),
        Column::number("p99", ""),
        Column::number("Rate", "1/s"),
        Column::number("Payload", "Gbit/s"),
        Column::number("per core", "Gbit/s"),
        Column::number("Processor", "µs/call"),
        Column::number("Memory", "MiB"),
        Column::number("of the floor", ""),
        Column::number(format!("of {proxied}"), ""),
        Column::number("of it without policy", ""),
    ]);
    for row in &result.rows {
        let number = |value: Option<f64>| value.map_or("–".into(), significant);
        let latency = |q| row.latency.quantile_us(q).map_or("–".into(), duration_us);
        let over = |other: Option<&str>| result.ratio(row.name, other?);
        table.push([
            row.name.to_owned(),
            latency(0.5),
            latency(0.99),
            row.ops_per_s().map_or("–".into(), with_si_prefix),
            number(row.gbit_per_s(result.point.shape)),
            number(row.gbit_per_s_per_core(result.point.shape)),
            number(row.cpu_s_per_million()),
            number(Some(row.memory.total() as f64 / f64::from(1 << 20))),
            number(over(result.floor())),
            number(over(result.best_proxied())),
            number(over(row.without)),
        ]);
    }
    table
}

fn point_json(result: &PointResult) -> Value {
    let each = |json: &dyn Fn(&Row) -> Value| {
        let fields = result.rows.iter().map(|row| (row.name.to_owned(), json(row)));
        Value::Object(fields.collect::<Map<_, _>>())
    };
    let shape = result.point.shape;
    json!({
        "label": result.point.label,
        "x": result.point.x,
        "request_bytes": shape.request_bytes,
        "response_bytes": shape.response_bytes,
        "window": shape.window,
        "threads": shape.threads,
        "contenders": each(&|row| row_json(result, row)),
        "ratios": each(&|row| ratios_json(result, row)),
        "best_proxied": result.best_proxied(),
    })
}

fn row_json(result: &PointResult, row: &Row) -> Value {
    let shape = result.point.shape;
    json!({
        "p50_us": row.latency.quantile_us(0.5),
        "p99_us": row.latency.quantile_us(0.99),
        "ops_per_s": row.ops_per_s(),
        "gbit_per_s": row.gbit_per_s(shape),
        "gbit_per_s_per_core": row.gbit_per_s_per_core(shape),
        "cores": row.cores(),
        "cpu_s_per_million": row.cpu_s_per_million(),
        "peak_memory_bytes": {
            "client": row.memory.client,
            "server": row.memory.server,
            "between": row.memory.between,
            "total": row.memory.total(),
        },
        "completed": row.completed,
        "refused": row.refused,
        "forbidden": row.forbidden,
        "rounds": row.values,
    })
}

/// Ratios in the figure's quantity: over the floor, over the best contender with proxies, over
/// Envoy, and over the contender that is the same without a policy. Those per core are of goodput.
fn ratios_json(result: &PointResult, row: &Row) -> Value {
    let over = |other: Option<&str>| result.ratio(row.name, other?);
    let per_core = |other: Option<&str>| result.ratio_per_core(row.name, other?);
    json!({
        "relay": over(result.floor()),
        "best_proxied": over(result.best_proxied()),
        "envoy": over(Some(ENVOY)),
        "without_policy": over(row.without),
        "per_core": {
            "best_proxied": per_core(result.best_proxied()),
            "envoy": per_core(Some(ENVOY)),
        },
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::managed::figures::FigureId;
    use crate::managed::measure::tests::measured;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ManagedArgs,
    }

    #[test]
    fn the_headline_s_results_stand_at_the_top() {
        let args = Line::parse_from(["x", "--figure", "5", "--seconds", "1"]).args;
        let (figure, measured) = (FigureId::Rate.description(), measured(FigureId::Rate, &[10]));
        let json = Outcome::new(&args, &figure, &measured).json();
        assert_eq!(json["contenders"], json["points"][0]["contenders"]);
        assert_eq!(json["parameters"]["headline"], "1 thread");
        let direct = &json["contenders"]["direct"];
        for name in ["p50_us", "p99_us", "ops_per_s", "gbit_per_s", "cpu_s_per_million"] {
            assert!(direct[name].as_f64().is_some_and(|value| value > 0.0), "{name}: {direct}");
        }
        assert_eq!(json["ratios"]["direct"]["relay"], 2.0);
        assert_eq!(json["ratios"]["nghttpx"]["best_proxied"], 1.0);
        let direct_over_envoy = json["ratios"]["direct"]["envoy"].as_f64().expect("both are there");
        assert!((direct_over_envoy - 2.0 / 5.0).abs() < 1e-9, "{direct_over_envoy}");
        let per_core = json["ratios"]["nghttpx"]["per_core"]["envoy"].as_f64();
        assert!(per_core.is_some_and(|ratio| (ratio - 8.0 / 5.0).abs() < 1e-9), "{per_core:?}");
        assert_eq!(json["skipped"][0]["reason"], "not here");
        assert_eq!(json["contenders"]["relay"]["peak_memory_bytes"]["total"], 3 << 20);
    }
}
