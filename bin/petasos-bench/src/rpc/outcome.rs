//! The results, and their output.

use petasos_report::{
    Column, Histogram, Machine, Measured, Quantity, Table, duration_us, significant, with_si_prefix,
};
use serde_json::{Map, Value, json};

use super::args::RpcArgs;
use super::phase::Phase;
use super::rounds::{FLOOR, PEER, PhaseRounds, Rounds, Total};
use crate::error::BenchError;

/// The results of a measurement.
pub struct Outcome<'a> {
    args: &'a RpcArgs,
    rounds: &'a Rounds,
}

/// A contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Petasos,
    Peer,
    Floor,
}

impl PhaseRounds {
    fn total(&self, who: Who) -> Option<&Total> {
        match who {
            Who::Petasos => Some(&self.petasos),
            Who::Peer => Some(&self.peer),
            Who::Floor => self.floor.as_ref(),
        }
    }

    /// The median of the turns, in the phase's quantity.
    fn median(&self, who: Who) -> Option<f64> {
        match who {
            Who::Petasos => self.pairs.petasos_median(),
            Who::Peer => self.pairs.floor_median(PEER),
            Who::Floor => self.pairs.floor_median(FLOOR),
        }
    }

    fn ratio(&self, name: &str) -> Option<f64> {
        self.pairs.ratio(name).map(|ratio| ratio.median)
    }

    fn cpu_ratio(&self) -> Option<f64> {
        self.cpu.ratio(PEER).map(|ratio| ratio.median)
    }

    /// The phase's ratios, by the names of what is compared.
    fn ratios(&self, name: &str) -> Vec<(&'static str, f64)> {
        let quantity = match (self.phase, self.pairs.quantity()) {
            (Phase::Spinning, _) => "p50_us",
            (Phase::Sleeping, _) => "sleeping_p50_us",
            (Phase::Window, Quantity::GbitPerS) => "gbit_per_s",
            (Phase::Window, _) => "ops_per_s",
        };
        let main = self.ratio(name).map(|ratio| (quantity, ratio));
        let cpu = self.cpu_ratio().filter(|_| self.phase == Phase::Window && name == PEER);
        main.into_iter().chain(cpu.map(|ratio| ("cpu_s_per_million", ratio))).collect()
    }

    fn pairs_json(&self) -> Value {
        json!({
            "quantity": self.pairs.quantity(),
            "ratio": self.ratio(FLOOR),
            "ratio_peer": self.ratio(PEER),
            "pairs": self.pairs.records(),
            "pairs_refused": self.pairs.refused(),
        })
    }
}

