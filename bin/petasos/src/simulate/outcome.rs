//! What has been simulated, for people and programs.

use petasos_cli::failure::Failure;
use petasos_cli::output;
use petasos_queueing::{Latency, Model, Service, theory};
use petasos_report::{Column, Table, significant};
use serde_json::{Value, json};

/// A model and its latencies; none if the workers cannot keep up.
pub struct Point {
    pub model: Model,
    pub latency: Option<Latency>,
}

/// All points of a run.
pub struct Outcome {
    pub points: Vec<Point>,
    pub workers: usize,
    pub delay: f64,
}

impl Outcome {
    /// A line for each point, and one with their names. Where workers cannot keep up, latencies are
    /// infinite.
    pub fn csv(&self) -> String {
        let line = |Point { model, latency }: &Point| {
            let of = |value: fn(&Latency) -> f64, without| latency.as_ref().map_or(without, value);
            let p99 = of(|latency| latency.p99.value, f64::INFINITY);
            let stderr = of(|latency| latency.p99.stderr, f64::NAN);
            let mean = of(|latency| latency.mean.value, f64::INFINITY);
            let Model { service, discipline, load, .. } = model;
            format!("{service},{discipline},{load},{p99:.6},{stderr:.6},{mean:.6}\n")
        };
        let lines: String = self.points.iter().map(line).collect();
        format!("dist,policy,load,p99,stderr,mean\n{lines}")
    }

    /// All that is known of the points.
    pub fn json(&self) -> Value {
        let points: Vec<Value> = self.points.iter().map(Point::json).collect();
        json!({ "workers": self.workers, "delay": self.delay, "points": points })
    }

    /// Prints a table of 99th percentiles for each distribution.
    pub fn print(&self) -> Result<(), Failure> {
        let mut services: Vec<Service> = Vec::new();
        for point in &self.points {
            if !services.contains(&point.model.service) {
                services.push(point.model.service);
            }
        }
        for service in services {
            let title = format!("99th percentile, {service}, in mean service times:");
            output::answer(title.as_bytes())?;
            output::finished(self.table(service).print())?;
        }
        output::answer(self.errors().as_bytes())
    }

    /// A row for each load, and a column for each policy.
    fn table(&self, service: Service) -> Table {
        let points = || self.points.iter().filter(|point| point.model.service == service);
        let mut loads: Vec<f64> = Vec::new();
        let mut names: Vec<String> = Vec::new();
        for Point { model, .. } in points() {
            let name = model.discipline.to_string();
            if !names.contains(&name) {
                names.push(name);
            }
            if !loads.iter().any(|load| load.total_cmp(&model.load).is_eq()) {
                loads.push(model.load);
            }
        }
        let columns = names.iter().map(|name| Column::number(name, ""));
        let mut table = Table::new([Column::number("load", "")].into_iter().chain(columns));
        for load in loads {
            let row = points().filter(|point| point.model.load.total_cmp(&load).is_eq());
            // The same name twice is the same point twice.
            let cells = names.iter().map(|name| {
                let mut row = row.clone();
                row.find(|point| point.model.discipline.to_string() == *name)
                    .map_or_else(String::new, Point::cell)
            });
            table.push([load.to_string()].into_iter().chain(cells));
        }
        table
    }

    /// How precise all that is.
    fn errors(&self) -> String {
        let errors = |of: fn(&Latency) -> f64| {
            let all = self.points.iter().filter_map(|point| point.latency.as_ref());
            let largest = all.map(of).fold(0.0, f64::max);
            significant(largest * 100.0)
        };
        let p99 = errors(|latency| latency.p99.stderr / latency.p99.value);
        let mean = errors(|latency| latency.mean.stderr / latency.mean.value);
        let known = format!("standard errors: at most {p99} % of these, {mean} % of the means\n");
        let all = self.points.iter().filter_map(|point| point.latency.as_ref());
        let unknown = all.filter(|latency| !latency.errors_are_known).count();
        match unknown {
            0 => known,
            _ => format!("{known}  but more: {unknown} points had too few requests to tell\n"),
        }
    }
}

impl Point {
    fn cell(&self) -> String {
        let p99 = self.latency.map(|latency| latency.p99.value);
        p99.map_or_else(|| "too much".to_owned(), significant)
    }

    fn json(&self) -> Value {
        let Point { model, latency } = self;
        let theory = theory(model).map(|theory| json!({ "mean": theory.mean, "p99": theory.p99 }));
        json!({
            "dist": model.service.name(),
            "policy": model.discipline.to_string(),
            "load": model.load,
            "p99": latency.map(|latency| latency.p99.value),
            "stderr": latency.map(|latency| latency.p99.stderr),
            "mean": latency.map(|latency| latency.mean.value),
            "mean_stderr": latency.map(|latency| latency.mean.stderr),
            "requests": latency.map(|latency| latency.requests),
            "errors_are_known": latency.map(|latency| latency.errors_are_known),
            "theory": theory,
        })
    }
}
