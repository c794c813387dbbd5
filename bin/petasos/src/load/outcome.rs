//! Results, for people and programs.

use core::time::Duration;

use petasos_cli::failed::Failed;
use petasos_cli::output;
use petasos_load::{Checks, Highest, Outcome, Quantile, Refusal};
use petasos_report::{
    Column, Machine, Measured, Quantity, Table, duration_us, significant, with_si_prefix,
};
use serde_json::{Map, Value, json};

use super::args::{Kind, LoadArgs};

/// A load and what came of it.
pub struct Point {
    /// In requests per second.
    pub load: f64,
    pub outcome: Result<Outcome, Refusal>,
    /// What was wrong, and is reported anyway.
    pub refusals: Vec<Refusal>,
}

/// What was to be reached, and where it was.
pub struct Objective {
    pub p99: Duration,
    pub found: Highest,
}

/// All points of a run, by load.
pub struct Results<'a> {
    pub args: &'a LoadArgs,
    pub name: String,
    pub points: Vec<Point>,
    pub objective: Option<Objective>,
}

impl Point {
    fn quantile(&self, quantile: f64) -> Option<Quantile> {
        self.outcome.as_ref().ok()?.latencies.quantile(quantile)
    }

    /// Whether it was the generator that could not send the load.
    fn is_unsent(&self) -> bool {
        self.outcome.as_ref().is_err_and(|refusal| !refusal.is_of_target())
    }

    /// Whether the 99th percentile is at most `objective`.
    pub fn meets(&self, objective: Duration) -> bool {
        let objective_us = objective.as_secs_f64() * 1e6;
        self.quantile(0.99).is_some_and(|p99| p99.value_us <= objective_us)
    }

    fn json(&self, arrivals: &str) -> Value {
        let outcome = match &self.outcome {
            Ok(outcome) => outcome,
            Err(refusal) => {
                return json!({ "load": self.load, "p99_us": null, "stderr": null,
                               "refused": refusal.to_string(),
                               "is_of_target": refusal.is_of_target() });
            }
        };
        let p99 = self.quantile(0.99);
        let mut json = json!(measured(outcome));
        let fields = json!({
            "load": self.load,
            "stderr": p99.and_then(|p99| p99.stderr_us),
            "p50_interval_us": self.quantile(0.5).and_then(|p50| p50.interval_us()),
            "p99_interval_us": p99.and_then(|p99| p99.interval_us()),
            "answered": outcome.answered,
            "failed": outcome.failed,
            "first_failure": outcome.reason,
            "arrivals": arrivals_json(outcome, arrivals),
            "doubts": self.refusals.iter().map(Refusal::to_string).collect::<Vec<_>>(),
        });
        if let (Value::Object(json), Value::Object(fields)) = (&mut json, fields) {
            json.extend(fields);
        }
        json
    }

    fn row(&self) -> [String; 7] {
        let load = significant(self.load);
        let Ok(outcome) = &self.outcome else {
            let what = if self.is_unsent() { "not measured" } else { "too much" };
            let none = || "–".to_owned();
            return [load, none(), none(), what.to_owned(), none(), none(), none()];
        };
        let shown = |quantile| {
            self.quantile(quantile).map_or("–".to_owned(), |of| duration_us(of.value_us))
        };
        let half = self.quantile(0.99).and_then(|p99| Some(p99.interval_us()?.1 - p99.value_us));
        [
            load,
            with_si_prefix(outcome.ops_per_s),
            shown(0.5),
            shown(0.99),
            half.map_or("–".to_owned(), duration_us),
            shown(0.999),
            outcome.failed.to_string(),
        ]
    }
}

fn measured(outcome: &Outcome) -> Measured {
    Measured::default()
        .with_latency(outcome.latencies.histogram())
        .with(Quantity::OpsPerS, Some(outcome.ops_per_s))
}

fn arrivals_json(outcome: &Outcome, kind: &str) -> Value {
    let Checks { rate_error, p_exponential, p_independent } = outcome.checks;
    let us = |lag: Duration| lag.as_secs_f64() * 1e6;
    json!({
        "kind": kind,
        "rate_error": rate_error,
        "p_exponential": p_exponential,
        "p_independent": p_independent,
        "lag_p50_us": us(outcome.lag.p50),
        "lag_p99_us": us(outcome.lag.p99),
        "lag_max_us": us(outcome.lag.max),
    })
}