impl<'a> Outcome<'a> {
    pub fn new(args: &'a RpcArgs, rounds: &'a Rounds) -> Outcome<'a> {
        Outcome { args, rounds }
    }

    fn phase(&self, phase: Phase) -> Option<&PhaseRounds> {
        self.rounds.phases.iter().find(|measured| measured.phase == phase)
    }

    /// The phase whose ratios have no phase name.
    fn main(&self) -> Option<&PhaseRounds> {
        self.rounds.phases.last()
    }

    /// All results as JSON, with the names of the other experiments.
    pub fn json(&self) -> Value {
        let main = self.main();
        let mut json = json!({
            "experiment": "rpc",
            "parameters": self.args.parameters(),
            "machine": Machine::read(),
            "petasos": self.contender(Who::Petasos),
            "peer": self.contender(Who::Peer),
            "floor": self.contender(Who::Floor),
            "ratios": { PEER: self.ratios(PEER), FLOOR: self.ratios(FLOOR) },
            "cpu_s_per_million": main.and_then(|main| main.petasos.cpu_s_per_million()),
        });
        let [petasos, peer] = self.args.peer.contenders();
        (json["petasos"]["name"], json["peer"]["name"]) = (petasos.into(), peer.into());
        if let Some(Value::Object(pairs)) = main.map(PhaseRounds::pairs_json) {
            json.as_object_mut().expect("the literal above is an object").extend(pairs);
        }
        let phases = self.rounds.phases.iter();
        let phases = phases.map(|phase| (phase.phase.name().to_owned(), phase.pairs_json()));
        json["phases"] = phases.collect::<Map<_, _>>().into();
        json
    }

    fn ratios(&self, name: &str) -> Map<String, Value> {
        let ratios = self.rounds.phases.iter().flat_map(|phase| phase.ratios(name));
        ratios.map(|(name, ratio)| (name.to_owned(), ratio.into())).collect()
    }

    /// A contender's figures. The latency of one call at a time while spinning is at the top level.
    fn contender(&self, who: Who) -> Value {
        let latency = |phase| {
            let histogram = self.phase(phase).and_then(|phase| phase.total(who));
            histogram.map(|total| Measured::default().with_latency(&total.latency))
        };
        let window = self.phase(Phase::Window);
        let mut measured = latency(Phase::Spinning).unwrap_or_default();
        let total = window.and_then(|window| window.total(who));
        let main = window.and_then(|window| Some((window.pairs.quantity(), window.median(who)?)));
        if let Some((quantity, value)) = main {
            measured = measured.with(quantity, Some(value));
            let payload_bits = f64::from(self.args.payload_bytes()) * 8.0;
            match quantity {
                Quantity::OpsPerS => measured.gbit_per_s = Some(value * payload_bits * 1e-9),
                Quantity::GbitPerS if total.is_some_and(|total| total.completed > 0) => {
                    measured.ops_per_s = Some(value * 1e9 / payload_bits);
                }
                _ => {}
            }
        }
        let mut json = json!(measured);
        if let Some(sleeping) = latency(Phase::Sleeping) {
            json["sleeping"] = json!(sleeping);
        }
        if let Some(total) = total.filter(|total| total.completed > 0) {
            json["cpu_s_per_million"] = json!(total.cpu_s_per_million());
            // The latency of messages is not measured in a stream under load.
            if total.latency.count() > 0 {
                json["loaded"] = json!(Measured::default().with_latency(&total.latency));
            }
        }
        json
    }

    /// Prints a table, and below it the ratios.
    pub fn print(&self) -> Result<(), BenchError> {
        let quantity = self.args.window_quantity();
        let mut table = Table::new([
            Column::text("Contender"),
            Column::number("p50 spinning", ""),
            Column::number("p99", ""),
            Column::number("p50 asleep", ""),
            Column::number("p99", ""),
            match quantity {
                Quantity::GbitPerS => Column::number("Payload", "Gbit/s"),
                _ => Column::number("Rate", "1/s"),
            },
            Column::number("Processor", "µs/call"),
        ]);
        let [petasos, peer] = self.args.peer.contenders();
        for (name, who) in [(petasos, Who::Petasos), (peer, Who::Peer), ("floor", Who::Floor)] {
            table.push(self.row(name, who));
        }
        table.print()?;
        self.rounds.phases.iter().for_each(|phase| self.print_ratios(phase));
        Ok(())
    }

    fn row(&self, name: &str, who: Who) -> [String; 7] {
        let latency = |phase| {
            let total = self.phase(phase).and_then(|measured| measured.total(who));
            [0.5, 0.99].map(|quantile| total.map_or("–".into(), |t| shown(&t.latency, quantile)))
        };
        let [[spinning, spinning_p99], [sleeping, sleeping_p99]] =
            [Phase::Spinning, Phase::Sleeping].map(latency);
        let window = self.phase(Phase::Window);
        let value = window.and_then(|window| window.median(who));
        let value = value.map(|value| match self.args.window_quantity() {
            Quantity::GbitPerS => significant(value),
            _ => with_si_prefix(value),
        });
        let cpu = window.and_then(|window| window.total(who)).and_then(Total::cpu_s_per_million);
        [
            name.to_owned(),
            spinning,
            spinning_p99,
            sleeping,
            sleeping_p99,
            value.unwrap_or("–".into()),
            cpu.map_or("–".into(), significant),
        ]
    }

    /// Prints ratios that are above 1 where Petasos is better.
    fn print_ratios(&self, phase: &PhaseRounds) {
        let [_, peer] = self.args.peer.contenders();
        let rounds = phase.pairs.count();
        let what = match (phase.phase, phase.pairs.quantity()) {
            (Phase::Spinning, _) => "p50 spinning".to_owned(),
            (Phase::Sleeping, _) => "p50 asleep".to_owned(),
            (Phase::Window, Quantity::GbitPerS) => "goodput".to_owned(),
            (Phase::Window, _) if self.args.streaming => "messages each way".to_owned(),
            (Phase::Window, _) => format!("rate at window {}", self.args.window()),
        };
        let is_latency = phase.pairs.quantity() == Quantity::LatencyUs;
        let better = |ratio: f64| if is_latency { 1.0 / ratio } else { ratio };
        let of_peer = phase.ratio(PEER).map(|ratio| {
            let factor = significant(better(ratio));
            if is_latency {
                format!("{peer}'s is {factor} times as long")
            } else {
                format!("{factor} times that of {peer}")
            }
        });
        let of_floor = phase.ratio(FLOOR).map(|ratio| format!("{ratio:.3} of the floor"));
        let said: Vec<_> = of_peer.into_iter().chain(of_floor).collect();
        println!("{what}: {} (medians of {rounds} rounds)", said.join(", "));
        if let Some(ratio) = phase.cpu_ratio().filter(|_| phase.phase == Phase::Window) {
            println!("processor time: {peer}'s is {} times as long", significant(1.0 / ratio));
        }
    }
}

fn shown(latency: &Histogram, quantile: f64) -> String {
    latency.quantile_us(quantile).map_or("–".into(), duration_us)
}
