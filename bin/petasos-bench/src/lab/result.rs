//! Output of the results.

use petasos_report::{Column, Machine, Table, significant, with_si_prefix};
use serde_json::{Value, json};

use super::guideline;
use super::turns::Measured;
use super::{BenchError, LabArgs, Pair};
use crate::publish;

/// Below this ratio, a guideline has little or no effect.
const LITTLE: f64 = 1.1;

/// A pair and its result: figures, or why there are none.
pub struct Row {
    pub pair: &'static Pair,
    pub outcome: Result<Measured, String>,
}

/// Prints all rows, and writes the requested files.
///
/// # Errors
/// If all pairs were skipped, or a file cannot be written.
pub fn publish(args: &LabArgs, rows: &[Row]) -> Result<(), BenchError> {
    let json = json!({
        "experiment": "lab",
        "parameters": {
            "seconds": args.seconds,
            "memory_mb": args.memory_mb,
            "connections": args.connections,
        },
        "machine": Machine::read(),
        "rows": rows.iter().map(|row| row.json(args)).collect::<Vec<_>>(),
    });
    let sink = (args.json.as_deref(), args.print_json);
    publish::publish(sink, &json, || print(args, rows))?;
    match rows.iter().any(|row| row.outcome.is_ok()) {
        true => Ok(()),
        false => Err("no pair could be measured; the reasons are above".into()),
    }
}

fn print(args: &LabArgs, rows: &[Row]) -> Result<(), BenchError> {
    let mut table = Table::new([
        Column::text("Pair"),
        Column::text("Off"),
        Column::text("On"),
        Column::number("Off", "1/s"),
        Column::number("On", "1/s"),
        Column::number("On/off", ""),
        Column::number("Least to most", ""),
        Column::text("The thesis's NICs"),
    ]);
    rows.iter().for_each(|row| table.push(row.cells(args)));
    table.print()?;
    println!("udp, calls: sockets over loopback, both ends on one core; xdp: AF_XDP into a veth");
    println!("pair; shm: rings to or from another core; huge-pages: {} MB; nic,", args.memory_mb);
    println!("session: memory alone, a whole state for each packet");
    println!("each ratio is the median of those of neighbouring turns, without the stretches in");
    println!("which somebody else had the core");
    list("Kalia's thesis, chapter 3:", rows_quoted(rows));
    list("little or nothing here, and what decides:", rows.iter().filter_map(Row::explained));
    list("skipped:", rows.iter().filter_map(Row::skipped));
    Ok(())
}

/// A heading and lines below it, if there are any.
fn list(heading: &str, lines: impl Iterator<Item = String>) {
    for (index, line) in lines.enumerate() {
        if index == 0 {
            println!("{heading}");
        }
        println!("  {line}");
    }
}

/// Quotations for the guidelines that were tried.
fn rows_quoted(rows: &[Row]) -> impl Iterator<Item = String> {
    let tried = guideline::ALL
        .into_iter()
        .filter(|guideline| rows.iter().any(|row| row.pair.guideline == *guideline));
    tried.map(|tried| format!("{} ({}): \"{}\"", tried.name, tried.section, tried.quote))
}

impl Row {
    fn cells(&self, args: &LabArgs) -> [String; 8] {
        let Pair { name, guideline, on, .. } = self.pair;
        let [off_per_s, on_per_s, ratio, spread] = match &self.outcome {
            Ok(Measured { off_per_s, on_per_s, ratio }) => [
                with_si_prefix(*off_per_s),
                with_si_prefix(*on_per_s),
                significant(ratio.median),
                format!("{} to {}", significant(ratio.min), significant(ratio.max)),
            ],
            Err(_) => ["–", "–", "skipped", "–"].map(str::to_owned),
        };
        let figure = format!("{} ({})", guideline.figure, guideline.section);
        let [name, on] = [name, on].map(|word| (*word).to_owned());
        [name, self.pair.off(args), on, off_per_s, on_per_s, ratio, spread, figure]
    }

    /// Why a guideline had little or no effect, if that is the case.
    fn explained(&self) -> Option<String> {
        let ratio = self.outcome.as_ref().ok()?.ratio.median;
        (ratio < LITTLE).then(|| format!("{}: {}", self.pair.name, self.pair.why))
    }

    fn skipped(&self) -> Option<String> {
        let reason = self.outcome.as_ref().err()?;
        Some(format!("{}: {reason}", self.pair.name))
    }

    fn json(&self, args: &LabArgs) -> Value {
        let pair = self.pair;
        let measured = self.outcome.as_ref().ok();
        json!({
            "name": pair.name,
            "guideline": pair.guideline.name,
            "over": pair.over,
            "operations": pair.operations,
            "off": { "what": pair.off(args), "ops_per_s": measured.map(|m| m.off_per_s) },
            "on": { "what": pair.on, "ops_per_s": measured.map(|m| m.on_per_s) },
            "ratio": measured.map(|m| m.ratio),
            "thesis": {
                "section": pair.guideline.section,
                "figure": pair.guideline.figure,
                "quote": pair.guideline.quote,
            },
            "why": self.explained().map(|_| pair.why),
            "skipped": self.outcome.as_ref().err(),
        })
    }
}