impl Results<'_> {
    fn arrivals(&self) -> &'static str {
        match (&self.args.trace, self.args.arrivals) {
            (Some(_), _) => "trace",
            (None, Kind::Poisson) => "poisson",
            (None, Kind::Fixed) => "fixed",
        }
    }

    /// The point that stands for all: the highest load that meets the objective, or else the
    /// highest that has an outcome.
    fn headline(&self) -> Option<&Point> {
        let mut measured = self.points.iter().rev().filter(|point| point.outcome.is_ok());
        match &self.objective {
            Some(objective) => {
                let met = objective.found.met?;
                measured.find(|point| point.load.total_cmp(&met).is_eq())
            }
            None => measured.next(),
        }
    }

    /// All results.
    pub fn json(&self) -> Value {
        let kind = self.arrivals();
        let headline = self.headline().map(|point| point.json(kind));
        let contenders = headline.iter().map(|point| (self.name.clone(), point.clone()));
        let contenders: Map<String, Value> = contenders.collect();
        let points: Vec<Value> = self.points.iter().map(|point| point.json(kind)).collect();
        let objective = self.objective.as_ref().map(|objective| {
            let Highest { met, missed } = objective.found;
            json!({ "p99_us": objective.p99.as_secs_f64() * 1e6, "load": met,
                    "missed_at": missed, "is_missed_by_generator": self.is_unsent(missed) })
        });
        json!({
            "experiment": "load",
            "parameters": {
                "address": self.args.server.address,
                "request": self.args.request,
                "seconds": self.args.duration.as_secs_f64(),
                "warm_up_seconds": self.args.warm_up.as_secs_f64(),
                "seed": self.args.seed,
                "outstanding_max": self.args.outstanding,
            },
            "machine": Machine::read(),
            "contenders": contenders,
            "curves": { self.name.clone(): points },
            "arrivals": headline.map(|point| point["arrivals"].clone()),
            "objective": objective,
        })
    }

    /// Prints a table with a row for each load, and below it what else there is to say.
    pub fn print(&self) -> Result<(), Failed> {
        let mut table = Table::new([
            Column::number("Load", "1/s"),
            Column::number("Answers", "1/s"),
            Column::number("p50", ""),
            Column::number("p99", ""),
            Column::number("±", ""),
            Column::number("p99.9", ""),
            Column::number("Failed", ""),
        ]);
        self.points.iter().for_each(|point| table.push(point.row()));
        output::finished(table.print())?;
        let lines = self.points.iter().flat_map(|point| self.lines(point));
        let lines: Vec<String> = lines.chain(self.objective_line()).collect();
        Ok(output::answer(lines.join("\n").as_bytes())?)
    }

    fn lines(&self, point: &Point) -> Vec<String> {
        let load = significant(point.load);
        let outcome = match &point.outcome {
            Ok(outcome) => outcome,
            Err(refusal) => return vec![format!("{load}/s: {refusal}")],
        };
        let Checks { rate_error, p_exponential, p_independent } = outcome.checks;
        let us = |lag: Duration| duration_us(lag.as_secs_f64() * 1e6);
        let mut line = format!(
            "{load}/s: {} arrivals, rate off by {:.2} %",
            self.arrivals(),
            rate_error.abs() * 100.0
        );
        if let (Some(exponential), Some(independent)) = (p_exponential, p_independent) {
            line += &format!(
                ", exponential (p = {exponential:.2}), independent (p = {independent:.2})"
            );
        }
        line += &format!("; sent late by {} (p99)", us(outcome.lag.p99));
        let failure = outcome.reason.as_ref().map(|reason| format!("{load}/s: failed: {reason}"));
        let doubts = point.refusals.iter().map(|refusal| format!("{load}/s: DOUBTFUL: {refusal}"));
        [line].into_iter().chain(failure).chain(doubts).collect()
    }

    /// Whether it was the generator that could not send this load.
    fn is_unsent(&self, load: Option<f64>) -> bool {
        let is_it = |point: &&Point| load.is_some_and(|load| point.load.total_cmp(&load).is_eq());
        self.points.iter().find(is_it).is_some_and(Point::is_unsent)
    }

    fn objective_line(&self) -> Option<String> {
        let Objective { p99, found } = self.objective.as_ref()?;
        let p99 = duration_us(p99.as_secs_f64() * 1e6);
        let missed = match found.missed {
            Some(missed) if self.is_unsent(found.missed) => {
                format!("{}/s was not measured", significant(missed))
            }
            Some(missed) => format!("{}/s does not", significant(missed)),
            None => "higher ones were not tried".to_owned(),
        };
        Some(match found.met {
            Some(met) => format!(
                "the highest load with a p99 of at most {p99}: {}/s; {missed}",
                significant(met)
            ),
            None => format!("no load has a p99 of at most {p99}: {missed}"),
        })
    }
}
