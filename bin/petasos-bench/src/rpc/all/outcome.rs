//! The results as a table, JSON and a figure.

use petasos_report::{
    Axis, Bar, Column, Figure, Histogram, Machine, Measured as Figures, Quantity, Table, Tone,
    duration_us, sheet, significant, with_si_prefix,
};
use serde_json::{Value, json};

use super::{Measured, Turns, Who};
use crate::error::BenchError;
use crate::rpc::args::RpcArgs;
use crate::rpc::phase::Phase;
use crate::rpc::rounds::Total;

/// The results of a measurement.
pub struct Outcome<'a> {
    args: &'a RpcArgs,
    measured: &'a Measured,
}

impl<'a> Outcome<'a> {
    pub fn new(args: &'a RpcArgs, measured: &'a Measured) -> Outcome<'a> {
        Outcome { args, measured }
    }

    fn everybody(&self) -> impl Iterator<Item = Who> {
        self.measured.entries.iter().map(|entry| entry.who)
    }

    fn median(&self, who: Who, phase: Phase) -> Option<f64> {
        self.measured.turns(who, phase).and_then(Turns::median)
    }

    fn rounds(&self) -> usize {
        let entry = self.measured.entries.first();
        entry.and_then(|entry| entry.turns.first()).map_or(0, |turns| turns.values.len())
    }

    /// All results as JSON, with the names of the other experiments.
    pub fn json(&self) -> Value {
        let left_out = self.measured.left_out.iter();
        let left_out = left_out.map(|out| json!({ "name": out.name, "reason": out.reason }));
        json!({
            "experiment": "rpc-all",
            "parameters": self.args.parameters(),
            "machine": Machine::read(),
            "rounds": self.rounds(),
            "contenders": self.everybody().map(|who| self.contender(who)).collect::<Vec<_>>(),
            "left_out": left_out.collect::<Vec<_>>(),
        })
    }

    fn contender(&self, who: Who) -> Value {
        let mut json = json!({ "name": who.name(), "compared_with": who.base().name() });
        for phase in &self.measured.phases {
            let Some(turns) = self.measured.turns(who, *phase) else { continue };
            let mut figures = json!(self.figures(*phase, turns));
            figures["ratio"] = json!(self.measured.ratio(who, *phase));
            figures["rounds"] = json!(turns.values);
            figures["cpu_s_per_million"] = json!(turns.total.cpu_s_per_million());
            json[phase.name()] = figures;
        }
        json
    }

    fn figures(&self, phase: Phase, turns: &Turns) -> Figures {
        let figures = Figures::default().with_latency(&turns.total.latency);
        match phase {
            Phase::Window => figures.with(self.args.window_quantity(), turns.median()),
            Phase::Spinning | Phase::Sleeping => figures,
        }
    }

    /// Prints one table, and what was left out.
    pub fn print(&self) -> Result<(), BenchError> {
        let mut table = Table::new([
            Column::text("Contender"),
            Column::number("p50 spinning", ""),
            Column::number("p99", ""),
            Column::number("p50 asleep", ""),
            Column::number("p99", ""),
            match self.args.window_quantity() {
                Quantity::GbitPerS => Column::number("Payload", "Gbit/s"),
                _ => Column::number("Rate", "1/s"),
            },
            Column::number("Processor", "µs/call"),
            Column::number("of Petasos: p50", ""),
            Column::number("asleep", ""),
            Column::number("rate", ""),
        ]);
        self.everybody().for_each(|who| table.push(self.row(who)));
        table.print()?;
        println!(
            "window {}; requests of {} and responses of {} bytes; times are the peer's p50 of \
             Petasos's, and rates the peer's of Petasos's, medians of {} rounds",
            self.args.window(),
            self.args.size,
            self.args.response_bytes(),
            self.rounds(),
        );
        for out in &self.measured.left_out {
            println!("left out: {}: {}", out.name, out.reason);
        }
        Ok(())
    }

    fn row(&self, who: Who) -> [String; 10] {
        let quantiles = |phase| {
            let total = self.measured.turns(who, phase).map(|turns| &turns.total);
            [0.5, 0.99].map(|quantile| total.map_or("–".into(), |t| shown(&t.latency, quantile)))
        };
        let [[spinning, spinning_p99], [sleeping, sleeping_p99]] =
            [Phase::Spinning, Phase::Sleeping].map(quantiles);
        let value = self.median(who, Phase::Window);
        let value = value.map(|value| match self.args.window_quantity() {
            Quantity::GbitPerS => significant(value),
            _ => with_si_prefix(value),
        });
        let window = self.measured.turns(who, Phase::Window).map(|turns| &turns.total);
        let cpu = window.and_then(Total::cpu_s_per_million);
        let [p50, asleep, rate] = Phase::ALL.map(|phase| {
            let ratio = self.measured.ratio(who, phase).filter(|_| who != who.base());
            ratio.map_or("–".into(), |ratio| significant(1.0 / ratio))
        });
        [
            who.name().to_owned(),
            spinning,
            spinning_p99,
            sleeping,
            sleeping_p99,
            value.unwrap_or("–".into()),
            cpu.map_or("–".into(), significant),
            p50,
            asleep,
            rate,
        ]
    }

    /// A chart of the latencies and rates of all contenders.
    pub fn figure(&self) -> String {
        let (size, window) = (self.args.size, self.args.window());
        let mut figures = Vec::new();
        for phase in &self.measured.phases {
            let (title, axis) = match phase {
                Phase::Spinning => ("One call at a time, Petasos spinning", latency()),
                Phase::Sleeping => {
                    ("One call at a time, Petasos asleep between packets", latency())
                }
                Phase::Window => match self.args.window_quantity() {
                    Quantity::GbitPerS => ("Payload", Axis::linear("Payload", "Gbit/s")),
                    _ => ("Calls", Axis::linear("Rate", "calls/s")),
                },
            };
            let title = match phase {
                Phase::Window => format!("{title}, {window} at once, {size} bytes"),
                _ => format!("{title}, {size} bytes: median"),
            };
            let bars = self
                .everybody()
                .filter_map(|who| Some(Bar::new(who.name(), self.median(who, *phase)?, tone(who))));
            figures.push(Figure::bars(title, axis, bars.collect()));
        }
        sheet(&figures)
    }
}

fn latency() -> Axis {
    Axis::linear("Round trip", "µs")
}

fn tone(who: Who) -> Tone {
    match who {
        Who::Petasos | Who::PetasosShared => Tone::Primary,
        Who::Floor => Tone::Muted,
        Who::Tonic | Who::Program(_) => Tone::Secondary,
    }
}

fn shown(latency: &Histogram, quantile: f64) -> String {
    latency.quantile_us(quantile).map_or("–".into(), duration_us)
}
