//! The effect of each common-case optimisation (eRPC, table 3): the rate with one of them off, and
//! with all up to it off, each in turns with the default configuration.

use petasos_report::{
    Column, Machine, Pairs, Progress, Quantity, Table, significant, with_si_prefix,
};
use serde_json::{Value, json};

use super::args::{BenchArgs, Factor, PAIRS_MIN};
use super::peer::Pair;
use super::turns::pin;
use crate::error::BenchError;

/// One row of the table.
struct Row {
    name: String,
    without: Vec<Factor>,
    /// The median rate, and its ratio to that of the default configuration.
    ops_per_s: f64,
    ratio: f64,
}

/// Runs the experiment.
pub fn run(args: &BenchArgs) -> Result<(), BenchError> {
    pin(0);
    let mut base = Pair::start(&BenchArgs { without: Vec::new(), ..args.clone() })?;
    base.petasos()?;
    let singles = Factor::ALL.iter().map(|factor| vec![*factor]);
    let cumulative = (2..=Factor::ALL.len()).map(|count| Factor::ALL[..count].to_vec());
    let mut rows = Vec::new();
    let variants: Vec<_> = singles.chain(cumulative).collect();
    let mut progress = Progress::new("factors", variants.len() as u64);
    for without in variants {
        rows.push(measure(args, &mut base, without)?);
        progress.set(rows.len() as u64);
    }
    progress.finish("done");
    publish(args, &rows)
}

fn measure(args: &BenchArgs, base: &mut Pair, without: Vec<Factor>) -> Result<Row, BenchError> {
    let mut variant = Pair::start(&BenchArgs { without: without.clone(), ..args.clone() })?;
    variant.petasos()?;
    let mut pairs = Pairs::new(Quantity::OpsPerS, ["default"]);
    for _ in 0..PAIRS_MIN {
        let default = base.petasos()?.load.ops_per_s();
        pairs.push(variant.petasos()?.load.ops_per_s(), &[default]).ok();
    }
    let ratio = pairs.ratio("default").ok_or("no turn measured anything")?;
    let name = match without[..] {
        [factor] => format!("without {}", factor.title()),
        [.., last] => format!("  … and {}", last.title()),
        [] => unreachable!("a variant is without something"),
    };
    let ops_per_s = pairs.petasos_median().ok_or("no turn measured anything")?;
    Ok(Row { name, without, ops_per_s, ratio: ratio.median })
}

fn publish(args: &BenchArgs, rows: &[Row]) -> Result<(), BenchError> {
    let json = json!({
        "experiment": "factors",
        "parameters": Value::Object(args.parameters()),
        "machine": Machine::read(),
        "rows": rows.iter().map(|row| json!({
            "without": row.without.iter().map(|factor| factor.name()).collect::<Vec<_>>(),
            "ops_per_s": row.ops_per_s,
            "ratio": row.ratio,
        })).collect::<Vec<_>>(),
    });
    let text = format!("{json:#}\n");
    if let Some(path) = &args.json {
        petasos_report::write_atomically(path, text.as_bytes())?;
    }
    if args.print_json {
        print!("{text}");
        return Ok(());
    }
    println!("{}", Machine::read());
    let mut table = Table::new([
        Column::text("Configuration"),
        Column::number("Rate", "1/s"),
        Column::number("To the default's", ""),
    ]);
    for row in rows {
        table.push([row.name.clone(), with_si_prefix(row.ops_per_s), significant(row.ratio)]);
    }
    table.print()?;
    println!("each ratio is the median of {PAIRS_MIN} pairs of turns");
    Ok(())
}
