//! One experiment's outcome as JSON, for tools and for later comparison.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::file::{WriteError, write_atomically};
use crate::histogram::Histogram;
use crate::machine::Machine;
use crate::pairs::{PairRecord, Pairs, Quantity};

/// What Petasos or a floor reached. Fields that an experiment does not measure are left out of the
/// JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Median latency in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_us: Option<f64>,
    /// 90th percentile of the latency in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p90_us: Option<f64>,
    /// 99th percentile of the latency in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<f64>,
    /// 99.9th percentile of the latency in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p999_us: Option<f64>,
    /// Longest latency in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_us: Option<f64>,
    /// Operations per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ops_per_s: Option<f64>,
    /// Payload in gigabits per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gbit_per_s: Option<f64>,
}

impl Measured {
    /// The percentiles of `histogram`; all empty if it is.
    pub fn with_latency(mut self, histogram: &Histogram) -> Measured {
        let latency = histogram.latency();
        self.p50_us = latency.map(|latency| latency.p50_us);
        self.p90_us = latency.map(|latency| latency.p90_us);
        self.p99_us = latency.map(|latency| latency.p99_us);
        self.p999_us = latency.map(|latency| latency.p999_us);
        self.max_us = latency.map(|latency| latency.max_us);
        self
    }

    /// Sets the field for `quantity`.
    pub fn with(mut self, quantity: Quantity, value: Option<f64>) -> Measured {
        match quantity {
            Quantity::LatencyUs => self.p50_us = value,
            Quantity::OpsPerS => self.ops_per_s = value,
            Quantity::GbitPerS => self.gbit_per_s = value,
        }
        self
    }
}

/// The outcome of one experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExperimentResult {
    /// The experiment's name, as on the command line.
    pub experiment: String,
    /// The parameters of the run.
    pub parameters: Map<String, Value>,
    /// The machine that it ran on.
    pub machine: Machine,
    /// What Petasos reached.
    pub petasos: Measured,
    /// What the transport allows without Petasos; absent where there is no such thing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<Measured>,
    /// The floor with one datagram per call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub single: Option<Measured>,
    /// Petasos to `floor`: the median of the pairs' ratios.
    #[serde(default)]
    pub ratio: Option<f64>,
    /// Petasos to `single`: the median of the pairs' ratios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_single: Option<f64>,
    /// Processor time of client and server together, in seconds per million RPCs.
    #[serde(default)]
    pub cpu_s_per_million: Option<f64>,
    /// Packets sent by both sides for each RPC.
    #[serde(default)]
    pub packets_per_rpc: Option<f64>,
    /// System calls made by both sides for each RPC.
    #[serde(default)]
    pub syscalls_per_rpc: Option<f64>,
    /// What `pairs` measures.
    pub quantity: Quantity,
    /// Every pair of turns, in the order of measurement.
    pub pairs: Vec<PairRecord>,
    /// Pairs that had to be refused because a turn measured nothing.
    pub pairs_refused: u64,
}

impl ExperimentResult {
    /// The outcome of `pairs`, with Petasos's median filled in; the caller adds floors and counts.
    pub fn new(experiment: &str, machine: Machine, pairs: &Pairs) -> ExperimentResult {
        let quantity = pairs.quantity();
        ExperimentResult {
            experiment: experiment.to_owned(),
            parameters: Map::new(),
            machine,
            petasos: Measured::default().with(quantity, pairs.petasos_median()),
            floor: None,
            single: None,
            ratio: None,
            ratio_single: None,
            cpu_s_per_million: None,
            packets_per_rpc: None,
            syscalls_per_rpc: None,
            quantity,
            pairs: pairs.records().to_vec(),
            pairs_refused: pairs.refused(),
        }
    }

    /// Adds one parameter.
    pub fn parameter(mut self, name: &str, value: impl Into<Value>) -> ExperimentResult {
        self.parameters.insert(name.to_owned(), value.into());
        self
    }

    /// Reports the floor `name` of `pairs` as `floor`, with its ratio.
    pub fn with_floor(mut self, pairs: &Pairs, name: &str) -> ExperimentResult {
        self.floor =
            pairs.floor_median(name).map(|m| Measured::default().with(self.quantity, Some(m)));
        self.ratio = pairs.ratio(name).map(|ratio| ratio.median);
        self
    }

    /// Reports the floor `name` of `pairs` as `single`, with its ratio.
    pub fn with_single(mut self, pairs: &Pairs, name: &str) -> ExperimentResult {
        self.single =
            pairs.floor_median(name).map(|m| Measured::default().with(self.quantity, Some(m)));
        self.ratio_single = pairs.ratio(name).map(|ratio| ratio.median);
        self
    }

    /// The JSON text, indented, with a final newline.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self)
            .expect("maps with text keys and plain numbers always serialise");
        text.push('\n');
        text
    }

    /// Writes the JSON to `path`, all of it or nothing.
    ///
    /// # Errors
    /// When the folder is missing or not writable: the caller's choice of path, safe to retry.
    pub fn write(&self, path: &Path) -> Result<(), WriteError> {
        write_atomically(path, self.to_json().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> ExperimentResult {
        let mut pairs = Pairs::new(Quantity::OpsPerS, ["gso32", "single"]);
        pairs.push(6e6, &[8e6, 0.5e6]).expect("sound");
        pairs.push(7e6, &[14e6, 0.5e6]).expect("sound");
        pairs.push(f64::NAN, &[10e6, 0.5e6]).expect_err("it measured nothing");
        ExperimentResult::new("rate", Machine::read(), &pairs)
            .parameter("size", 32)
            .with_floor(&pairs, "gso32")
            .with_single(&pairs, "single")
    }

    #[test]
    fn the_json_has_the_contracted_fields() {
        let json: Value = serde_json::from_str(&sample().to_json()).expect("it is JSON");
        assert_eq!(json["experiment"], "rate");
        assert_eq!(json["parameters"]["size"], 32);
        assert_eq!(json["petasos"]["ops_per_s"], 6.5e6);
        assert_eq!(json["floor"]["ops_per_s"], 11e6);
        assert_eq!(json["single"]["ops_per_s"], 0.5e6);
        assert_eq!((&json["ratio"], &json["ratio_single"]), (&0.625.into(), &13.0.into()));
        assert_eq!(json["pairs"][1]["floors"]["gso32"], 14e6);
        assert_eq!(json["pairs_refused"], 1);
        for field in ["machine", "cpu_s_per_million", "packets_per_rpc", "syscalls_per_rpc"] {
            assert!(json.get(field).is_some(), "{field} is missing");
        }
        assert!(json["petasos"].get("p50_us").is_none(), "what was not measured is absent");
    }

    #[test]
    fn latency_fills_the_percentiles() {
        let mut histogram = Histogram::new();
        (1..=100).for_each(|i| histogram.record_ns(i * 10));
        let measured = Measured::default().with_latency(&histogram);
        assert_eq!((measured.p50_us, measured.max_us), (Some(0.5), Some(1.0)));
        assert_eq!(Measured::default().with_latency(&Histogram::new()), Measured::default());
    }

    #[test]
    fn a_written_result_reads_back() {
        let result: ExperimentResult =
            serde_json::from_str(&sample().to_json()).expect("it was just written");
        assert_eq!(result.pairs, sample().pairs);
        assert_eq!(result.machine, sample().machine);
    }
}
